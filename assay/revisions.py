"""What git knows of a kernel file: its content in each commit that touched it. The checkout is only read."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from assay.errors import UsageError
from assay.privacy import one_line
from assay.record import Unavailable

LIMIT_S = 60.0


@dataclass(frozen=True)
class Revision:
    """A commit, and the file as it is there."""

    sha: str
    day: str
    subject: str
    content: bytes | Unavailable


def _git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Ask git, without touching its index and without a program that a checkout may name; UsageError without git."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    settled = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=settled, check=False)
    except OSError as error:
        raise UsageError(f"git: cannot be run ({error.strerror}); commits are compared where there is git") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git: expected an answer within {LIMIT_S:g} s, found none; try again") from None


def commit_of(revision: str) -> str:
    """Return the commit that a revision names; UsageError where it names none."""
    done = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if done.returncode:
        raise UsageError(f"expected a commit of this checkout, found {one_line(revision)}; `git log` lists them")
    return done.stdout.decode("ascii").strip()


def is_ancestor(older: str, newer: str) -> bool:
    """Return whether one commit comes before another."""
    return _git("merge-base", "--is-ancestor", older, newer).returncode == 0


def read_revision(sha: str, path: Path) -> Revision:
    """Return the file in one commit."""
    told = _git("show", "--no-patch", "--format=%cs%x00%s", sha, "--").stdout.decode("utf-8", "replace")
    day, _, subject = told.strip().partition("\0")
    # The bytes as committed: neither filters nor programs that a checkout names for showing them.
    done = _git("cat-file", "blob", f"{sha}:./{path.as_posix()}")
    content: bytes | Unavailable = done.stdout
    if done.returncode:
        content = Unavailable(reason=f"there is no {path.as_posix()} in this commit")
    return Revision(sha, day, one_line(subject, 60), content)


def _touching(older: str, newer: str, path: Path) -> list[str]:
    """Return the commits after `older` up to `newer` that touched a file, oldest first.

    Along the first parents, where each commit is what the line of development was then: a merge is one change.
    """
    done = _git("log", "--first-parent", "--reverse", "--format=%H", f"{older}..{newer}", "--", path.as_posix())
    return done.stdout.decode("ascii").split()


def revisions(good: str, bad: str, path: Path) -> list[Revision]:
    """Return the commits from `good` to `bad` that touched a file, `good` itself first; UsageError where none did.

    Where `bad` is the older of the two the order is reversed.
    """
    start, end = commit_of(good), commit_of(bad)
    back = not is_ancestor(start, end)
    if back and not is_ancestor(end, start):
        raise UsageError(
            f"{one_line(good)} and {one_line(bad)}: expected one to come before the other in git's history; choose such"
        )
    older, newer = (end, start) if back else (start, end)
    touched = _touching(older, newer, path)
    if not touched:
        between = f"between {one_line(good)} and {one_line(bad)}"
        raise UsageError(f"{path}: expected a commit {between} that touched it, found none; choose other ends")
    found = [read_revision(sha, path) for sha in (older, *touched)]
    return found[::-1] if back else found

"""Which files a stage is made of, and which source the workflow as a whole is."""

import ast
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from assay.artifact import canonical, hash_materials, sha256_bytes
from assay.errors import UsageError
from assay.privacy import one_line
from assay.record import Digest, Source, StageName, Unavailable

PACKAGE = Path("assay")
WORKFLOW = ("Snakefile", "config.yaml", "rules/*.smk", "kernels/*.py", "assay/*.py", "reports/*", "envs/*")


@cache
def _imported(source: str) -> frozenset[str]:
    # Remembered by text: parsing every module anew for each stage would double the time of a run that does nothing.
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        # A module that runs as a child process is not imported but named: "assay.trial".
        if isinstance(node, ast.Constant) and re.fullmatch(r"assay\.\w+", str(node.value)):
            names.add(str(node.value).removeprefix("assay."))
        if isinstance(node, ast.Import):
            names |= {alias.name.removeprefix("assay.") for alias in node.names if alias.name.startswith("assay.")}
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "assay":
            module = node.module.removeprefix("assay").lstrip(".")
            names |= {module} if module else {alias.name for alias in node.names}
    return frozenset(names)


def check_folder() -> None:
    """Refuse any folder but the project's: UsageError."""
    if not (PACKAGE / "__main__.py").is_file():
        raise UsageError(f"{PACKAGE}: expected Assay's package in this folder; run in the folder of the Snakefile")


@cache
def modules(stage: StageName) -> tuple[Path, ...]:
    """Return the package's files that `stage` runs, found by following its imports from its module.

    Snakemake lists them as inputs, so that editing one reruns the stage, and the stage records their digests as
    materials; both ask here, so they cannot differ. UsageError outside the project's folder, where a stage would
    record that it was made of nothing.
    """
    check_folder()
    waiting, seen = ["__init__", "__main__", str(stage)], set[str]()
    while waiting:
        name = waiting.pop()
        path = PACKAGE / f"{name}.py"
        if name in seen or not path.exists():
            continue
        seen.add(name)
        # The command line can start every stage, so its own imports would make each stage depend on all.
        waiting += [] if name == "__main__" else sorted(_imported(path.read_text("utf-8")))
    return tuple(PACKAGE / f"{name}.py" for name in sorted(seen))


def workflow_files() -> list[Path]:
    """Return every file that the workflow is made of, in order."""
    return sorted({path for pattern in WORKFLOW for path in Path().glob(pattern) if path.is_file()})


def _matches(name: str, pattern: str) -> bool:
    parts, patterns = name.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def workflow_names(names: Iterable[str]) -> list[str]:
    """Return those names, of files by their path in the project, that the workflow is made of, in order."""
    return sorted(name for name in names if any(_matches(name, pattern) for pattern in WORKFLOW))


def source_digest(files: Mapping[str, Digest]) -> Digest:
    """Return the one digest over the workflow's files among these, which are given by path with their sha256."""
    return sha256_bytes(canonical({name: files[name] for name in workflow_names(files)}))


def _git(*arguments: str) -> str | Unavailable:
    """Ask git, without touching its index and without the program that a checkout may name as its file monitor."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    settled = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=20, env=settled, check=False
        )
    except OSError as error:
        return Unavailable(reason=f"git cannot be run ({error.strerror})")
    except subprocess.TimeoutExpired:
        return Unavailable(reason="git did not answer within 20 s")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return Unavailable(reason=f"git says: {one_line(lines[0]) if lines else f'exit code {done.returncode}'}")
    return done.stdout.strip()


def _commit() -> str | Unavailable:
    # An unpacked archive can lie inside someone else's checkout, whose commit says nothing about these files.
    tracked = _git("ls-files", "--", PACKAGE.as_posix())
    if tracked == "":
        return Unavailable(reason="the git checkout here tracks none of these files")
    return _git("rev-parse", "--verify", "HEAD") if isinstance(tracked, str) else tracked


def read_source() -> Source:
    """Return git's commit and dirty flag, each or a reason, and one digest over the workflow's files."""
    commit = _commit()
    changed = _git("status", "--porcelain") if isinstance(commit, str) else commit
    return Source(
        commit=commit,
        dirty=bool(changed) if isinstance(changed, str) else changed,
        digest=source_digest(hash_materials(workflow_files())),
    )

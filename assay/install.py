"""Command `install`: builds the environment of one Triton release from its lock, with uv.

Built beside and renamed, so that an environment is there whole or not at all. What was downloaded stays in uv's cache,
which all environments share: a build that was broken off begins again from there, and files that two environments have
in common are stored once. A release that cannot be installed is a result, with its reason.
"""

import argparse
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.artifact import exclusive, sha256_file
from assay.environment import distributions
from assay.errors import RecordError, UsageError
from assay.installation import (
    HOMES,
    VERSION,
    Contents,
    Installation,
    installation_path,
    is_whole,
    next_attempt,
    read_installation,
    write_installation,
)
from assay.privacy import one_line
from assay.record import Unavailable

LIMIT_S = 3600
"""For each step. The CUDA build of torch and what it needs are 3 GB to download."""

_IMPORTS = "import torch, triton"


@dataclass(frozen=True)
class Plan:
    """What to build: the environment of a release, from its lock."""

    version: str
    lock: Path

    @property
    def home(self) -> Path:
        """Where it shall stand."""
        return HOMES / self.version

    @property
    def part(self) -> Path:
        """Where it is built."""
        return self.home.with_name(f"{self.home.name}.part")

    def record(self, contents: Contents | Unavailable) -> Installation:
        """Return what there is to say once it was built, or could not be."""
        return Installation(
            attempt=next_attempt(self.version),
            version=self.version,
            lock_sha256=sha256_file(self.lock),
            python=platform.python_version(),
            contents=contents,
        )


def _uv() -> list[str | Path] | Unavailable:
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    program = shutil.which("uv")
    missing = "uv is not installed; run: python -m pip install -r envs/run.txt"
    return Unavailable(reason=missing) if program is None else [program]


def _reason(said: str) -> str:
    """Return what a program said; of a traceback, what was raised."""
    return said.splitlines()[-1] if said.startswith("Traceback") else said


def _run(command: Sequence[str | Path]) -> Unavailable | None:
    """Run one step; return why it failed, in the words of the program, or None."""
    # No Python is downloaded: the environment has the one that runs this.
    variables = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "PYTHONNOUSERSITE": "1", "PYTHONPATH": ""}
    what = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=variables, check=False)
    except OSError as error:
        return Unavailable(reason=f"{what} cannot be run ({error.strerror})")
    except subprocess.TimeoutExpired:
        return Unavailable(reason=f"{what} did not end within {LIMIT_S} s")
    said = done.stderr.decode("utf-8", "replace").strip()
    return Unavailable(reason=one_line(_reason(said) or f"exit code {done.returncode}")) if done.returncode else None


def _packages(home: Path) -> dict[str, str]:
    return distributions([str(path) for path in sorted(home.glob("lib/python*/site-packages"))])


def _check(plan: Plan) -> Contents | Unavailable:
    """Return what was installed; a lock of another Triton, and a torch that cannot be imported, are reasons."""
    found = _packages(plan.part)
    if found.get("triton") != plan.version:
        return Unavailable(reason=f"{plan.lock} installs triton {found.get('triton', 'not at all')}")
    return _run([plan.part / "bin/python", "-c", _IMPORTS]) or Contents(distributions=found)


def _build(plan: Plan) -> Contents | Unavailable:
    uv = _uv()
    if isinstance(uv, Unavailable):
        return uv
    python = plan.part / "bin/python"
    make = [*uv, "venv", "--quiet", "--clear", "--relocatable", "--no-project", "--python", sys.executable, plan.part]
    # Every file is checked against the lock's sha256, and nothing is built from source.
    fill = [*uv, "pip", "sync", "--quiet", "--require-hashes", "--no-build", "--python", python, plan.lock]
    return _run(make) or _run(fill) or _check(plan)


def _stands(plan: Plan) -> Installation | None:
    """Return what is known of an environment that this lock made for this Python; None where one has to be built."""
    try:
        known = read_installation(installation_path(plan.version))
    except RecordError:
        return None
    return known if is_whole(plan.version, known) and known == plan.record(known.contents) else None


def _put_in_place(plan: Plan, made: Installation) -> None:
    """Let the new environment take the old one's place; of one that failed, only the reason."""
    if isinstance(made.contents, Unavailable):
        shutil.rmtree(plan.part, ignore_errors=True)
    plan.part.mkdir(exist_ok=True)
    write_installation(plan.part / "installation.json", made)
    shutil.rmtree(plan.home, ignore_errors=True)
    plan.part.rename(plan.home)


def install(plan: Plan) -> Installation:
    """Return what the environment holds, or why there is none; it is built unless it stands."""
    standing = _stands(plan)
    if standing is not None:
        return standing
    made = plan.record(_build(plan))
    _put_in_place(plan, made)
    return made


def _say(made: Installation, seconds: float) -> str:
    if isinstance(made.contents, Unavailable):
        return f"Triton {made.version}: blocked: {made.contents.reason}"
    torch = made.contents.distributions.get("torch", "unknown")
    return f"Triton {made.version}: with torch {torch}, after {seconds:.0f} s"


def main(argv: Sequence[str]) -> int:
    """Return 0, also where the release could not be installed: what is written says so."""
    options = argparse.ArgumentParser(prog="python -m assay install", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("version", metavar="VERSION", help="the Triton release, such as 3.8.0")
    options.add_argument("--lock", type=Path, help="its lock (default: envs/triton/VERSION.txt)")
    chosen = options.parse_args(argv)
    if not re.fullmatch(VERSION, chosen.version):
        raise UsageError(
            f"expected a Triton release such as 3.8.0, found {one_line(chosen.version)}; envs/triton/ lists them"
        )
    lock = chosen.lock or Path(f"envs/triton/{chosen.version}.txt")
    if not lock.is_file():
        expected = f"expected the locked environment of Triton {chosen.version}, found no file {lock}"
        raise UsageError(f"--lock: {expected}; docs/versions.md says how to lock a release")
    plan = Plan(chosen.version, lock)
    start = time.monotonic()
    with exclusive(plan.home):
        made = install(plan)
        # Written again where it stands, so that Snakemake sees that the rule has run.
        write_installation(installation_path(plan.version), made)
    print(one_line(_say(made, time.monotonic() - start), limit=1000))
    return 0

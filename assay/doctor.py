"""Command `doctor`: says on one screen what this machine can show, and why not the rest.

Exit 0 whatever the machine lacks, which is a result and no fault; 1 where the project itself cannot run: a package is
missing or too old, or the configuration makes no sense.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from rich.console import Group, RenderableType
from rich.table import Table

from assay.config import Settings, load_settings
from assay.environment import read_environment
from assay.errors import AssayError
from assay.gate import ask
from assay.outlook import Facts, Finding, Folder, Reach, findings, reaches
from assay.privacy import scrub
from assay.record import Unavailable
from assay.situation import driver_devices
from assay.sources import check_folder
from assay.stage import RESULTS_FOLDER
from assay.terminal import open_console, put, sign, text

NEEDED = Path("envs/node.txt")
BESIDE = ("torch>=2.11", "triton>=3.6,<3.10")
"""What a machine has to bring along, where the file above says what it needs besides."""
SHOWN = ("torch", "triton", "snakemake", "matplotlib")
CONFIG = Path("config.yaml")


def unmet(requirement: str) -> str | None:
    """Return what is wrong with a distribution that has to be installed, and what to do; None where nothing is."""
    wanted = Requirement(requirement)
    install = f"python -m pip install '{requirement}'"
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return f"expected {requirement}, found none; {install}"
    # A build such as 2.11.0a0+nv25.1 is what a container has for 2.11.
    return (
        None
        if wanted.specifier.contains(found, prereleases=True)
        else f"expected {requirement}, found {found}; {install}"
    )


def requirements(text: str) -> list[str]:
    """Return the requirements in a file's text, and those that it leaves to the machine."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [*BESIDE, *(line for line in lines if line)]


def _settings() -> tuple[Settings, dict[str, str]]:
    try:
        return load_settings(CONFIG), {}
    except AssayError as error:
        return Settings(), {"configuration": f"{error}; correct it there"}


def _broken(text: str) -> dict[str, str]:
    """Map each distribution that keeps the project from running to what is wrong with it."""
    found = {Requirement(one).name: unmet(one) for one in requirements(text)}
    return {name: why for name, why in found.items() if why is not None}


def free_bytes(folder: Path) -> int | Unavailable:
    """Return the free space where a folder is, or will be; or why nothing can be written there."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as stream:
            stream.write(b"x")
        return shutil.disk_usage(there).free
    except OSError as error:
        return Unavailable(reason=f"cannot be written ({error.strerror})")


def cache_folder(variables: "os._Environ[str]") -> Path:
    """Return where Triton keeps what it compiles (triton/knobs.py, `cache`)."""
    home = variables.get("TRITON_HOME") or str(Path.home())
    return Path(variables.get("TRITON_CACHE_DIR") or f"{home}/.triton/cache")


def _folders() -> list[Folder]:
    places = {"results": RESULTS_FOLDER, "temporary": Path(tempfile.gettempdir()), "cache": cache_folder(os.environ)}
    return [Folder(purpose, scrub(str(path)), free_bytes(path)) for purpose, path in places.items()]


def _compiler() -> str | Unavailable:
    """Return the C compiler that Triton would take (triton/runtime/build.py)."""
    named = os.environ.get("CC")
    found = shutil.which(named) if named else shutil.which("gcc") or shutil.which("clang")
    return scrub(found) if found else Unavailable(reason=f"{named or 'neither gcc nor clang'} is not on the PATH")


def look() -> Facts:
    """Look at the machine, through what the stages `environment` and `gate` look with."""
    settings, wrong = _settings()
    here = read_environment()
    return Facts(
        environment=here,
        libcuda=driver_devices(),
        answer=ask(["gate", "--minimum-capability", settings.gate.minimum_capability]),
        targets=settings.targets,
        compiler=_compiler(),
        folders=_folders(),
        packages={name: here.distributions.get(name, "missing") for name in SHOWN},
        broken={**_broken(NEEDED.read_text("utf-8")), **wrong},
    )


def _found(found: Sequence[Finding | Reach]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    for one in found:
        name = one.name if isinstance(one, Finding) else one.tiers
        table.add_row(sign(one.mark), text(name), text(one.said))
    return table


def picture(facts: Facts) -> Group:
    """Return all that is printed: what was found, what can be shown, and what to do."""
    found = findings(facts)
    todo = [text(f"{one.name}: {one.remedy}") for one in found if one.remedy]
    parts: list[RenderableType] = [text("This machine", "bold"), _found(found)]
    parts += ["", text("What it can show", "bold"), _found(reaches(facts))]
    parts += ["", text("What to do", "bold"), *todo] if todo else []
    return Group(*parts)


def main(argv: Sequence[str]) -> int:
    """Print what was found; return 0, or 1 where the project itself cannot run. UsageError in another folder."""
    options = argparse.ArgumentParser(
        prog="python -m assay doctor", description="Say what this machine can show, and why not the rest."
    )
    options.parse_args(argv)
    check_folder()
    facts = look()
    put(picture(facts), open_console())
    return 1 if facts.broken else 0

"""The locked environments, one for each Triton release: where they lie, and what is known of each.

A release is served by `envs/triton/<version>.txt`. Its environment stands in `.venvs/<version>/`, with an
`installation.json` inside that says what it holds, or why there is none.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from assay.artifact import canonical, decode, write_bytes
from assay.errors import RecordError
from assay.record import Count, Digest, Record, Unavailable

LOCKS = Path("envs/triton")
HOMES = Path(".venvs")
RECORDS = Path("results/versions")
VERSION = r"[0-9]+(?:\.[0-9]+)*"
"""A release of Triton, such as 3.8.0."""

_LOCK = re.compile(rf"({VERSION})\.txt")


class Contents(Record, frozen=True, kw_only=True, tag_field="kind", tag="contents"):
    """What an environment holds: each distribution with its version."""

    distributions: dict[str, str]


class Installation(Record, frozen=True, kw_only=True):
    """One attempt to install a lock, and what came of it. `attempt` grows with each that follows one that failed."""

    attempt: Count
    version: str
    lock_sha256: Digest
    python: str
    contents: Contents | Unavailable


def release_order(version: str) -> tuple[int, ...]:
    """Return a sort key that puts 3.9.0 before 3.10.0."""
    return tuple(map(int, version.split(".")))


def locked_versions(folder: Path = LOCKS) -> list[str]:
    """Return the releases that have a lock, oldest first."""
    matches = (_LOCK.fullmatch(path.name) for path in folder.glob("*.txt"))
    return sorted((match[1] for match in matches if match), key=release_order)


def installation_path(version: str) -> Path:
    """Return where it stands what an environment holds: inside it, so that both go together."""
    return HOMES / version / "installation.json"


def read_installation(path: Path) -> Installation:
    """Read what is known of an environment; RecordError, with what to do, where it cannot be read."""
    try:
        return decode(path.read_bytes(), Installation, str(path))
    except OSError as error:
        remedy = "run `snakemake --cores 1 versions` again"
        raise RecordError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None


def write_installation(path: Path, installation: Installation) -> None:
    """Write it in canonical form, whole or not at all."""
    write_bytes(path, canonical(installation))


def is_whole(version: str, known: Installation) -> bool:
    """Return whether there is an environment as its file says."""
    return not isinstance(known.contents, Unavailable) and (HOMES / version / "bin/python").exists()


def version_records(version: str, installed: Path, kernels: Iterable[str]) -> list[str]:
    """Return the records to be made in a release's environment: none where it could not be installed."""
    if isinstance(read_installation(installed).contents, Unavailable):
        return []
    stages = ("interpreter", "compile")
    of_kernels = [f"{RECORDS}/{version}/{kernel}/{stage}.json" for kernel in kernels for stage in stages]
    return [f"{RECORDS}/{version}/environment.json", *of_kernels]


def record_functions(install: Any, kernels: Iterable[str]) -> list[Callable[[Any], list[str]]]:
    """Return for each release the input function that names its records, once Snakemake's checkpoint has tried it."""

    def function(version: str) -> Callable[[Any], list[str]]:
        return lambda wildcards: version_records(version, Path(install.get(version=version).output[0]), kernels)

    return [function(version) for version in locked_versions()]


def records_among(paths: Iterable[str]) -> list[str]:
    """Return those inputs of a rule that are records made in a release's environment."""
    return [path for path in paths if Path(path).is_relative_to(RECORDS)]


def next_attempt(version: str) -> int:
    """Return the number of the attempt that made this environment, or that is to be made where it is not whole.

    It is a parameter of the rule, and Snakemake runs a rule again when its parameters change: a release that could not
    be installed is tried once more by each run, and one that was installed is left alone.
    """
    path = installation_path(version)
    if not path.is_file():
        return 1
    try:
        known = read_installation(path)
    except RecordError:
        return 0
    return known.attempt if is_whole(version, known) else known.attempt + 1

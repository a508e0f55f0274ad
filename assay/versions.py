"""Command `versions`: what changed from one Triton release to the next, from the records made under each.

Writes versions.json, versions.html and versions.md. Every record is checked again: its content, and that it was made
in the environment that it is shown for.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from assay.artifact import canonical, write_bytes
from assay.changes import Column, Kernel, Software, Tiers, Versions, compare_versions
from assay.errors import RecordError, UsageError
from assay.evidence import Evidence, load
from assay.installation import RECORDS, Installation, read_installation, release_order
from assay.privacy import one_line
from assay.record import Environment, StageName, Unavailable
from assay.stage import RESULTS_FOLDER, stage_of
from assay.versions_page import conclusion, render

Place = tuple[str, str | None, StageName]
"""Release, kernel (None of the environment) and stage of a record."""


def place_of(path: Path) -> Place:
    """Return what a record is of, by where it lies; UsageError where that is not its place."""
    parts = path.parts[len(RECORDS.parts) :] if path.is_relative_to(RECORDS) else ()
    stage = stage_of(path)
    if len(parts) == 2 and stage == "environment":
        return parts[0], None, stage
    if len(parts) == 3 and stage in ("interpreter", "compile"):
        return parts[0], parts[1], stage
    raise UsageError(f"--record: expected a file such as {RECORDS}/3.8.0/softmax/compile.json, found {path}; name that")


def _software(version: str, found: Evidence) -> Software:
    """Return what a release was run with; RecordError where the record is of another release."""
    environment: Environment = found.artifact.result
    installed = environment.distributions
    if installed.get("triton") != version:
        held = installed.get("triton", "none")
        raise RecordError(
            f"{found.path}: expected Triton {version}, found {one_line(held)}; delete it and run this again"
        )
    return Software(
        python=environment.python.version,
        torch=installed.get("torch", "none"),
        numpy=installed.get("numpy", "none"),
        assemblers=environment.assemblers,
        environment_sha256=found.sha256,
    )


def _column(made: Installation, records: Mapping[Place, Evidence]) -> Column:
    if isinstance(made.contents, Unavailable):
        return Column(version=made.version, software=made.contents)
    found = records.get((made.version, None, "environment"))
    if found is None:
        expected = f"expected {RECORDS}/{made.version}/environment.json too, which says what ran"
        raise UsageError(f"--record: {expected}; give it, or let rule versions name all")
    return Column(version=made.version, software=_software(made.version, found))


def _check_origin(version: str, record: Evidence, column: Column) -> None:
    """Refuse a record that was made in another environment than the one shown."""
    path = f"{RECORDS}/{version}/environment.json"
    digest = column.software.environment_sha256 if isinstance(column.software, Software) else None
    if record.artifact.materials.get(path) != digest:
        expected = f"expected a record made with {path} as it is, found another"
        raise RecordError(f"{record.path}: {expected}; run `snakemake --cores 1 versions` again")


def _kernel(name: str, columns: Iterable[Column], records: Mapping[Place, Evidence]) -> Kernel:
    found = {}
    for column in columns:
        both = [records.get((column.version, name, stage)) for stage in ("interpreter", "compile")]
        interpreter, compiled = both
        if interpreter is None or compiled is None:
            continue
        for record in (interpreter, compiled):
            _check_origin(column.version, record, column)
        found[column.version] = Tiers(interpreter.artifact.result, compiled.artifact.result)
    return found


def gather(installations: Iterable[Path], paths: Sequence[Path]) -> Versions:
    """Read everything, check it, and compare."""
    made = sorted(map(read_installation, installations), key=lambda one: release_order(one.version))
    records = {place_of(path): load(path, stage_of(path), number) for number, path in enumerate(paths, 1)}
    columns = [_column(one, records) for one in made]
    names = sorted({name for _, name, _ in records if name is not None})
    return compare_versions(columns, {name: _kernel(name, columns, records) for name in names})


def main(argv: Sequence[str]) -> int:
    """Return 0: a change is a result, and so is a release that could not be installed."""
    options = argparse.ArgumentParser(prog="python -m assay versions", description=(__doc__ or "").partition("\n")[0])
    options.add_argument(
        "--installation",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help="such as .venvs/3.8.0/installation.json",
    )
    options.add_argument(
        "--record",
        type=Path,
        nargs="*",
        default=[],
        metavar="PATH",
        help=f"such as {RECORDS}/3.8.0/softmax/compile.json",
    )
    chosen = options.parse_args(argv)
    found = gather(chosen.installation, chosen.record)
    html, markdown = render(found)
    for name, data in zip(("json", "html", "md"), (canonical(found), html, markdown), strict=True):
        write_bytes(RESULTS_FOLDER / f"versions.{name}", data)
    print(one_line(conclusion(found), limit=2000))
    return 0

"""Command `reproduce`: runs again what this machine can of a bundle, from the bundle's own sources, and compares.

The sources are untrusted code. Nothing of them runs without `--run`; with it they run as the user who said so, in a
temporary folder, with nothing to confine them.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from assay.artifact import canonical
from assay.machines import blame, differences
from assay.opening import RESULTS, Opened, UnsoundError
from assay.privacy import one_line
from assay.progress import Progress
from assay.record import Artifact, Environment, Record
from assay.reproduction import About, Likeness, Reproduced, compare
from assay.soundness import open_sound
from assay.sources import PACKAGE
from assay.stage import NEEDS, record_path
from assay.steps import Step, bar, plan
from assay.workshop import NoRecord, Workshop, sources, workshop

Machines = tuple[Environment, Environment]
"""The machine that made the bundle, and this one."""

Made = Artifact[Any] | NoRecord
"""What a stage left here."""

SHOWN = 6
"""Differences that the table names; `--json` has them all."""


class Reproduction(Record, frozen=True, kw_only=True):
    """What `--json` prints. `differences` are those of the two machines, `edited` the package's files that are other
    than those of the Assay that compares. `rows` is empty where nothing was run.
    """

    bundle: str
    manifest_sha256: str
    steps: list[str]
    edited: list[str]
    differences: list[str]
    rows: list[Reproduced]


# Running it


def edited(payload: Mapping[str, bytes], package: Path) -> list[str]:
    """Return the files of the bundle's package that are other than those of the package at hand."""
    theirs = {path for path in payload if path.startswith(f"{PACKAGE}/")}
    ours = {f"{PACKAGE}/{path.name}": path for path in package.glob("*.py")}
    return sorted(path for path in {*theirs, *ours} if path not in ours or payload.get(path) != ours[path].read_bytes())


def unmet(step: Step, made: Mapping[Path, Made]) -> str | None:
    """Return which earlier stage leaves this one nothing to build on here, or None."""
    for need in NEEDS[step.stage]:
        found = made.get(record_path(need, step.kernel))
        if found is None or isinstance(found, NoRecord):
            return f"stage '{need}', which it builds on, left no record here"
        if need == "gate" and found.result.protects.outcome != "passed":
            return str(found.result.protects.reason)
    return None


def _other_sources(there: Artifact[Any], here: Artifact[Any]) -> list[str]:
    """Return the sources that one of the two records was not made from; earlier records differ as they must."""
    both = there.materials.items() ^ here.materials.items()
    return sorted({path for path, _ in both if not path.startswith(RESULTS)})


def _compare(step: Step, here: Made, machines: Machines) -> list[Reproduced]:
    about = About(step.stage, step.kernel, blame(step.stage, differences(*machines)))
    if isinstance(here, NoRecord):
        return [about.reproduced("different", f"no record was made here: {here.reason}")]
    others = _other_sources(step.there, here)
    if others or here.kernel != step.kernel:
        return [about.reproduced("different", "the record made here is of other sources", others)]
    return compare(about, step.there.result, here.result, machines)


def _again(
    step: Step, room: Workshop, made: dict[Path, Made], machines: Machines, progress: Progress
) -> list[Reproduced]:
    """Run one stage again and compare, or say why it cannot be."""
    barred = bar(step, *machines) or unmet(step, made)
    if barred is not None:
        made[record_path(step.stage, step.kernel)] = NoRecord(barred)
        return [About(step.stage, step.kernel).reproduced("not reproducible here", barred)]
    here = made[record_path(step.stage, step.kernel)] = room.run(step.task(), progress)
    return _compare(step, here, machines)


def rerun(opened: Opened, steps: Sequence[Step], progress: Progress) -> tuple[list[str], list[Reproduced]]:
    """Run the steps in a temporary folder; return how the machines differ, and what came out of each step.

    UnsoundError where even the machine cannot be described: nothing could be explained without that.
    """
    rows: list[Reproduced] = []
    first, *others = steps
    with workshop(opened.payload) as room:
        environment = room.run(first.task(), progress)
        if isinstance(environment, NoRecord):
            raise UnsoundError(
                f"{record_path('environment', None)}: expected a record of this machine, found none: "
                f"{environment.reason}"
            )
        progress.step()
        machines = first.there.result, environment.result
        made: dict[Path, Made] = {record_path("environment", None): environment}
        for step in others:
            rows += _again(step, room, made, machines, progress)
            progress.step()
    return [words for found in differences(*machines).values() for words in found], rows


# Saying it


def _table(rows: Sequence[Reproduced]) -> Iterator[str]:
    cells = [(row.likeness, row.stage, row.kernel or "", row.target or "", row.what) for row in rows]
    cleaned = [[one_line(cell) for cell in line] for line in [("outcome", "stage", "kernel", "target", "what"), *cells]]
    widths = [max(len(line[column]) for line in cleaned) for column in range(4)]
    for row, line in zip([None, *rows], cleaned, strict=True):
        padded = [f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False)]
        yield "  ".join([*padded, line[4]]).rstrip()
        differing = [] if row is None else row.differing
        yield from (f"    {one_line(words)}" for words in differing[:SHOWN])
        if len(differing) > SHOWN:
            yield f"    and {len(differing) - SHOWN} more (--json names them)"


def _of_package(found: Reproduction) -> str:
    if not found.edited:
        return "Its package assay/ is the one that compares here, byte for byte."
    names = ", ".join(found.edited[:SHOWN]) + (", ..." if len(found.edited) > SHOWN else "")
    return one_line(
        f"Its package assay/ is not the one that compares here: {len(found.edited)} files differ ({names})."
    )


def told_plan(found: Reproduction, files: int) -> str:
    """Return what would run, for the terminal."""
    lines = [
        f"{one_line(found.bundle)}: nothing was run. Its sources are untrusted code; with --run, {files} files are "
        "written into a temporary folder, and these stages of theirs run here as you, with nothing to confine them:",
        *(f"  {one_line(step)}" for step in found.steps),
        "Stages gpu and timing run only where there is a device of the same capability.",
        _of_package(found),
    ]
    return "\n".join(lines)


def told(found: Reproduction) -> str:
    """Return what came out, for the terminal."""
    counts = Counter(row.likeness for row in found.rows)
    total = ", ".join(f"{counts[likeness]} {likeness}" for likeness in get_args(Likeness) if counts[likeness])
    lines = [
        f"{one_line(found.bundle)}, run again here",
        _of_package(found),
        f"Machine: {one_line('; '.join(found.differences), 2000) or 'no difference that could matter'}",
        *_table(found.rows),
        total,
    ]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Return 0 where all that can be reproduced here is alike, and 1 where something differs."""
    options = argparse.ArgumentParser(prog="python -m assay reproduce", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("bundle", type=Path, help="the bundle, a .tar")
    options.add_argument(
        "--run", action="store_true", help="run the bundle's code, which is untrusted (default: say what would run)"
    )
    options.add_argument("--json", action="store_true", help="print JSON")
    chosen = options.parse_args(argv)
    opened = open_sound(chosen.bundle)
    steps = plan(opened)
    found = Reproduction(
        bundle=opened.name,
        manifest_sha256=opened.bag.manifest_sha256,
        steps=[str(step) for step in steps],
        edited=edited(opened.payload, Path(__file__).parent),
        differences=[],
        rows=[],
    )
    if chosen.run:
        progress = Progress("reproduce", len(steps))
        machines, rows = rerun(opened, steps, progress)
        progress.close(f"{len(steps)} stages")
        found = msgspec.structs.replace(found, differences=machines, rows=rows)
    words = told(found) if chosen.run else told_plan(found, len(sources(opened.payload)))
    print(canonical(found).decode() if chosen.json else words)
    return 1 if any(row.likeness == "different" for row in found.rows) else 0

"""Command `history`: the figures of all claims over a folder of bundles, with change points.

Exit 0: no newest point is a regression. 1: one is. 2: nothing could be judged, or a bundle was left out as unsound and
nothing in the others is a regression: a check that passes on older evidence would mislead.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay.artifact import canonical, write_bytes
from assay.compare import MARGIN, read_margin
from assay.course import Course, Source, Told, follow, source_of, told_by
from assay.course_page import TEMPLATE_NAMES, render, text
from assay.errors import AssayError, UsageError
from assay.opening import UnreadableError
from assay.page import TEMPLATES
from assay.privacy import one_line
from assay.soundness import open_sound


def _say(words: str) -> None:
    print(one_line(f"assay history: {words}", limit=1000), file=sys.stderr)


def read_all(paths: Iterable[Path]) -> tuple[list[Source], list[Told], list[str]]:
    """Return what sound bundles tell, and of each other one why it is left out. One bundle is in memory at a time."""
    sources: list[Source] = []
    told: list[Told] = []
    left_out: list[str] = []
    for path in paths:
        try:
            opened = open_sound(path)
            told += told_by(opened)
        except AssayError as error:
            left_out.append(one_line(str(error)))
            _say(f"left out: {error}")
            continue
        sources.append(source_of(opened))
    return sources, told, left_out


def find_bundles(folder: Path) -> list[Path]:
    """Return the bundles in a folder; UsageError where it is none, or holds none."""
    if not folder.is_dir():
        raise UsageError(f"expected a folder with bundles, found no folder {folder}; name the one that they lie in")
    found = sorted(folder.glob("*.tar"))
    if not found:
        raise UsageError(f"{folder}: expected bundles (*.tar), found none; `snakemake --cores 1 bundle` packs one")
    return found


def write_all(course: Course, folder: Path) -> None:
    """Write the record and both pages; UsageError where the folder cannot be written."""
    html, markdown = render(course)
    try:
        for name, data in {"history.json": canonical(course), "history.html": html, "history.md": markdown}.items():
            write_bytes(folder / name, data)
    except OSError as error:
        raise UsageError(
            f"--out: expected a folder to write into, found {folder} ({error.strerror}); name another"
        ) from None


def main(argv: Sequence[str]) -> int:
    """Print the course of all figures and return the exit code that it calls for."""
    options = argparse.ArgumentParser(
        prog="python -m assay history",
        description="Show the figures of all claims over a folder of bundles, with change points.",
    )
    options.add_argument("folder", type=Path, metavar="FOLDER", help="the folder that the bundles lie in")
    options.add_argument(
        "--margin",
        default=f"{100 * MARGIN:g}",
        metavar="PERCENT",
        help="what counts as the same time (default: %(default)s)",
    )
    options.add_argument("--out", type=Path, metavar="FOLDER", help="where to write history.json, .html and .md")
    chosen = options.parse_args(argv)
    margin = read_margin(chosen.margin)
    for name in TEMPLATE_NAMES if chosen.out else ():
        if not (TEMPLATES / name).is_file():
            raise UsageError(f"{TEMPLATES / name}: expected the template, found none; run from the checkout's root")
    sources, told, left_out = read_all(find_bundles(chosen.folder))
    if not sources:
        expected = "expected at least one sound bundle, found none"
        raise UnreadableError(f"{chosen.folder}: {expected}; `python -m assay verify` says of each why it is not")
    course = follow(sources, told, margin, left_out)
    if chosen.out:
        write_all(course, chosen.out)
    print(text(course))
    return 1 if course.regressions else 2 if left_out else 0

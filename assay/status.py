"""Command `status`: writes into pages the status that the evidence supports, or says where they state another.

The newest sound evidence counts: bundles in archive/, and results/ where its records are those of the code at hand.
"""

import argparse
import difflib
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.artifact import sha256_file, write_bytes
from assay.blocks import find_blocks, replace, split
from assay.errors import AssayError, UsageError
from assay.evidence import check, load, present
from assay.notice import Notice, Row, write
from assay.privacy import one_line, printable
from assay.record import ARTIFACTS
from assay.soundness import open_sound
from assay.stage import RESULTS_FOLDER, stage_of
from assay.standing import KernelStanding, RunRecords, Standing, choose, stale_text

ARCHIVE = Path("archive")


@dataclass(frozen=True)
class Page:
    """A page as it is, and as the evidence has it. Bytes that are no UTF-8 are kept as they are."""

    path: Path
    old: str
    new: str


def read_bundle(path: Path) -> RunRecords:
    """Read the records of a bundle, and hash the files at hand that it holds too; AssayError where it is unsound."""
    opened = open_sound(path)
    # Only names that a bundle may hold are looked up here, so that no bundle chooses what is read.
    now = {name: sha256_file(Path(name)) for name in sorted(opened.payload) if Path(name).is_file()}
    return RunRecords(path.as_posix(), opened.records, now, published=True)


def read_results(path: Path) -> RunRecords:
    """Read the claims of the checkout at hand and their records; AssayError where one was edited or is stale."""
    claims = load(path, "claims", 0)
    names = {f"{stage}.json" for stage in ARTIFACTS}
    paths = [Path(name) for name in claims.artifact.materials if Path(name).name in names]
    records = [load(found, stage_of(found), number) for number, found in enumerate(paths, 1)]
    now = present([*records, claims])
    check(records, claims, now)
    return RunRecords(path.as_posix(), {one.path: one.artifact for one in (*records, claims)}, now, published=False)


def find_evidence(places: Sequence[Path]) -> list[Path]:
    """Return the bundles and claims at these places: files, or folders that hold them."""
    found = []
    for place in places:
        if place.is_dir():
            found += sorted(place.glob("*.tar"))
            found += [claims] if (claims := place / "claims.json").is_file() else []
        elif place.is_file():
            found.append(place)
        elif place not in (ARCHIVE, RESULTS_FOLDER):
            raise UsageError(
                f"--evidence: expected a bundle, or a folder with bundles or results, found no {place}; name what is "
                "there"
            )
    return found


def gather(paths: Sequence[Path]) -> tuple[list[RunRecords], list[str]]:
    """Read all evidence; what is unsound is named on standard error and among the refused, and the rest goes on."""
    runs, refused = [], []
    for path in paths:
        try:
            runs.append(read_results(path) if path.suffix == ".json" else read_bundle(path))
        except AssayError as error:
            print(f"assay status: not used: {one_line(str(error))}", file=sys.stderr)
            refused.append(path.as_posix())
    return runs, refused


def _row(run: RunRecords, of: KernelStanding, folder: Path) -> Row:
    link = Path(os.path.relpath(run.name, folder)).as_posix() if run.published else None
    said = "; ".join(filter(None, [of.shown, stale_text(of.changed)]))
    return Row(of.kernel, of.status, said, run.place, run.started[:10], Path(run.name).name, link)


def notice_of(standings: Sequence[Standing], nothing: str, folder: Path) -> Notice:
    """Return what a block says on a page in `folder`; `nothing` is said where no evidence is."""
    if not standings:
        return Notice([(nothing, None)], [])
    rows = [_row(standing.run, kernel, folder) for standing in standings for kernel in standing.kernels]
    sentences = [(standing.sentence, standing.run.name) for standing in standings]
    return Notice(sentences, sorted(rows, key=lambda row: row.kernel))


def _nothing(kernel: str | None, places: Sequence[Path], refused: Sequence[str]) -> str:
    of = "" if kernel is None else f" of {kernel}"
    unsound = f"; unsound or stale, and not used: {', '.join(refused)}" if refused else ""
    return f"NOT VERIFIED: no sound evidence{of} in {', '.join(place.as_posix() for place in places)}{unsound}."


def read_page(path: Path) -> str:
    """Return a page's text; UsageError where it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); name a page that is there") from None


def renew(path: Path, text: str, runs: Sequence[RunRecords], places: Sequence[Path], refused: Sequence[str]) -> Page:
    """Return a page with every block as the evidence has it; BlockError where the markers are wrong."""
    lines, filled = split(text), []
    for block in find_blocks(lines, path.as_posix()):
        kernel = block.start.kernel
        notice = notice_of(choose(runs, kernel), _nothing(kernel, places, refused), path.parent)
        filled.append((block, write(notice, block)))
    return Page(path, text, replace(lines, filled))


def put(page: Page) -> None:
    """Write a page in its place, through a link to it, with the permissions that it had."""
    path = page.path.resolve()
    mode = stat.S_IMODE(path.stat().st_mode)
    write_bytes(path, page.new.encode("utf-8", "surrogateescape"))
    path.chmod(mode)


def difference(page: Page) -> str:
    """Return what the evidence would change in a page, line by line; nothing where that is nothing."""
    old, new = page.old.splitlines(), page.new.splitlines()
    lines = difflib.unified_diff(old, new, page.path.as_posix(), "what the evidence says", lineterm="")
    return "\n".join(map(printable, lines))


def main(argv: Sequence[str]) -> int:
    """Write the pages and return 0; with --check write nothing, and return 1 where a page says something else."""
    options = argparse.ArgumentParser(
        prog="python -m assay status",
        description="Write between the markers assay:status and assay:end of each page what the evidence supports.",
    )
    options.add_argument("pages", type=Path, nargs="+", metavar="FILE", help="a page with markers")
    options.add_argument("--check", action="store_true", help="write nothing; exit 1 where a page says something else")
    options.add_argument(
        "--evidence", type=Path, nargs="+", metavar="PATH", help="bundles, or folders (default: archive results)"
    )
    chosen = options.parse_args(argv)
    places = chosen.evidence or [ARCHIVE, RESULTS_FOLDER]
    texts = {path: read_page(path) for path in chosen.pages}
    for path, text in texts.items():
        find_blocks(split(text), path.as_posix())
    runs, refused = gather(find_evidence(places))
    pages = [renew(path, text, runs, places, refused) for path, text in texts.items()]
    for page in pages:
        same = page.new == page.old
        if chosen.check:
            print(f"{page.path}: says what the evidence says" if same else difference(page))
        else:
            if not same:
                put(page)
            print(f"{page.path}: {'as it was' if same else 'written'}")
    return 1 if chosen.check and any(page.new != page.old for page in pages) else 0

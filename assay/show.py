"""Command `show`: the matrix of claims in the terminal, and below it why what was not shown was not.

From results/, whose records are checked first as for a report, or from a bundle, which is opened in memory and judged
as for `merge`: never extracted, and refused where it is not sound.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.errors import UsageError
from assay.matrix import TARGET_TIERS, Cell, Gap, Line, Matrix, build_matrix, fold_gaps
from assay.outcomes import mark_of
from assay.privacy import one_line
from assay.record import Claim
from assay.soundness import open_sound
from assay.stage import record_path
from assay.standing import RunRecords, stand
from assay.status import read_results
from assay.terminal import open_console, put, sign, text
from assay.unclaimed import command, found

NARROWEST_NAME = 18
"""Columns that a variant's name may be folded to."""


@dataclass(frozen=True)
class Shown:
    """What is shown: a sentence on where it stands, the claims, and one that says where they are from and what was
    checked of them.
    """

    sentence: str
    claims: Sequence[Claim]
    source: str


def from_results(kernel: str | None) -> Shown:
    """Read the claims under results/; RecordError where a record is missing, edited, or of other sources."""
    path = record_path("claims", None)
    if kernel is not None and not path.is_file():
        _refuse_unclaimed(kernel)
    run = read_results(path)
    if kernel is not None and kernel not in run.kernels:
        _refuse_unclaimed(kernel)
    return chosen(run, kernel, f"{path}: its records are whole, and of the sources at hand")


def _refuse_unclaimed(kernel: str) -> None:
    """UsageError for a kernel that is there, of which nothing is claimed yet."""
    there = found(kernel)
    if there is not None:
        raise UsageError(
            f"KERNEL: expected one that is claimed about, found {kernel!r} with {there}; "
            f"make what is missing with `{command(kernel)}`"
        )


def from_bundle(path: Path, kernel: str | None) -> Shown:
    """Read the claims of a bundle; UnreadableError or UnsoundError where it is not sound."""
    records = open_sound(path).records
    # A bundle is not compared with the sources at hand: each material is taken as it was.
    now = {name: digest for record in records.values() for name, digest in record.materials.items()}
    source = f"{path}: sound; signatures, and freshness against the sources at hand, are what `verify` looks at"
    return chosen(RunRecords(str(path), records, now, published=True), kernel, source)


def chosen(run: RunRecords, kernel: str | None, source: str) -> Shown:
    """Return what a run shows, or what it shows of one kernel; UsageError where it claims nothing about that."""
    if kernel is None:
        return Shown(run.one("claims").result.status.sentence, run.claims, source)
    if kernel not in run.kernels:
        known = ", ".join(map(one_line, sorted(run.kernels))) or "none"
        raise UsageError(f"KERNEL: expected one that is claimed about, found {one_line(kernel)!r}; allowed: {known}")
    claims = [claim for claim in run.claims if claim.kernel in (kernel, "*")]
    return Shown(f"{kernel}: {stand(run, [kernel]).sentence}", claims, source)


# What is printed, as rich has it


def _cells(cells: Iterable[Cell | None]) -> Text:
    return Text().join(Text(" ") if one is None else sign(one.mark, one.stale) for one in cells)


def _row(line: Line, targets: slice) -> list[Text]:
    name = "all variants" if line.variant == "*" else line.variant
    return [text(name), *(_cells([one]) for one in line.whole), *(_cells(cells) for cells in line.targets[targets])]


def slices(matrix: Matrix, width: int) -> list[slice]:
    """Return which targets stand beside one another, so that a table is no wider than `width` columns."""
    taken = NARROWEST_NAME + sum(len(tier) + 1 for tier in matrix.tiers)
    widest = max((len(target) for target in matrix.targets), default=0)
    each = max(widest, len(TARGET_TIERS)) + 1
    most = max(1, (width - taken) // each)
    return [slice(start, start + most) for start in range(0, max(1, len(matrix.targets)), most)]


def _table(matrix: Matrix, lines: Sequence[Line], targets: slice) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("variant", overflow="fold")
    for name in (*matrix.tiers, *matrix.targets[targets]):
        table.add_column(text(name), no_wrap=True)
    for line in lines:
        table.add_row(*_row(line, targets))
    return table


def _tables(matrix: Matrix, width: int) -> Iterator[RenderableType]:
    for group in matrix.groups:
        yield text(group.kernel, "bold")
        for targets in slices(matrix, width):
            yield Padding(_table(matrix, group.lines, targets), (0, 0, 1, 2))


def _legend(matrix: Matrix) -> Text:
    counts = [Text.assemble(sign(mark), f" {mark.word} {count}") for mark, count in matrix.tally]
    return Text("  ").join(counts)


def _gap(gap: Gap) -> Iterator[RenderableType]:
    of = "claim" if gap.count == 1 else "claims"
    said = f"{gap.mark.word}, {gap.cause or 'no cause given'}, {gap.count} {of}: {gap.what}"
    yield Text.assemble(sign(gap.mark), " ", text(said))
    for reason, count in gap.reasons:
        yield Padding(text(f"({count}) {reason}"), (0, 0, 0, 4))
    if gap.more:
        yield Padding(text(f"and {gap.more} further reasons"), (0, 0, 0, 4))
    if gap.remedy:
        yield Padding(text(f"to settle it: {gap.remedy.command}, on {gap.remedy.machine}"), (0, 0, 0, 4))


def _gates(claims: Sequence[Claim]) -> Iterator[RenderableType]:
    for claim in claims:
        if claim.tier == "gated":
            mark = mark_of(claim.outcome, claim.cause)
            yield Text.assemble("gate ", sign(mark), " ", text(f"{mark.word}: {claim.reason}"))


def picture(shown: Shown, width: int) -> Group:
    """Return all that is printed: the status, the matrix, what its signs mean, what was not shown, and the source."""
    matrix, gaps = build_matrix(shown.claims), fold_gaps(shown.claims)
    parts: list[RenderableType] = [text(shown.sentence), ""]
    parts += [*_gates(shown.claims), "", *_tables(matrix, width), _legend(matrix)]
    parts += [f"Below a target: {', '.join(TARGET_TIERS)}, in this order. A blank: nothing is claimed. *: stale."]
    parts += ["", Text("Not shown" if gaps else "All that is claimed is shown.", style="bold")]
    parts += [line for gap in gaps for line in _gap(gap)]
    return Group(*parts, "", text(shown.source, "dim"))


def main(argv: Sequence[str]) -> int:
    """Print the matrix and return 0; AssayError where there is nothing that can be shown."""
    options = argparse.ArgumentParser(prog="python -m assay show", description="Show the matrix of claims.")
    options.add_argument("kernel", nargs="?", metavar="KERNEL", help="a kernel's name (default: all)")
    options.add_argument("--bundle", type=Path, metavar="FILE", help="a bundle, a .tar (default: results/)")
    given = options.parse_args(argv)
    shown = from_results(given.kernel) if given.bundle is None else from_bundle(given.bundle, given.kernel)
    console = open_console()
    put(picture(shown, console.width), console)
    return 0

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
from assay.matrix import TARGET_TIERS, Cell, Gap, Line, Matrix, build_matrix, find_gaps
from assay.outcomes import mark_of
from assay.privacy import one_line
from assay.record import Claim, Claims
from assay.soundness import open_sound
from assay.stage import record_path
from assay.status import read_results
from assay.terminal import open_console, put, sign, text

NARROWEST_NAME = 18
"""Columns that a variant's name may be folded to."""


@dataclass(frozen=True)
class Shown:
    """What is shown: the claims, and one sentence that says where they are from and what was checked of them."""

    claims: Claims
    source: str


def from_results() -> Shown:
    """Read the claims under results/; RecordError where a record is missing, edited, or of other sources."""
    path = record_path("claims", None)
    claims: Claims = read_results(path).records[path.as_posix()].result
    return Shown(claims, f"{path}: its records are whole, and of the sources at hand")


def from_bundle(path: Path) -> Shown:
    """Read the claims of a bundle; UnreadableError or UnsoundError where it is not sound."""
    claims: Claims = open_sound(path).one("claims").result
    source = f"{path}: sound; signatures, and freshness against the sources at hand, are what `verify` looks at"
    return Shown(claims, source)


def chosen_claims(claims: Sequence[Claim], kernel: str | None) -> list[Claim]:
    """Return the claims about a kernel, and about every kernel; UsageError where none is about it."""
    kernels = sorted({claim.kernel for claim in claims} - {"*"})
    if kernel is not None and kernel not in kernels:
        known = ", ".join(map(one_line, kernels)) or "none"
        raise UsageError(f"KERNEL: expected one that is claimed about, found {one_line(kernel)!r}; allowed: {known}")
    return [claim for claim in claims if kernel is None or claim.kernel in (kernel, "*")]


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


def picture(shown: Shown, kernel: str | None, width: int) -> Group:
    """Return all that is printed: the status, the matrix, what its signs mean, what was not shown, and the source."""
    claims = chosen_claims(shown.claims.claims, kernel)
    matrix, gaps = build_matrix(claims), find_gaps(claims)
    parts: list[RenderableType] = [text(shown.claims.status.sentence), ""]
    parts += [*_gates(claims), "", *_tables(matrix, width), _legend(matrix)]
    parts += [f"Below a target: {', '.join(TARGET_TIERS)}, in this order. A blank: nothing is claimed. *: stale."]
    parts += ["", Text("Not shown" if gaps else "All that is claimed is shown.", style="bold")]
    parts += [line for gap in gaps for line in _gap(gap)]
    return Group(*parts, "", text(shown.source, "dim"))


def main(argv: Sequence[str]) -> int:
    """Print the matrix and return 0; AssayError where there is nothing that can be shown."""
    options = argparse.ArgumentParser(prog="python -m assay show", description="Show the matrix of claims.")
    options.add_argument("kernel", nargs="?", metavar="KERNEL", help="a kernel's name (default: all)")
    options.add_argument("--bundle", type=Path, metavar="FILE", help="a bundle, a .tar (default: results/)")
    chosen = options.parse_args(argv)
    shown = from_results() if chosen.bundle is None else from_bundle(chosen.bundle)
    console = open_console()
    put(picture(shown, chosen.kernel, console.width), console)
    return 0

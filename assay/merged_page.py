"""Merged bundles as a page: what its templates show, arranged from the merged record."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.formats import short
from assay.matrix import Gap, Matrix, build_matrix, find_gaps
from assay.merging import counted, deciding, label
from assay.outcomes import CONFLICT, Mark, mark_of, tally
from assay.page import TEMPLATES, render_by
from assay.record import Account, Claim, Digest, KernelSource, Merged, MergedClaim

TEMPLATE_NAMES = "merge.html.j2", "merge.md.j2"


@dataclass(frozen=True)
class Told:
    """What one bundle says of a claim, as a reader meets it."""

    mark: Mark
    label: str
    account: Account


@dataclass(frozen=True)
class Shown:
    """A claim with what every bundle says of it. `number` counts from 1; `kernel` tells a kernel's sources apart."""

    number: int
    claim: MergedClaim
    mark: Mark
    kernel: str
    told: list[Told]


@dataclass(frozen=True)
class MergedPage:
    """All that the templates show. `titles`: which source each kernel is of. `tally` counts as the status does.

    `by_kernel` has every claim; `of` maps a place in the matrix to the number of its claim, and `cells` the other way.
    """

    merged: Merged
    numbers: dict[Digest, int]
    matrix: Matrix
    by_kernel: list[tuple[str, list[Shown]]]
    of: dict[int, int]
    cells: dict[int, int]
    titles: dict[str, str]
    tally: list[tuple[Mark, int]]
    gates: list[Shown]
    conflicts: list[Shown]
    gaps: list[Gap]


def mark_merged(claim: MergedClaim) -> Mark:
    """Return the mark of a merged claim."""
    return CONFLICT if claim.outcome == "conflict" else mark_of(claim.outcome, claim.cause)


def _heading(kernel: str, source: Digest | None, sources: Sequence[KernelSource]) -> str:
    """Return what a kernel is called: with the source's digest where it has several."""
    several = sum(one.kernel == kernel for one in sources) > 1
    return f"{kernel} {short(source)}" if several and source else kernel


def _shown(claim: MergedClaim, merged: Merged, number: int = 0) -> Shown:
    labels = {bundle.sha256: label(number, bundle) for number, bundle in enumerate(merged.bundles, 1)}
    told = [Told(mark_of(a.outcome, a.cause), labels[a.bundle], a) for a in claim.accounts]
    return Shown(number, claim, mark_merged(claim), _heading(claim.kernel, claim.source, merged.sources), told)


def _claim(shown: Shown, account: Account, reason: str) -> Claim:
    claim = shown.claim
    return Claim(
        kernel=shown.kernel,
        variant=claim.variant,
        tier=claim.tier,
        target=claim.target,
        sentence=claim.sentence,
        outcome=account.outcome,
        cause=account.cause,
        reason=reason,
        figures={},
        freshness=claim.freshness,
        links=[],
    )


def _in_full(told: Sequence[Told]) -> str:
    """Return what bundles say of a claim, a line each, for the title of a cell."""
    lines = []
    for one in told:
        stale = ", stale" if one.account.freshness == "stale" else ""
        links = "".join(f"; {link.artifact} {link.pointer}" for link in one.account.links)
        lines.append(f"\n{one.label} on {one.account.day}: {one.mark.word}{stale}. {one.account.reason}{links}")
    return "".join(lines)


def _in_matrix(shown: Shown) -> list[Claim]:
    """Return what stands in the claim's cell: one claim, or of a conflict both sides."""
    decided = deciding(shown.claim.accounts)
    if shown.claim.outcome != "conflict":
        return [_claim(shown, decided[-1], _in_full(shown.told))]
    sides = {account.outcome: account for account in decided}
    return [
        _claim(shown, account, _in_full([one for one in shown.told if one.account.outcome == outcome]))
        for outcome, account in sides.items()
    ]


def _by_kernel(shown: Sequence[Shown]) -> list[tuple[str, list[Shown]]]:
    kernels: dict[str, list[Shown]] = defaultdict(list)
    for one in shown:
        kernels[one.kernel].append(one)
    return list(kernels.items())


def build_page(merged: Merged) -> MergedPage:
    """Arrange the merged record for the templates."""
    shown = [_shown(claim, merged, number) for number, claim in enumerate(merged.claims, 1)]
    counting = [_shown(claim, merged) for claim in counted(merged.claims, merged.sources)]
    plain = [
        _claim(one, deciding(one.claim.accounts)[-1], one.claim.reason) for one in counting if one.mark != CONFLICT
    ]
    placed = [(one.number, claim) for one in shown for claim in _in_matrix(one)]
    matrix = build_matrix([claim for _, claim in placed])
    of = {place: number for place, (number, _) in enumerate(placed)}
    return MergedPage(
        merged=merged,
        numbers={bundle.sha256: number for number, bundle in enumerate(merged.bundles, 1)},
        matrix=matrix,
        by_kernel=_by_kernel(shown),
        of=of,
        cells={number: matrix.shown_at[place] for place, number in of.items()},
        titles={
            _heading(source.kernel, source.sha256, merged.sources): f"{source.freshness}: {source.reason}"
            for source in merged.sources
        },
        tally=tally(one.mark for one in counting),
        gates=[one for one in shown if one.claim.tier == "gated"],
        conflicts=[one for one in shown if one.mark == CONFLICT],
        gaps=find_gaps(plain),
    )


def render(merged: Merged, folder: Path = TEMPLATES) -> tuple[bytes, bytes]:
    """Return the merged record as HTML and as Markdown."""
    return render_by(TEMPLATE_NAMES, build_page(merged), folder)

"""The claims as a reader sees them at once: a matrix of marks, and what was not shown, grouped by reason. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from assay.formats import distinct, listing
from assay.outcomes import CONFLICT, FAILED, MARKS, VERIFIED, Mark, mark_of, tally
from assay.record import Cause, Claim, Tier
from assay.remedies import WITHOUT_DEVICE, Remedy, remedy, together

TIERS: tuple[Tier, ...] = get_args(Tier)
TARGET_TIERS: tuple[Tier, ...] = ("compiled", "fits", "ran", "accurate", "timed")
WHOLE_TIERS: tuple[Tier, ...] = ("interpreted", "teeth")
"""Tiers of claims about no target."""
NO_TARGET = "no target"
Key = tuple[Mark, Cause | None, Remedy | None]
"""What the claims of one gap have in common."""
MOST_FAILURES = 60
MOST_REASONS = 6

STALE = Mark("stale", "\u2217", "stale")
"""Stands in the list of what was not shown for a claim that is verified, but of other sources than those at hand."""
GAP_MARKS = (FAILED, CONFLICT, STALE, *(mark for mark in MARKS if mark not in (VERIFIED, FAILED, CONFLICT)))
"""In the order in which a reader should meet what was not shown."""


@dataclass(frozen=True)
class Cell:
    """What is claimed at one place of the matrix, as one mark; `title` has every claim's reason.

    `claim` is the place of the first in the list that the matrix was built from.
    """

    mark: Mark
    stale: bool
    title: str
    claim: int


@dataclass(frozen=True)
class Line:
    """One variant: its cells for the matrix's tiers without a target, and for each target those of `TARGET_TIERS`."""

    variant: str
    whole: list[Cell | None]
    targets: list[list[Cell | None]]


@dataclass(frozen=True)
class Group:
    """The lines of one kernel."""

    kernel: str
    lines: list[Line]


@dataclass(frozen=True)
class Matrix:
    """All claims but the gate's, which stand in a line of their own. `tiers`: those without a target.

    `gates` are given with their places in the list of claims; `shown_at` maps the place of every claim to that of the
    first that stands in the same cell, or on the same line.
    """

    tiers: list[Tier]
    targets: list[str]
    groups: list[Group]
    gates: list[tuple[int, Claim]]
    tally: list[tuple[Mark, int]]
    shown_at: Mapping[int, int]


@dataclass(frozen=True)
class Gap:
    """Claims that were not shown for one cause, and that one command on one machine would settle, if any would.

    `reasons` are the commonest; `more` counts those left out.
    """

    mark: Mark
    cause: Cause | None
    remedy: Remedy | None
    count: int
    what: str
    reasons: list[tuple[str, int]]
    more: int


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts sm_90 before sm_100."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def mark(claim: Claim) -> Mark:
    """Return the mark of a claim."""
    return mark_of(claim.outcome, claim.cause)


def _told(claim: Claim) -> str:
    where = f" on {claim.target}" if claim.target else ""
    cause = f" ({claim.cause})" if claim.cause else ""
    old = ", stale" if claim.freshness == "stale" else ""
    return f"{claim.tier}{where}: {mark(claim).word}{cause}{old}. {claim.reason}"


def cell(placed: Sequence[tuple[int, Claim]]) -> Cell | None:
    """Return one cell for the claims that meet at a place; claims that differ are a conflict."""
    if not placed:
        return None
    claims = [claim for _, claim in placed]
    marks = {mark(claim) for claim in claims}
    shown = marks.pop() if len(marks) == 1 else CONFLICT
    stale = any(claim.freshness == "stale" for claim in claims)
    return Cell(shown, stale, "\n".join(map(_told, claims)), placed[0][0])


def _place(claim: Claim) -> tuple[str, str, Tier, str]:
    target = "" if claim.tier in WHOLE_TIERS else claim.target or NO_TARGET
    return claim.kernel, claim.variant, claim.tier, target


def _group(
    kernel: str,
    variants: list[str],
    tiers: list[Tier],
    targets: list[str],
    at: Mapping[tuple[str, ...], list[tuple[int, Claim]]],
) -> Group:
    return Group(
        kernel,
        [
            Line(
                variant,
                [cell(at.get((kernel, variant, tier, ""), [])) for tier in tiers],
                [[cell(at.get((kernel, variant, tier, target), [])) for tier in TARGET_TIERS] for target in targets],
            )
            for variant in variants
        ],
    )


def build_matrix(claims: Sequence[Claim]) -> Matrix:
    """Arrange the claims; kernels and variants keep the order in which the claims name them."""
    gates = [(number, claim) for number, claim in enumerate(claims) if claim.tier == "gated"]
    rest = [claim for claim in claims if claim.tier != "gated"]
    at: dict[tuple[str, ...], list[tuple[int, Claim]]] = defaultdict(list)
    variants: dict[str, list[str]] = defaultdict(list)
    for number, claim in enumerate(claims):
        if claim.tier != "gated":
            at[_place(claim)].append((number, claim))
            variants[claim.kernel].append(claim.variant)
    targets = sorted({_place(claim)[3] for claim in rest} - {""}, key=natural)
    tiers = [tier for tier in WHOLE_TIERS if tier == WHOLE_TIERS[0] or any(claim.tier == tier for claim in rest)]
    groups = [_group(kernel, distinct(names), tiers, targets, at) for kernel, names in variants.items()]
    shown_at = {number: number for number, _ in gates} | {
        number: placed[0][0] for placed in at.values() for number, _ in placed
    }
    return Matrix(tiers, targets, groups, gates, tally(map(mark, claims)), shown_at)


def what(claims: Sequence[Claim]) -> str:
    """Say in a few words what claims are about: their tiers, kernels, variants and targets."""
    kernels = listing((claim.kernel for claim in claims if claim.kernel != "*"), 4, "kernels")
    variants = listing((claim.variant for claim in claims if claim.variant != "*"), 3, "variants")
    tiers = listing(sorted({claim.tier for claim in claims}, key=TIERS.index), len(TIERS), "tiers")
    targets = listing(sorted({claim.target for claim in claims if claim.target}, key=natural), 8, "targets")
    subject = ": ".join(part for part in (kernels, variants) if part)
    return " ".join(
        part for part in (tiers, f"of {subject}" if subject else "", f"on {targets}" if targets else "") if part
    )


def _gap(shown: Mark, cause: Cause | None, settling: Remedy | None, claims: Sequence[Claim]) -> Gap:
    reasons = Counter(claim.reason for claim in claims).most_common()
    most = MOST_FAILURES if shown == FAILED else MOST_REASONS
    return Gap(shown, cause, settling, len(claims), what(claims), reasons[:most], max(0, len(reasons) - most))


def _missing(claim: Claim) -> Mark:
    """Return as what a claim is missing: by its mark, or as stale where it would be verified but for that."""
    shown = mark(claim)
    return STALE if shown == VERIFIED and claim.freshness == "stale" else shown


def _grouped(claims: Sequence[Claim]) -> dict[Key, list[Claim]]:
    grouped: dict[Key, list[Claim]] = defaultdict(list)
    for claim in claims:
        grouped[_missing(claim), claim.cause, remedy(claim)].append(claim)
    return {key: grouped[key] for key in sorted(grouped, key=_gap_order) if key[0] != VERIFIED}


def find_gaps(claims: Sequence[Claim]) -> list[Gap]:
    """Group what was not shown by mark, by cause and by what would settle it, failures first."""
    return [_gap(*key, of) for key, of in _grouped(claims).items()]


def fold_gaps(claims: Sequence[Claim]) -> list[Gap]:
    """Group as `find_gaps` does, with gaps as one that differ only in the devices that would settle them."""
    folded: dict[object, list[Key]] = defaultdict(list)
    grouped = _grouped(claims)
    for key, of in grouped.items():
        shown, cause, settling = key
        elsewhere = settling if cause in WITHOUT_DEVICE else None
        alike = (elsewhere.command, frozenset(claim.reason for claim in of)) if elsewhere else settling
        folded[shown, cause, alike].append(key)
    return [_fold(keys, [claim for key in keys for claim in grouped[key]]) for keys in folded.values()]


def _fold(keys: Sequence[Key], claims: Sequence[Claim]) -> Gap:
    shown, cause, _ = keys[0]
    targets = sorted({claim.target for claim in claims if claim.target}, key=natural)
    return _gap(shown, cause, together([settling for *_, settling in keys], targets), claims)


def _gap_order(key: Key) -> tuple[object, ...]:
    shown, cause, settling = key
    place = GAP_MARKS.index(shown) if shown in GAP_MARKS else -1
    return place, cause or "", natural(settling.machine if settling else ""), settling.command if settling else ""

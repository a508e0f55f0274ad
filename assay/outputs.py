"""What the stages `interpreter` and `gpu` found of each output of each check, as rows of the report's tables. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from assay.evidence import Evidence, Reference, Told
from assay.formats import ABSENT, distinct, numeral, scientific
from assay.outcomes import FAILED, INCONCLUSIVE, VERIFIED, Mark, tally
from assay.record import Check, Comparison, Declaration, Device, NonFinite, Number, as_float, number


@dataclass(frozen=True)
class Found:
    """One output of a check, compared under every rule that covers it; no comparisons where none were made."""

    tier: str
    precision: str
    place: int
    check: Check
    comparisons: list[Comparison]
    told: Told


@dataclass(frozen=True)
class Share:
    """How much of a rule's bound its worst element took. `bound`: its place in the section's list, counted from 1."""

    rule: str
    text: str
    bound: int


@dataclass(frozen=True)
class OutputRow:
    """One output of the checks of one case, of one variant or of several that came out alike.

    `worst` is the element that took the largest share; `places` those of the checks in their record.
    """

    case: str
    variant: str
    output: str
    told: Told
    error: str
    shares: list[Share]
    worst: str
    places: str


@dataclass(frozen=True)
class Batch:
    """The checks of one precision on one case: counted, with the largest error and shares. `said`: what went wrong."""

    case: str
    precision: str
    tally: list[tuple[Mark, int]]
    error: str
    shares: list[Share]
    said: list[str]


@dataclass(frozen=True)
class OutputTable:
    """All checks of one tier. `decisive`: those that are no success, and of each precision the nearest to its bound."""

    tier: str
    source: Reference
    seeds: str
    rules: list[str]
    cases: list[tuple[str, list[OutputRow]]]
    outputs: int
    batches: list[Batch]
    decisive: list[OutputRow]


def share_of_bound(comparison: Comparison) -> Number:
    """Return the worst element's error over its bound: 0 where it is exact, and infinite past a bound of 0 or infinity,
    which allow nothing else.
    """
    error, bound = as_float(comparison.worst.error), as_float(comparison.worst.bound)
    if error == 0:
        return 0.0
    if math.isnan(error) or math.isnan(bound):
        return NonFinite(nonfinite="nan")
    return number(error / bound if bound and math.isfinite(bound) else math.inf)


def rank(value: Number) -> tuple[bool, float]:
    """Return a sort key under which NaN stands above every number."""
    size = as_float(value)
    return (True, 0.0) if math.isnan(size) else (False, size)


def largest_error(comparisons: Iterable[Comparison]) -> Number:
    """Return the largest normalised error of some comparisons, of which there must be one."""
    return max((comparison.normalised_error for comparison in comparisons), key=rank)


def _nearest(comparisons: Iterable[Comparison]) -> Comparison:
    """Return the comparison furthest past its bound, or nearest to it."""
    return max(comparisons, key=lambda comparison: rank(share_of_bound(comparison)))


def _percent(share: Number) -> str:
    return numeral(share) if isinstance(share, NonFinite) else f"{numeral(100 * share)} %"


def _share(comparison: Comparison, bounds: Sequence[str]) -> Share:
    past = f" ({comparison.past_bound} of {comparison.elements} past)" if comparison.past_bound else ""
    return Share(comparison.rule, f"{_percent(share_of_bound(comparison))}{past}", bounds.index(comparison.bound) + 1)


def largest_shares(comparisons: Iterable[Comparison], bounds: Sequence[str]) -> list[Share]:
    """Return the largest share of each rule."""
    by_rule: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in comparisons:
        by_rule[comparison.rule].append(comparison)
    return [_share(_nearest(group), bounds) for group in by_rule.values()]


def tier_of(evidence: Evidence) -> str:
    """Return the interpreter, or the target of the device that ran."""
    if evidence.artifact.stage == "interpreter":
        return "interpreter"
    device: Device | None = evidence.artifact.result.device
    return device.target if device is not None else "device"


def precision_of(evidence: Evidence, variant: str) -> str:
    """Return the precision of a variant, as its kernel declares it."""
    declaration: Declaration | None = evidence.artifact.result.declaration
    declared = {} if declaration is None else {v.id: v.precision for v in declaration.variants}
    return declared.get(variant, variant.partition("/")[0])


def _by_output(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    outputs: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in comparisons:
        outputs[comparison.output].append(comparison)
    return list(outputs.values()) or [[]]


def all_found(evidence: Evidence) -> list[Found]:
    """Return every output of every check in a record."""
    return [
        Found(
            tier_of(evidence),
            precision_of(evidence, check.variant),
            place,
            check,
            comparisons,
            evidence.tell(check.verdict, f"/result/checks/{place}"),
        )
        for place, check in enumerate(evidence.artifact.result.checks)
        for comparisons in _by_output(check.comparisons)
    ]


def comparisons_of(found: Iterable[Found]) -> list[Comparison]:
    """Return the comparisons of some outputs."""
    return [comparison for one in found for comparison in one.comparisons]


def _row(one: Found, bounds: Sequence[str]) -> OutputRow:
    made = one.comparisons
    output, error, worst = ABSENT, ABSENT, ABSENT
    if made:
        element = _nearest(made).worst
        output = f"{made[0].output} {made[0].dtype} {'x'.join(map(str, made[0].shape))}"
        error = scientific(largest_error(made))
        worst = f"({', '.join(map(str, element.index))}): {numeral(element.got, 9)}, want {numeral(element.want, 9)}"
    return OutputRow(
        case=one.check.case,
        variant=one.check.variant,
        output=output,
        told=one.told,
        error=error,
        shares=[_share(comparison, bounds) for comparison in made],
        worst=worst,
        places=str(one.place),
    )


def _look(row: OutputRow) -> tuple[object, ...]:
    """Return what a reader sees of a row beside whose it is; the reason of a success says no more than its figures."""
    reason = "" if row.told.mark == VERIFIED else row.told.reason
    return row.output, row.told.mark, reason, row.error, tuple(row.shares), row.worst


def _rows(found: Iterable[Found], bounds: Sequence[str]) -> list[OutputRow]:
    """Return the rows of one case; variants of which the same is to be said share one."""
    alike: dict[tuple[object, ...], list[OutputRow]] = defaultdict(list)
    for one in found:
        row = _row(one, bounds)
        alike[_look(row)].append(row)
    return [
        replace(rows[0], variant=", ".join(row.variant for row in rows), places=", ".join(row.places for row in rows))
        for rows in alike.values()
    ]


def _batch(found: Sequence[Found], bounds: Sequence[str]) -> Batch:
    made = comparisons_of(found)
    checks = {one.place: one for one in found}
    return Batch(
        case=found[0].check.case,
        precision=found[0].precision,
        tally=tally(one.told.mark for one in checks.values()),
        error=scientific(largest_error(made)) if made else ABSENT,
        shares=largest_shares(made, bounds),
        said=distinct(one.told.reason for one in checks.values() if one.told.mark != VERIFIED),
    )


def _grouped(found: Iterable[Found], by_precision: bool) -> list[list[Found]]:
    groups: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for one in found:
        groups[one.check.case, one.precision if by_precision else ""].append(one)
    return list(groups.values())


def _decisive(found: Sequence[Found], bounds: Sequence[str]) -> list[OutputRow]:
    """Return the rows of what failed or is in doubt, then of each precision the one nearest to its bound."""
    bad = [one for one in found if one.told.mark in (FAILED, INCONCLUSIVE)]
    rest: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        if one.comparisons and one not in bad:
            rest[one.precision].append(one)
    nearest = [max(group, key=lambda f: rank(share_of_bound(_nearest(f.comparisons)))) for group in rest.values()]
    return [_row(one, bounds) for one in (*bad, *nearest)]


def build_table(evidence: Evidence, found: Sequence[Found], bounds: Sequence[str]) -> OutputTable:
    """Return the table of one record's checks. `bounds` lists every bound of the section."""
    cases = [(group[0].check.case, _rows(group, bounds)) for group in _grouped(found, by_precision=False)]
    return OutputTable(
        tier=tier_of(evidence),
        source=evidence.at("/result/checks"),
        seeds="; ".join(distinct(", ".join(map(str, one.check.seeds)) for one in found)),
        rules=distinct(comparison.rule for comparison in comparisons_of(found)),
        cases=cases,
        outputs=len(found),
        batches=[_batch(group, bounds) for group in _grouped(found, by_precision=True)],
        decisive=_decisive(found, bounds),
    )

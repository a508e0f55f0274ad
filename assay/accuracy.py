"""What the stages `interpreter` and `gpu` found, as rows of the report's tables. Pure."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from assay.charts import DotChart, Point, dot_chart
from assay.evidence import Evidence, Records, Reference, Told
from assay.formats import ABSENT, distinct, numeral, scientific, shown
from assay.outcomes import Mark, tally
from assay.record import Check, Comparison, Declaration, Device, NonFinite, Number, as_float, number


@dataclass(frozen=True)
class Found:
    """One check, or one output of it, with what it takes to tell about it. `comparison`: None where none was made."""

    tier: str
    precision: str
    check: Check
    comparison: Comparison | None
    told: Told


@dataclass(frozen=True)
class ErrorRow:
    """One output of one check in words. `bound`: its place in the section's list of bounds."""

    tier: str
    case: str
    variant: str
    output: str
    told: Told
    error: str
    share: str
    worst: str
    past: str
    bound: int | None
    seeds: str


@dataclass(frozen=True)
class ErrorSummary:
    """All checks of one precision at one tier, counted, and the largest errors among them."""

    tier: str
    precision: str
    tally: list[tuple[Mark, int]]
    error: str
    case: str
    share: str
    source: Reference


@dataclass(frozen=True)
class ContrastRow:
    """The errors of two precisions set against each other on one case."""

    tier: str
    case: str
    configuration: str
    reference: str
    lesser: str
    ratio: str
    told: Told


@dataclass(frozen=True)
class Accuracy:
    """One kernel's section. `obstacles` says why a tier has no check, and `honoured` whether the interpreter computed
    in the precision that each variant asked for.
    """

    kernel: str
    obstacles: list[tuple[str, Told]]
    honoured: list[tuple[str, Reference]]
    summaries: list[ErrorSummary]
    chart: DotChart | None
    rows: list[ErrorRow]
    bounds: list[str]
    contrasts: list[ContrastRow]


def share_of_bound(comparison: Comparison) -> Number:
    """Return the worst element's error over its bound; an error past a bound of 0 is infinitely past it."""
    error, bound = as_float(comparison.worst.error), as_float(comparison.worst.bound)
    if math.isnan(error) or math.isnan(bound):
        return NonFinite(nonfinite="nan")
    if math.isinf(error) or (bound == 0 and error > 0):
        return NonFinite(nonfinite="inf")
    return number(error / bound) if bound else 0.0


def rank(value: Number) -> tuple[bool, float]:
    """Return a sort key under which NaN stands above every number."""
    size = as_float(value)
    return (True, 0.0) if math.isnan(size) else (False, size)


def _percent(share: Number) -> str:
    return numeral(share) if isinstance(share, NonFinite) else f"{numeral(100 * share)} %"


def _precision(evidence: Evidence, variant: str) -> str:
    declaration: Declaration | None = evidence.artifact.result.declaration
    declared = {} if declaration is None else {v.id: v.precision for v in declaration.variants}
    return declared.get(variant, variant.partition("/")[0])


def _tier(evidence: Evidence) -> str:
    """Return the interpreter, or the target of the device that ran."""
    if evidence.artifact.stage == "interpreter":
        return "interpreter"
    device: Device | None = evidence.artifact.result.device
    return device.target if device is not None else "device"


def _all_found(evidence: Evidence) -> list[Found]:
    found = []
    for place, check in enumerate(evidence.artifact.result.checks):
        told = evidence.tell(check.verdict, f"/result/checks/{place}")
        made: Sequence[Comparison | None] = check.comparisons or [None]
        found += [Found(_tier(evidence), _precision(evidence, check.variant), check, one, told) for one in made]
    return found


def _row(found: Found, bounds: Sequence[str]) -> ErrorRow:
    check, comparison = found.check, found.comparison
    words = [ABSENT] * 5
    if comparison is not None:
        worst = comparison.worst
        words = [
            f"{comparison.output} {comparison.dtype} {'x'.join(map(str, comparison.shape))}",
            scientific(comparison.normalised_error),
            _percent(share_of_bound(comparison)),
            f"({', '.join(map(str, worst.index))}): got {numeral(worst.got, 9)}, want {numeral(worst.want, 9)}",
            f"{comparison.past_bound} of {comparison.elements}",
        ]
    output, error, share, worst_element, past = words
    return ErrorRow(
        tier=found.tier,
        case=check.case,
        variant=check.variant,
        output=output,
        told=found.told,
        error=error,
        share=share,
        worst=worst_element,
        past=past,
        bound=None if comparison is None else bounds.index(comparison.bound) + 1,
        seeds=", ".join(map(str, check.seeds)),
    )


def _summaries(found: Sequence[Found], evidence: Evidence) -> list[ErrorSummary]:
    grouped: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        grouped[one.precision].append(one)
    return [_summary(precision, group, evidence.at("/result/checks")) for precision, group in grouped.items()]


def _summary(precision: str, group: Sequence[Found], source: Reference) -> ErrorSummary:
    made = [(one.check.case, one.comparison) for one in group if one.comparison is not None]
    error, case, share = ABSENT, ABSENT, ABSENT
    if made:
        case, largest = max(made, key=lambda pair: rank(pair[1].normalised_error))
        error = scientific(largest.normalised_error)
        share = _percent(max((share_of_bound(comparison) for _, comparison in made), key=rank))
    marks = tally(one.told.mark for one in group)
    return ErrorSummary(group[0].tier, precision, marks, error, case, share, source)


def _points(found: Sequence[Found]) -> list[Point]:
    """Return the largest normalised error over the configurations, for each case, precision and tier."""
    largest: dict[tuple[str, str, str], Number] = {}
    for one in found:
        if one.comparison is not None:
            key, error = (one.check.case, one.precision, one.tier), one.comparison.normalised_error
            largest[key] = max(largest.get(key, error), error, key=rank)
    return [Point(*key, value) for key, value in largest.items()]


def _contrasts(evidence: Evidence) -> list[ContrastRow]:
    return [
        ContrastRow(
            tier=_tier(evidence),
            case=contrast.case,
            configuration=contrast.configuration,
            reference=f"{contrast.reference} {scientific(contrast.reference_error)}",
            lesser=f"{contrast.lesser} {scientific(contrast.lesser_error)}",
            ratio=numeral(contrast.ratio),
            told=evidence.tell(contrast.verdict, f"/result/contrasts/{place}"),
        )
        for place, contrast in enumerate(evidence.artifact.result.contrasts)
    ]


def _obstacles(evidence: Evidence) -> list[tuple[str, Told]]:
    """Return why the stage ran nothing, where it did not."""
    stage, result = evidence.artifact.stage, evidence.artifact.result
    field = "loading" if stage == "interpreter" else "availability"
    verdict = getattr(result, field)
    return [] if verdict.outcome == "passed" else [(stage, evidence.tell(verdict, f"/result/{field}"))]


def _honoured(evidence: Evidence) -> list[tuple[str, Reference]]:
    """Return what the interpreter's record says of the precisions; the device's is gated by its contrasts instead."""
    if evidence.artifact.stage != "interpreter":
        return []
    return [(shown(evidence.artifact.result.precision_honoured), evidence.at("/result/precision_honoured"))]


def build_accuracy(kernel: str, records: Records) -> Accuracy:
    """Return the section of one kernel from its `interpreter` and `gpu` records, as far as they are there."""
    tiers = [records[stage] for stage in ("interpreter", "gpu") if stage in records]
    found = [(evidence, _all_found(evidence)) for evidence in tiers]
    everything = [one for _, group in found for one in group]
    bounds = distinct(one.comparison.bound for one in everything if one.comparison is not None)
    return Accuracy(
        kernel=kernel,
        obstacles=[obstacle for evidence in tiers for obstacle in _obstacles(evidence)],
        honoured=[pair for evidence in tiers for pair in _honoured(evidence)],
        summaries=[summary for evidence, group in found for summary in _summaries(group, evidence)],
        chart=dot_chart(_points(everything)),
        rows=[_row(one, bounds) for one in everything],
        bounds=bounds,
        contrasts=[row for evidence in tiers for row in _contrasts(evidence)],
    )

"""What the stages `interpreter` and `gpu` found of one kernel, as a section of the report. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from assay.charts import DotChart, Point, dot_chart
from assay.coverage import Coverage, build_coverage
from assay.evidence import Evidence, Records, Reference, Told
from assay.formats import ABSENT, distinct, numeral, scientific, shown
from assay.operands import CanaryRow, canary_rows
from assay.outcomes import Mark, tally
from assay.outputs import (
    Found,
    OutputTable,
    Share,
    all_found,
    build_table,
    comparisons_of,
    largest_error,
    largest_shares,
    rank,
    tier_of,
)
from assay.picture import Picture
from assay.picture_errors import errors_picture
from assay.record import Number, Unavailable


@dataclass(frozen=True)
class ErrorSummary:
    """All checks of one precision at one tier, counted, and the largest error and shares among them."""

    tier: str
    precision: str
    tally: list[tuple[Mark, int]]
    error: str
    case: str
    shares: list[Share]
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
    in the precision that each variant asked for. `rules`: the bounds by name, each with where it comes from. `cited`:
    the bounds in numbers, with their places, that a summary of each case and precision names. `pictures`: one a tier.
    """

    kernel: str
    obstacles: list[tuple[str, Told]]
    honoured: list[tuple[str, Reference]]
    summaries: list[ErrorSummary]
    coverage: Coverage
    canaries: list[CanaryRow]
    chart: DotChart | None
    pictures: list[Picture | Unavailable]
    tables: list[OutputTable]
    rules: dict[str, str]
    bounds: list[str]
    cited: list[tuple[int, str]]
    contrasts: list[ContrastRow]


def _summary(group: Sequence[Found], bounds: Sequence[str], source: Reference) -> ErrorSummary:
    made = [one for one in group if one.comparisons]
    error, case = ABSENT, ABSENT
    if made:
        worst = max(made, key=lambda one: rank(largest_error(one.comparisons)))
        error, case = scientific(largest_error(worst.comparisons)), worst.check.case
    marks = tally({one.place: one.told.mark for one in group}.values())
    shares = largest_shares(comparisons_of(made), bounds)
    return ErrorSummary(group[0].tier, group[0].precision, marks, error, case, shares, source)


def _summaries(found: Sequence[Found], bounds: Sequence[str], evidence: Evidence) -> list[ErrorSummary]:
    grouped: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        grouped[one.precision].append(one)
    return [_summary(group, bounds, evidence.at("/result/checks")) for group in grouped.values()]


def _points(found: Sequence[Found]) -> list[Point]:
    """Return the largest normalised error over the configurations, for each case, precision and tier."""
    largest: dict[tuple[str, str, str], Number] = {}
    for one in found:
        if one.comparisons:
            key, error = (one.check.case, one.precision, one.tier), largest_error(one.comparisons)
            largest[key] = max(largest.get(key, error), error, key=rank)
    return [Point(*key, value) for key, value in largest.items()]


def _contrasts(evidence: Evidence) -> list[ContrastRow]:
    return [
        ContrastRow(
            tier=tier_of(evidence),
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


def _rules(tiers: Sequence[Evidence]) -> dict[str, str]:
    """Return the bounds that the kernel declares, by whichever record could load it; in order, which JSON has not."""
    declared = [evidence.artifact.result.declaration for evidence in tiers]
    return dict(sorted(next((found.rules for found in declared if found is not None), {}).items()))


def _cited(tables: Sequence[OutputTable]) -> set[int]:
    shares = [row.shares for table in tables for row in table.batches]
    shares += [row.shares for table in tables for row in table.decisive]
    return {share.bound for group in shares for share in group}


def build_accuracy(kernel: str, records: Records) -> Accuracy:
    """Return the section of one kernel from its `interpreter` and `gpu` records, as far as they are there."""
    tiers = [records[stage] for stage in ("interpreter", "gpu") if stage in records]
    found = [(evidence, all_found(evidence)) for evidence in tiers]
    everything = [one for _, group in found for one in group]
    bounds = distinct(comparison.bound for comparison in comparisons_of(everything))
    tables = [build_table(evidence, group, bounds) for evidence, group in found if group]
    return Accuracy(
        kernel=kernel,
        obstacles=[obstacle for evidence in tiers for obstacle in _obstacles(evidence)],
        honoured=[pair for evidence in tiers for pair in _honoured(evidence)],
        summaries=[summary for evidence, group in found for summary in _summaries(group, bounds, evidence)],
        coverage=build_coverage(tiers),
        canaries=[row for evidence in tiers for row in canary_rows(evidence)],
        chart=dot_chart(_points(everything)),
        pictures=[
            errors_picture(f"errors-{evidence.number}", kernel, tier_of(evidence), group) for evidence, group in found
        ],
        tables=tables,
        rules=_rules(tiers),
        bounds=bounds,
        cited=[(place, bounds[place - 1]) for place in sorted(_cited(tables))],
        contrasts=[row for evidence in tiers for row in _contrasts(evidence)],
    )

"""How the multiplier of each precision treats its operands, by the rounding canaries, as rows of a table. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from assay.evidence import Evidence, Told
from assay.formats import distinct, numeral
from assay.outputs import precision_of, tier_of
from assay.record import Canary, Number, as_float, number
from assay.rounding import Rounding, describe

CLASSIC = 3
"""Probes that tell the usual roundings to tf32 apart at a glance; the first of `assay.rounding.PROBES`."""


@dataclass(frozen=True)
class CanaryRow:
    """What came out of one operand. `variant` is a precision where all its configurations agree.

    `readings`: the classic probes as (value - 1) 2^11, which is 1, 1.5, 3 for an exact multiplier.
    """

    tier: str
    variant: str
    operand: str
    readings: str
    words: str
    told: Told


def reading(value: Number) -> str:
    """Return what came out of a classic probe as (value - 1) 2^11."""
    return numeral(number((as_float(value) - 1) * 2**11))


def _row(evidence: Evidence, variant: str, place: int, canary: Canary) -> CanaryRow:
    rounding = Rounding(canary.mode, canary.fraction_bits, as_float(canary.largest_error))
    return CanaryRow(
        tier=tier_of(evidence),
        variant=variant,
        operand=canary.operand,
        readings=", ".join(map(reading, canary.readings[:CLASSIC])),
        words=describe(rounding),
        told=evidence.tell(canary.verdict, f"/result/canaries/{place}"),
    )


def _alike(group: Sequence[tuple[int, Canary]]) -> bool:
    """Return whether several canaries read the same of every probe, and were judged alike."""
    first = group[0][1]
    return all((one.readings, one.verdict) == (first.readings, first.verdict) for _, one in group)


def canary_rows(evidence: Evidence) -> list[CanaryRow]:
    """Return the canaries of a record, those of one precision as one where they agree."""
    groups: dict[tuple[str, str], list[tuple[int, Canary]]] = defaultdict(list)
    for place, canary in enumerate(evidence.artifact.result.canaries):
        groups[precision_of(evidence, canary.variant), canary.operand].append((place, canary))
    rows = []
    for (precision, _), group in groups.items():
        count = len(distinct(canary.variant for _, canary in group))
        if count > 1 and _alike(group):
            rows.append(_row(evidence, f"{precision}, all {count} configurations", *group[0]))
        else:
            rows += [_row(evidence, canary.variant, place, canary) for place, canary in group]
    return rows

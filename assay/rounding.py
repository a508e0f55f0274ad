"""How a multiplier treats its operands: classified from what comes out when they meet the identity. Pure, no torch.

The rounding canary puts `PROBES` into one operand of a product and the identity into the other, so that what comes out
is the operand as it reached the multiplier. The three first probes are classic: read as (value - 1) 2^11 an exact
multiplier gives 1, 1.5, 3; truncation to tf32 gives 0, 0, 2; to nearest, ties away, 2, 2, 4; ties to even, 0, 2, 4.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from assay.diagnosis import NAMED_PRECISIONS
from assay.record import Canary, Number, Operand, RoundingMode, Verdict, as_float, number

FRACTION_BITS = 23
"""Of float32 (IEEE 754)."""

TF32_FRACTION_BITS = 10
"""Of tf32 (PTX ISA, alternate floating point data formats)."""


CLASSIC = (1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-12, 1 + 2.0**-10 + 2.0**-11)


def _probes() -> list[float]:
    """Return a tie of every width but tf32's, which is a classic probe, and random significands."""
    ties = [1 + 2.0**-place for place in range(2, FRACTION_BITS + 1) if 1 + 2.0**-place not in CLASSIC]
    # A generator of its own and whole numbers only: the same floats in every Python.
    draw = random.Random(20260902)  # noqa: S311
    return [*ties, *(1 + draw.getrandbits(FRACTION_BITS) * 2.0**-FRACTION_BITS for _ in range(8))]


PROBES: tuple[float, ...] = (*CLASSIC, *_probes())
"""Float32 values in [1, 2), 32 of them: no two roundings to a width below float32's give the same readings."""

MODES: tuple[RoundingMode, ...] = ("truncated", "nearest-away", "nearest-even")


@dataclass(frozen=True)
class Rounding:
    """`fraction_bits` are those that the operand kept; None where no rounding to a fixed width explains the readings.

    `largest_error` is relative: the largest |reading - probe| / probe.
    """

    mode: RoundingMode
    fraction_bits: int | None
    largest_error: float


def round_to(value: float, bits: int, mode: RoundingMode) -> float:
    """Return a value in [1, 2) with `bits` bits after the point, rounded by `mode`."""
    scaled = value * 2.0**bits
    below = math.floor(scaled)
    rest = scaled - below
    up = {
        "truncated": False,
        "nearest-away": rest >= 0.5,
        "nearest-even": rest > 0.5 or (rest == 0.5 and below % 2 == 1),
    }
    return (below + up.get(mode, False)) / 2.0**bits


def classify(readings: Sequence[float]) -> Rounding:
    """Return the one rounding that gives all readings: exact, or to a width by a mode; else `unexplained`."""
    errors = [abs(got - probe) / probe for got, probe in zip(readings, PROBES, strict=True)]
    # max() would pass over a NaN, depending on where it stands.
    largest = next((error for error in errors if math.isnan(error)), max(errors))
    if largest == 0:
        return Rounding("exact", FRACTION_BITS, 0.0)
    for bits in range(1, FRACTION_BITS):
        for mode in MODES:
            if all(got == round_to(probe, bits, mode) for got, probe in zip(readings, PROBES, strict=True)):
                return Rounding(mode, bits, largest)
    return Rounding("unexplained", None, largest)


_ERRORS: dict[str, tuple[float, float]] = {
    "ieee": (0.0, 0.0),
    "tf32x3": (0.0, 2.0**-20),
    "bf16x3": (2.0**-22, 2.0**-16),
    "bf16x6": (0.0, 2.0**-22),
    "fp16x3": (2.0**-24, 2.0**-22),
}
"""The least and the largest error of one operand that a precision may show.

A piece of p significand bits leaves at most 2^-p (2^(1-p) truncated) for the next: two pieces of tf32 (p = 11) leave
2^-20, two of bfloat16 (p = 8) 2^-16, three 2^-24, for which 2^-22 allows truncation. Fewer than 2^-22 left by bf16x3
would be the work of more pieces. fp16x3 promises 22 bits, so rounds to nearest; its pieces are p = 11 and their signs
two bits more, so that of these probes one is not the sum of two: no error at all is another multiplier's.
"""


def _keeps(precision: str, found: Rounding) -> bool:
    if precision == "tf32":
        return found.fraction_bits == TF32_FRACTION_BITS
    least, most = _ERRORS[precision]
    return least <= found.largest_error <= most


def describe(found: Rounding) -> str:
    """Return a rounding in words."""
    if found.mode == "exact":
        return "kept exactly"
    if found.fraction_bits is None:
        return f"kept to a relative error of {found.largest_error:.3g}"
    how = {"truncated": "truncated", "nearest-away": "rounded to nearest, ties away"}
    return f"{how.get(found.mode, 'rounded to nearest, ties to even')} to {found.fraction_bits} fraction bits"


def judge_rounding(precision: str, found: Rounding, gated: bool) -> Verdict:
    """Compare a rounding with what the precision promises. Not `gated` under the interpreter, which multiplies alike
    whatever the precision, and for f32 and modes of an author's own, of which no rounding is promised here.
    """
    said = f"operands are {describe(found)}"
    if not gated or precision not in NAMED_PRECISIONS:
        return Verdict(outcome="inapplicable", cause="policy", reason=f"{said}; reported here and not gated")
    if not _keeps(precision, found):
        reason = f"{said}, which is not what {precision} does: another multiplier was used"
        return Verdict(outcome="failed", cause="rounding", reason=reason)
    return Verdict(outcome="passed", reason=said)


def canary(variant: str, operand: Operand, readings: Sequence[Number], gated: bool) -> Canary:
    """Return the record of one operand's readings, with all that follows from them."""
    found = classify([as_float(reading) for reading in readings])
    return Canary(
        variant=variant,
        operand=operand,
        readings=list(readings),
        mode=found.mode,
        fraction_bits=found.fraction_bits,
        largest_error=number(found.largest_error),
        verdict=judge_rounding(variant.partition("/")[0], found, gated),
    )

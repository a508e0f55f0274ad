"""What comparisons show: whether an output is within its bound, and whether a lesser precision lost accuracy.

Pure and without torch, so that whoever reads a record can judge again what it says.
"""

import math
from collections.abc import Iterable, Sequence

from assay.record import (
    Check,
    Comparison,
    Contrast,
    Declaration,
    NonFinite,
    Number,
    Unavailable,
    Verdict,
    as_float,
    number,
)

SMALLEST_ERROR = 1e-30
"""Stands for an error of exactly 0 when a ratio is taken."""


def normalised(error: float, reference: float) -> Number:
    """Return an error over the largest reference, and itself where that is 0."""
    return number(error / reference if reference else error)


def judge(comparison: Comparison) -> Verdict:
    """Return passed where every element is within its bound; otherwise name the worst element."""
    if comparison.past_bound == 0:
        error = as_float(comparison.normalised_error)
        return Verdict(outcome="passed", reason=f"error {error:.3g} of the largest reference, within the bound")
    worst = comparison.worst
    finite = not isinstance(worst.got, NonFinite) or isinstance(worst.want, NonFinite)
    share = f"{comparison.past_bound} of {comparison.elements} elements of '{comparison.output}' are past the bound"
    place = f"at {tuple(worst.index)} got {as_float(worst.got):.9g}, want {as_float(worst.want):.9g}"
    allowed = f"an error of at most {as_float(worst.bound):.3g} is allowed"
    return Verdict(
        outcome="failed", cause="wrong-value" if finite else "not-finite", reason=f"{share}: {place}; {allowed}"
    )


def error_of(check: Check) -> float | None:
    """Return the largest normalised error of a check, or None where nothing was compared."""
    if not check.comparisons:
        return None
    errors = [as_float(comparison.normalised_error) for comparison in check.comparisons]
    # max() would pass over a NaN, depending on where it stands.
    return next((error for error in errors if math.isnan(error)), max(errors))


def _contrast(place: tuple[str, str], pair: tuple[str, str], errors: tuple[float, float], gate: bool) -> Contrast:
    exact, coarse = errors
    # Written so that a NaN on either side counts as not honoured.
    honoured = coarse > exact
    ratio = number(coarse / max(exact, SMALLEST_ERROR))
    said = f"{pair[1]} error {coarse:.3g}, {pair[0]} error {exact:.3g}, ratio {as_float(ratio):.3g}"
    verdict = Verdict(outcome="passed", reason=said)
    if not gate:
        verdict = Verdict(outcome="inapplicable", cause="policy", reason=f"{said}; reported here and not gated")
    elif not honoured:
        reason = f"{said}: {pair[1]} did not lose accuracy, so one of the two did not use the multiplier it asked for"
        verdict = Verdict(outcome="failed", cause="precision", reason=reason)
    return Contrast(
        case=place[0],
        configuration=place[1],
        reference=pair[0],
        lesser=pair[1],
        reference_error=number(exact),
        lesser_error=number(coarse),
        ratio=ratio,
        honoured=honoured,
        verdict=verdict,
    )


def contrasts(declaration: Declaration | None, checks: Iterable[Check], gated: bool) -> list[Contrast]:
    """Set the errors of each declared pair of precisions apart, for every case and configuration that has both.

    Only the first case gates (where `gated`): a case of a few terms, or of exact values, may lose nothing in either.
    """
    if declaration is None:
        return []
    errors = {(c.case, c.variant): error_of(c) for c in checks}
    found = []
    for case in declaration.cases:
        for pair in declaration.contrasts:
            for configuration in dict.fromkeys(v.configuration for v in declaration.variants):
                exact, coarse = (errors.get((case, f"{precision}/{configuration}")) for precision in pair)
                if exact is not None and coarse is not None:
                    gate = gated and case == declaration.cases[0]
                    found.append(_contrast((case, configuration), pair, (exact, coarse), gate))
    return found


def honoured(found: Sequence[Contrast]) -> bool | Unavailable:
    """Return whether the interpreter honoured the precision: whether any lesser precision lost any accuracy."""
    if not found:
        return Unavailable(reason="no pair of precisions was compared")
    return any(contrast.honoured for contrast in found)

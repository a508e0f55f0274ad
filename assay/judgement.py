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
    DeclaredVariant,
    NonFinite,
    Number,
    Repeat,
    Unavailable,
    Verdict,
    Worst,
    as_float,
    number,
)

SMALLEST_ERROR = 1e-30
"""Stands for an error of exactly 0 when a ratio is taken."""


def normalised(error: float, reference: float) -> Number:
    """Return an error over the largest reference, and itself where that is 0."""
    return number(error / reference if reference else error)


def is_within(worst: Worst) -> bool:
    """Return whether an element is within its bound: what is wanted exactly, or a finite bound that NaN is past."""
    got, want = as_float(worst.got), as_float(worst.want)
    same = got == want or (math.isnan(got) and math.isnan(want))
    return same or (math.isfinite(as_float(worst.bound)) and as_float(worst.error) <= as_float(worst.bound))


def judge(comparison: Comparison) -> Verdict:
    """Return passed where every element is within its bound; otherwise name the worst element."""
    if comparison.past_bound == 0:
        error = as_float(comparison.normalised_error)
        return Verdict(outcome="passed", reason=f"error {error:.3g} of the largest reference, within the bound")
    worst = comparison.worst
    finite = not isinstance(worst.got, NonFinite) or isinstance(worst.want, NonFinite)
    past = f"elements of '{comparison.output}' are past the {comparison.rule} bound"
    share = f"{comparison.past_bound} of {comparison.elements} {past}"
    place = f"at {tuple(worst.index)} got {as_float(worst.got):.9g}, want {as_float(worst.want):.9g}"
    return Verdict(
        outcome="failed", cause="wrong-value" if finite else "not-finite", reason=f"{share}: {place}; {_allowed(worst)}"
    )


def _allowed(worst: Worst) -> str:
    """Say what would be within the bound, as `is_within` has it."""
    bound = as_float(worst.bound)
    if math.isfinite(bound):
        return f"an error of at most {bound:.3g} is allowed"
    return "NaN is wanted there" if math.isnan(as_float(worst.want)) else "nothing else is allowed there"


def judge_all(comparisons: Sequence[Comparison]) -> Verdict:
    """Return the first failure; else what the first comparison shows, which there must be."""
    judged = [judge(comparison) for comparison in comparisons]
    return next((verdict for verdict in judged if verdict.outcome != "passed"), judged[0])


def asked(declaration: Declaration, case: str) -> list[DeclaredVariant]:
    """Return the variants that a case is tried on: all, or the first configuration of each precision."""
    if case not in declaration.once:
        return declaration.variants
    first = {variant.precision: variant for variant in reversed(declaration.variants)}
    return [variant for variant in declaration.variants if first[variant.precision] is variant]


def exempt(declaration: Declaration, case: str, precision: str) -> Verdict | None:
    """Return why a case is not asked of a precision, by the kernel's own word, or None."""
    reason = declaration.exemptions.get(case, {}).get(precision)
    return None if reason is None else Verdict(outcome="inapplicable", cause="policy", reason=reason)


def judge_repeat(repeat: Repeat | Unavailable) -> Verdict | None:
    """Return why a result that changed from launch to launch is a fault, or None.

    Atomic additions come in any order, and floating-point sums depend on it: with an atomic instruction in the code a
    changing result is a finding and no fault.
    """
    if isinstance(repeat, Unavailable) or repeat.differing == 0 or repeat.atomics:
        return None
    said = (
        f"{repeat.differing} of {repeat.elements} output elements differ between two launches on the same inputs, "
        "and the code has no atomic instruction"
    )
    if repeat.settled:
        reason = f"{said}; later launches repeat the second: the result depends on what an earlier launch left"
        return Verdict(outcome="failed", cause="stale-result", reason=reason)
    return Verdict(outcome="failed", cause="race", reason=f"{said}, nor do later launches repeat it: a race")


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

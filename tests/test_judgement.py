"""What comparisons show: the errors of two precisions set apart, and NaN larger than any error."""

import math

from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, PASSED, comparison, replaced

from assay.judgement import contrasts, error_of, honoured
from assay.record import Check, Contrast, Unavailable, as_float, number

DECLARATION = MATMUL.declaration()
errors = st.floats(0, 1e30) | st.sampled_from([math.nan, math.inf, 0.0, 5e-324, 1e308])


def check_of(variant: str, case: str, *found: float) -> Check:
    return Check(
        variant=variant,
        case=case,
        seeds=[1],
        verdict=PASSED,
        comparisons=[replaced(comparison(), normalised_error=number(error)) for error in found],
    )


@given(st.lists(errors, min_size=1, max_size=4))
def test_the_error_of_a_check_is_its_largest_and_nan_is_larger_than_any(found: list[float]) -> None:
    error = error_of(check_of("ieee/a", "one", *found))
    assert error is not None
    assert math.isnan(error) if any(map(math.isnan, found)) else error == max(found)


def test_a_check_without_comparison_has_no_error() -> None:
    assert error_of(check_of("ieee/a", "one")) is None


@given(errors, errors)
def test_a_contrast_is_honoured_exactly_where_the_lesser_precision_lost_accuracy(exact: float, coarse: float) -> None:
    checks = [
        check_of("ieee/64x64x32", DECLARATION.cases[0], exact),
        check_of("tf32/64x64x32", DECLARATION.cases[0], coarse),
    ]
    (found,) = contrasts(DECLARATION, checks, gated=True)
    assert found.honoured == (coarse > exact)
    assert found.verdict.outcome == ("passed" if coarse > exact else "failed")
    assert found.verdict.cause == (None if coarse > exact else "precision")
    if 0 < exact < 1e30 and coarse < 1e30:
        assert as_float(found.ratio) == coarse / max(exact, 1e-30)


def every_check() -> list[Check]:
    return [check_of(v.id, case, 1e-7, 1e-8) for v in DECLARATION.variants for case in DECLARATION.cases]


def test_every_case_and_configuration_with_both_precisions_is_contrasted_once() -> None:
    found = contrasts(DECLARATION, every_check(), gated=True)
    assert [(c.case, c.configuration, c.reference, c.lesser) for c in found] == [
        (case, configuration, "ieee", "tf32") for case in MATMUL.cases for configuration in MATMUL.configurations
    ]


def test_only_the_first_case_gates() -> None:
    found = contrasts(DECLARATION, every_check(), gated=True)
    assert {c.case: c.verdict.outcome for c in found} == {MATMUL.cases[0]: "failed", MATMUL.cases[1]: "inapplicable"}
    assert {c.verdict.outcome for c in contrasts(DECLARATION, every_check(), gated=False)} == {"inapplicable"}


def test_a_contrast_that_lacks_one_side_is_left_out() -> None:
    checks = [check for check in every_check() if check.variant != "tf32/64x64x32"]
    assert {c.configuration for c in contrasts(DECLARATION, checks, gated=True)} == {"128x64x64"}
    assert contrasts(None, checks, gated=True) == []


def test_errors_that_are_both_nothing_are_said_to_be_nothing() -> None:
    checks = [check_of(f"{precision}/64x64x32", MATMUL.cases[0], 0.0) for precision in ("ieee", "tf32")]
    (found,) = contrasts(DECLARATION, checks, gated=True)
    assert isinstance(found, Contrast)
    assert found.verdict.reason == (
        "tf32 error 0, ieee error 0, ratio 0: tf32 did not lose accuracy, "
        "so one of the two did not use the multiplier it asked for"
    )


def test_a_precision_is_honoured_where_any_lesser_one_lost_accuracy() -> None:
    same = contrasts(DECLARATION, every_check(), gated=False)
    assert honoured(same) is False
    assert honoured([*same, replaced(same[0], honoured=True)]) is True
    assert honoured([]) == Unavailable(reason="no pair of precisions was compared")

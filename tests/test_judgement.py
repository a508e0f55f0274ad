"""What comparisons show: the errors of two precisions set apart, and NaN larger than any error."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, PASSED, comparison, replaced

from assay.judgement import asked, contrasts, error_of, exempt, honoured, is_within, judge, judge_all, judge_repeat
from assay.record import Check, Contrast, Repeat, Unavailable, Worst, as_float, number

DECLARATION = MATMUL.declaration()
errors = st.floats(0, 1e30) | st.sampled_from([math.nan, math.inf, 0.0, 5e-324, 1e308])


def check_of(variant: str, case: str, *found: float) -> Check:
    return Check(
        variant=variant,
        case=case,
        seeds=[1],
        verdict=PASSED,
        comparisons=[replaced(comparison(), normalised_error=number(error)) for error in found],
        repeat=Unavailable(reason="launched once"),
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


counts = st.integers(0, 5)


@given(counts, st.booleans(), counts)
def test_a_changing_result_is_a_fault_exactly_where_no_atomic_instruction_explains_it(
    differing: int, settled: bool, atomics: int
) -> None:
    found = judge_repeat(Repeat(differing=differing, elements=5, settled=settled, atomics=atomics))
    assert (found is not None) == (differing > 0 and atomics == 0)
    if found is not None:
        assert found.cause == ("stale-result" if settled else "race")
        assert found.reason.startswith(f"{differing} of 5 output elements differ between two launches")


def test_what_was_launched_once_is_no_fault() -> None:
    assert judge_repeat(Unavailable(reason="launched once")) is None


def test_the_first_comparison_that_fails_decides() -> None:
    good = comparison()
    bad = [replaced(good, rule=rule, past_bound=1) for rule in ("ulp", "own")]
    assert judge_all([good, good]).outcome == "passed"
    assert "past the ulp bound" in judge_all([good, *bad]).reason


@given(errors, errors, errors, errors)
def test_an_element_is_within_a_finite_bound_or_exactly_as_wanted(
    got: float, want: float, error: float, bound: float
) -> None:
    worst = Worst(index=[0], got=number(got), want=number(want), error=number(error), bound=number(bound))
    same = got == want or (math.isnan(got) and math.isnan(want))
    assert is_within(worst) == (same or (math.isfinite(bound) and error <= bound))


@pytest.mark.parametrize(
    ("got", "want", "bound", "words"),
    [
        (2.0, 1.0, 0.25, "got 2, want 1; an error of at most 0.25 is allowed"),
        (2.0, math.nan, math.nan, "got 2, want nan; NaN is wanted there"),
        (2.0, math.inf, math.inf, "got 2, want inf; nothing else is allowed there"),
        (2.0, 1.0, math.nan, "got 2, want 1; nothing else is allowed there"),
    ],
)
def test_a_failure_says_what_would_be_within_the_bound(got: float, want: float, bound: float, words: str) -> None:
    worst = Worst(index=[0], got=number(got), want=number(want), bound=number(bound), error=number(abs(got - want)))
    assert not is_within(worst)
    assert judge(replaced(comparison(), past_bound=1, worst=worst)).reason.endswith(words)


def test_a_case_asked_once_is_asked_of_each_precisions_first_configuration() -> None:
    once = replaced(DECLARATION, once=[DECLARATION.cases[1]])
    assert asked(once, DECLARATION.cases[0]) == DECLARATION.variants
    assert [variant.id for variant in asked(once, DECLARATION.cases[1])] == ["ieee/64x64x32", "tf32/64x64x32"]


def test_a_precision_is_exempt_from_what_the_kernel_says_and_for_its_reason() -> None:
    case = DECLARATION.cases[1]
    free = replaced(DECLARATION, exemptions={case: {"tf32": "it has too few bits"}})
    verdict = exempt(free, case, "tf32")
    assert verdict is not None
    assert (verdict.outcome, verdict.cause, verdict.reason) == ("inapplicable", "policy", "it has too few bits")
    assert exempt(free, case, "ieee") is None
    assert exempt(free, DECLARATION.cases[0], "tf32") is None

"""The accuracy section tells every check, never lets NaN look small, and points into the record."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, NO_DRIVER, comparison, device, evidence, evidence_of, gpu, interpreter, replaced

from assay.accuracy import Accuracy, build_accuracy, rank, share_of_bound
from assay.evidence import Records
from assay.formats import ABSENT
from assay.outcomes import BLOCKED, FAILED, VERIFIED
from assay.record import NonFinite, Number, Unavailable, Verdict, as_float, number

WRONG = Verdict(outcome="failed", cause="wrong-value", reason="3 elements past the bound")
CRASHED = Verdict(outcome="failed", cause="crash", reason="killed by SIGSEGV")
numbers = st.floats().map(number)
magnitudes = (st.floats(min_value=0) | st.just(math.nan)).map(number)


def records_with(*checks_of_gpu: object) -> Records:
    found = gpu(MATMUL, device())
    return {"gpu": evidence("gpu", replaced(found, checks=[*checks_of_gpu, *found.checks]), "matmul")}


def section() -> Accuracy:
    records: Records = {record.artifact.stage: record for record in evidence_of(MATMUL, device())}
    return build_accuracy("matmul", records)


def test_every_comparison_of_both_tiers_has_a_row_with_its_place() -> None:
    found = section()
    checks = len(MATMUL.variants) * len(MATMUL.cases)
    assert [row.tier for row in found.rows] == ["interpreter"] * checks + ["sm_90"] * checks
    assert [row.told.source.pointer for row in found.rows] == [f"/result/checks/{n}" for n in range(checks)] * 2
    assert {row.bound for row in found.rows} == {1}
    assert found.rows[0].worst == "(3, 5): got 1.0000001, want 1"
    assert found.obstacles == []


def test_a_summary_has_the_largest_error_of_its_precision() -> None:
    (ieee,) = [row for row in section().summaries if (row.precision, row.tier) == ("ieee", "sm_90")]
    assert (ieee.error, ieee.case, ieee.share) == ("1.36e-6", MATMUL.cases[1], "0.0136 %")
    assert ieee.tally == [(VERIFIED, len(MATMUL.configurations) * len(MATMUL.cases))]


@given(st.lists(numbers, min_size=1))
def test_the_worst_is_nan_where_there_is_one_and_else_the_largest(values: list[Number]) -> None:
    worst = as_float(max(values, key=rank))
    floats = [as_float(value) for value in values]
    assert math.isnan(worst) if any(map(math.isnan, floats)) else worst == max(floats)


def test_nan_is_the_largest_error_of_a_summary() -> None:
    check = replaced(gpu(MATMUL, device()).checks[0], verdict=WRONG, comparisons=[comparison(number(math.nan))])
    summary = build_accuracy("matmul", records_with(check)).summaries[0]
    assert (summary.error, summary.share) == ("NaN", "NaN")
    assert dict(summary.tally)[FAILED] == 1


@given(magnitudes, magnitudes)
def test_a_share_of_the_bound_is_never_small_for_an_error_that_is_not(error: Number, bound: Number) -> None:
    worst = replaced(comparison().worst, error=error, bound=bound)
    share = share_of_bound(replaced(comparison(), worst=worst))
    within = as_float(error) <= as_float(bound)
    if isinstance(share, NonFinite):
        assert not within or math.isinf(as_float(error))
    else:
        assert share <= 1 if within else share >= 1


@pytest.mark.parametrize(
    ("honoured", "said"),
    [(True, "yes"), (False, "no"), (Unavailable(reason="no pair was compared"), "unavailable (no pair was compared)")],
)
def test_whether_the_interpreter_honoured_the_precision_is_said(honoured: bool | Unavailable, said: str) -> None:
    record = evidence("interpreter", replaced(interpreter(MATMUL), precision_honoured=honoured), "matmul")
    ((text, source),) = build_accuracy("matmul", {"interpreter": record}).honoured
    assert (text, source.pointer) == (said, "/result/precision_honoured")


def test_a_check_without_a_comparison_still_has_a_row() -> None:
    check = replaced(gpu(MATMUL, device()).checks[0], verdict=CRASHED, comparisons=[])
    row = build_accuracy("matmul", records_with(check)).rows[0]
    assert (row.told.mark, row.told.reason) == (FAILED, "killed by SIGSEGV")
    assert (row.error, row.worst, row.bound) == (ABSENT, ABSENT, None)


@pytest.mark.parametrize(
    ("stage", "result", "pointer"),
    [
        ("gpu", gpu(MATMUL, None), "/result/availability"),
        ("interpreter", replaced(interpreter(MATMUL), loading=NO_DRIVER, checks=[], contrasts=[]), "/result/loading"),
    ],
)
def test_a_tier_without_checks_says_why(stage: str, result: object, pointer: str) -> None:
    found = build_accuracy("matmul", {stage: evidence(stage, result, "matmul")})  # type: ignore[arg-type, dict-item]
    ((name, told),) = found.obstacles
    assert (name, told.mark, told.reason, told.source.pointer) == (stage, BLOCKED, NO_DRIVER.reason, pointer)
    assert (found.rows, found.summaries, found.chart) == ([], [], None)


def test_contrasts_show_both_errors() -> None:
    found = section().contrasts
    assert [row.tier for row in found] == ["interpreter"] * 2 + ["sm_90"] * 2
    assert (found[-1].reference, found[-1].lesser, found[-1].ratio) == ("ieee 1.24e-6", "tf32 7.37e-4", "594")
    assert found[-1].told.source.pointer == "/result/contrasts/1"

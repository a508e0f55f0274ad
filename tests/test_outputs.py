"""Every output of every check is in a row under all its rules, and nothing that is wrong looks small."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, RULES, comparison, device, evidence, gpu, replaced

from assay.evidence import Evidence
from assay.formats import ABSENT, distinct
from assay.judgement import is_within
from assay.outcomes import FAILED, INAPPLICABLE, VERIFIED
from assay.outputs import OutputRow, OutputTable, all_found, build_table, comparisons_of, rank, share_of_bound
from assay.record import Check, NonFinite, Number, Verdict, as_float, number

CRASHED = Verdict(outcome="failed", cause="crash", reason="killed by SIGSEGV")
WRONG = Verdict(outcome="failed", cause="wrong-value", reason="3 of 65536 elements are past the componentwise bound")
EXEMPT = Verdict(outcome="inapplicable", cause="policy", reason="the pieces are too small")
numbers = st.floats().map(number)
magnitudes = (st.floats(min_value=0) | st.just(math.nan)).map(number)
CHECKS: list[Check] = gpu(MATMUL, device()).checks


def recorded(checks: Sequence[Check]) -> Evidence:
    return evidence("gpu", replaced(gpu(MATMUL, device()), checks=list(checks)), "matmul")


def table(checks: Sequence[Check] = CHECKS) -> OutputTable:
    record = recorded(checks)
    found = all_found(record)
    return build_table(record, found, distinct(one.bound for one in comparisons_of(found)))


def rows(found: OutputTable) -> list[OutputRow]:
    return [row for _, group in found.cases for row in group]


@given(st.lists(numbers, min_size=1))
def test_the_worst_is_nan_where_there_is_one_and_else_the_largest(values: list[Number]) -> None:
    worst = as_float(max(values, key=rank))
    floats = [as_float(value) for value in values]
    assert math.isnan(worst) if any(map(math.isnan, floats)) else worst == max(floats)


@given(magnitudes, magnitudes)
def test_a_share_of_the_bound_is_small_only_for_an_error_within_it(error: Number, bound: Number) -> None:
    worst = replaced(comparison().worst, error=error, bound=bound, want=2.0)
    within = as_float(error) == 0 or is_within(worst)
    share = as_float(share_of_bound(replaced(comparison(), worst=worst)))
    assert share <= 1 if within else not share < 1


def test_an_output_is_one_row_with_its_share_of_every_bound() -> None:
    first = rows(table())[0]
    assert [(share.rule, share.bound) for share in first.shares] == list(zip(RULES, (1, 2), strict=True))
    assert first.worst == "(3, 5): 1.0000001, want 1"
    assert first.output == "c float32 256x256"


def test_every_check_has_a_place_in_one_row() -> None:
    places = [int(place) for row in rows(table()) for place in row.places.split(", ")]
    assert sorted(places) == list(range(len(CHECKS)))
    assert table().outputs == len(CHECKS)


def test_two_outputs_of_a_check_are_two_rows() -> None:
    other = replaced(comparison(2e-3), output="d")
    found = table([replaced(CHECKS[0], comparisons=[comparison(), other])])
    assert [row.output.split()[0] for row in rows(found)] == ["c", "d"]
    assert found.outputs == 2


def test_variants_that_came_out_alike_share_a_row_and_others_do_not() -> None:
    one, other = CHECKS[0], replaced(CHECKS[0], variant="ieee/128x64x64")
    assert [(row.variant, row.places) for row in rows(table([one, other]))] == [
        ("ieee/64x64x32, ieee/128x64x64", "0, 1")
    ]
    worse = replaced(other, comparisons=[comparison(3e-3)])
    assert len(rows(table([one, worse]))) == 2


def test_failures_with_different_reasons_do_not_share_a_row() -> None:
    crashed = replaced(CHECKS[0], verdict=CRASHED, comparisons=[])
    free = replaced(CHECKS[1], verdict=EXEMPT, comparisons=[], case=CHECKS[0].case)
    found = rows(table([crashed, free]))
    assert [(row.told.mark, row.told.reason, row.error) for row in found] == [
        (FAILED, CRASHED.reason, ABSENT),
        (INAPPLICABLE, EXEMPT.reason, ABSENT),
    ]


def test_elements_past_a_bound_are_counted_beside_its_share() -> None:
    past = replaced(comparison(0.02), past_bound=3)
    row = rows(table([replaced(CHECKS[0], verdict=WRONG, comparisons=[past])]))[0]
    assert row.shares[0].text == "200 % (3 of 65536 past)"


def test_a_case_and_precision_is_summed_up_with_the_worst_of_its_configurations() -> None:
    case = CHECKS[0].case
    of = [check for check in CHECKS if check.case == case and check.variant.startswith("tf32")]
    crashed = replaced(of[1], verdict=CRASHED, comparisons=[])
    (batch,) = table([of[0], crashed]).batches
    assert (batch.case, batch.precision, batch.error) == (case, "tf32", "7.36e-4")
    assert batch.tally == [(VERIFIED, 1), (FAILED, 1)]
    assert batch.said == [CRASHED.reason]


@pytest.mark.parametrize("verdict", [WRONG, CRASHED])
def test_what_failed_is_told_in_full_beside_the_nearest_of_each_precision(verdict: Verdict) -> None:
    checks = [replaced(CHECKS[0], verdict=verdict), *CHECKS[1:]]
    found = table(checks).decisive
    assert [row.told.mark for row in found] == [FAILED, VERIFIED, VERIFIED]
    # The second case has the larger errors.
    assert [row.case for row in found] == [CHECKS[0].case, MATMUL.cases[1], MATMUL.cases[1]]


def test_a_share_that_is_not_a_number_is_nearest() -> None:
    worst = replaced(comparison().worst, bound=NonFinite(nonfinite="nan"))
    bad = replaced(CHECKS[0], comparisons=[replaced(comparison(), worst=worst)])
    assert [row.shares[0].text for row in table([bad, *CHECKS[1:4]]).decisive] == ["NaN"]

"""The comparison: NaN fails, the worst element takes the largest share of its limit, and the bound is exact."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from assay.comparison import LARGEST_SHARE, compare
from assay.judgement import judge
from assay.record import NonFinite, as_float

INF, NAN = math.inf, math.nan
numbers = st.floats(-1e6, 1e6)
limits = st.floats(0, 1e3)
rows = st.lists(st.tuples(numbers, numbers, limits), min_size=1, max_size=20)
anything = st.floats()


def tensors(row: list[tuple[float, float, float]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    got, want, limit = torch.tensor(row, dtype=torch.float64).unbind(1)
    return got, want, limit


def share(got: float, want: float, limit: float) -> float:
    error = abs(got - want)
    if error == 0:
        return 0.0
    # One past its limit stands above one within, whatever the division rounds to.
    return min(error / limit if limit else INF, LARGEST_SHARE) + (error > limit)


@given(rows)
def test_it_passes_exactly_where_no_element_is_past_its_limit(row: list[tuple[float, float, float]]) -> None:
    found = compare("y", *tensors(row), rule="rule", words="words")
    past = sum(abs(got - want) > limit for got, want, limit in row)
    assert found.past_bound == past
    assert (judge(found).outcome == "passed") == (past == 0)
    assert found.elements == len(row)
    assert found.bound == "words"


@given(rows)
def test_the_worst_element_takes_the_largest_share_of_its_limit(row: list[tuple[float, float, float]]) -> None:
    worst = compare("y", *tensors(row), rule="rule", words="").worst
    got, want, limit = row[worst.index[0]]
    assert (worst.got, worst.want, worst.bound) == (got, want, limit)
    assert worst.error == abs(got - want)
    assert share(*row[worst.index[0]]) == max(share(*one) for one in row)


@given(rows, st.data(), st.sampled_from([NAN, INF, -INF]))
def test_one_nan_or_infinity_fails_and_is_the_worst(
    row: list[tuple[float, float, float]], data: st.DataObject, bad: float
) -> None:
    spot = data.draw(st.integers(0, len(row) - 1))
    got, want, limit = tensors(row)
    got[spot] = bad
    found = compare("y", got, want, limit, rule="rule", words="")
    verdict = judge(found)
    assert (verdict.outcome, verdict.cause) == ("failed", "not-finite")
    assert found.worst.index == [spot]
    assert isinstance(found.normalised_error, NonFinite)
    assert isinstance(found.largest_error, NonFinite)
    assert f"at ({spot},) got {bad:g}, want" in verdict.reason


@given(anything, anything, anything, st.integers(0, 2))
def test_a_nan_in_any_of_the_three_fails(got: float, want: float, limit: float, which: int) -> None:
    three = [got, want, limit]
    three[which] = NAN
    found = compare("y", *tensors([(three[0], three[1], three[2])]), rule="rule", words="")
    same = three[0] == three[1] or (math.isnan(three[0]) and math.isnan(three[1]))
    assert (found.past_bound == 0) == same


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from([INF, NAN]))
def test_a_limit_that_is_no_number_allows_nothing(got: float, want: float, limit: float) -> None:
    assert compare("y", *tensors([(got, want, limit)]), rule="rule", words="").past_bound == (got != want)


@given(rows, st.floats(-1e6, 1e6), st.sampled_from([INF, -INF, NAN]))
def test_a_finite_result_where_the_oracle_has_none_is_past_every_bound(
    row: list[tuple[float, float, float]], got: float, want: float
) -> None:
    found = compare("y", *tensors([*row, (got, want, INF)]), rule="rule", words="")
    assert found.past_bound >= 1
    assert judge(found).outcome == "failed"


@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_what_the_oracle_gives_too_is_no_error(value: float) -> None:
    found = compare("y", *tensors([(value, value, 0.0), (1.0, 1.0, 0.0)]), rule="rule", words="")
    assert judge(found).outcome == "passed"
    assert found.largest_error == 0.0
    assert found.largest_reference == 1.0


@pytest.mark.parametrize(("got", "want"), [(INF, -INF), (1.0, INF), (NAN, INF), (INF, 1.0)])
def test_another_infinity_is_an_error(got: float, want: float) -> None:
    assert judge(compare("y", *tensors([(got, want, 1e300)]), rule="rule", words="")).outcome == "failed"


@given(st.floats(1.0, 1e6), st.floats(2.0**-20, 1.0))
def test_an_error_at_the_bound_passes_and_just_above_it_fails(want: float, limit: float) -> None:
    got = want + limit
    exact = got - want
    at = compare("y", *tensors([(got, want, exact)]), rule="rule", words="")
    above = compare("y", *tensors([(got, want, math.nextafter(exact, 0.0))]), rule="rule", words="")
    assert judge(at).outcome == "passed"
    assert judge(above).outcome == "failed"
    assert judge(above).cause == "wrong-value"


@given(rows, st.integers(-40, 40))
def test_scaling_everything_leaves_the_normalised_error_and_the_verdict(
    row: list[tuple[float, float, float]], power: int
) -> None:
    assume(all(value == 0 or abs(value) > 1e-200 for three in row for value in three))
    scale = 2.0**power
    plain = compare("y", *tensors(row), rule="rule", words="")
    got, want, limit = tensors(row)
    scaled = compare("y", got * scale, want * scale, limit * scale, rule="rule", words="")
    if plain.largest_reference:
        assert scaled.normalised_error == plain.normalised_error
    assert scaled.past_bound == plain.past_bound
    assert scaled.worst.index == plain.worst.index


@given(rows)
def test_the_error_is_normalised_by_the_largest_reference(row: list[tuple[float, float, float]]) -> None:
    found = compare("y", *tensors(row), rule="rule", words="")
    largest = max(abs(want) for _, want, _ in row)
    assert found.largest_reference == largest
    assert found.largest_error == max(abs(got - want) for got, want, _ in row)
    assert as_float(found.normalised_error) == as_float(found.largest_error) / (largest or 1.0)


def test_it_describes_the_output_in_its_own_type_and_shape() -> None:
    got = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.5, 6.0]], dtype=torch.float16)
    want = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    found = compare("c", got, want, torch.tensor(0.25, dtype=torch.float64), rule="rule", words="")
    assert (found.output, found.dtype, found.shape) == ("c", "float16", [2, 3])
    assert found.worst.index == [1, 1]
    assert judge(found).reason == (
        "1 of 6 elements of 'c' are past the rule bound: at (1, 1) got 5.5, want 5; an error of at most 0.25 is allowed"
    )


@given(st.lists(st.integers(1, 5), max_size=4), st.data())
def test_the_worst_element_is_found_in_any_shape(shape: list[int], data: st.DataObject) -> None:
    want = torch.zeros(shape, dtype=torch.float64)
    flat = data.draw(st.integers(0, want.numel() - 1))
    got = want.clone()
    got.view(-1)[flat] = 1.0
    index = compare("y", got, want, torch.ones_like(want), rule="rule", words="").worst.index
    assert len(index) == len(shape)
    assert got[tuple(index)] == 1.0


def test_a_single_number_has_an_empty_index() -> None:
    one = torch.tensor(2.0, dtype=torch.float64)
    assert compare("y", one, one, torch.zeros((), dtype=torch.float64), rule="rule", words="").worst.index == []

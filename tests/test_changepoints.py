"""Change points: none without a step, one at the step, the cheapest partition there is, and no outlier among them."""

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.changepoints import (
    FEWEST,
    LASTING,
    SETTLED,
    Newest,
    Reading,
    Stretch,
    level,
    loss,
    movement,
    newest,
    noise_of,
    partition,
    study,
)
from assay.record import Unavailable

MARGIN = 0.02
LEVELS = st.floats(1e-9, 1e9)
QUIET = st.lists(st.floats(0.998, 1.002), min_size=FEWEST, max_size=24)
STEPS = st.one_of(st.floats(1.2, 50.0), st.floats(0.02, 0.8))


def readings(values: list[float], width: float = 0.001, floor: float = 0.002) -> list[Reading]:
    return [Reading(value * (1 - width), value, value * (1 + width), floor) for value in values]


def stretches(values: list[float]) -> list[Stretch]:
    found = study(readings(values), MARGIN).stretches
    assert not isinstance(found, Unavailable)
    return found


@given(LEVELS, st.integers(FEWEST, 40))
def test_a_constant_series_has_no_change_point(value: float, count: int) -> None:
    found = study(readings([value] * count), MARGIN)
    assert isinstance(found.stretches, list)
    assert [(one.first, one.last, one.moved) for one in found.stretches] == [(0, count - 1, None)]
    assert found.outliers == []
    assert isinstance(found.newest, Newest)
    assert found.newest.moved == "same"


@given(LEVELS, QUIET)
def test_noise_within_the_margin_is_no_change_point(value: float, noise: list[float]) -> None:
    assert len(stretches([value * factor for factor in noise])) == 1


@given(LEVELS, STEPS, QUIET, QUIET)
def test_a_step_above_the_noise_is_found_at_its_place(
    value: float, step: float, before: list[float], after: list[float]
) -> None:
    found = stretches([value * one for one in before] + [value * step * one for one in after])
    assert [one.first for one in found] == [0, len(before)]
    assert found[1].moved == ("up" if step > 1 else "down")


@given(LEVELS, STEPS, QUIET, st.data())
def test_one_reading_far_off_is_an_outlier_and_no_change_point(
    value: float, step: float, quiet: list[float], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(quiet) - 1))
    values = [value * one for one in quiet]
    values.insert(at, value * step)
    found = study(readings(values), MARGIN)
    assert isinstance(found.stretches, list)
    assert len(found.stretches) == 1
    assert found.outliers == [at]


@given(st.lists(LEVELS, min_size=FEWEST, max_size=14), st.floats(1e-3, 1e3))
def test_another_unit_shows_the_same(values: list[float], unit: float) -> None:
    places = [(one.first, one.last, one.moved) for one in stretches(values)]
    # A power of two, so that nothing is rounded.
    scaled = [value * 2.0 ** round(math.log2(unit)) for value in values]
    assert [(one.first, one.last, one.moved) for one in stretches(scaled)] == places


@given(st.lists(LEVELS, min_size=FEWEST, max_size=14))
def test_stretches_cover_the_series_and_their_levels_clear_the_noise(values: list[float]) -> None:
    found = study(readings(values), MARGIN)
    assert isinstance(found.stretches, list)
    covered = [at for one in found.stretches for at in range(one.first, one.last + 1)]
    assert covered == list(range(len(values)))
    for before, after in pairwise(found.stretches):
        assert movement(before.level, after.level, found.noise) == after.moved
        assert after.last - after.first + 1 >= LASTING


def brute_force(values: list[float], penalty: float) -> float:
    """Return what the cheapest of all partitions costs."""
    count, costs = len(values), []
    for inner in range(count // LASTING):
        for cuts in combinations(range(1, count), inner):
            spans = list(pairwise([0, *cuts, count]))
            if all(end - begin >= LASTING for begin, end in spans):
                costs.append(sum(loss(values[begin:end]) for begin, end in spans) + penalty * inner)
    return min(costs)


@given(st.lists(st.integers(-30, 30).map(float), min_size=LASTING, max_size=9), st.floats(0.1, 20))
def test_no_partition_is_cheaper(values: list[float], penalty: float) -> None:
    starts = partition(values, penalty)
    spans = list(pairwise([*starts, len(values)]))
    assert all(end - begin >= LASTING for begin, end in spans)
    cost = sum(loss(values[begin:end]) for begin, end in spans) + penalty * (len(spans) - 1)
    assert cost == pytest.approx(brute_force(values, penalty))


@given(st.lists(LEVELS, min_size=1, max_size=FEWEST - 1))
def test_few_points_are_said_to_be_few(values: list[float]) -> None:
    found = study(readings(values), MARGIN)
    assert found.stretches == Unavailable(reason=f"too few points for change points: {len(values)} of {FEWEST}")


def test_the_newest_of_one_has_nothing_before_it() -> None:
    assert newest(readings([1.0]), MARGIN) == Unavailable(reason="one point alone; nothing was before it")


@pytest.mark.parametrize("count", range(1, SETTLED + 1))
def test_a_step_stays_the_newest_regression_until_it_has_settled(count: int) -> None:
    found = newest(readings([1.0] * 6 + [2.0] * count), MARGIN)
    assert isinstance(found, Newest)
    assert found.moved == "up"


def test_a_settled_step_is_the_level_that_counts() -> None:
    found = newest(readings([1.0] * 6 + [2.0] * (SETTLED + 1)), MARGIN)
    assert isinstance(found, Newest)
    assert (found.moved, found.count) == ("same", SETTLED)


@given(st.floats(1.03, 3.0))
def test_a_change_within_the_recorded_floor_says_nothing(ratio: float) -> None:
    values = [1.0] * 6 + [ratio] * 6
    noisy = readings(values, floor=ratio)
    assert len(stretches(values)) == 2
    found = study(noisy, MARGIN)
    assert isinstance(found.stretches, list)
    assert len(found.stretches) == 1


@given(st.floats(1.03, 1.5))
def test_a_change_within_the_intervals_says_nothing(ratio: float) -> None:
    wide = readings([1.0] * 6 + [ratio] * 6, width=0.5)
    found = study(wide, MARGIN)
    assert isinstance(found.stretches, list)
    assert len(found.stretches) == 1
    assert isinstance(found.newest, Newest)
    assert found.newest.moved != "up"


def test_runs_that_scatter_widen_the_noise() -> None:
    assert noise_of(readings([1.0, 1.1] * 6), MARGIN) > 0.25
    assert noise_of(readings([1.0] * 12), MARGIN) == MARGIN
    assert noise_of(readings([1.0, 1.1]), MARGIN) == MARGIN


@given(st.lists(LEVELS, min_size=1, max_size=9), st.floats(0.0, 0.5))
def test_up_and_down_change_roles_with_the_sides(values: list[float], noise: float) -> None:
    a, b = level(readings(values)), level(readings([2 * value for value in values]))
    there, back = movement(a, b, noise), movement(b, a, noise)
    assert there == {"up": "down", "down": "up"}.get(back, back)


def test_no_margin_and_no_noise_is_no_fault() -> None:
    exact = [Reading(value, value, value, 0.0) for value in [1.0] * 5 + [1.001] * 5]
    found = study(exact, 0.0)
    assert isinstance(found.stretches, list)
    assert [one.first for one in found.stretches] == [0, 5]

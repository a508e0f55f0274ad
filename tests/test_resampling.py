"""Laws of estimates, against what scipy finds by drawing, and of the test for drift."""

import math
import random
import subprocess
import sys
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, bootstrap

from assay.record import Estimate
from assay.resampling import LONGEST_SERIES, OUTSIDE, bootstrap_rank, drift, estimate, half_width, ratio

WHOLE = st.integers(1, 10**9).map(float)
SAMPLES = st.lists(WHOLE, min_size=1, max_size=60)
MARGIN = 0.01


def noisy(count: int, seed: int = 1) -> list[float]:
    return [float(round(50000 * (1 + 0.01 * random.Random(f"{seed} {at}").gauss(0, 1)))) for at in range(count)]


@given(SAMPLES)
def test_an_interval_holds_the_median_and_lies_within_the_samples(samples: list[float]) -> None:
    found = estimate(samples)
    assert found.median == median(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)
    assert {found.low, found.high} <= set(samples)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_an_interval_does_not_depend_on_the_order(samples: list[float], shuffler: random.Random) -> None:
    assert estimate(shuffler.sample(samples, len(samples))) == estimate(samples)


@given(SAMPLES, st.integers(-20, 20))
def test_an_interval_scales_with_its_samples(samples: list[float], power: int) -> None:
    found, scale = estimate(samples), 2.0**power
    scaled = Estimate(low=found.low * scale, median=found.median * scale, high=found.high * scale)
    assert estimate([sample * scale for sample in samples]) == scaled
    assert half_width(scaled) == half_width(found)


@given(WHOLE, st.integers(1, 500))
def test_equal_samples_give_their_value_thrice(value: float, count: int) -> None:
    assert estimate([value] * count) == Estimate(low=value, median=value, high=value)
    assert half_width(estimate([value] * count)) == 0


def test_no_samples_have_no_estimate() -> None:
    with pytest.raises(ValueError, match=r"^no samples; an estimate needs one at least$"):
        estimate([])


@given(st.integers(1, 2000))
def test_the_rank_is_the_first_that_resampling_reaches_often_enough(count: int) -> None:
    rank, middle = bootstrap_rank(count), (count + 1) // 2
    assert binom.sf(middle - 1, count, rank / count) >= OUTSIDE
    assert rank == 1 or binom.sf(middle - 1, count, (rank - 1) / count) < OUTSIDE


@given(st.integers(6, 3000))
def test_the_interval_covers_as_one_of_order_statistics_or_by_a_rank_less(count: int) -> None:
    covered = [1 - 2 * binom.cdf(rank - 1, count, 0.5) for rank in (bootstrap_rank(count), bootstrap_rank(count) - 1)]
    # Few samples have few ranks to choose from: the least is 0.875, of 7, and 0.907 from 20 on, of 23.
    assert covered[0] >= (0.87 if count < 20 else 0.906)
    assert covered[1] >= 0.95
    assert 1 - 2 * binom.cdf(bootstrap_rank(count), count, 0.5) < 0.95


@pytest.mark.parametrize("count", [7, 21, 101])
def test_an_odd_number_gives_what_drawing_resamples_gives(count: int) -> None:
    samples = noisy(count)
    drawn = bootstrap(
        (np.array(samples),), np.median, n_resamples=20000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert (estimate(samples).low, estimate(samples).high) == (drawn.low, drawn.high)


@pytest.mark.parametrize("count", [6, 20, 100, 400])
def test_an_even_number_gives_no_less_than_what_drawing_gives_and_a_rank_more_at_most(count: int) -> None:
    samples = noisy(count)
    drawn = bootstrap(
        (np.array(samples),), np.median, n_resamples=20000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    ordered, rank = sorted(samples), bootstrap_rank(count)
    assert ordered[rank - 1] <= drawn.low <= ordered[rank]
    assert ordered[-rank - 1] <= drawn.high <= ordered[-rank]


@given(SAMPLES, st.integers(1, 1000))
def test_what_slows_both_entrants_of_a_round_leaves_their_ratio(samples: list[float], factor: int) -> None:
    assert ratio(samples, samples) == Estimate(low=1.0, median=1.0, high=1.0)
    assert ratio([factor * sample for sample in samples], samples).median == factor


def test_rounds_are_divided_one_by_one() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        ratio([1.0, 2.0], [1.0])


@given(st.lists(WHOLE, min_size=1, max_size=40))
def test_drift_changes_its_sign_when_the_order_is_reversed(samples: list[float]) -> None:
    there, back = drift(samples, MARGIN), drift(samples[::-1], MARGIN)
    assert math.isclose(there.change, -back.change, rel_tol=1e-9, abs_tol=1e-12)
    assert (there.p, there.drifting) == (back.p, back.drifting)
    assert 0 <= there.p <= 1


@given(st.integers(1, 10**9).map(float), st.integers(1, 50))
def test_what_stays_the_same_does_not_drift(value: float, count: int) -> None:
    assert not drift([value] * count, MARGIN).drifting


@pytest.mark.parametrize("count", [30, LONGEST_SERIES, 3 * LONGEST_SERIES + 5])
@pytest.mark.parametrize("rise", [0.05, -0.05])
def test_a_steady_rise_or_fall_is_a_drift_of_its_own_size(count: int, rise: float) -> None:
    found = drift([100000 * (1 + rise * at / count) for at in range(count)], MARGIN)
    assert found.drifting
    assert math.isclose(found.change, rise / (1 + rise / 2), rel_tol=0.01)


def test_noise_is_no_drift_and_neither_is_a_sure_one_within_the_margin() -> None:
    assert drift(noisy(200), MARGIN).p > 0.01
    small = drift([100000 * (1 + 0.005 * at / 200) for at in range(200)], MARGIN)
    assert small.p < 0.01
    assert not small.drifting


def test_who_derives_nothing_does_not_wait_for_scipy() -> None:
    seen = "import sys, assay.speeds, assay.sound_times; print([m for m in sys.modules if m in ('scipy', 'numpy')])"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout == "[]\n"

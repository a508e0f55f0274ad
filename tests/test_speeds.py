"""Laws of what is derived from samples."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom

from assay.artifact import canonical, decode
from assay.record import Outcome, Rate, Row, Unavailable, Verdict
from assay.sampling import Entrant, Problem
from assay.speeds import FEWEST_ROUNDS, best, interval_rank, median_interval, plausible, rate, row, speedup

TIMES = st.floats(1.0, 1e12)
SAMPLES = st.lists(TIMES, min_size=FEWEST_ROUNDS, max_size=60)
PASSED = Verdict(outcome="passed", reason="timed")
PROBLEM = Problem(size="2048", dimensions={"n": 2048}, flops=2 * 2048**3, bytes=12 * 2048**2)
DIGEST = "0" * 64


def entrant(name: str = "ieee/small", kind: str = "variant") -> Entrant:
    precision, _, configuration = name.partition("/")
    return Entrant(name=name, kind=kind, precision=precision, configuration=configuration or None)  # type: ignore[arg-type]


def timed(name: str, nanoseconds: float, kind: str = "variant", outcome: Outcome = "passed") -> Row:
    verdict = Verdict(outcome=outcome, reason="as the test says")
    return row(entrant(name, kind), verdict, [nanoseconds] * FEWEST_ROUNDS, PROBLEM, [])


@given(st.integers(FEWEST_ROUNDS, 3000))
def test_interval_covers_with_95_percent_and_the_next_narrower_does_not(count: int) -> None:
    rank = interval_rank(count)
    assert 1 - 2 * binom.cdf(rank - 1, count, 0.5) >= 0.95
    assert 1 - 2 * binom.cdf(rank, count, 0.5) < 0.95


@pytest.mark.parametrize("count", range(FEWEST_ROUNDS))
def test_too_few_samples_have_no_interval(count: int) -> None:
    assert interval_rank(count) == 0
    with pytest.raises(ValueError, match=f"^{count} samples; an interval of the median needs 6"):
        median_interval([1.0] * count)


def test_ranks_for_100_samples_are_those_of_the_tables() -> None:
    assert median_interval([float(i) for i in range(1, 101)]) == (40.0, 50.5, 61.0)


@given(SAMPLES)
def test_interval_holds_the_median_and_lies_within_the_samples(samples: list[float]) -> None:
    low, median, high = median_interval(samples)
    assert min(samples) <= low <= median <= high <= max(samples)
    assert {low, high} <= set(samples)


@given(SAMPLES, st.randoms(use_true_random=False))
def test_interval_does_not_depend_on_the_order(samples: list[float], shuffler: object) -> None:
    shuffled = list(samples)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert median_interval(shuffled) == median_interval(samples)


@given(SAMPLES)
def test_a_few_late_samples_do_not_move_the_interval_past_the_others(samples: list[float]) -> None:
    late = interval_rank(len(samples)) - 1
    disturbed = sorted(samples)[: len(samples) - late] + [1e15] * late
    assert median_interval(disturbed)[2] <= max(samples)


@given(TIMES)
def test_rate_times_time_is_the_declared_work(nanoseconds: float) -> None:
    found = rate(PROBLEM, nanoseconds)
    assert isinstance(found, Rate)
    assert found.unit == "GFLOP/s"
    assert math.isclose(found.value * nanoseconds, PROBLEM.flops)


@pytest.mark.parametrize(("flops", "unit"), [(0, "GB/s"), (10 * 4096, "GB/s"), (10 * 4096 + 1, "GFLOP/s")])
def test_unit_follows_operations_a_byte(flops: int, unit: str) -> None:
    found = rate(Problem(size="s", dimensions={}, flops=flops, bytes=4096), 2.0)
    assert found == Rate(value=(flops if unit == "GFLOP/s" else 4096) / 2.0, unit=unit)  # type: ignore[arg-type]


def test_no_declared_work_has_no_rate() -> None:
    found = rate(Problem(size="s", dimensions={}, flops=0, bytes=0), 2.0)
    assert found == Unavailable(reason="the kernel declares no work for this size")


@given(SAMPLES, st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf]), st.integers(0, 60))
def test_an_impossible_sample_makes_the_row_inconclusive(samples: list[float], wrong: float, place: int) -> None:
    samples.insert(place, wrong)
    found = row(entrant(), PASSED, samples, PROBLEM, [DIGEST])
    assert (found.verdict.outcome, found.verdict.cause) == ("cantTell", "not-measured")
    assert found.verdict.reason.startswith(f"1 of {len(samples)} samples are no possible time")
    assert found.median_ns == found.rate == Unavailable(reason=found.verdict.reason)
    # Whatever was sampled, the record can be written and read back.
    assert decode(canonical(found), Row, "row") == found


def test_few_samples_make_the_row_inconclusive() -> None:
    assert plausible([1.0] * 5).reason == "5 rounds were taken; an interval of the median needs 6"
    assert row(entrant(), PASSED, [], PROBLEM, []).verdict.outcome == "cantTell"


@given(SAMPLES)
def test_a_row_keeps_its_samples_in_order_and_survives_the_disk(samples: list[float]) -> None:
    found = row(entrant(), PASSED, samples, PROBLEM, [DIGEST])
    assert found.samples_ns == samples
    assert (found.low_ns, found.median_ns, found.high_ns) == median_interval(samples)
    assert found.verdict == PASSED
    assert decode(canonical(found), Row, "row") == found


@pytest.mark.parametrize("outcome", ["failed", "cantTell", "inapplicable", "untested"])
def test_nothing_is_derived_without_a_passed_verdict(outcome: Outcome) -> None:
    found = timed("ieee/small", 5.0, outcome=outcome)
    assert found.samples_ns == [5.0] * FEWEST_ROUNDS
    assert {found.low_ns, found.median_ns, found.high_ns, found.rate} == {Unavailable(reason="as the test says")}


@given(st.lists(st.tuples(st.sampled_from(["ieee", "tf32"]), TIMES), min_size=1, max_size=12))
def test_best_is_the_least_median_of_each_precision(given_rows: list[tuple[str, float]]) -> None:
    rows = [timed(f"{precision}/{place}", time) for place, (precision, time) in enumerate(given_rows)]
    least = {p: min(time for q, time in given_rows if q == p) for p, _ in given_rows}
    assert {one.precision: one.median_ns for one in best(rows)} == least
    assert [one.precision for one in best(rows)] == list(dict.fromkeys(p for p, _ in given_rows))


def test_neither_a_peer_nor_an_unproven_variant_is_best() -> None:
    rows = [timed("ieee/a", 9.0), timed("ieee", 1.0, kind="peer"), timed("ieee/b", 2.0, outcome="failed")]
    assert [one.entrant for one in best(rows)] == ["ieee/a"]


@given(TIMES, TIMES)
def test_speedup_is_gated_above_one(reference: float, lesser: float) -> None:
    found = speedup("ieee", "tf32", {"ieee": reference, "tf32": lesser})
    assert found.ratio == reference / lesser
    assert (found.verdict.outcome == "passed") == (reference / lesser > 1)


@pytest.mark.parametrize("times", [(2.0, 2.0), (1.0, 2.0), (math.nan, 1.0), (1.0, math.nan)])
def test_no_faster_or_no_number_fails_for_its_speed(times: tuple[float, float]) -> None:
    found = speedup("ieee", "tf32", dict(zip(("ieee", "tf32"), times, strict=True)))
    assert (found.verdict.outcome, found.verdict.cause) == ("failed", "speed")


@given(st.dictionaries(st.sampled_from(["ieee", "tf32", "bf16x3"]), TIMES))
def test_an_unmeasured_precision_cannot_be_told(times: dict[str, float]) -> None:
    missing = [precision for precision in ("ieee", "tf32") if precision not in times]
    assume(missing)
    found = speedup("ieee", "tf32", times)
    assert (found.verdict.outcome, found.verdict.cause) == ("cantTell", "not-measured")
    assert found.ratio == Unavailable(reason=f"no variant was timed in {' or '.join(missing)}")

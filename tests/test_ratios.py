"""Laws of the ratio of two medians and of the verdict on it."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, conditions, device, replaced, row, timing

from assay.ratios import Movement, Ratio, condition_notes, interval_text, judge, ratio_of, time_changes
from assay.record import Row, Sweep, Unavailable, Verdict, as_float
from assay.resampling import FEWEST_ROUNDS
from assay.speeds import stretches
from assay.stopping import LONGEST_NS, SHORTEST_NS

TIMES = st.floats(1.0, 1e9)
SAMPLES = st.lists(TIMES, min_size=FEWEST_ROUNDS, max_size=40)
MARGINS = st.floats(0.0, 0.5)
MIRRORED: dict[Movement, Movement] = {
    "faster": "slower",
    "slower": "faster",
    "same": "same",
    "inconclusive": "inconclusive",
}


def made(a: Sequence[float], b: Sequence[float]) -> Ratio:
    ratio = ratio_of(a, b)
    assert isinstance(ratio, Ratio)
    return ratio


@given(SAMPLES, SAMPLES)
def test_the_interval_holds_the_ratio_of_the_medians(a: list[float], b: list[float]) -> None:
    ratio = made(a, b)
    assert as_float(ratio.low) <= as_float(ratio.value) <= as_float(ratio.high)
    assert math.isclose(as_float(ratio.value), ratio.b_ns / ratio.a_ns)


@given(SAMPLES, SAMPLES, MARGINS)
def test_swapping_the_sides_swaps_the_verdict(a: list[float], b: list[float], margin: float) -> None:
    forth, back = made(a, b), made(b, a)
    assert math.isclose(as_float(forth.low) * as_float(back.high), 1)
    limits = (1 + margin, 1 / (1 + margin))
    edges = [as_float(end) for ratio in (forth, back) for end in (ratio.low, ratio.high)]
    if not any(math.isclose(edge, limit, rel_tol=1e-12) for edge in edges for limit in limits):
        assert judge(back, margin)[0] == MIRRORED[judge(forth, margin)[0]]


@given(SAMPLES, st.floats(1.001, 100.0))
def test_a_factor_on_every_sample_is_the_ratio(a: list[float], factor: float) -> None:
    assert math.isclose(as_float(made(a, [factor * sample for sample in a]).value), factor)


@given(SAMPLES, SAMPLES, MARGINS, MARGINS)
def test_a_wider_margin_never_makes_more_of_a_difference(
    a: list[float], b: list[float], margin: float, more: float
) -> None:
    ratio = made(a, b)
    if judge(ratio, margin + more)[0] in ("faster", "slower"):
        assert judge(ratio, margin)[0] == judge(ratio, margin + more)[0]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.05, "slower"),
        (0.90, 0.97, "faster"),
        (0.90, 0.9802, "faster"),
        (0.99, 1.01, "same"),
        (1.0, 1.0, "same"),
        (1.01, 1.03, "inconclusive"),
        (0.5, 2.0, "inconclusive"),
        (1.02, 1.05, "inconclusive"),
    ],
)
def test_verdicts_at_two_percent(low: float, high: float, verdict: Movement) -> None:
    ratio = Ratio(a_ns=1.0, b_ns=1.0, value=(low + high) / 2, low=low, high=high)
    assert judge(ratio, 0.02)[0] == verdict


def test_the_stated_coverage_is_kept() -> None:
    """The ratio of two lognormal medians lies in the interval 90 times in 100 or more, and a verdict errs 5 at most."""
    generator, rounds, true = random.Random(7), 2000, 1.02
    held = wrong = 0
    for _ in range(rounds):
        a = [1e5 * generator.lognormvariate(0, 0.02) for _ in range(30)]
        b = [1e5 * true * generator.lognormvariate(0, 0.05) for _ in range(30)]
        ratio = made(a, b)
        held += as_float(ratio.low) <= true <= as_float(ratio.high)
        wrong += judge(ratio, 0.02)[0] in ("faster", "slower")
    assert held >= 0.9 * rounds
    assert wrong <= 0.05 * rounds


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        ([], "A: 0 rounds were taken; an interval of the median needs 6"),
        ([1.0] * 5, "A: 5 rounds were taken"),
        ([1.0] * 9 + [0.0], "A: 1 of 10 samples are no possible time; the first is 0 ns"),
        ([1.0] * 9 + [-2.0], "A: 1 of 10 samples are no possible time; the first is -2 ns"),
        ([1.0] * 9 + [math.nan], "A: 1 of 10 samples are no possible time; the first is nan ns"),
    ],
)
def test_samples_that_cannot_be_compared_are_inconclusive(samples: list[float], told: str) -> None:
    ratio = ratio_of(samples, [1.0] * 9)
    assert isinstance(ratio, Unavailable)
    assert ratio.reason.startswith(told)
    assert judge(ratio, 0.02) == ("inconclusive", ratio.reason)


@given(st.lists(st.floats(SHORTEST_NS, LONGEST_NS), min_size=6, max_size=9), SAMPLES)
def test_no_possible_samples_are_too_large_or_small_to_compare(a: list[float], b: list[float]) -> None:
    ratio = made(a, b)
    assert judge(ratio, 0.02)[0] in MIRRORED
    assert interval_text(ratio)


NINE = 9


def sweep(*rows: Row, size: str = "2048", n: int = 2048, clock: int = 1980, outside: Sequence[int] = ()) -> Sweep:
    found: Sweep = replaced(
        timing(MATMUL, device()).sweeps[0],
        size=size,
        dimensions={"n": n},
        rows=list(rows),
        stretches=stretches([replaced(conditions(clock), event_reasons=0)] * NINE),
        outside=list(outside),
    )
    return found


def timed(entrant: str, nanoseconds: float, kind: str = "variant") -> Row:
    found: Row = replaced(
        row(entrant, "variant", "ieee", 404000.0),
        kind=kind,
        samples_ns=[nanoseconds] * NINE,
        replays_ns=[nanoseconds / 2] * NINE,
        launch_bound=False,
    )
    return found


def test_only_a_variant_counts_as_worse() -> None:
    before = sweep(timed("ieee/a", 100.0), timed("ieee/b", 100.0), timed("library", 100.0, "peer"))
    after = sweep(timed("ieee/a", 110.0), timed("ieee/b", 90.0), timed("library", 110.0, "peer"))
    found = time_changes("matmul", [before], [after], 0.02)
    assert [(c.entrant, c.peer, c.verdict, c.worse) for c in found] == [
        ("ieee/a", False, "slower", True),
        ("ieee/b", False, "faster", False),
        ("library", True, "slower", False),
    ]


def launch_bound(entrant: str, nanoseconds: float) -> Row:
    found: Row = replaced(timed(entrant, nanoseconds), launch_bound=True)
    return found


@pytest.mark.parametrize(
    ("before", "after", "mode", "value"),
    [
        (timed("a", 100.0), timed("a", 200.0), "events", 2.0),
        (launch_bound("a", 100.0), timed("a", 200.0), "replay", 2.0),
        (timed("a", 100.0), launch_bound("a", 300.0), "replay", 3.0),
    ],
)
def test_the_mode_that_counts_for_both_is_compared(before: Row, after: Row, mode: str, value: float) -> None:
    (found,) = time_changes("matmul", [sweep(before)], [sweep(after)], 0.02)
    assert isinstance(found.ratio, Ratio)
    assert (found.mode, found.ratio.value) == (mode, value)
    assert found.ratio.a_ns == before.samples_ns[0] / (2 if mode == "replay" else 1)


def test_where_one_has_no_replay_events_are_compared() -> None:
    nothing = Unavailable(reason="a launch waits for the device")
    after = replaced(timed("a", 200.0), replays_ns=nothing, replay=nothing, launch_bound=nothing)
    (found,) = time_changes("matmul", [sweep(launch_bound("a", 100.0))], [sweep(after)], 0.02)
    assert isinstance(found.ratio, Ratio)
    assert (found.mode, found.ratio.a_ns, found.ratio.b_ns) == ("events", 100.0, 200.0)


@given(st.lists(TIMES, min_size=2, max_size=2))
def test_rounds_outside_the_clock_band_change_nothing(slow: list[float]) -> None:
    good = sweep(timed("a", 100.0))
    mixed = replaced(timed("a", 100.0), samples_ns=[slow[0], *[100.0] * 7, slow[1]])
    (found,) = time_changes("matmul", [good], [sweep(mixed, outside=[0, 8])], 0.02)
    assert isinstance(found.ratio, Ratio)
    assert (found.ratio.low, found.ratio.high) == (1.0, 1.0)


def test_a_twin_is_no_entrant_of_its_own() -> None:
    both = sweep(timed("a", 100.0), timed("a (again)", 100.0, "twin"))
    assert [change.entrant for change in time_changes("matmul", [both], [both], 0.02)] == ["a"]


FAILED = replaced(timed("ieee/a", 1.0), verdict=Verdict(outcome="cantTell", cause="throttled", reason="it was hot"))


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ([], "not timed in B"),
        ([sweep(timed("ieee/a", 1.0), size="4096")], "not timed in B"),
        ([sweep(timed("ieee/a", 1.0, "peer"))], "not timed in B"),
        ([sweep(FAILED)], "B: it was hot"),
        ([sweep(timed("ieee/a", 1.0), n=4096)], "the dimensions under this name differ"),
    ],
)
def test_what_has_no_counterpart_is_said_and_never_worse(after: list[Sweep], told: str) -> None:
    found = time_changes("matmul", [sweep(timed("ieee/a", 1.0))], after, 0.02)[0]
    assert (found.verdict, found.reason, found.worse) == ("inconclusive", told, False)
    assert isinstance(found.ratio, Unavailable)


def test_what_neither_side_timed_is_left_out() -> None:
    assert time_changes("matmul", [sweep(FAILED)], [sweep(FAILED)], 0.02) == []


def test_other_clocks_and_disturbances_are_noted() -> None:
    calm, hot = sweep(clock=1980), sweep(clock=1200)
    assert list(condition_notes("matmul", [calm], [calm])) == []
    disturbed = replaced(hot, stretches=stretches([replaced(one, event_reasons=0x20) for one in hot.rounds]))
    assert list(condition_notes("matmul", [calm], [disturbed])) == [
        "matmul 2048: the median SM clock was 1980 MHz in A and 1200 MHz in B",
        "matmul 2048: in B, software thermal slowdown beside 9 of 9 rounds",
    ]
    assert list(condition_notes("matmul", [calm], [replaced(calm, outside=[0, 1])])) == [
        "matmul 2048: in B, 2 of 9 rounds lie outside the clock band and are left out"
    ]

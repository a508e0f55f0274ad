"""Laws of the record that is derived from a size's samples."""

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from records import LAUNCHES_NS, MATMUL, ROUNDS, conditions, entries_of, entry, measured, replaced, terms

from assay.artifact import canonical, decode
from assay.config import TimingSettings
from assay.errors import RecordError
from assay.rates import ceiling
from assay.record import (
    MOST_ROUNDS,
    Conditions,
    Drift,
    Estimate,
    Outcome,
    Row,
    Sweep,
    Timing,
    Unavailable,
    Verdict,
)
from assay.resampling import FEWEST_ROUNDS, estimate, half_width
from assay.sampling import Entrant, Round
from assay.speeds import Entry, Measured, derive, in_band, launch_cost, nothing_timed, plausible, pruned, stretches
from assay.stopping import LONGEST_NS, Sampler

TIMES = st.integers(50000, 10**9).map(float)
ODD = st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf])
SETTINGS = TimingSettings()
NOTHING = Unavailable(reason="not told")
SLOW = 900  # MHz: below 60% of 1980


def entrant(name: str = "ieee/small", kind: Any = "variant", searched: bool = False) -> Entrant:
    precision, _, configuration = name.partition("/")
    return Entrant(name=name, kind=kind, precision=precision, configuration=configuration or None, searched=searched)


def alone(one: Entry, **changes: Any) -> Measured:
    return replace(measured([one]), **changes)


def only(one: Entry, **changes: Any) -> Row:
    [found] = derive(alone(one, **changes), terms()).rows
    return found


def whole() -> Measured:
    return measured(entries_of(MATMUL))


# A row from its samples


@given(TIMES, st.integers(0, 2900))
def test_a_row_keeps_its_samples_in_order_and_survives_the_disk(nanoseconds: float, host: int) -> None:
    one = entry(entrant("f/small"), nanoseconds, float(host))
    found = only(one)
    assert (found.samples_ns, found.replays_ns) == (one.samples_ns, one.replays_ns)
    assert found.time_ns == found.events == estimate(one.samples_ns)
    assert found.verdict.outcome == "passed"
    assert decode(canonical(found), Row, "row") == found


@given(st.lists(TIMES, min_size=ROUNDS, max_size=ROUNDS), ODD, st.integers(0, ROUNDS - 1))
def test_an_impossible_sample_makes_the_row_inconclusive(samples: list[float], wrong: float, place: int) -> None:
    samples[place] = wrong
    found = only(replace(entry(entrant(), 4e5), samples_ns=samples))
    assert (found.verdict.outcome, found.verdict.cause) == ("cantTell", "not-measured")
    assert found.verdict.reason.startswith(f"1 of {ROUNDS} samples are no possible time")
    assert found.time_ns == found.rate == Unavailable(reason=found.verdict.reason)
    assert found.samples_ns == (samples if math.isfinite(wrong) else [])
    assert decode(canonical(found), Row, "row") == found


@given(ODD, st.integers(0, ROUNDS - 1))
def test_an_impossible_replay_leaves_the_events(wrong: float, place: int) -> None:
    one = entry(entrant(), 4e5, host_ns=9000.0)
    replays = [wrong if at == place else sample - 9000.0 for at, sample in enumerate(one.samples_ns)]
    found = only(replace(one, replays_ns=replays))
    assert found.replays_ns == found.replay == found.launch_bound
    assert found.replays_ns == Unavailable(reason="not every replay took a possible time")
    assert found.time_ns == found.events == estimate(one.samples_ns)
    assert decode(canonical(found), Row, "row") == found


def test_too_few_samples_are_said_to_be_too_few() -> None:
    assert plausible([5.0] * 5).reason == f"5 rounds were taken; an interval of the median needs {FEWEST_ROUNDS}"
    assert plausible([5.0] * 6).outcome == "passed"
    assert plausible([5.0] * 5 + [LONGEST_NS * 2]).cause == "not-measured"


def test_samples_that_are_missing_make_the_row_inconclusive() -> None:
    found = only(replace(entry(entrant(), 4e5), samples_ns=[4e5] * 3))
    assert (found.verdict.cause, found.verdict.reason) == ("not-measured", f"3 samples were taken in {ROUNDS} rounds")


@pytest.mark.parametrize("outcome", ["failed", "cantTell", "inapplicable", "untested"])
def test_nothing_is_derived_without_a_passed_verdict(outcome: Outcome) -> None:
    verdict = Verdict(outcome=outcome, cause="crash", reason="as the test says")
    one = replace(entry(entrant(), 4e5), verdict=verdict)
    found = only(one)
    assert found.verdict == verdict
    assert (found.samples_ns, found.shares) == (one.samples_ns, [])
    derived = (found.events, found.replay, found.launch_bound, found.time_ns, found.drift, found.rate)
    assert set(derived) == {Unavailable(reason="as the test says")}


# Which of the two modes counts


def test_replays_count_where_events_measure_the_host() -> None:
    launch = launch_cost(LAUNCHES_NS)
    assert isinstance(launch, Estimate)
    events = estimate(entry(entrant(), 4e5).samples_ns)
    # The whole interval must be clear, not the median alone.
    for host, bound in ((events.high - events.low + launch.median, False), (events.high - events.low + 2911, True)):
        found = only(entry(entrant(), 4e5, host_ns=host))
        assert found.launch_bound == bound
        assert found.time_ns == (found.replay if bound else found.events)


def test_the_drift_is_that_of_the_mode_that_counts() -> None:
    rising = [390000.0 + 1000 * at for at in range(ROUNDS)]
    for host, bound in ((0, False), (9000, True)):
        found = only(replace(entry(entrant("f/a"), 4e5), replays_ns=[replay - host for replay in rising]))
        assert found.launch_bound == bound
        assert isinstance(found.drift, Drift)
        assert found.drift.drifting == bound


def test_without_replays_or_the_cost_of_a_launch_the_host_cannot_be_told() -> None:
    one = entry(entrant(), 4e5, host_ns=9000.0)
    assert only(replace(one, replays_ns=NOTHING)).launch_bound == NOTHING
    [found] = derive(alone(one), replace(terms(), launch=NOTHING)).rows
    assert found.launch_bound == NOTHING
    assert found.time_ns == found.events


def test_the_cost_of_a_launch_is_that_of_its_samples() -> None:
    assert launch_cost(LAUNCHES_NS) == estimate(LAUNCHES_NS)
    for samples in ([], [2900.0, 0.0]):
        assert launch_cost(samples) == Unavailable(reason="an empty kernel could not be timed")


# Good rounds


def test_every_law_of_the_band_holds_at_its_ends() -> None:
    for clock, inside in ((1188, True), (1187, False), (1980, True), (1981, False)):
        assert in_band(conditions(clock), SETTINGS, 1980) == inside
    assert in_band(conditions(5), SETTINGS, NOTHING)
    assert in_band(replaced(conditions(), sm_clock_mhz=NOTHING), SETTINGS, 1980)


@given(st.sets(st.integers(0, 29), max_size=9), st.randoms(use_true_random=False))
def test_rounds_outside_the_band_never_touch_a_figure(slow: set[int], shuffler: random.Random) -> None:
    """Whatever they hold: only the samples themselves, which are kept, differ."""
    good = [at for at in range(30) if at not in slow]
    rounds = [conditions(SLOW if at in slow else 1900) for at in range(30)]

    def made(fill: Any) -> Sweep:
        entries = []
        for one in whole().entries:
            kept = dict(zip(good, one.samples_ns, strict=False))
            samples = [kept[at] if at in kept else (fill() if at in slow else 4e5) for at in range(30)]
            entries.append(replace(one, samples_ns=samples, replays_ns=[sample - 2000 for sample in samples]))
        return derive(replace(whole(), entries=entries, rounds=rounds), terms(contrasts=MATMUL.contrasts))

    def figures(sweep: Sweep) -> Any:
        return replaced(sweep, rows=[replaced(row, samples_ns=[], replays_ns=[]) for row in sweep.rows])

    first, second = made(lambda: shuffler.choice([4000.0, 9e8, 4e5])), made(lambda: 7000.0)
    assert first.outside == sorted(slow)
    assert figures(first) == figures(second)


def throttled(slow: int) -> Sweep:
    rounds = [conditions(SLOW if at < slow else 1900) for at in range(ROUNDS)]
    return derive(replace(whole(), rounds=rounds), terms(contrasts=MATMUL.contrasts))


def test_too_few_good_rounds_are_no_number() -> None:
    assert {row.verdict.outcome for row in throttled(1).rows} == {"passed"}
    found = throttled(2)
    assert {(row.verdict.outcome, row.verdict.cause) for row in found.rows} == {("cantTell", "throttled")}
    said = "19 of 21 rounds lie within the clock band of 1188 to 1980 MHz; a figure needs 20"
    assert {row.verdict.reason for row in found.rows} == {said}
    assert (found.best, found.versus) == ([], [])
    assert found.speedups[0].verdict.cause == "not-measured"
    assert found.widest == Unavailable(reason="nothing was timed")


def test_too_few_rounds_are_not_blamed_on_the_clock() -> None:
    one = replace(entry(entrant(), 4e5), samples_ns=[4e5] * 19, replays_ns=NOTHING)
    found = only(one, rounds=[conditions()] * 19)
    assert (found.verdict.cause, found.verdict.reason) == ("not-measured", "19 rounds were taken; a figure needs 20")


def test_a_passed_row_says_how_it_was_timed() -> None:
    def said(**changes: Any) -> str:
        return only(entry(entrant(), 4e5), **changes).verdict.reason

    assert said().split("; ") == [
        "timed in 21 interleaved rounds, each the middle of 3 launches or more",
        "until every median's interval was within 0.05% of it",
        "power limit beside 21 of 21 rounds",
    ]
    assert "the most that are taken, before every" in said(ended="rounds")
    one = replace(entry(entrant(), 4e5), launches=1)
    assert "rounds, each one launch; " in only(one).verdict.reason
    limit = f"{SETTINGS.limit_s:g} s"
    assert f"no more of {SETTINGS.rounds} fit in {limit}, before every" in said(ended="time")
    rounds = [conditions(SLOW), *[conditions()] * 20]
    assert "1 rounds outside the clock band of 1188 to 1980 MHz are left out" in said(rounds=rounds)


def test_a_record_from_before_launches_were_kept_says_what_it_said_then() -> None:
    before = replace(entry(entrant(), 4e5), launches=UNSET)
    assert "each the middle of 5 launches; " in only(before).verdict.reason
    assert "each the middle of 3 launches; " in only(before, inputs=NOTHING).verdict.reason


# Ceilings


def test_a_rate_past_a_ceiling_fails_its_row_and_counts_for_nothing() -> None:
    low = [ceiling("tf32", "too slow a product", 2**37, [900000.0])]
    found = derive(whole(), replace(terms(contrasts=MATMUL.contrasts), ceilings=low))
    [failed] = [row for row in found.rows if row.verdict.outcome != "passed"]
    assert (failed.entrant, failed.verdict.cause) == ("cuBLAS tf32", "over-ceiling")
    assert failed.time_ns == failed.rate == Unavailable(reason=failed.verdict.reason)
    assert failed.samples_ns
    assert {one.against for one in found.versus} == {"cuBLAS fp32"}


def test_a_copy_past_its_ceiling_fails_where_the_data_must_go_through_memory() -> None:
    low = [ceiling("copy", "too slow a copy", 2**31, [1e9])]
    for cache, outcome in ((2**20, "failed"), (2**30, "passed")):
        inputs = replaced(whole().inputs, cache_bytes=cache)
        found = derive(replace(whole(), inputs=inputs), replace(terms(), ceilings=low))
        assert {row.verdict.outcome for row in found.rows} == {outcome}


# The size as a whole


def test_the_widest_interval_is_that_of_the_times_that_count() -> None:
    entries = [*whole().entries, entry(entrant("x/wide"), 5e5, apart=0.01)]
    found = derive(replace(whole(), entries=entries), terms())
    [wide] = [row.time_ns for row in found.rows if row.entrant == "x/wide"]
    assert isinstance(wide, Estimate)
    assert found.widest == half_width(wide)


@given(st.lists(st.integers(1000, 1010).map(float), min_size=25, max_size=400), st.integers(0, 12))
def test_what_ends_precise_is_precise_by_the_record(samples: list[float], slow: int) -> None:
    """The stopping rule and the record look at the same intervals of the same samples."""
    settings = TimingSettings(half_width=0.002, minimum_s=0.0)
    clocks = [SLOW if at < slow else 1900 for at in range(len(samples))]
    rounds = [
        Round(samples_ns={"f/a": sample + 9000}, replays_ns={"f/a": sample}, conditions=conditions(clock))
        for sample, clock in zip(samples, clocks, strict=True)
    ]
    sampler = Sampler(settings, 2900.0)
    for taken in range(1, len(rounds) + 1):
        good = [one for one in rounds[:taken] if in_band(one.conditions, settings, 1980)]
        sampler = sampler.after(taken, good, float(taken))
        if sampler.state != "sampling":
            break
    one = replace(
        entry(entrant("f/a"), 1.0),
        samples_ns=[sample + 9000 for sample in samples[:taken]],
        replays_ns=samples[:taken],
    )
    found = derive(alone(one, rounds=[one.conditions for one in rounds[:taken]]), terms(settings))
    if sampler.state == "precise":
        assert isinstance(found.widest, float)
        assert found.widest <= settings.half_width


def test_a_sweep_survives_the_disk() -> None:
    found = derive(whole(), terms(contrasts=MATMUL.contrasts))
    assert decode(canonical(found), Sweep, "sweep") == found
    assert found.rounds == whole().rounds


def test_a_kernel_that_was_not_timed_says_why_everywhere() -> None:
    why = Verdict(outcome="inapplicable", cause="no-device", reason="there is no device")
    found = nothing_timed(why)
    assert (found.availability, found.launch, found.device) == (why, Unavailable(reason=why.reason), None)
    assert decode(canonical(found), Timing, "timing") == found


# Screening


def screens(**times: float) -> tuple[list[Entrant], dict[str, list[float]]]:
    names = {name.replace("_", "/"): time for name, time in times.items()}
    return [entrant(name, searched=True) for name in names], {name: [time, 1e9, time] for name, time in names.items()}


def test_a_search_leaves_out_what_is_slower_than_the_best_of_its_precision_by_the_factor() -> None:
    found = pruned(*screens(f_a=1000.0, f_b=1500.0, f_c=1501.0, g_a=90000.0), SETTINGS)
    assert found.keys() == {"f/c"}
    assert (found["f/c"].outcome, found["f/c"].cause) == ("inapplicable", "pruned")
    said = "left out of the search after 3 rounds: 1.501 us, more than 1.5 times the 1 us of f/a"
    assert found["f/c"].reason == said


def test_what_is_listed_is_neither_left_out_nor_a_measure() -> None:
    entrants, samples = screens(f_a=1000.0, f_b=9000.0, f_c=9100.0)
    entrants = [entrant("f/a"), *entrants[1:]]
    assert pruned(entrants, samples, SETTINGS) == {}
    assert pruned([*entrants[:2], entrant("f/c")], samples, SETTINGS) == {}


@given(ODD)
def test_an_impossible_screen_is_neither_left_out_nor_a_measure(odd: float) -> None:
    entrants, samples = screens(f_a=1000.0, f_b=1400.0, f_c=3000.0)
    assert pruned(entrants, {**samples, "f/a": [odd, 1.0, 1.0]}, SETTINGS).keys() == {"f/c"}
    assert pruned(entrants, {**samples, "f/c": [9e9, 9e9, odd]}, SETTINGS) == {}
    assert pruned(entrants, {**samples, "f/c": []}, SETTINGS) == {}


@given(st.dictionaries(st.sampled_from([f"{p}/{c}" for p in "fg" for c in "abcdef"]), TIMES, min_size=1))
def test_the_best_of_each_precision_is_never_left_out(times: dict[str, float]) -> None:
    entrants = [entrant(name, searched=True) for name in times]
    found = pruned(entrants, {name: [time] for name, time in times.items()}, SETTINGS)
    for precision in {name[0] for name in times}:
        fastest = min((name for name in times if name[0] == precision), key=times.__getitem__)
        assert fastest not in found
        assert all((times[name] > 1.5 * times[fastest]) == (name in found) for name in times if name[0] == precision)


@given(st.lists(st.sampled_from([conditions(1980), conditions(1900), conditions(SLOW)]), max_size=40))
def test_the_cards_state_is_kept_once_for_rounds_in_a_row(rounds: list[Conditions]) -> None:
    found = stretches(rounds)
    assert [one.conditions for one in found for _ in range(one.rounds)] == rounds
    assert all(one.conditions != other.conditions for one, other in itertools.pairwise(found))


def test_a_record_of_more_rounds_than_there_can_be_is_refused() -> None:
    found = derive(whole(), terms())
    many = [replaced(found.stretches[0], rounds=MOST_ROUNDS)]
    assert len(replaced(found, stretches=many).rounds) == MOST_ROUNDS
    text = canonical(found).replace(b'"rounds":1}', b'"rounds":100000}')
    assert text != canonical(found)
    with pytest.raises(RecordError, match="more than 100000 rounds"):
        decode(text, Sweep, "sweep")

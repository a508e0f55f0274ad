"""Laws of the stopping rule, over rounds that are made up: no device, no clock."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import conditions

from assay.config import TimingSettings
from assay.record import Estimate
from assay.resampling import estimate, half_width
from assay.sampling import Round
from assay.stopping import GROWTH, LONGEST_NS, SHORTEST_NS, Sampler, host_bound, possible, precise

ODD = st.sampled_from([float("nan"), float("inf"), 0.0, -5.0])
TIMES = st.integers(1000, 1100).map(float)
SETTINGS = TimingSettings(half_width=0.01, minimum_s=2.0, rounds=60, fewest_rounds=8, limit_s=50.0)


def rounds_of(samples: Sequence[float], replays: Sequence[float] = (), name: str = "a") -> list[Round]:
    replayed = [{name: replay} for replay in replays] or [{} for _ in samples]
    return [
        Round(samples_ns={name: sample}, replays_ns=replay, conditions=conditions())
        for sample, replay in zip(samples, replayed, strict=True)
    ]


def run(sampler: Sampler, rounds: Sequence[Round], seconds: float = 1.0) -> tuple[Sampler, int]:
    """Take rounds, all good and `seconds` apart, until sampling ends; return where it stands and how many it took."""
    for taken in range(1, len(rounds) + 1):
        sampler = sampler.after(taken, rounds[:taken], seconds * taken)
        if sampler.state != "sampling":
            return sampler, taken
    return sampler, len(rounds)


@given(st.lists(TIMES, min_size=60, max_size=70), st.floats(0.001, 2.0))
def test_sampling_ends_for_the_reason_it_gives(samples: list[float], seconds: float) -> None:
    rounds = rounds_of(samples)
    ended, taken = run(Sampler(SETTINGS), rounds, seconds)
    if ended.state == "precise":
        assert taken >= SETTINGS.fewest_rounds
        assert seconds * taken >= SETTINGS.minimum_s
        assert half_width(estimate(samples[:taken])) <= SETTINGS.half_width
    elif ended.state == "time":
        assert seconds * taken > SETTINGS.limit_s
        assert seconds * (taken - 1) <= SETTINGS.limit_s
    else:
        assert (ended.state, taken) == ("rounds", SETTINGS.rounds)


@given(st.lists(TIMES, min_size=60, max_size=60), st.integers(8, 60))
def test_sampling_does_not_go_on_long_once_all_are_precise(samples: list[float], first: int) -> None:
    rounds = rounds_of([*samples[: first - 1], *[samples[0]] * 60])
    known = [count for count in range(8, 60) if precise(rounds[:count], None, SETTINGS.half_width)]
    stays = [count for count in known if all(later in known for later in range(count, 60))]
    _, taken = run(Sampler(SETTINGS), rounds)
    assert not stays or taken <= stays[0] * GROWTH + 1


@given(st.lists(TIMES, min_size=60, max_size=60), st.floats(0.0005, 0.1), st.floats(0.0005, 0.1))
def test_asking_for_less_ends_no_later(samples: list[float], one: float, other: float) -> None:
    rounds = rounds_of(samples)
    settings = {"minimum_s": 2.0, "rounds": 60, "fewest_rounds": 8}
    taken = [run(Sampler(TimingSettings(half_width=w, **settings)), rounds)[1] for w in sorted([one, other])]  # type: ignore[arg-type]
    assert taken[1] <= taken[0]


@given(st.lists(TIMES, min_size=1, max_size=5), st.sampled_from(["precise", "rounds", "time"]))
def test_an_end_is_final(samples: list[float], state: str) -> None:
    ended = Sampler(SETTINGS, state=state)  # type: ignore[arg-type]
    assert ended.after(99, rounds_of(samples), 99.0) is ended


@given(st.lists(TIMES, min_size=8, max_size=59))
def test_nothing_ends_before_its_minimum(samples: list[float]) -> None:
    steady = rounds_of([samples[0]] * len(samples))
    assert Sampler(SETTINGS).after(len(steady), steady, 1.999).state == "sampling"
    assert Sampler(SETTINGS).after(len(steady), steady[:7], 10.0).state == "sampling"
    assert Sampler(SETTINGS).after(len(steady), steady, 2.0).state == "precise"


@given(st.lists(st.one_of(TIMES, ODD), min_size=60, max_size=60), ODD)
def test_impossible_samples_hold_nothing_up(samples: list[float], odd: float) -> None:
    broken = [*samples[:3], odd, *samples[4:]]
    both = [Round(samples_ns={"a": 1000.0, "b": sample}, replays_ns={}, conditions=conditions()) for sample in broken]
    ended, taken = run(Sampler(SETTINGS), both)
    assert (ended.state, taken) == ("precise", SETTINGS.fewest_rounds)


def test_without_a_possible_time_there_is_nothing_precise() -> None:
    assert run(Sampler(SETTINGS), rounds_of([float("nan")] * 60), 0.1)[0].state == "rounds"
    assert not precise([], None, 1.0)


def test_rounds_that_are_not_good_count_towards_the_most_alone() -> None:
    assert Sampler(SETTINGS).after(60, [], 3.0).state == "rounds"
    assert Sampler(SETTINGS).after(59, [], 3.0).state == "sampling"


def test_no_round_is_taken_after_the_time_limit() -> None:
    assert Sampler(SETTINGS).after(9, [], SETTINGS.limit_s).state == "sampling"
    assert Sampler(SETTINGS).after(9, [], SETTINGS.limit_s + 0.1).state == "time"


def test_replays_count_where_events_measure_the_host() -> None:
    unsteady = [20000.0 + 900 * (at % 5) for at in range(20)]
    bound = rounds_of(unsteady, [10000.0] * 20)
    assert precise(bound, 2900.0, 0.001)
    # What an empty kernel takes explains the difference, or is not known; or a replay is missing, or impossible.
    assert not precise(bound, 12000.0, 0.001)
    assert not precise(bound, None, 0.001)
    assert not precise([*bound[:-1], *rounds_of([20000.0])], 2900.0, 0.001)
    assert not precise(rounds_of(unsteady, [*[10000.0] * 19, 0.0]), 2900.0, 0.001)


def test_intervals_are_looked_at_only_after_they_can_have_narrowed() -> None:
    settings = TimingSettings(half_width=0.01, minimum_s=2.0, rounds=2000, fewest_rounds=8, limit_s=5000.0)
    rounds = rounds_of([1000.0 + 100 * (at % 2) for at in range(1999)])
    sampler, looks = Sampler(settings), set[int]()
    for taken in range(1, 2000):
        sampler = sampler.after(taken, rounds[:taken], float(taken))
        looks.add(sampler.look_at)
    assert sampler.state == "sampling"
    # Once at each of 8, 9, ... 20, and then twenty times for each factor of 2.65 (1.05^20).
    assert 80 < len(looks) < 120


@pytest.mark.parametrize("sample", [SHORTEST_NS, 5.5, LONGEST_NS])
def test_a_possible_time(sample: float) -> None:
    assert possible([sample])


@pytest.mark.parametrize("sample", [0.999, 0.0, -1.0, LONGEST_NS * 2, float("inf"), float("-inf"), float("nan")])
def test_an_impossible_time(sample: float) -> None:
    assert not possible([5.0, sample])


@given(TIMES, st.integers(0, 500), st.integers(1, 5000))
def test_the_host_is_what_neither_an_empty_launch_nor_noise_explains(middle: float, half: int, more: int) -> None:
    replay = Estimate(low=middle - half, median=middle, high=middle + half)
    events = Estimate(low=middle + half + more, median=middle + 2 * half + more, high=middle + 3 * half + more)
    assert host_bound(events, replay, more - 0.5)
    assert not host_bound(events, replay, float(more))
    assert not host_bound(replay, replay, 0.0)


def test_a_clock_that_a_power_cap_moves_is_not_the_host() -> None:
    # What an H200 at its power limit gave for a product of 8192 cubed, in us: intervals of 0.5% that overlap.
    events = Estimate(low=3126.0, median=3140.8, high=3156.0)
    replay = Estimate(low=3114.0, median=3130.8, high=3146.0)
    assert events.median - replay.median > 3.6
    assert not host_bound(events, replay, 3.6)


@given(st.lists(st.integers(100, 200).map(float), min_size=8, max_size=60), st.lists(TIMES, min_size=8, max_size=60))
def test_the_rule_and_the_record_agree_on_the_host(replays: list[float], samples: list[float]) -> None:
    count = min(len(replays), len(samples))
    rounds = rounds_of(samples[:count], replays[:count])
    width = half_width(estimate(replays[:count]))
    # Events are longer by more than the 700 of an empty kernel: the replay's interval decides.
    assert precise(rounds, 700.0, width)
    assert width == 0 or not precise(rounds, 700.0, width * 0.99)

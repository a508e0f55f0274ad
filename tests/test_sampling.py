"""Laws of the schedule and of the sets, and of one round on a simulated device whose every duration is known."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.conditions import read_conditions
from assay.record import Conditions, Unavailable
from assay.sampling import (
    AGAIN,
    MOST_BYTES,
    MOST_SAMPLE_NS,
    MOST_SETS,
    MOST_VALUES,
    Entrant,
    Heat,
    Lane,
    Launch,
    Recording,
    balanced,
    heats,
    launch_count,
    middle,
    schedule,
    set_count,
    take_round,
    turns,
    twin_of,
    value_count,
)

NAMES = st.lists(st.text(min_size=1), min_size=1, max_size=6, unique=True)
DURATIONS = st.dictionaries(st.text(min_size=1), st.integers(1, 10**9), min_size=1, max_size=5)


@dataclass
class Simulated:
    """A device with a queue: what is queued happens at `synchronise`, and only then has a mark a time."""

    flush_ns: float = 50_000.0
    now_ns: float = 0.0
    queue: list[tuple[str, float]] = field(default_factory=list)
    times: dict[int, float] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    marks: int = 0

    def flush(self) -> None:
        self.queue.append(("flush", self.flush_ns))

    def launch(self, name: str, duration_ns: float) -> None:
        self.queue.append((name, duration_ns))

    def mark(self) -> int:
        self.marks += 1
        self.queue.append((f"mark {self.marks}", 0.0))
        return self.marks

    def synchronise(self) -> None:
        for name, duration in self.queue:
            if name == "faulty":
                raise RuntimeError("an illegal memory access was encountered")
            self.now_ns += duration
            if name.startswith("mark "):
                self.times[int(name.removeprefix("mark "))] = self.now_ns
            else:
                self.history.append(name)
        self.queue = []

    def elapsed_ns(self, start: int, end: int) -> float:
        return self.times[end] - self.times[start]

    def conditions(self) -> Conditions:
        assert self.queue, "the card's state is read while it works"
        return read_conditions(Unavailable(reason="simulated"))


@given(st.integers(0, 30), NAMES, st.integers(0, 2**53))
def test_every_round_is_a_permutation(rounds: int, names: list[str], seed: int) -> None:
    orders = list(schedule(rounds, names, seed))
    assert len(orders) == rounds
    assert all(sorted(order) == sorted(names) for order in orders)


@given(NAMES, st.integers(0, 2**53))
def test_same_seed_gives_the_same_orders(names: list[str], seed: int) -> None:
    assert list(schedule(20, names, seed)) == list(schedule(20, names, seed))


def test_orders_differ_between_rounds_and_seeds() -> None:
    orders = list(schedule(50, list("abcdef"), 1))
    assert len({tuple(order) for order in orders}) > 25
    assert orders != list(schedule(50, list("abcdef"), 2))


@given(st.integers(1, 12))
def test_balanced_orders_have_each_in_every_place_and_behind_every_other_equally_often(count: int) -> None:
    orders = balanced(count)
    times = len(orders) // count
    places = Counter((place, each) for order in orders for place, each in enumerate(order))
    assert places == {(place, each): times for place in range(count) for each in range(count)}
    others = [(one, other) for one in range(count) for other in range(count) if one != other]
    assert Counter(two for order in orders for two in pairwise(order)) == dict.fromkeys(others, times)
    # Not only right behind: of two, each comes first in half of the orders.
    assert Counter(two for order in orders for two in combinations(order, 2)) == dict.fromkeys(others, len(orders) / 2)


@given(NAMES, st.integers(1, 4), st.integers(0, 2**53))
def test_rounds_have_every_entrant_in_every_place_equally_often(names: list[str], blocks: int, seed: int) -> None:
    count = blocks * len(balanced(len(names)))
    orders = list(schedule(count, names, seed))
    found = Counter((place, name) for order in orders for place, name in enumerate(order))
    assert found == {(place, name): count // len(names) for place in range(len(names)) for name in names}


def heat(launches: Sequence[Launch], recording: Recording | None = None) -> Heat:
    return Heat(range(len(launches)), launches, recording)


def field_of(device: Simulated, durations: dict[str, int], repeats: int) -> dict[str, Heat]:
    return {name: heat([partial(device.launch, name, float(ns))] * repeats) for name, ns in durations.items()}


def recorded(device: Simulated, launches: list[Launch]) -> Recording:
    """Record launches as a device does: the marks are the same at each replay."""
    marks = [(device.mark(), device.mark()) for _ in launches]
    device.queue = []

    def play() -> None:
        for launch, (start, end) in zip(launches, marks, strict=True):
            device.flush()
            device.queue.append((f"mark {start}", 0.0))
            launch()
            device.queue.append((f"mark {end}", 0.0))

    return Recording(play, marks)


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_sets_together_exceed_the_cache_as_far_as_the_most_values_go(set_bytes: int, cache: int) -> None:
    count = value_count(set_bytes, cache)
    assert 1 <= count <= MOST_VALUES
    if set_bytes >= 2 * cache:
        assert count == 1
    else:
        assert count == MOST_VALUES or (count - 1) * set_bytes < 4 * cache <= count * set_bytes


def test_values_of_what_was_measured() -> None:
    mebibyte = 2**20
    assert value_count(16 * mebibyte, 50 * mebibyte) == 8
    assert value_count(48 * mebibyte, 50 * mebibyte) == 5
    assert value_count(99 * mebibyte, 50 * mebibyte) == 3
    assert value_count(100 * mebibyte, 50 * mebibyte) == 1
    assert value_count(16 * mebibyte, None) == 1


@given(st.integers(1, MOST_VALUES), st.integers(1, 10**12), st.none() | st.integers(0, 10**12))
def test_more_sets_than_values_are_laid_out_where_they_find_room(values: int, held: int, memory: int | None) -> None:
    count = set_count(values, held, memory)
    assert values <= count <= MOST_SETS
    if memory is None:
        assert count == values
    elif count > values:
        assert count * held <= min(MOST_BYTES, memory / 4)
    elif values < MOST_SETS:
        # One more would not fit.
        assert (count + 1) * held > min(MOST_BYTES, memory // 4)


def test_a_large_size_has_several_sets_on_a_large_device() -> None:
    # Softmax 8192x8192 with two variants and a peer whose results lie in ten places, and a product of 8192x8192
    # matrices with three and one.
    gibibyte = 2**30
    assert set_count(1, 13 * gibibyte // 4, 140 * gibibyte) == 9
    assert set_count(1, 15 * gibibyte // 4, 140 * gibibyte) == 8
    assert set_count(1, 15 * gibibyte // 4, 15 * gibibyte) == 1
    assert set_count(8, gibibyte // 4, 3 * gibibyte) == 8


@given(st.integers(1, 8), st.integers(1, 12))
def test_every_set_has_its_turn_and_none_much_more_than_another(sets: int, repeats: int) -> None:
    launches: list[Launch] = [partial(str, place) for place in range(sets)]
    taken = turns(launches, repeats)
    assert len(taken) == max(sets, repeats)
    counts = [sum(one is launch for one in taken) for launch in launches]
    assert min(counts) >= 1
    assert max(counts) - min(counts) <= 1
    assert taken[:sets] == launches


def test_a_twin_has_another_name_and_is_never_searched() -> None:
    first = Entrant(name="ieee/a", kind="variant", precision="ieee", configuration="a", searched=True)
    twin = twin_of(first)
    assert (twin.name, twin.kind, twin.searched) == (f"ieee/a{AGAIN}", "twin", False)
    assert (twin.precision, twin.configuration) == ("ieee", "a")


@given(DURATIONS, st.integers(1, 5), st.integers(0, 10**9))
def test_sample_is_the_launch_without_the_flush(durations: dict[str, int], repeats: int, flush_ns: int) -> None:
    device = Simulated(flush_ns=float(flush_ns))
    found = take_round(device, field_of(device, durations, repeats))
    assert found.samples_ns == durations
    assert found.replays_ns == {}


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_a_replay_is_sampled_beside_the_launch(events: int, replay: int) -> None:
    device = Simulated()
    beside = heat(
        [partial(device.launch, "launched", float(events))] * 2,
        recorded(device, [partial(device.launch, "replayed", float(replay))] * 3),
    )
    found = take_round(device, {**field_of(device, {"y": 5}, 2), "x": beside})
    assert found.samples_ns == {"y": 5, "x": events}
    assert found.replays_ns == {"x": replay}
    assert [name for name in device.history if name != "flush"] == ["y"] * 2 + ["replayed"] * 3 + ["launched"] * 2


class Crowded(Simulated):
    """Takes a nanosecond longer for a launch for each entry that stands behind it in the queue."""

    def synchronise(self) -> None:
        behind = len(self.queue)
        self.queue = [(n, ns + behind - at if n in "abc" else ns) for at, (n, ns) in enumerate(self.queue, 1)]
        super().synchronise()


@given(st.permutations("abc"), st.integers(1, 5))
def test_it_does_not_matter_in_which_place_of_a_round_an_entrant_is(names: list[str], repeats: int) -> None:
    device = Crowded()
    launches = {name: list[Launch]([partial(device.launch, name, 1000.0)] * repeats) for name in names}
    found = take_round(device, {n: heat(of, recorded(device, of)) for n, of in launches.items()})
    assert len(set(found.samples_ns.values())) == 1
    assert len(set(found.replays_ns.values())) == 1


@given(st.lists(st.integers(1, 10**6).map(float), min_size=1, max_size=20), st.randoms())
def test_the_middle_is_a_mean_of_the_middle_half_in_any_order(values: list[float], shuffler: random.Random) -> None:
    ordered, found = sorted(values), middle(shuffler.sample(values, len(values)))
    assert found == middle(values)
    # A quarter lies on either side, but for what rounds away.
    quarter = round((len(values) - 0.5) / 4)
    assert ordered[quarter] <= found <= ordered[-quarter - 1]
    assert middle([7.0 - value for value in values]) == pytest.approx(7.0 - found)


@given(st.lists(st.integers(1, 10**6).map(float), min_size=3, max_size=20), st.data())
def test_a_late_quarter_does_not_move_the_middle(values: list[float], data: st.DataObject) -> None:
    ordered = sorted(values)
    late = (len(ordered) + 1) // 4
    delays = data.draw(st.lists(st.integers(0, 10**9), min_size=late, max_size=late))
    delayed = [value + more for value, more in zip(ordered[-late:], delays, strict=True)]
    assert middle([*ordered[:-late], *delayed]) == middle(ordered)


def test_the_middle_of_three_is_their_median_and_that_of_eight_the_mean_of_four() -> None:
    assert middle([5.0, 1.0, 900.0]) == 5.0
    assert middle([1.0, 2.0, 32.0, 64.0, 64.0, 96.0, 700.0, 800.0]) == 64.0
    with pytest.raises(ValueError, match="mean"):
        middle([])


def test_the_middle_is_finer_than_the_clock() -> None:
    # A launch of 8304 ns whose ends a clock of 32 ns rounds this way or that.
    assert middle([8288.0, 8288.0, 8288.0, 8320.0, 8320.0, 8320.0, 8320.0, 8320.0]) == 8312.0


def test_samples_are_whole_nanoseconds() -> None:
    device = Simulated()
    assert take_round(device, {"x": heat([partial(device.launch, "x", 1234.56)])}).samples_ns == {"x": 1235.0}


def test_every_launch_follows_a_flush_in_the_scheduled_order() -> None:
    device = Simulated()
    take_round(device, field_of(device, {"b": 1, "a": 1}, 2))
    assert device.history == ["flush", "b"] * 2 + ["flush", "a"] * 2


@given(st.integers(1, 9), st.integers(1, 9))
def test_sets_are_launched_in_turn(sets: int, repeats: int) -> None:
    device = Simulated()
    launches = [partial(device.launch, f"set {place}", 1.0) for place in range(sets)]
    take_round(device, {"x": heat(turns(launches, repeats))})
    assert device.history[1::2] == [f"set {place % sets}" for place in range(max(sets, repeats))]


@given(st.integers(1, MOST_SETS), st.integers(1, 99))
def test_heats_are_all_sets_once_about_as_many_at_a_time_as_asked_for(sets: int, most: int) -> None:
    found = heats(sets, most)
    assert [place for part in found for place in part] == list(range(sets))
    sizes = sorted(map(len, found))
    assert sizes[-1] - sizes[0] <= 1
    assert len(found) == 1 or most * 2 / 3 - 1 < sizes[0] <= sizes[-1] < most * 3 / 2 + 1


@given(st.floats(0, 1e12))
def test_a_sample_is_one_launch_or_short(launch_ns: float) -> None:
    most = launch_count(launch_ns)
    assert most == 1 or most * launch_ns <= MOST_SAMPLE_NS
    assert (most + 1) * max(launch_ns, 1) > MOST_SAMPLE_NS


def test_an_entrant_takes_its_heats_in_turn() -> None:
    parts = [heat([]), heat([]), heat([])]
    assert [Lane(parts).heat(turn) for turn in range(7)] == [*parts, *parts, parts[0]]


@given(st.integers(10**3, 10**6), st.lists(st.integers(0, 10**9), min_size=1, max_size=1))
def test_one_disturbed_launch_of_three_does_not_move_the_sample(duration: int, delays: list[int]) -> None:
    device, pending = Simulated(), list(delays)

    def launch() -> None:
        device.launch("kernel", duration + (pending.pop() if pending else 0))

    assert take_round(device, {"kernel": heat([launch] * 3)}).samples_ns == {"kernel": duration}


def test_a_launch_that_failed_in_the_queue_is_raised() -> None:
    device = Simulated()
    with pytest.raises(RuntimeError, match="illegal memory access"):
        take_round(device, {"x": heat([partial(device.launch, "faulty", 1.0)])})

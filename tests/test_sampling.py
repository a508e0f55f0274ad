"""Laws of the schedule, and of one round on a simulated device whose every duration is known."""

from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.conditions import read_conditions
from assay.record import Conditions, Unavailable
from assay.sampling import schedule, take_round

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
        assert not self.queue, "the card's state is read when the round is over"
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


@given(DURATIONS, st.integers(1, 5), st.integers(0, 10**9))
def test_sample_is_the_launch_without_the_flush(durations: dict[str, int], repeats: int, flush_ns: int) -> None:
    device = Simulated(flush_ns=float(flush_ns))
    launches = {name: partial(device.launch, name, float(ns)) for name, ns in durations.items()}
    assert take_round(device, launches, list(durations), repeats).samples_ns == durations


def test_every_launch_follows_a_flush_in_the_scheduled_order() -> None:
    device = Simulated()
    launches = {name: partial(device.launch, name, 1.0) for name in "ab"}
    take_round(device, launches, ["b", "a"], repeats=2)
    assert device.history == ["flush", "b"] * 2 + ["flush", "a"] * 2


@given(st.integers(10**3, 10**6), st.lists(st.integers(0, 10**9), min_size=1, max_size=1))
def test_one_disturbed_launch_of_three_does_not_move_the_sample(duration: int, delays: list[int]) -> None:
    device, pending = Simulated(), list(delays)

    def launch() -> None:
        device.launch("kernel", duration + (pending.pop() if pending else 0))

    assert take_round(device, {"kernel": launch}, ["kernel"], 3).samples_ns == {"kernel": duration}


def test_a_launch_that_failed_in_the_queue_is_raised() -> None:
    device = Simulated()
    with pytest.raises(RuntimeError, match="illegal memory access"):
        take_round(device, {"x": partial(device.launch, "faulty", 1.0)}, ["x"], 1)

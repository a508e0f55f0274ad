"""How the timing stage samples, and what its child process answers: no device, no clock and no torch in here.

Entrants are timed in interleaved rounds, each in an order of its own, so that a clock that drifts or a neighbour on the
card touches all of them alike. A sample is the mean of the middle half of its launches: a disturbed launch is late and
never early, and a mean is finer than the device's clock. Every round samples in two modes: `events`, where the host
launches, and `replay` of a recording, where it has no part.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from msgspec import UNSET, UnsetType

from assay.record import Accuracy, CeilingName, Conditions, Count, Declaration, Digest, Record, Unavailable, Verdict

MOST_SETS = 16
"""Sets of tensors that are rotated at most."""

MOST_SAMPLE_NS = 2e6
"""What the launches of one sample may take together, unless it is one launch.

A power cap moves the clock within tens of milliseconds: entrants that take turns faster than that see the same clock.
On an H200, samples of three launches of 3.1 ms each correlate by 0.9 with the next one of the same entrant, and by 0.6
with its twin's in the same round, of 93 ms.
"""

MOST_VALUES = 8
"""Sets of values at most; further sets hold those of earlier ones, since the host takes its time to make them."""

MOST_BYTES = 32 * 2**30
"""What the tensors of one size may take, unless a few sets that exceed the cache take more."""

AGAIN = " (again)"
"""What follows an entrant's name in that of its twin."""

Launch = Callable[[], object]


class Entrant(Record, frozen=True, kw_only=True):
    """A variant of the kernel (named by its id), a library peer, or the twin: one of them under a second name.

    `searched`: it comes from a search space, which short rounds thin out.
    """

    name: str
    kind: Literal["variant", "peer", "twin"]
    precision: str
    configuration: str | None
    searched: bool = False


def twin_of(entrant: Entrant) -> Entrant:
    """Return an entrant under a second name, for the null experiment."""
    return Entrant(
        name=f"{entrant.name}{AGAIN}",
        kind="twin",
        precision=entrant.precision,
        configuration=entrant.configuration,
    )


class Problem(Record, frozen=True, kw_only=True):
    """One timed size, with the work that the kernel declares for it."""

    size: str
    dimensions: dict[str, Count]
    flops: Count
    bytes: Count


class Made(Record, frozen=True, kw_only=True):
    """The child's answer to `make`: of how many sizes the first set of inputs lies ready."""

    sizes: Count


class Identity(Record, frozen=True, kw_only=True):
    """The device that a child process runs on. `uuid` never leaves the machine."""

    uuid: str


class Subject(Record, frozen=True, kw_only=True):
    """The child's answer to `describe`: who is timed at which sizes, on which device."""

    declaration: Declaration
    entrants: list[Entrant]
    problems: list[Problem]
    device: Identity


class Burst(Record, frozen=True, kw_only=True):
    """What the fastest way to one ceiling took: `samples_ns`, each for `work`. Without samples `how` says why.

    `work` is bytes read and written for `copy`, floating-point operations for the others.
    """

    name: CeilingName
    how: str
    work: Count
    samples_ns: list[float]


class Limits(Record, frozen=True, kw_only=True):
    """The child's answer to `ceilings`: what an empty kernel takes by events, in ns, and the ceilings' samples."""

    launch_ns: list[float]
    bursts: list[Burst]


class Prepared(Record, frozen=True, kw_only=True):
    """The child's answer to `prepare`: the binaries that the entrant launched, and why it has no replay, if so.

    `refused`: why it takes no part, where that is no fault of the process; otherwise `launches` are those of its
    smallest sample.
    """

    binary_sha256: list[Digest]
    launches: Count | UnsetType = UNSET
    no_replay: Unavailable | None = None
    refused: Verdict | None = None


class Round(Record, frozen=True, kw_only=True):
    """The child's answer to `round`: one sample of every entrant in each of its modes, and the card's state meanwhile.

    `replays_ns` leaves out who has no replay.
    """

    samples_ns: dict[str, float]
    replays_ns: dict[str, float]
    conditions: Conditions


class Checked(Record, frozen=True, kw_only=True):
    """The child's answer to `check`: whether what the timed launches wrote is right, and how close it is.

    Nothing is claimed of a peer, so that it has no verdict.
    """

    verdict: Verdict | None
    accuracy: Accuracy | Unavailable


class Device(Protocol):
    """What sampling asks of a device that works through a queue of launches."""

    def flush(self) -> None:
        """Queue a write over the L2 cache."""

    def mark(self) -> Any:
        """Queue a mark; its time is known after `synchronise`."""

    def synchronise(self) -> None:
        """Wait until the queue is empty; raise what a launch in it raised."""

    def elapsed_ns(self, start: Any, end: Any) -> float:
        """Return the time between two marks that were reached."""

    def conditions(self) -> Conditions:
        """Return the card's state now."""


@dataclass(frozen=True)
class Recording:
    """Launches that the device repeats by itself: `play` queues them all, each between the two marks of its pair."""

    play: Launch
    marks: Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Heat:
    """The launches of one sample, of these sets of tensors, and their recording, if there can be one."""

    sets: Sequence[int]
    launches: Sequence[Launch]
    recording: Recording | None = None


@dataclass(frozen=True)
class Lane:
    """What an entrant does in rounds: one of its heats in each, in turn."""

    heats: Sequence[Heat]

    def heat(self, turn: int) -> Heat:
        """Return what it does in the round of this number."""
        return self.heats[turn % len(self.heats)]


def value_count(set_bytes: int, cache_bytes: int | None) -> int:
    """Return how many sets of inputs and outputs to rotate, so that none finds its own values in the L2 cache.

    One where a set is twice the cache at least, since it drives itself out, or where the cache is unknown; else sets
    of four caches together, as far as `MOST_VALUES` go. The flush before each launch empties the cache all the same.
    """
    if cache_bytes is None or set_bytes >= 2 * cache_bytes:
        return 1
    return min(MOST_VALUES, -(-4 * cache_bytes // max(set_bytes, 1)))


def set_count(values: int, held_bytes: int, memory_bytes: int | None) -> int:
    """Return how many sets to lay out in memory: one for each of `values`, and as many more as find room.

    How fast memory is depends on where in it tensors lie, and no two processes are given the same pages: of one set,
    medians of 135 us differ by 0.4 % between processes, and hardly at all within one. `held_bytes`: what one set takes
    with the outputs of all entrants, wherever they lie. A quarter of a device's memory is used, and where that is
    unknown nothing more.
    """
    room = 0 if memory_bytes is None else min(MOST_BYTES, memory_bytes // 4)
    return max(values, min(MOST_SETS, room // max(held_bytes, 1)))


def launch_count(launch_ns: float) -> int:
    """Return how many launches take `MOST_SAMPLE_NS`, and one at least."""
    return max(1, math.floor(MOST_SAMPLE_NS / max(launch_ns, 1.0)))


def heats(sets: int, most: int) -> list[range]:
    """Return the sets of one sample after another: all, or about `most` at a time."""
    count = max(1, round(sets / most))
    return [range(sets * place // count, sets * (place + 1) // count) for place in range(count)]


def turns(launches: Sequence[Launch], repeats: int) -> list[Launch]:
    """Return the launches of one sample: `repeats` of them, each set once at least, in turn."""
    return [launches[turn % len(launches)] for turn in range(max(repeats, len(launches)))]


def balanced(count: int) -> list[list[int]]:
    """Return orders of 0 to `count` - 1 in which each stands in every place, and right behind every other one, equally
    often: in each place once where `count` is even, else twice.

    The first goes to and fro, 0, 1, n - 1, 2, n - 2 and so on, and each further one is the one before plus 1 (Williams,
    Experimental designs balanced for the estimation of residual effects of treatments, Australian Journal of Scientific
    Research A 2, 1949). Every order is there backwards too, so that of two each comes first in half of them.
    """
    first = [-(place // 2) if place % 2 == 0 else place // 2 + 1 for place in range(count)]
    orders = [[(each + shift) % count for each in first] for shift in range(count)]
    return orders if count % 2 == 0 else orders + [order[::-1] for order in orders]


def schedule(rounds: int, entrants: Sequence[str], seed: int) -> Iterator[list[str]]:
    """Yield the order of each round, the same for the same seed: balanced ones, with the entrants and the orders
    shuffled anew each time that all were used.

    Shuffled alone, one of two twins came last 218 times of 785 and the other one 178 times, and last was 2 % faster.
    """
    generator, order = random.Random(seed), list(entrants)  # noqa: S311, an order that can be made again is wanted
    while rounds > 0 and order:
        generator.shuffle(order)
        block = balanced(len(order))
        generator.shuffle(block)
        yield from ([order[place] for place in places] for places in block[:rounds])
        rounds -= len(block)


def marked(device: Device, launch: Launch) -> tuple[Any, Any]:
    """Queue one launch; return the marks before and behind it."""
    start = device.mark()
    launch()
    return start, device.mark()


def timed(device: Device, launch: Launch) -> tuple[Any, Any]:
    """Queue one launch after a flush; return the marks before and behind it."""
    # The flush also keeps the device busy while the host queues the rest, so that a launch does not wait for the host.
    device.flush()
    return marked(device, launch)


def _queue(device: Device, heat: Heat) -> tuple[Sequence[tuple[Any, Any]], Sequence[tuple[Any, Any]]]:
    """Queue a sample of each mode; return the marks of both, the replay's empty without a recording."""
    if heat.recording is None:
        return [timed(device, launch) for launch in heat.launches], ()
    # The replay first: the host is done with the launches while it lasts, or some would wait for the host and some not.
    heat.recording.play()
    return [timed(device, launch) for launch in heat.launches], heat.recording.marks


def middle(values: Sequence[float]) -> float:
    """Return the interquartile mean: of the middle half, once a quarter of the values, to the nearest whole number, is
    left out at either end. Of three values it is the median. ValueError without values.

    Values that a clock rounds to steps, 32 ns on an H200, have a median on such a step; of eight, this is as fine as
    the fourth part of one.
    """
    out = (len(values) + 1) // 4
    return statistics.fmean(sorted(values)[out : len(values) - out])


def _sample(device: Device, pairs: Sequence[tuple[Any, Any]]) -> float:
    """Return the middle of the launches in whole nanoseconds, which is finer than what the mean of a few can tell."""
    return float(round(middle([device.elapsed_ns(*pair) for pair in pairs])))


def take_round(device: Device, taking: Mapping[str, Heat]) -> Round:
    """Take a sample of every entrant in each of its modes, in this order; return the samples and the card's state.

    The queue is empty before and after each entrant: a launch takes longer the more stands behind it. In one queue, of
    an 8 us kernel's samples the first of a round was 3 % shorter by events, and the last 2 % by replay.
    """
    samples, replays = dict[str, float](), dict[str, float]()
    for name, heat in taking.items():
        launched, replayed = _queue(device, heat)
        # Read while the device still works: the state that the launches ran in, and no time of the device's is lost.
        # And for each entrant, though the last one's is kept, so that the host does the same beside all of them.
        conditions = device.conditions()
        device.synchronise()
        samples[name] = _sample(device, launched)
        if replayed:
            replays[name] = _sample(device, replayed)
    return Round(samples_ns=samples, replays_ns=replays, conditions=conditions)

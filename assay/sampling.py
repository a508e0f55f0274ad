"""How the timing stage samples, and what its child process answers: no device, no clock and no torch in here.

Entrants are timed in interleaved rounds, each in an order of its own, so that a clock that drifts or a neighbour on the
card touches all of them alike. A sample is a median, because a disturbed launch is late and never early.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from assay.record import Conditions, Count, Declaration, Digest, Record, Verdict


class Entrant(Record, frozen=True, kw_only=True):
    """A variant of the kernel (named by its id) or a library peer."""

    name: str
    kind: Literal["variant", "peer"]
    precision: str
    configuration: str | None


class Problem(Record, frozen=True, kw_only=True):
    """One timed size, with the work that the kernel declares for it."""

    size: str
    dimensions: dict[str, Count]
    flops: Count
    bytes: Count


class Identity(Record, frozen=True, kw_only=True):
    """The device that a child process runs on. `uuid` never leaves the machine."""

    uuid: str
    compute_capability: str


class Subject(Record, frozen=True, kw_only=True):
    """The child's answer to `describe`: who is timed at which sizes, on which device."""

    declaration: Declaration
    entrants: list[Entrant]
    problems: list[Problem]
    device: Identity


class Prepared(Record, frozen=True, kw_only=True):
    """The child's answer to `prepare`: the binaries that the entrant launched."""

    cubin_sha256: list[Digest]


class Round(Record, frozen=True, kw_only=True):
    """The child's answer to `round`: one sample of every entrant, and the card's state beside them."""

    samples_ns: dict[str, float]
    conditions: Conditions


class Checked(Record, frozen=True, kw_only=True):
    """The child's answer to `check`: whether what the timed launches wrote is right, for each variant."""

    verdicts: dict[str, Verdict]


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


def schedule(rounds: int, entrants: Sequence[str], seed: int) -> Iterator[list[str]]:
    """Yield the order of each round: all entrants, shuffled; the same for the same seed."""
    generator = random.Random(seed)  # noqa: S311, an order that can be made again is wanted
    for _ in range(rounds):
        yield generator.sample(entrants, len(entrants))


def _timed(device: Device, launch: Callable[[], object]) -> tuple[Any, Any]:
    # The flush also keeps the device busy while the host queues the rest, so that a launch does not wait for the host.
    device.flush()
    start = device.mark()
    launch()
    return start, device.mark()


def take_round(
    device: Device, launches: Mapping[str, Callable[[], object]], order: Sequence[str], repeats: int
) -> Round:
    """Queue `repeats` launches of every entrant, wait once, and return each one's median and the card's state."""
    marks = {name: [_timed(device, launches[name]) for _ in range(repeats)] for name in order}
    device.synchronise()
    samples = {name: statistics.median(device.elapsed_ns(*pair) for pair in pairs) for name, pairs in marks.items()}
    return Round(samples_ns=samples, conditions=device.conditions())

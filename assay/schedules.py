"""Shows, under the interpreter, whether a result depends on the order in which a launch's programs and lanes run.

A GPU runs the programs of a launch in any order and several at a time. The interpreter runs one after another, so that
a race looks right. What programs do to memory that others of the launch use is watched, which costs little; where two
are in conflict, the launches run again under schedules that a GPU may choose as well:

- at once: a program that loads what another has stored finds, the first time, what was there before the launch;
- reversed: the last program runs first, and the lanes of a store write in reversed order;
- grouped: a reduction or a scan with a function of the kernel's own combines two halves that were combined before, as
  the threads of a GPU do, and not always one more element. This rounds otherwise, so that bounds decide and not bits.

A conflict alone is no fault: what was loaded may be thrown away, and what was stored may be the same. An atomic
operation, or a volatile load, on an address that another program has stored or changed puts the two in order, as locks,
counters and flags do.
"""

import contextlib
import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch

from assay.addresses import Array, Span, active_lanes, extent
from assay.conflicts import Access, Conflict, first_conflict
from assay.privacy import scrub

Schedule = Literal["in order", "at once", "reversed", "grouped"]
Place = tuple[int, int, int]

MOST_LANES = 1 << 24
"""Of a launch's loads and stores that are watched, at 8 bytes each. Of what comes after them nothing is said."""

LOAD_OPTIONS = "other", "cache_modifier", "eviction_policy", "is_volatile"
"""What the interpreter's `create_masked_load` takes after pointers and mask, by place or by name."""

MOST_FLAGS = 32
"""Lanes of a store or an atomic operation that may be locks or flags: those are few, accumulators are wide."""


@dataclass
class Watch:
    """What the launches inside do: their first conflict, in words, whether any operation is atomic or volatile, and
    whether a function of the kernel's own combines more than two elements.

    `constant`: memory that none of them changes, so that loads from it need no look.
    """

    schedule: Schedule
    constant: Sequence[Span]
    conflict: str | None = None
    waits: bool = False
    combines: bool = False

    @property
    def alternatives(self) -> list[Schedule]:
        """The schedules to try. Reversed, atomic sums round otherwise, and a program may wait for one before it."""
        if self.conflict is None:
            return []
        return ["at once"] if self.waits else ["at once", "reversed"]


@dataclass
class Running:
    """A launch that is watched, while it runs: the places of its programs so far, and what they have done.

    `touched`: the last program that stored to, or changed, what may be a flag; `behind`: for each program the bits of
    those that are before what it does next. `before` and `stored`: what an address held when the launch began, and the
    bits of the programs that have stored to it; `seen`: who has loaded that already.
    """

    watch: Watch
    places: list[Place] = field(default_factory=list)
    loads: list[Access] = field(default_factory=list)
    stores: list[Access] = field(default_factory=list)
    lanes: int = 0
    touched: dict[int, int] = field(default_factory=dict)
    behind: list[int] = field(default_factory=list)
    before: dict[int, Any] = field(default_factory=dict)
    stored: dict[int, int] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)

    @property
    def program(self) -> int:
        """The number of the program that runs."""
        return len(self.places) - 1

    def start(self, place: Place) -> None:
        """Begin the next program."""
        self.places.append(place)
        self.behind.append(0)

    def keep(self, accesses: list[Access], addresses: Array) -> None:
        """Keep what one load or store did."""
        if self.lanes < MOST_LANES:
            self.lanes += addresses.size
            accesses.append(Access(self.program, addresses, self.behind[-1], _line()))

    def touch(self, addresses: Array) -> None:
        """Remember who was the last to touch what may be a flag."""
        if addresses.size <= MOST_FLAGS:
            self.touched |= dict.fromkeys(addresses.tolist(), self.program)

    def wait(self, addresses: Array) -> None:
        """Put whoever touched these addresses last, and those before it, before the program that runs."""
        self.watch.waits = True
        if addresses.size <= MOST_FLAGS:
            for other in {self.touched[at] for at in addresses.tolist() if at in self.touched} - {self.program}:
                self.behind[-1] |= 1 << other | self.behind[other]

    def is_constant(self, addresses: Array) -> bool:
        """Return whether all lanes lie in memory that does not change."""
        first, last = int(addresses.min()), int(addresses.max())
        return any(start <= first and last < stop for start, stop in self.watch.constant)

    def remember(self, addresses: Array, held: Array) -> None:
        """Remember what addresses hold that the program that runs is about to store to."""
        for at, value in zip(addresses.tolist(), held, strict=True):
            self.before.setdefault(at, value)
            self.stored[at] = self.stored.get(at, 0) | 1 << self.program

    def is_late(self, at: int) -> bool:
        """Return whether only programs that may run at the same time have stored to an address, for the first time."""
        stored, ours = self.stored.get(at, 0), 1 << self.program
        late = bool(stored) and not stored & ours and bool(stored & ~self.behind[-1])
        late = late and (self.program, at) not in self.seen
        self.seen.add((self.program, at))
        return late

    def end(self) -> None:
        """Look for a conflict, unless an earlier launch had one."""
        if self.watch.conflict is None and (found := first_conflict(self.loads, self.stores)) is not None:
            self.watch.conflict = described(found, self.places)


def described(found: Conflict, places: Sequence[Place]) -> str:
    """Say what a conflict is about, and where in the kernel file."""
    one, other = places[found.one.program], places[found.other.program]
    said = {
        "lanes": f"several lanes of one store of program {one} write to one address",
        "store": f"programs {one} and {other} store to one address",
        "load": f"program {one} loads what program {other} stores in the same launch",
    }[found.kind]
    lines = dict.fromkeys(access.line for access in (found.one, found.other) if access.line)
    return f"{said} ({' and '.join(lines)})" if lines else said


def _line() -> str:
    """Return the line of the kernel file that runs, as a refusal of an address names it, or "" outside one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and "/kernels/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return "" if frame is None else f"{scrub(frame.f_code.co_filename)}:{frame.f_lineno}"


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)
_RUNNING: ContextVar[Running | None] = ContextVar("running", default=None)


@contextlib.contextmanager
def watching(constant: Iterable[torch.Tensor], schedule: Schedule = "in order") -> Iterator[Watch]:
    """Watch the launches inside, which run under `schedule`; `constant` tensors are those that they may not change."""
    watch = Watch(schedule, [extent(tensor) for tensor in constant])
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)


def watch_programs(interpreter: Any) -> None:
    """Watch every launch of Triton's interpreter from now on. Called once, by `assay.interpreting`."""
    builder = interpreter.InterpreterBuilder
    _watch_launches(interpreter.GridExecutor)
    _place_programs(builder)
    load = _watch_loads(builder)
    _watch_stores(builder, load)
    _watch_atomics(builder, "create_atomic_cas", 0, None)
    _watch_atomics(builder, "create_atomic_rmw", 1, 3)
    _watch_combining(interpreter.ReduceOps, "generic_reduce", _reduce_halves)
    _watch_combining(interpreter.ScanOps, "generic_scan", _scan_halves)


def _watch_launches(executor: Any) -> None:
    call = executor.__call__

    def calling(self: Any, *arguments: Any, **named: Any) -> Any:
        watch = _WATCH.get()
        running = None if watch is None else Running(watch)
        token = _RUNNING.set(running)
        try:
            returned = call(self, *arguments, **named)
        finally:
            _RUNNING.reset(token)
        if running is not None:
            running.end()
        return returned

    executor.__call__ = calling


def _place_programs(builder: Any) -> None:
    place = builder.set_grid_idx

    def placing(self: Any, *at: int) -> None:
        running = _RUNNING.get()
        if running is not None and running.watch.schedule == "reversed":
            at = tuple(size - 1 - index for size, index in zip(self.grid_dim, at, strict=True))
        place(self, *at)
        if running is not None:
            running.start((at[0], at[1], at[2]))

    builder.set_grid_idx = placing


def _watch_loads(builder: Any) -> Callable[..., Any]:
    """Watch loads; return the method that was there."""
    load: Callable[..., Any] = builder.create_masked_load

    def loading(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        made = load(self, pointers, mask, *rest, **named)
        running, addresses = _RUNNING.get(), active_lanes(pointers.data, mask.data)
        if running is None or addresses.size == 0 or running.is_constant(addresses):
            return made
        asked = dict(zip(LOAD_OPTIONS, rest, strict=False)) | named
        if asked["is_volatile"] or getattr(asked["cache_modifier"], "name", "") == "CV":
            running.wait(addresses)
        elif running.watch.schedule == "at once":
            made.data = _as_before(running, pointers.data, mask.data, made.data)
        else:
            running.keep(running.loads, addresses)
        return made

    builder.create_masked_load = loading
    return load


def _as_before(running: Running, pointers: Array, mask: Array, loaded: Array) -> Array:
    """Return what a load finds where no program that may run at the same time has stored yet."""
    found = np.array(loaded)
    for lane in np.flatnonzero(np.broadcast_to(mask, pointers.shape)):
        at = int(pointers.flat[lane])
        if running.is_late(at) and running.before[at].dtype == found.dtype:
            found.flat[lane] = running.before[at]
    return found


def _watch_stores(builder: Any, load: Callable[..., Any]) -> None:
    store: Callable[..., Any] = builder.create_masked_store

    def storing(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        running, addresses = _RUNNING.get(), active_lanes(pointers.data, mask.data)
        if running is None or addresses.size == 0:
            return store(self, pointers, value, mask, *rest, **named)
        if running.watch.schedule == "at once":
            held = load(self, pointers, mask, None, None, None, False).data
            running.remember(addresses, active_lanes(held, mask.data))
        elif running.watch.schedule == "reversed":
            pointers, value, mask = (_reversed(handle, pointers.data.shape) for handle in (pointers, value, mask))
        else:
            running.keep(running.stores, addresses)
        running.touch(addresses)
        return store(self, pointers, value, mask, *rest, **named)

    builder.create_masked_store = storing


def _reversed(handle: Any, shape: tuple[int, ...]) -> Any:
    """Return an operand whose last lane comes first."""
    made = copy.copy(handle)
    # A copy: the interpreter takes no view that it may not write to.
    made.data = np.array(np.flip(np.broadcast_to(handle.data, shape)))
    return made


def _watch_atomics(builder: Any, name: str, pointers_at: int, mask_at: int | None) -> None:
    access: Callable[..., Any] = getattr(builder, name)

    def changing(self: Any, *operands: Any, **named: Any) -> Any:
        running = _RUNNING.get()
        if running is not None:
            mask = None if mask_at is None else operands[mask_at].data
            addresses = active_lanes(operands[pointers_at].data, mask)
            running.wait(addresses)
            running.touch(addresses)
        return access(self, *operands, **named)

    setattr(builder, name, changing)


Combine = Callable[[Any, Any], list[Any]]
"""A method of the interpreter that combines the elements of several tensors along an axis, with its `self`."""


def _watch_combining(operations: Any, name: str, halves: Callable[[Any, Sequence[Any], Combine], list[Any]]) -> None:
    combine: Combine = getattr(operations, name)

    def combining(self: Any, input: Any) -> list[Any]:
        watch = _WATCH.get()
        if watch is None or self.axis is None or input[0].handle.data.shape[self.axis] < 3:
            return combine(self, input)
        watch.combines = True
        return halves(self, input, combine) if watch.schedule == "grouped" else combine(self, input)

    setattr(operations, name, combining)


def _parts(self: Any, tensors: Sequence[Any], start: int | None, stop: int | None) -> tuple[Any, ...]:
    """Return the tensors from `start` to `stop` along the axis."""
    places = (*(slice(None),) * (self.axis % tensors[0].handle.data.ndim), slice(start, stop))
    return tuple(self.to_tensor(tensor.handle.data[places], tensor.dtype) for tensor in tensors)


def _joined(self: Any, *parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the tensors of several parts, one behind the other along the axis."""
    return tuple(
        self.to_tensor(np.concatenate([one.handle.data for one in each], self.axis), each[0].dtype)
        for each in zip(*parts, strict=True)
    )


def _reduce_halves(self: Any, input: Sequence[Any], combine: Combine) -> list[Any]:
    middle, kept = input[0].handle.data.shape[self.axis] // 2, self.keep_dims
    self.keep_dims = True
    halves = [combine(self, _parts(self, input, *ends)) for ends in ((None, middle), (middle, None))]
    self.keep_dims = kept
    return combine(self, _joined(self, *halves))


def _scan_halves(self: Any, input: Sequence[Any], combine: Combine) -> list[Any]:
    length = input[0].handle.data.shape[self.axis]
    first, second = (combine(self, _parts(self, input, *ends)) for ends in ((None, length // 2), (length // 2, None)))
    total, found = _parts(self, first, length // 2 - 1, None), [tuple(first)]
    for at in range(length - length // 2):
        both = combine(self, _joined(self, total, _parts(self, second, at, at + 1)))
        found.append(_parts(self, both, 1, None))
    return list(_joined(self, *found))

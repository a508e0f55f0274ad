"""Shows, under the interpreter, whether a result depends on the order in which a launch's programs and lanes run.

A GPU runs the programs of a launch in any order and several at a time. The interpreter runs one after another, so that
a race looks right. What programs do to memory that others of the launch use is watched, which costs little; where two
are in conflict, the launches run again under schedules that a GPU may choose as well:

- at once: a program that loads what another has stored finds, the first time, what was there before that;
- late: where two programs store to one address, what the earlier one stores comes last;
- reversed: the last program runs first, and the lanes of a store or of an atomic operation in reversed order;
- first lane first, last lane first: between two barriers each lane of a program does all it does before the next one
  begins (`assay.threads`), where two of them are in conflict;
- grouped: what a function of the kernel's own reduces or scans, and what `tl.cat` joins, comes as the threads of a GPU
  have it (`assay.combining`). Sums round otherwise: bounds decide, not bits.

A conflict alone is no fault: what was loaded may be thrown away, and what was stored may be the same. What a program
releases and another acquires puts what the one did before it in front of what the other does after it: by atomic
operations, as they say themselves, or by a store of few lanes and a volatile load, as flags are. One thread does that:
of what many lanes did, only what a barrier puts before it (`tl.debug_barrier`). What programs draw from one address by
atomic operations depends on who comes first: there, reversed, bounds decide too.
"""

import contextlib
import copy
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch
import triton

from assay.addresses import Array, Span, active_lanes, extent
from assay.conflicts import Access, Conflict, first_conflict, shared
from assay.errors import AssayError
from assay.ordering import NOTHING, Clock, Release, joined, knows
from assay.phases import Log, Meeting, Phases
from assay.privacy import scrub

Schedule = Literal["in order", "at once", "late", "reversed", "grouped", "first lane first", "last lane first"]
LANE_BY_LANE: tuple[Schedule, Schedule] = ("first lane first", "last lane first")
Place = tuple[int, int, int]

MOST_LANES = 1 << 24
"""Of a launch's loads and stores that are watched, at 8 bytes each. Of what comes after them nothing is said."""

MOST_FLAGS = 32
"""Lanes of a store, or of an atomic operation that says nothing of order, that may be locks or flags: those are few,
accumulators are wide.
"""

MOST_POLLED = 1024
"""Lanes of a look at flags."""

RELEASES_WAIT = not triton.__version__.startswith(("3.6.", "3.7.", "3.8."))
"""Whether the compiler puts a barrier before an atomic operation that releases, as Triton's does from 3.9 on."""

MOST_TURNS = 2000
MOST_LOADS = 100_000
"""Looks at the same addresses, one after another with nothing changed, after which a program waits for ever: by atomic
or volatile operations, and by plain loads, which an honest loop may repeat too.
"""


class StuckError(AssayError):
    """A program waits for one that has not begun: the interpreter runs one after another."""


class EndlessError(StuckError):
    """A program waits, and there is no other that could end that."""


@dataclass
class Watch:
    """What the launches inside do: their first conflict, in words, whether any operation is atomic or volatile, and
    whether a function of the kernel's own combines more than two elements, or `tl.cat` may reorder some.

    `constant`: memory that none of them changes, so that loads from it need no look. `draws`: the line of an atomic
    operation by which several programs or lanes come to one address, if one does. `unfenced`: the first conflict of
    lanes of one program, in words; `log`: where what such lanes store is kept, or, lane by lane, stands. `launches`:
    how many were begun; `raised`: the first error of one.
    """

    schedule: Schedule
    constant: Sequence[Span]
    log: Log = field(default_factory=dict)
    conflict: str | None = None
    unfenced: str | None = None
    waits: bool = False
    draws: str | None = None
    combines: bool = False
    launches: int = 0
    raised: Exception | None = None

    @property
    def alternatives(self) -> dict[Schedule, str]:
        """The schedules to try, each with the conflict that gives reason to. Reversed, atomic sums round otherwise, and
        a program may wait for one before it.
        """
        found: dict[Schedule, str] = {}
        if self.conflict is not None:
            other: Schedule = "late" if self.waits else "reversed"
            found |= {"at once": self.conflict, other: self.conflict}
        return found if self.unfenced is None else found | dict.fromkeys(LANE_BY_LANE, self.unfenced)

    def begin(self) -> "Running":
        """Return the next launch."""
        self.launches += 1
        by_lane = self.schedule in LANE_BY_LANE
        phases = Phases(self.log, self.launches, by_lane=by_lane, watched=self.schedule == "in order")
        return Running(self, phases)


@dataclass
class Running:
    """A launch that is watched, while it runs: the places of its programs so far, and what they have done.

    `polls` are volatile loads. `clock` and `epoch` are those of the program that runs; `released`: what is learnt by
    whoever acquires at an address. `history`: who has stored to an address, in which epoch, and what it held before;
    `seen`: who has loaded that already. `turns`: how often the program that runs has looked at the same addresses in a
    row. `programs`: how many there are. `phases` are those of its programs, between barriers. `wide`: whether the one
    that runs has used memory by several lanes since its last barrier, `fenced` its newest epoch before that;
    `unfenced`: by program, epochs of which something was not released that might have been: past one, up to another.
    """

    watch: Watch
    phases: Phases
    places: list[Place] = field(default_factory=list)
    loads: list[Access] = field(default_factory=list)
    polls: list[Access] = field(default_factory=list)
    stores: list[Access] = field(default_factory=list)
    atomics: list[Access] = field(default_factory=list)
    lanes: int = 0
    clock: Clock = field(default_factory=lambda: NOTHING)
    epoch: int = 0
    released: dict[int, Release] = field(default_factory=dict)
    history: dict[int, list[tuple[int, int, Any]]] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    turns: int = 0
    looked_at: bytes = b""
    programs: int = 0
    wide: bool = False
    fenced: int = -1
    unfenced: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def program(self) -> int:
        """The number of the program that runs."""
        return len(self.places) - 1

    def start(self, place: Place) -> None:
        """Begin the next program."""
        self.places.append(place)
        self.phases.start(self.program)
        self.clock, self.epoch, self.turns, self.looked_at = NOTHING, 0, 0, b""
        self.wide, self.fenced = False, -1

    def pass_barrier(self) -> None:
        """Note that the threads of the program that runs have waited for each other."""
        self.phases.pass_barrier()
        self.fence()

    def fence(self) -> None:
        """End an epoch in front of which a barrier stands for whatever is released later."""
        if self.wide:
            self.fenced, self.wide = self.epoch, False
            self.epoch += 1

    def keep(self, accesses: list[Access], addresses: Array) -> None:
        """Keep what one load or store did."""
        if self.lanes < MOST_LANES:
            self.lanes += addresses.size
            accesses.append(Access(self.program, addresses, self.epoch, self.clock, line_that_runs()))

    def release(self, addresses: Array, *, joins: bool = False) -> None:
        """End an epoch at what may be flags; `joins`: what was released there before can be acquired there still."""
        newest = self.fenced if self.wide else self.epoch
        if self.wide and joins:
            # Of a plain store nobody knows that it is meant to release anything.
            self.unfenced.setdefault(self.program, []).append((self.fenced, self.epoch))
        for at in addresses.tolist():
            before, clock = self.released.get(at), self.clock
            if joins and before is not None and not knows(clock, before.program, before.epoch):
                clock = joined(clock, before.known())
            self.released[at] = Release(self.program, newest, clock)
        self.epoch += 1

    def acquire(self, addresses: Array) -> None:
        """Learn what was released at these addresses."""
        for at in self.released.keys() & set(addresses.tolist()) if self.released else ():
            found = self.released[at]
            if not knows(self.clock, found.program, found.epoch):
                self.clock = joined(self.clock, found.known())

    def look(self, addresses: Array | None, most: int = MOST_TURNS) -> None:
        """Count looks at the same few addresses in a row, or None where the program does something else; StuckError or
        EndlessError after the `most` that there may be, where it would go on for ever.
        """
        at = b"" if addresses is None or addresses.size > MOST_POLLED else addresses.tobytes()
        self.turns = self.turns + 1 if at and at == self.looked_at else 0
        self.looked_at = at
        if self.turns <= most:
            return
        line = f"{line}: " if (line := line_that_runs()) else ""
        what = f"{line}program {self.places[-1]} polls one address for ever"
        if len(self.places) == self.programs:
            raise EndlessError(f"{what}, and no other program is left that could change it")
        raise StuckError(
            f"{what}: it waits for one that has not begun, and the interpreter runs one after another; a GPU can run it"
        )

    def is_constant(self, addresses: Array) -> bool:
        """Return whether all lanes lie in memory that does not change."""
        first, last = int(addresses.min()), int(addresses.max())
        return any(start <= first and last < stop for start, stop in self.watch.constant)

    def remember(self, addresses: Array, held: Array) -> None:
        """Remember what addresses hold that the program that runs is about to store to."""
        for at, value in zip(addresses.tolist(), held, strict=True):
            self.history.setdefault(at, []).append((self.program, self.epoch, value))

    def is_free(self, program: int, epoch: int) -> bool:
        """Return whether nothing puts what a program did in an epoch before what the program that runs does now."""
        return program != self.program and not knows(self.clock, program, epoch)

    def older(self, at: int) -> Any:
        """Return what an address held before all stores to it that may not have happened yet, the first time that the
        program asks; None where it holds nothing else.
        """
        found = None
        for program, epoch, held in reversed(self.history.get(at, ())):
            if not self.is_free(program, epoch):
                break
            found = held
        first = (self.program, at) not in self.seen
        self.seen.add((self.program, at))
        return found if first else None

    def is_late(self, at: int) -> bool:
        """Return whether the last store to an address may come after what the program that runs stores there."""
        return any(self.is_free(program, epoch) for program, epoch, _ in self.history.get(at, [])[-1:])

    def end(self) -> None:
        """Look for a conflict, and for atomic operations that meet, unless an earlier launch had one."""
        watch = self.watch
        # What is polled is meant to change: another conflict says more.
        loads = [*self.loads, *self.polls]
        if watch.conflict is None and (found := first_conflict(loads, self.stores)) is not None:
            watch.conflict = described(found, self.places, unfenced=self._is_unfenced(found))
        if watch.draws is None and (drawing := shared(self.atomics)) is not None:
            watch.draws = drawing.line
        self.phases.pass_barrier()
        if watch.unfenced is None and (met := self.phases.met) is not None:
            watch.unfenced = among_lanes(met, self.places[met.program])

    def _is_unfenced(self, found: Conflict) -> bool:
        """Return whether a barrier might have put in order what is in conflict."""
        return any(
            past < access.epoch <= last
            for access in (found.one, found.other)
            for past, last in self.unfenced.get(access.program, ())
        )


def described(found: Conflict, places: Sequence[Place], *, unfenced: bool = False) -> str:
    """Say what a conflict is about, and where in the kernel file."""
    one, other = places[found.one.program], places[found.other.program]
    said = {
        "lanes": f"several lanes of one store of program {one} write to one address",
        "store": f"programs {one} and {other} store to one address",
        "load": f"program {one} loads what program {other} stores in the same launch",
    }[found.kind]
    missing = ", with no tl.debug_barrier() before the release" if unfenced else ""
    return said + missing + _at(found.one.line, found.other.line)


def among_lanes(met: Meeting, place: Place) -> str:
    """Say what a conflict between lanes of one program is about, and where in the kernel file."""
    first, last = sorted((met.store, met.other), key=lambda touch: touch.turn)
    what = "store" if met.other.values is not None else "store and load" if first is met.store else "load and store"
    said = f"lanes of program {place} {what} at one address, with no tl.debug_barrier() between"
    return said + _at(first.line, last.line)


def _at(*lines: str) -> str:
    known = dict.fromkeys(line for line in lines if line)
    return f" ({' and '.join(known)})" if known else ""


def line_that_runs() -> str:
    """Return the line of the kernel file that runs, as a refusal of an address names it, or "" outside one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and "/kernels/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return "" if frame is None else f"{scrub(frame.f_code.co_filename)}:{frame.f_lineno}"


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)
_RUNNING: ContextVar[Running | None] = ContextVar("running", default=None)


def current_watch() -> Watch | None:
    """Return the watch over the launches that are made now, if there is one."""
    return _WATCH.get()


def current_launch() -> Running | None:
    """Return the launch that runs now, if one does."""
    return _RUNNING.get()


@contextlib.contextmanager
def watching(
    constant: Iterable[torch.Tensor], schedule: Schedule = "in order", log: Log | None = None
) -> Iterator[Watch]:
    """Watch the launches inside, which run under `schedule`; `constant` tensors are those that they may not change.

    In order, a `log` is filled with what lanes in conflict store; lane by lane, that is looked up there. What a launch
    raises is raised at the end too, where someone has caught it: what came then is not the kernel's.
    """
    watch = Watch(schedule, [extent(tensor) for tensor in constant], {} if log is None else log)
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)
    if watch.raised is not None:
        raise watch.raised


Held = Callable[[Any, Any, Any], Array]
"""Returns what pointers point at, of a builder, the pointers and their mask; nobody watches that."""


def watch_programs(interpreter: Any) -> Held:
    """Watch every launch of Triton's interpreter from now on; return a way past the watch. Called once, by
    `assay.interpreting`.
    """
    builder = interpreter.InterpreterBuilder
    _watch_launches(interpreter.GridExecutor)
    _place_programs(builder)
    held = _watch_loads(builder)
    _watch_stores(builder, held)
    _watch_atomics(builder, held, "create_atomic_cas", ("ptr", "cmp", "val", "sem", "scope"))
    _watch_atomics(builder, held, "create_atomic_rmw", ("rmwOp", "ptr", "val", "mask", "sem", "scope"))
    return held


def _watch_launches(executor: Any) -> None:
    call = executor.__call__

    def calling(self: Any, *arguments: Any, **named: Any) -> Any:
        watch = _WATCH.get()
        # Where nobody watches, a program that waits for ever is found all the same, and nothing is kept.
        running = Running(Watch("in order", ()), Phases({}), lanes=MOST_LANES) if watch is None else watch.begin()
        token = _RUNNING.set(running)
        try:
            returned = call(self, *arguments, **named)
        except Exception as error:
            running.watch.raised = running.watch.raised or error
            raise
        finally:
            _RUNNING.reset(token)
        if watch is not None:
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
            running.programs = math.prod(self.grid_dim)
            running.start((at[0], at[1], at[2]))

    builder.set_grid_idx = placing


def _watch_loads(builder: Any) -> Held:
    """Watch loads; return a way past the watch."""
    load: Callable[..., Any] = builder.create_masked_load
    # After pointers and mask, with `is_volatile` as the last: until Triton 3.8 two options for caches, then one.
    _, _, _, *options = inspect.signature(load).parameters

    def held(self: Any, pointers: Any, mask: Any) -> Array:
        found: Array = load(self, pointers, mask, *[None for _ in options[:-1]], False).data
        return found

    def loading(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        made = load(self, pointers, mask, *rest, **named)
        running, addresses = _RUNNING.get(), active_lanes(pointers.data, mask.data)
        if running is None or addresses.size == 0:
            return made
        if running.is_constant(addresses):
            running.look(None)
            return made
        asked = dict(zip(options, rest, strict=False)) | named
        polls = asked["is_volatile"] or getattr(asked.get("cache_modifier"), "name", "") == "CV"
        running.look(addresses, MOST_TURNS if polls else MOST_LOADS)
        running.wide |= addresses.size > 1 and not polls
        if running.watch.schedule == "at once":
            loaded, made.data = made.data, _as_before(running, pointers.data, mask.data, made.data)
            polls = polls and made.data is loaded
        else:
            running.keep(running.polls if polls else running.loads, addresses)
        if polls:
            running.watch.waits = True
            running.acquire(addresses)
        return made

    builder.create_masked_load = loading
    return held


def _as_before(running: Running, pointers: Array, mask: Array, loaded: Array) -> Array:
    """Return what a load finds where no program that may run at the same time has stored yet: `loaded` itself where
    that is all the same.
    """
    return replaced(loaded, pointers, mask, lambda at, _: running.older(at))


def replaced(loaded: Array, pointers: Array, mask: Array, find: Callable[[int, int], Any]) -> Array:
    """Return what a load finds where `find`, of an address and the number of a lane, gives something else than None:
    `loaded` itself where that is nowhere.
    """
    made, other = np.array(loaded), False
    for lane in np.flatnonzero(np.broadcast_to(mask, pointers.shape)).tolist():
        held = find(int(pointers.flat[lane]), lane)
        if held is not None and held.dtype == made.dtype:
            made.flat[lane], other = held, True
    return made if other else loaded


def _watch_stores(builder: Any, held: Held) -> None:
    store: Callable[..., Any] = builder.create_masked_store

    def storing(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        running, addresses = _RUNNING.get(), active_lanes(pointers.data, mask.data)
        if running is None or addresses.size == 0:
            return store(self, pointers, value, mask, *rest, **named)
        running.look(None)
        if running.watch.schedule == "late":
            mask = without(mask, _overtaken(running, pointers.data))
        if running.watch.schedule in ("at once", "late"):
            before = active_lanes(held(self, pointers, mask), mask.data)
            running.remember(active_lanes(pointers.data, mask.data), before)
        elif running.watch.schedule == "reversed":
            pointers, value, mask = (_reversed(handle, pointers.data.shape) for handle in (pointers, value, mask))
        else:
            running.keep(running.stores, addresses)
        if addresses.size <= MOST_FLAGS:
            running.release(addresses)
        running.wide |= addresses.size > 1
        return store(self, pointers, value, mask, *rest, **named)

    builder.create_masked_store = storing


def _overtaken(running: Running, pointers: Array) -> Array:
    """Say of each lane whether what it stores is overwritten by what an earlier program stores late."""
    late = [running.is_late(at) for at in pointers.ravel().tolist()]
    return np.array(late, bool).reshape(pointers.shape)


def without(mask: Any, lanes: Array) -> Any:
    """Return a mask without some lanes."""
    made = copy.copy(mask)
    made.data = np.broadcast_to(mask.data, lanes.shape) & ~lanes
    return made


def _reversed(handle: Any, shape: tuple[int, ...]) -> Any:
    """Return an operand whose last lane comes first."""
    made = copy.copy(handle)
    # A copy: the interpreter takes no view that it may not write to.
    made.data = np.array(np.flip(np.broadcast_to(handle.data, shape)))
    return made


def _watch_atomics(builder: Any, held: Held, name: str, parameters: Sequence[str]) -> None:
    access: Callable[..., Any] = getattr(builder, name)

    def changing(self: Any, *operands: Any, **named: Any) -> Any:
        running, given = _RUNNING.get(), dict(zip(parameters, operands, strict=False)) | named
        if running is None:
            return access(self, *given.values())
        mask = given["mask"] if "mask" in given else _whole(given["ptr"])
        addresses = active_lanes(given["ptr"].data, mask.data)
        running.watch.waits = True
        running.keep(running.atomics, addresses)
        _put_in_order(running, addresses, given)
        if running.watch.schedule == "reversed":
            made = _reversed_access(access, self, given)
        else:
            made = access(self, *given.values())
        running.fence()
        if addresses.size <= MOST_POLLED:
            after = active_lanes(held(self, given["ptr"], mask), mask.data)
            changed = not np.array_equal(after, active_lanes(made.data, mask.data))
            running.look(None if changed else addresses)
        return made

    setattr(builder, name, changing)


def _whole(pointers: Any) -> Any:
    """Return a mask of all lanes."""
    made = copy.copy(pointers)
    made.data = np.ones(pointers.data.shape, bool)
    return made


def _reversed_access(access: Callable[..., Any], builder: Any, given: Mapping[str, Any]) -> Any:
    """Let the last lane of an atomic operation come first."""
    lanes = {key: _reversed(given[key], given["ptr"].data.shape) for key in LANES if key in given}
    made = access(builder, *(dict(given) | lanes).values())
    return _reversed(made, made.data.shape)


LANES = "ptr", "cmp", "val", "mask"
"""The operands of an atomic operation that have lanes."""


def _put_in_order(running: Running, addresses: Array, given: Mapping[str, Any]) -> None:
    """Acquire and release as an atomic operation does, unless it speaks to threads of its own program alone."""
    semantics, scope = (getattr(given[key], "name", "") for key in ("sem", "scope"))
    if scope == "CTA":
        return
    if "ACQUIRE" in semantics:
        running.acquire(addresses)
    if "RELEASE" in semantics:
        if RELEASES_WAIT:
            running.fence()
        if addresses.size <= MOST_FLAGS or semantics == "RELEASE" or getattr(given.get("rmwOp"), "name", "") == "XCHG":
            running.release(addresses, joins=True)

"""Finds where lanes of one program use the same memory between two barriers, and what each may find there. Pure.

Between two barriers the threads of a program run in any order (CUDA C++ Programming Guide, 7.6, Synchronization
Functions), and which thread does what a lane says is the compiler's to choose. Only lanes of the same number, out of as
many, are taken to be one thread's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from assay.addresses import Array


class Lane(NamedTuple):
    """One lane of an operation: its number, and how many there are."""

    number: int
    many: int

    def rank(self, *, first: bool) -> tuple[float, int]:
        """Return what puts lanes in an order: those before others that come `first` in their operation, or after."""
        return (self.number / self.many, self.many) if first else (-self.number / self.many, -self.many)


@dataclass(frozen=True)
class Touch:
    """One load or store: its active lanes, by number out of `many`, the address of each, and what a store puts there.

    `turn`: how many others came before it in its phase. `line`: where in the kernel file it stands.
    """

    addresses: Array
    lanes: Array
    many: int
    turn: int
    line: str
    values: Array | None = None

    def lanes_at(self, at: int) -> set[Lane]:
        """Return the lanes that are to an address."""
        return {Lane(lane, self.many) for lane in self.lanes[self.addresses == at].tolist()}

    def stored(self) -> Iterator[tuple[int, "Stored"]]:
        """Walk what each lane stores, and where."""
        values = () if self.values is None else self.values
        for at, lane, value in zip(self.addresses.tolist(), self.lanes.tolist(), values, strict=False):
            yield at, Stored(Lane(lane, self.many), self.turn, value)


class Meeting(NamedTuple):
    """A store and another operation of one program, lanes of which are in conflict."""

    program: int
    store: Touch
    other: Touch


class Stored(NamedTuple):
    """What one lane stored to an address."""

    lane: Lane
    turn: int
    value: Any


Foreseen = Mapping[int, list[Stored]]
"""What a phase stores to those addresses that its lanes are in conflict about."""

Log = dict[tuple[int, int, int], Foreseen]
"""By launch, program and phase, each by its number."""

MOST_LANES = 1 << 22
"""Of a phase's loads and stores that are watched. Of what comes after them nothing is said."""


def in_conflict(touches: list[Touch]) -> Array:
    """Return the addresses that a lane stores to and another lane uses as well, each once."""
    touches = _near_others(touches)
    if not any(touch.values is not None for touch in touches):
        return np.empty(0, np.uint64)
    addresses = np.concatenate([touch.addresses for touch in touches])
    stores = np.concatenate([np.full(touch.addresses.size, touch.values is not None) for touch in touches])
    lanes = np.concatenate([touch.lanes.astype(np.int64) + (touch.many << 32) for touch in touches])
    order = np.argsort(addresses, kind="stable")
    addresses, stores, lanes = addresses[order], stores[order], lanes[order]
    first = np.flatnonzero(np.append(True, addresses[1:] != addresses[:-1]))
    stored = np.logical_or.reduceat(stores, first)
    differ = np.minimum.reduceat(lanes, first) != np.maximum.reduceat(lanes, first)
    found: Array = addresses[first[stored & differ]]
    return found


def _near_others(touches: list[Touch]) -> list[Touch]:
    """Leave out what lies apart from all others, as most does: that takes no look at each lane."""
    spans = sorted((int(touch.addresses.min()), int(touch.addresses.max()), at) for at, touch in enumerate(touches))
    kept, end, last = set[int](), -1, -1
    for low, high, at in spans:
        if low <= end:
            kept |= {last, at}
        if high > end:
            end, last = high, at
    return [touches[at] for at in sorted(kept)]


@dataclass
class Phase:
    """What a program does from one barrier to the next. `foreseen`: what it is going to store, where that is known.

    `stored`: what it has, of those addresses; `before`: what they held when it began.
    """

    foreseen: Foreseen = field(default_factory=dict)
    touches: list[Touch] = field(default_factory=list)
    lanes: int = 0
    turns: int = 0
    stored: dict[int, list[Stored]] = field(default_factory=dict)
    before: dict[int, Any] = field(default_factory=dict)

    def turn(self) -> int:
        """Count an operation; return how many came before it."""
        self.turns += 1
        return self.turns - 1

    def first_meeting(self, program: int, at: int) -> Meeting:
        """Return a store to an address that is in conflict, and another operation that is to it."""
        there = [touch for touch in self.touches if at in touch.addresses]
        store = next(touch for touch in there if touch.values is not None)
        return Meeting(program, store, next((one for one in there if one.lanes_at(at) != store.lanes_at(at)), store))

    def stored_to(self, addresses: set[int]) -> Foreseen:
        """Return what is stored to some addresses."""
        found: dict[int, list[Stored]] = {}
        for touch in self.touches:
            for at, stored in touch.stored():
                if at in addresses:
                    found.setdefault(at, []).append(stored)
        return found

    def found(self, at: int, lane: Lane, turn: int, *, first: bool) -> Any:
        """Return what a lane finds at an address where lanes run one after another, those that come `first` first or
        last; None where that is what memory holds.
        """
        later = [one for one in self.foreseen.get(at, ()) if one.turn > turn]
        rank = lane.rank(first=first), turn
        ranked = [((one.lane.rank(first=first), one.turn), one.value) for one in (*self.stored.get(at, ()), *later)]
        passed = [one for one in ranked if one[0] < rank]
        return max(passed, key=lambda one: one[0])[1] if passed else self.before.get(at)

    def store(self, at: int, stored: Stored, held: Any, *, first: bool) -> bool:
        """Note what a lane stores over what an address `held`; return whether it is still there after the phase's other
        stores so far, where lanes run one after another.
        """
        self.before.setdefault(at, held)
        others = self.stored.setdefault(at, [])
        stays = all(one.lane.rank(first=first) <= stored.lane.rank(first=first) for one in others)
        others.append(stored)
        return stays


@dataclass
class Phases:
    """The phases of the programs of a launch. `met`: the first two operations of one program in conflict.

    `log`: where, of phases with a conflict, what is stored is kept while they are `watched`, or stands where lanes run
    one after another, `by_lane`. `number`: how many phases of the program came before this one.
    """

    log: Log
    launch: int = 0
    by_lane: bool = False
    watched: bool = False
    program: int = 0
    number: int = 0
    phase: Phase = field(default_factory=Phase)
    met: Meeting | None = None

    def start(self, program: int) -> None:
        """Begin the next program."""
        self._end()
        self.program, self.number = program, 0
        self._begin()

    def pass_barrier(self) -> None:
        """End a phase of the program that runs, and begin the next."""
        if self.phase.turns:
            self._end()
            self.number += 1
            self._begin()

    def touch(self, touch: Touch) -> None:
        """Keep what one operation did, for the end of its phase."""
        if self.phase.lanes < MOST_LANES:
            self.phase.touches.append(touch)
            self.phase.lanes += touch.addresses.size

    def _begin(self) -> None:
        self.phase = Phase(self.log.get((self.launch, self.program, self.number), {}) if self.by_lane else {})

    def _end(self) -> None:
        found = in_conflict(self.phase.touches)
        if found.size:
            self.met = self.met or self.phase.first_meeting(self.program, int(found[0]))
            self.log[self.launch, self.program, self.number] = self.phase.stored_to(set(found.tolist()))

"""Lanes of one program between two barriers: against a walk through each lane by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.phases import Lane, Log, Phase, Phases, Touch, in_conflict

PLACES = 5
"""Addresses, few so that lanes meet."""

Memory = dict[int, float]
Loaded = dict[tuple[int, Lane], float]


@dataclass(frozen=True)
class Step:
    """One operation: where each active lane goes, and for a store what it puts there."""

    many: int
    goes: dict[int, int]
    values: dict[int, float] | None

    def touch(self, turn: int) -> Touch:
        lanes = list(self.goes)
        stored = None if self.values is None else np.array([self.values[lane] for lane in lanes])
        addresses = np.array([self.goes[lane] for lane in lanes], np.uint64)
        return Touch(addresses, np.array(lanes), self.many, turn, f"kernels/k.py:{turn}", stored)

    def lanes(self) -> Iterator[tuple[Lane, int]]:
        for number, at in self.goes.items():
            yield Lane(number, self.many), at


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Draw operations, no two lanes of one to the same address, as those of a correct store."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        many = draw(st.sampled_from([1, 4]))
        places = draw(st.lists(st.integers(0, PLACES - 1), min_size=1, max_size=many, unique=True))
        goes = dict(zip(draw(st.permutations(range(many))), places, strict=False))
        goes = dict(sorted(goes.items()))
        values = {lane: 100.0 * number + lane + 1 for lane in goes}
        found.append(Step(many, goes, values if draw(st.booleans()) else None))
    return found


def vectorised(program: list[Step]) -> tuple[Memory, Loaded]:
    """Do each operation for all lanes before the next one."""
    memory, loaded = dict.fromkeys(range(PLACES), 0.0), Loaded()
    for turn, step in enumerate(program):
        for lane, at in step.lanes():
            if step.values is None:
                loaded[turn, lane] = memory[at]
            else:
                memory[at] = step.values[lane.number]
    return memory, loaded


def walked(program: list[Step], *, first: bool) -> tuple[Memory, Loaded]:
    """Do all that one lane does before the next lane begins."""
    memory, loaded = dict.fromkeys(range(PLACES), 0.0), Loaded()
    lanes = {lane for step in program for lane, _ in step.lanes()}
    for lane in sorted(lanes, key=lambda lane: lane.rank(first=first)):
        for turn, step in enumerate(program):
            if lane not in dict(step.lanes()):
                continue
            at = step.goes[lane.number]
            if step.values is None:
                loaded[turn, lane] = memory[at]
            else:
                memory[at] = step.values[lane.number]
    return memory, loaded


def seen(program: list[Step]) -> Phase:
    return Phase(touches=[step.touch(turn) for turn, step in enumerate(program)])


def replayed(program: list[Step], *, first: bool) -> tuple[Memory, Loaded]:
    """Do each operation for all lanes, each of which finds and leaves what the phase says."""
    memory, loaded = dict.fromkeys(range(PLACES), 0.0), Loaded()
    phase = Phase(seen(program).stored_to(set(in_conflict(seen(program).touches).tolist())))
    for turn, step in enumerate(program):
        if step.values is None:
            for lane, at in step.lanes():
                found = phase.found(at, lane, turn, first=first)
                loaded[turn, lane] = memory[at] if found is None else found
            continue
        held = dict(memory)
        for at, stored in step.touch(turn).stored():
            if phase.store(at, stored, held[at], first=first):
                memory[at] = stored.value
    return memory, loaded


@given(steps(), st.booleans())
def test_a_replay_is_a_walk_through_each_lane(program: list[Step], first: bool) -> None:
    assert replayed(program, first=first) == walked(program, first=first)


@given(steps(), st.booleans())
def test_without_a_conflict_any_order_of_lanes_is_the_same(program: list[Step], first: bool) -> None:
    if in_conflict(seen(program).touches).size == 0:
        assert walked(program, first=first) == vectorised(program)


@given(steps())
def test_in_conflict_is_what_a_lane_stores_to_and_another_uses(program: list[Step]) -> None:
    uses = [(lane, at, step.values is not None) for step in program for lane, at in step.lanes()]
    wanted = {
        at
        for (one, at, stores), (other, there, also) in combinations(uses, 2)
        if at == there and one != other and (stores or also)
    }
    found = in_conflict(seen(program).touches).tolist()
    assert (set(found), len(found)) == (wanted, len(wanted))


@given(steps())
def test_a_meeting_is_a_store_and_another_lane_at_its_address(program: list[Step]) -> None:
    for at in in_conflict(seen(program).touches).tolist():
        met = seen(program).first_meeting(3, at)
        assert met.program == 3
        assert met.store.values is not None
        assert met.store.lanes_at(at) != met.other.lanes_at(at)


def test_lanes_stand_in_order_of_their_place_in_the_operation() -> None:
    lanes = [Lane(0, 4), Lane(2, 4), Lane(0, 1), Lane(1, 2), Lane(3, 4)]
    assert sorted(lanes, key=lambda lane: lane.rank(first=True)) == [(0, 1), (0, 4), (1, 2), (2, 4), (3, 4)]
    assert sorted(lanes, key=lambda lane: lane.rank(first=False)) == [(3, 4), (2, 4), (1, 2), (0, 4), (0, 1)]


STORE = Step(4, {0: 0, 1: 1}, {0: 1.0, 1: 2.0})
CROSSED = Step(4, {0: 1, 1: 0}, None)


def phases(log: Log, *, barrier: bool, by_lane: bool = False) -> Phases:
    """Go through two programs, each of which stores and loads what another lane has stored."""
    made = Phases(log, 1, by_lane=by_lane, watched=True)
    for program in range(2):
        made.start(program)
        made.touch(STORE.touch(made.phase.turn()))
        if barrier:
            made.pass_barrier()
        made.touch(CROSSED.touch(made.phase.turn()))
    made.pass_barrier()
    return made


def test_a_barrier_ends_a_conflict() -> None:
    log: Log = {}
    assert phases(log, barrier=True).met is None
    assert log == {}


def test_what_a_phase_with_a_conflict_stores_is_kept_and_foreseen() -> None:
    log: Log = {}
    met = phases(log, barrier=False).met
    assert met is not None
    assert (met.program, met.store.turn, met.other.turn) == (0, 0, 1)
    assert list(log) == [(1, 0, 0), (1, 1, 0)]
    again = Phases(log, 1, by_lane=True)
    again.start(1)
    assert again.phase.foreseen == log[1, 1, 0]
    assert again.phase.foreseen.keys() == {0, 1}


@pytest.mark.parametrize("passes", [1, 3])
def test_a_barrier_where_nothing_was_done_begins_no_phase(passes: int) -> None:
    made = Phases({}, 1)
    made.start(0)
    made.phase.turn()
    for _ in range(passes):
        made.pass_barrier()
    assert made.number == 1

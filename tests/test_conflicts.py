"""Conflicts between programs of one launch: against a search of all pairs of lanes."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.conflicts import Access, first_conflict, in_order, shared

FEW = 4
"""Programs and addresses, so that they meet."""


@st.composite
def accesses(draw: st.DrawFn) -> list[Access]:
    """Draw accesses in the order of their programs, each of which knows of some epochs of the programs before it."""
    found = []
    for program in sorted(draw(st.lists(st.integers(0, FEW - 1), max_size=6))):
        addresses = np.array(draw(st.lists(st.integers(0, 2 * FEW), max_size=4)), np.uint64)
        clock = np.array(draw(st.lists(st.integers(-1, 2), max_size=program)), np.int32)
        found.append(Access(program, addresses, draw(st.integers(0, 2)), clock))
    return found


def touches(one: Access, other: Access) -> bool:
    return bool(set(one.addresses.tolist()) & set(other.addresses.tolist()))


Found = tuple[str, int, int]
"""A kind of conflict, and the programs that are in it."""


def between_stores(stores: list[Access]) -> set[Found]:
    """Return all pairs of stores to one address that no third store to it, in between, puts in order."""
    found = set[Found]()
    for store in stores:
        if len(set(store.addresses.tolist())) < store.addresses.size:
            found.add(("lanes", store.program, store.program))
    for at in range(2 * FEW + 1):
        there = [store for store in stores if at in store.addresses.tolist()]
        found |= {("store", one.program, other.program) for one, other in pairwise(there) if not in_order(one, other)}
    return found


def with_loads(loads: list[Access], stores: list[Access]) -> set[Found]:
    return {
        ("load", load.program, store.program)
        for load in loads
        for store in stores
        if touches(load, store) and not in_order(load, store)
    }


@given(accesses(), accesses())
def test_a_conflict_is_found_where_there_is_one_and_is_one(loads: list[Access], stores: list[Access]) -> None:
    found, wanted = first_conflict(loads, stores), between_stores(stores) or with_loads(loads, stores)
    assert (found is None) == (not wanted)
    assert found is None or (found.kind, found.one.program, found.other.program) in wanted


@given(st.lists(st.lists(st.integers(0, 50), max_size=5, unique=True), max_size=5))
def test_one_program_is_never_in_conflict_with_itself(lanes: list[list[int]]) -> None:
    own = [Access(3, np.array(addresses, np.uint64)) for addresses in lanes]
    assert first_conflict(own, own) is None


@given(st.integers(1, 6))
def test_what_waits_for_all_before_it_is_in_order(programs: int) -> None:
    address = np.array([7], np.uint64)
    waiting = [Access(program, address, 3, np.full(program, 3, np.int32)) for program in range(programs)]
    assert first_conflict(waiting, waiting) is None
    assert all(in_order(one, other) and in_order(other, one) for one, other in combinations(waiting, 2))
    free = [Access(program, address) for program in range(programs)]
    assert (first_conflict([], free) is None) == (programs == 1)


def test_an_epoch_that_is_not_known_is_in_no_order() -> None:
    address = np.array([7], np.uint64)
    early, late = Access(0, address, 3), Access(0, address, 4)
    knowing = Access(1, address, 0, np.array([3], np.int32))
    assert in_order(early, knowing)
    assert not in_order(late, knowing)
    assert not in_order(early, Access(2, address))


@given(accesses())
def test_what_is_shared_is_an_address_of_two_programs_or_lanes(done: list[Access]) -> None:
    lanes = [(at, number) for number, access in enumerate(done) for at in access.addresses.tolist()]
    met = [
        max(one, other)
        for (at, one), (there, other) in combinations(lanes, 2)
        if at == there and (one == other or done[one].program != done[other].program)
    ]
    found = shared(done)
    assert (found is None) == (not met)
    assert found is None or any(found is done[number] for number in met)

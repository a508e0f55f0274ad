"""Vector clocks: against a search of all that came before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.ordering import NOTHING, Clock, Release, joined, knows

FEW, MOST = 4, 13
"""Programs, and epochs of one."""

CLOCKS = st.lists(st.integers(-1, 5), max_size=FEW).map(lambda epochs: np.array(epochs, np.int32))
EVENT = st.tuples(st.integers(0, FEW - 1), st.sampled_from(["release", "acquire"]), st.integers(0, 1))


def known_of(clock: Clock) -> set[tuple[int, int]]:
    return {(program, epoch) for program in range(FEW) for epoch in range(MOST) if knows(clock, program, epoch)}


@given(CLOCKS, CLOCKS)
def test_joined_is_what_either_knows(one: Clock, other: Clock) -> None:
    before = one.tolist(), other.tolist()
    assert known_of(joined(one, other)) == known_of(one) | known_of(other)
    assert (one.tolist(), other.tolist()) == before


@given(CLOCKS, st.integers(0, FEW - 1), st.integers(0, 5))
def test_a_release_tells_its_epoch_those_before_it_and_what_its_program_knew(
    clock: Clock, program: int, epoch: int
) -> None:
    own = {(program, earlier) for earlier in range(epoch + 1)}
    assert known_of(Release(program, epoch, clock).known()) == known_of(clock) | own


@pytest.mark.parametrize("program", range(FEW))
def test_nothing_knows_of_no_program(program: int) -> None:
    assert not knows(NOTHING, program, 0)


@given(st.lists(EVENT, max_size=12))
def test_what_is_known_is_what_a_chain_of_releases_and_acquires_leads_to(events: list[tuple[int, str, int]]) -> None:
    clocks, epochs = [NOTHING] * FEW, [0] * FEW
    released: dict[int, Release] = {}
    # The same by sets: each program knows of its own epochs that it released, and of what it acquired.
    sets: list[set[tuple[int, int]]] = [set() for _ in range(FEW)]
    told: dict[int, set[tuple[int, int]]] = {}
    for program, what, flag in events:
        if what == "release":
            released[flag] = Release(program, epochs[program], clocks[program])
            told[flag] = sets[program] | {(program, epoch) for epoch in range(epochs[program] + 1)}
            epochs[program] += 1
        elif flag in released:
            clocks[program] = joined(clocks[program], released[flag].known())
            sets[program] |= told[flag]
    for program in range(FEW):
        assert {(of, epoch) for of in range(FEW) for epoch in range(13) if knows(clocks[program], of, epoch)} == sets[
            program
        ]

"""The search against a brute force that looks at every point."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.bisection import bracket, conclude, search

Row = list[bool | None]
INNER = st.lists(st.sampled_from([True, False, None]), max_size=30)
ROWS = INNER.map(lambda inner: [True, *inner, False])
MONOTONE = st.tuples(st.integers(1, 40), st.integers(1, 40)).map(lambda n: [True] * n[0] + [False] * n[1])


def places(row: Sequence[bool | None]) -> set[tuple[int, int]]:
    """Return every pair of judged neighbours between which it changed."""
    known = [at for at, same in enumerate(row) if same is not None]
    return {(a, b) for a, b in pairwise(known) if row[a] and row[b] is False}


@given(ROWS)
def test_it_ends_at_a_place_where_it_changed(row: Row) -> None:
    found = search(len(row), row.__getitem__)
    assert (found.last, found.first) in places(row)
    assert found.exact == (found.first == found.last + 1)
    assert all(row[at] == same for at, same in found.judged.items())


@given(MONOTONE)
def test_the_only_place_is_found_in_logarithmically_many_steps(row: Row) -> None:
    asked: list[int] = []
    found = search(len(row), lambda at: asked.append(at) or row[at])  # type: ignore[func-returns-value]
    assert {(found.last, found.first)} == places(row)
    assert found.exact
    assert found.back == []
    assert len(asked) == len(set(asked)) <= math.ceil(math.log2(len(row) - 1))


@given(MONOTONE, st.data())
def test_with_points_that_cannot_be_judged_the_true_place_is_in_the_range(row: Row, data: st.DataObject) -> None:
    true = next(iter(places(row)))
    hidden = data.draw(st.sets(st.integers(1, max(1, len(row) - 2))))
    seen = [None if at in hidden and 0 < at < len(row) - 1 else same for at, same in enumerate(row)]
    found = search(len(row), seen.__getitem__)
    assert found.last <= true[0] < true[1] <= found.first
    assert all(seen[at] is None for at in range(found.last + 1, found.first))


@given(ROWS)
def test_looking_at_every_point_finds_the_first_place_and_all_ways_back(row: Row) -> None:
    found = search(len(row), row.__getitem__, every=True)
    assert set(found.judged) == set(range(len(row)))
    assert (found.last, found.first) == min(places(row))
    known = [at for at, same in enumerate(row) if same is not None]
    assert found.back == [(a, b) for a, b in pairwise(known) if row[a] is False and row[b] is True]


def test_a_row_of_two_asks_nothing() -> None:
    def never(at: int) -> bool | None:
        raise AssertionError(at)

    found = search(2, never)
    assert (found.last, found.first, found.exact) == (0, 1, True)


@pytest.mark.parametrize("judged", [{}, {0: True}, {0: False}, {0: None, 1: None}, {0: False, 1: True}])
def test_without_both_sides_there_is_no_place(judged: dict[int, bool | None]) -> None:
    with pytest.raises(ValueError, match="as before"):
        bracket(judged)


def test_what_came_back_is_named() -> None:
    found = conclude({0: True, 1: False, 2: None, 3: True, 4: False})
    assert (found.last, found.first, found.back) == (0, 1, [(1, 3)])

"""A grid past CUDA's limits is refused, with the axis and the count; one within them, or unknown, is not."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.grids import MOST_PROGRAMS, GridTooLarge, check_grid, excess, excess_of, shape_of

COUNTS = st.integers(0, 2**32) | st.sampled_from([65535, 65536, 2**31 - 1, 2**31])


@given(st.lists(COUNTS, max_size=3))
def test_a_grid_is_refused_for_the_first_axis_that_has_too_many(shape: list[int]) -> None:
    most = [2147483647, 65535, 65535]
    past = [axis for axis, count in enumerate(shape) if count > most[axis]]
    if not past:
        assert excess(shape) is None
        check_grid(shape)
        return
    said = f"expected at most {most[past[0]]} programs along axis {past[0]}, as CUDA allows, found {shape[past[0]]}"
    with pytest.raises(GridTooLarge, match=said):
        check_grid(shape)


def test_who_has_too_many_along_another_axis_is_told_of_the_first() -> None:
    assert str(excess((1, 65536))).endswith("; axis 0 may have 2147483647")
    assert str(excess((2**31,))).endswith("found 2147483648")
    assert MOST_PROGRAMS[0] == 2**31 - 1


def kernel(x: Any, n: int, BLOCK: int = 64) -> None:
    """Stand for the function of a compiled kernel."""


FUNCTION = SimpleNamespace(fn=kernel, arg_names=["x", "n", "BLOCK"])


def test_a_function_that_gives_the_grid_gets_every_argument_by_its_name() -> None:
    grid = lambda meta: (meta["n"] // meta["BLOCK"], meta["n"])  # noqa: E731
    assert shape_of(grid, {"n": 128, "BLOCK": 64}) == (2, 128)
    assert shape_of([3, 4], {}) == (3, 4)
    assert excess_of(FUNCTION, grid, (None, 65535), {"num_warps": 8}) is None
    # A default counts, and so do options that are arguments.
    assert "found 65536" in str(excess_of(FUNCTION, grid, (None, 65536), {"num_warps": 8}))
    assert "found 4194304" in str(excess_of(FUNCTION, (1, 4194304), (None,), {"n": 5}))


@pytest.mark.parametrize(
    ("grid", "arguments"),
    [(lambda meta: 1 // 0, (None, 5)), (None, (None, 5)), (("many",), (None, 5)), (lambda meta: (1, 10**6), ())],
    ids=["a function that raises", "no grid", "no number", "no arguments"],
)
def test_of_a_grid_that_cannot_be_told_nothing_is_said(grid: Any, arguments: tuple[Any, ...]) -> None:
    assert excess_of(FUNCTION, grid, arguments, {}) is None

"""A promise to the compiler that values break is refused with its line; one that holds, or holds up to an edge, never.

What holds is tried on what kernels make at ragged edges: offsets that begin again, are held between limits, or are
replaced.
"""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import triton
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH

from assay.child import interpreting_environment
from assay.promises import broken_group, broken_multiple, telling_axes

BLOCK = 16
lengths = st.sampled_from([1, 2, 4, 8, 16])
steps = st.sampled_from([1, 2, 4, 8])
sizes = st.integers(1, 70)


def block(program: int, step: int = 1) -> Any:
    return (program * BLOCK + np.arange(BLOCK)) * step


@given(st.integers(0, 4), lengths, steps)
def test_offsets_of_whole_blocks_keep_every_promise(program: int, length: int, step: int) -> None:
    offsets = block(program, step)
    assert broken_group(offsets, length, step, 0) is None
    assert broken_multiple(offsets, BLOCK * step, step, 0) is None
    assert broken_group(offsets // step // length, length, 0, 0) is None


@given(st.integers(0, 4), sizes, st.sampled_from(["again", "held", "zero", "nobody", "between"]))
def test_what_edges_make_of_them_is_passed_over(program: int, size: int, edge: str) -> None:
    # A program that begins past the end stores nothing.
    offsets = block(min(program, (size - 1) // BLOCK))
    at_the_edge = {
        "again": offsets % size,
        "held": np.minimum(offsets, size - 1),
        "zero": np.where(offsets < size, offsets, 0),
        "nobody": np.where(offsets < size, offsets, -1),
        "between": np.clip(offsets - 3, 0, size - 1),
    }[edge]
    assert broken_group(at_the_edge, BLOCK, 1, 0) is None
    if edge != "between":
        assert broken_multiple(at_the_edge, BLOCK, 1, 0) is None


@given(st.integers(0, 4), sizes, st.sampled_from([2, 4, 8]))
def test_equal_elements_up_to_an_edge_are_passed_over(program: int, size: int, length: int) -> None:
    offsets = block(program)
    assert broken_group(np.where(offsets < size, offsets // length, 0), length, 0, 0) is None
    assert broken_group(np.minimum(offsets, size - 1) // length, length, 0, 0) is None


@given(st.integers(0, 4), st.integers(2, 9), st.sampled_from([2, 4, 8, 16]))
def test_elements_that_lie_apart_are_no_neighbours(program: int, apart: int, length: int) -> None:
    first = program * BLOCK * apart
    assert broken_group(block(program) * apart, length, 1, 0) == (first, first + apart)
    assert broken_group(block(program)[::-1].copy(), length, 1, 0) is not None


@given(st.integers(0, 4), st.integers(1, 15))
def test_a_run_that_begins_between_multiples_is_none(program: int, shift: int) -> None:
    assert broken_multiple(block(program) + shift, 16, 1, 0) == program * BLOCK + shift


@given(st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_where_no_element_follows_another_each_is_a_multiple(starts: list[int]) -> None:
    values = np.array(starts)
    wrong = {start for start in starts if start % 2}
    runs = bool((np.diff(values) == 1).any())
    found = broken_multiple(values, 2, 1, 0)
    assert found is None or found in wrong
    assert runs or (found is not None) == (len(wrong) > 1 or (len(wrong) == 1 and len(starts) == 1))


def test_equal_elements_are_counted_in_groups() -> None:
    assert broken_group(np.arange(16) // 4, 4, 0, 0) is None
    assert broken_group(np.arange(16) // 4, 8, 0, 0) == (0, 1)
    # Of a mask no element stands for a lane that does not count.
    assert broken_group(np.arange(16) < 9, 8, 0, 0) == (1, 0)
    assert broken_group(np.arange(16) < 8, 8, 0, 0) is None


def test_multiples_matter_along_the_axis_that_has_the_runs() -> None:
    rows = np.arange(4)[:, None] * 45
    assert list(telling_axes(rows + np.arange(8)[None, :], 1)) == [1]
    assert list(telling_axes(np.arange(8)[:, None] + rows.T, 1)) == [0]
    assert list(telling_axes(rows, 1)) == [0, 1]


SCRIPT = """
import json
import torch
import triton
import triton.language as tl

from assay.interpreting import mend_interpreter

mend_interpreter()


@triton.jit
def scalar(y_ptr, n, HINT: tl.constexpr):
    n = tl.multiple_of(n, HINT)
    tl.store(y_ptr, n)


@triton.jit
def looped(y_ptr, low, HINT: tl.constexpr):
    for at in range(low, low + 1):
        tl.store(y_ptr, tl.multiple_of(at, HINT))


@triton.jit
def pointer(x_ptr, y_ptr, first, HINT: tl.constexpr):
    tl.store(y_ptr, tl.load(tl.multiple_of(x_ptr + first, HINT)))


@triton.jit
def pointers(x_ptr, y_ptr, step, first, HINT: tl.constexpr):
    i = tl.arange(0, 4)
    x_ptrs = tl.max_contiguous(tl.multiple_of(x_ptr + first + i * step, (HINT,)), [4])
    tl.store(y_ptr + i, tl.load(x_ptrs))


@triton.jit
def square(x_ptr, y_ptr, row, ROW: tl.constexpr, COLUMN: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 4)[None, :]
    x_ptrs = tl.multiple_of(x_ptr + i * row + j, [ROW, COLUMN])
    tl.store(y_ptr + i * 4 + j, tl.load(x_ptrs))


@triton.jit
def wrapped(x_ptr, y_ptr, m, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.max_contiguous(tl.multiple_of(i % m, BLOCK), BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + at), mask=i < n)


@triton.jit
def masked(x_ptr, y_ptr, n, GROUP: tl.constexpr):
    i = tl.arange(0, 16)
    mask = tl.max_constancy(i < n, [GROUP])
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=mask, other=0.0), mask=mask)


@triton.jit
def assumed(y_ptr, n):
    tl.assume(n % 4 == 0)
    tl.store(y_ptr, n)


@triton.jit
def gathered(starts_ptr, x_ptr, y_ptr, n):
    # The first programs are those past the end, whose starts are of no window.
    w, c = tl.num_programs(0) - 1 - tl.program_id(0), tl.arange(0, 4)
    start = tl.multiple_of(tl.load(starts_ptr + w, mask=w < n), 4)
    tl.assume(start % 4 == 0)
    mask = w * 4 + c < n * 4
    tl.store(y_ptr + w * 4 + c, tl.load(x_ptr + start + c, mask=mask, other=0.0), mask=mask)


@triton.jit
def gathered_together(starts_ptr, x_ptr, y_ptr, n):
    w = tl.arange(0, 4)
    at = tl.multiple_of(tl.load(starts_ptr + w, mask=w < n) + w * 8, 2)
    tl.store(y_ptr + w, tl.load(x_ptr + at, mask=w < n, other=0.0), mask=w < n)


@triton.jit
def halves(x_ptr, y_ptr):
    i = tl.arange(0, 4)
    x = tl.max_constancy(tl.load(x_ptr + i), [4])
    tl.store(y_ptr + i, x)


@triton.jit
def equals(x_ptr, y_ptr, GROUP: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(y_ptr + i, tl.load(tl.max_constancy(x_ptr + i // 4, [GROUP])))


@triton.jit
def stored_before(y_ptr, n):
    tl.store(y_ptr, n)
    tl.multiple_of(n, 16)


x, y, whole = torch.arange(64, dtype=torch.float32), torch.zeros(64), torch.zeros(64, dtype=torch.int32)


def run(kernel, *arguments, grid=1, **options):
    try:
        kernel[(grid,)](*arguments, **options)
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        return f"{type(error).__name__}: {error}"
    return None


starts = torch.tensor([8, 4, 2])
print(json.dumps({
    "scalar": run(scalar, whole, 48, HINT=16),
    "scalar, false": run(scalar, whole, 45, HINT=16),
    "scalar, negative": run(scalar, whole, -1, HINT=16),
    "loop": run(looped, whole, 32, HINT=16),
    "loop, false": run(looped, whole, 33, HINT=16),
    "pointer": run(pointer, x, y, 4, HINT=16),
    "pointer, more than a vector": run(pointer, x, y, 4, HINT=128),
    "pointer, false": run(pointer, x, y, 5, HINT=16),
    "pointer, not of elements": run(pointer, x, y, 1, HINT=4),
    "pointers": run(pointers, x, y, 1, 4, HINT=16),
    "pointers, shifted": run(pointers, x, y, 1, 3, HINT=16),
    "pointers, apart": run(pointers, x, y, 4, 0, HINT=16),
    "square": run(square, x, y, 8, ROW=1, COLUMN=16),
    "square, both axes": run(square, x, y, 8, ROW=16, COLUMN=16),
    "square, ragged rows": run(square, x, y, 7, ROW=1, COLUMN=16),
    "wrapped, whole": run(wrapped, x, y, 32, 32, grid=2, BLOCK=16),
    "wrapped, ragged": run(wrapped, x, y, 27, 27, grid=2, BLOCK=16),
    "wrapped, one": run(wrapped, x, y, 1, 1, grid=1, BLOCK=16),
    "wrapped, past the end": run(wrapped, x, y, 20, 20, grid=3, BLOCK=16),
    "wrapped, past the end and stored": run(wrapped, x, y, 20, 48, grid=3, BLOCK=16),
    "mask": run(masked, x, y, 8, GROUP=4),
    "mask, false": run(masked, x, y, 9, GROUP=4),
    "assumed": run(assumed, whole, 8),
    "assumed, false": run(assumed, whole, 6),
    "gathered, of lanes that count": run(gathered, starts, x, y, 2, grid=4),
    "gathered, false": run(gathered, starts, x, y, 3, grid=4),
    "gathered together, of lanes that count": run(gathered_together, starts, x, y, 2),
    "gathered together, false": run(gathered_together, torch.tensor([9, 5, 3, 1]), x, y, 4),
    "equal pointers": run(equals, x, y, GROUP=4),
    "equal pointers, false": run(equals, x, y, GROUP=8),
    "bytes, apart": run(pointers, x.to(torch.int8), y, 2, 0, HINT=1),
    "nothing stored after": run(stored_before, whole, 5),
    "the next launch": run(scalar, whole, 48, HINT=16),
    "floats": run(halves, x, y),
}))
"""
GROUPS = "tl.max_{} promises groups of {} {} along axis 0, found"
FOUND: dict[str, str | None] = {
    "scalar": None,
    "scalar, false": "tl.multiple_of promises multiples of 16, found 45",
    "scalar, negative": None,
    "loop": None,
    "loop, false": "tl.multiple_of promises multiples of 16, found 33",
    "pointer": None,
    "pointer, more than a vector": None,
    "pointer, false": "tl.multiple_of promises addresses that divide by 16, found one that is 4 past",
    "pointer, not of elements": None,
    "pointers": None,
    "pointers, shifted": "tl.multiple_of promises addresses that divide by 16, found one that is 12 past",
    "pointers, apart": f"{GROUPS.format('contiguous', 4, 'neighbours')} two that are 16 bytes apart",
    "square": None,
    "square, both axes": None,
    "square, ragged rows": "tl.multiple_of promises addresses that divide by 16, found one that is 12 past",
    "wrapped, whole": None,
    "wrapped, ragged": None,
    "wrapped, one": None,
    "wrapped, past the end": None,
    "wrapped, past the end and stored": "tl.multiple_of promises multiples of 16, found 12",
    "mask": None,
    "mask, false": f"{GROUPS.format('constancy', 4, 'equal elements')} 1 before 0",
    "assumed": None,
    "assumed, false": "tl.assume promises a condition, found it false",
    "gathered, of lanes that count": None,
    "gathered, false": "tl.multiple_of promises multiples of 4, found 2",
    "gathered together, of lanes that count": None,
    "gathered together, false": "tl.multiple_of promises multiples of 2, found 9",
    "equal pointers": None,
    "equal pointers, false": f"{GROUPS.format('constancy', 8, 'equal elements')} two that are 4 bytes apart",
    "bytes, apart": f"{GROUPS.format('contiguous', 4, 'neighbours')} two that are 2 bytes apart",
    "nothing stored after": None,
    "the next launch": None,
    "floats": None,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run every kernel in one child that decorates under the interpreter; return what each was refused for."""
    script = tmp_path_factory.mktemp("promises") / "script.py"
    script.write_text(SCRIPT, "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", FOUND)
def test_a_promise_is_held_against_the_values_at_hand(found: dict[str, Any], name: str) -> None:
    expected = FOUND[name]
    assert found[name] == (expected and f"FalsePromise: {expected}"), triton.__version__

"""Guarded tensors: the view holds the values, all around it is the guard, and one element too far is noticed."""

import itertools
import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.buffers import (
    BLANK,
    DISTANT,
    FAR,
    FENCE,
    GUARDED_ROWS,
    LARGEST_MARGIN,
    POISON,
    UNCLEARED,
    UNDEFINED,
    Guarded,
    bytes_needed,
    guard_input,
    guard_output,
    hollow,
    place,
    place_distant,
    reset,
)
from assay.kernel import Layout

shapes = st.lists(st.integers(1, 9), max_size=3).map(tuple)
layouts = st.sampled_from([layout for layout in get_args(Layout) if layout not in DISTANT])
floats = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64])
dtypes = st.one_of(floats, st.sampled_from([torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]))
fewer = settings(max_examples=50)


def values_of(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(1, math.prod(shape) + 1).reshape(shape).to(dtype)


def inside(held: Guarded) -> set[int]:
    """Return the flat positions of the view's elements, worked out index by index."""
    p = held.placement
    return {
        p.offset + sum(i * step for i, step in zip(index, p.strides, strict=True))
        for index in itertools.product(*map(range, p.shape))
    }


@fewer
@given(shapes, layouts, dtypes)
def test_an_input_holds_its_values_and_poison_all_around(
    shape: tuple[int, ...], layout: Layout, dtype: torch.dtype
) -> None:
    values = values_of(shape, dtype)
    held = guard_input(values, layout, "cpu")
    assert held.tensor.dtype == dtype
    assert torch.equal(held.tensor, values)
    rest = torch.ones(held.flat.numel(), dtype=torch.bool)
    rest[sorted(inside(held))] = False
    assert bool((held.flat[rest] == POISON[dtype.itemsize]).all())


@fewer
@given(shapes, layouts, dtypes)
def test_an_output_starts_blank_between_fences(shape: tuple[int, ...], layout: Layout, dtype: torch.dtype) -> None:
    held = guard_output(shape, dtype, layout, "cpu")
    assert tuple(held.tensor.shape) == shape
    assert bool((held.bits() == BLANK[dtype.itemsize]).all())
    rest = torch.ones(held.flat.numel(), dtype=torch.bool)
    rest[sorted(inside(held))] = False
    assert bool((held.flat[rest] == FENCE[dtype.itemsize]).all())


@fewer
@given(shapes, layouts)
def test_no_two_elements_share_a_place_and_all_lie_between_margins(shape: tuple[int, ...], layout: Layout) -> None:
    held = guard_output(shape, torch.float32, layout, "cpu")
    places = inside(held)
    assert len(places) == math.prod(shape)
    longest = max([1, *held.placement.strides])
    assert min(places) >= GUARDED_ROWS * longest
    assert max(places) < held.flat.numel() - GUARDED_ROWS * longest


@fewer
@given(shapes, layouts, floats)
def test_only_a_sliced_tensor_starts_off_sixteen_bytes(
    shape: tuple[int, ...], layout: Layout, dtype: torch.dtype
) -> None:
    for held in (guard_input(values_of(shape, dtype), layout, "cpu"), guard_output(shape, dtype, layout, "cpu")):
        assert held.tensor.data_ptr() % 16 == (dtype.itemsize if layout == "sliced" else 0)


@fewer
@given(st.integers(2, 9), st.integers(2, 9))
def test_each_layout_is_what_its_name_says(rows: int, columns: int) -> None:
    assert place((rows, columns), "contiguous").strides == (columns, 1)
    assert place((rows, columns), "sliced").strides == (columns, 1)
    assert place((rows, columns), "transposed").strides == (1, rows)
    padded = place((rows, columns), "padded").strides
    assert padded[0] > columns
    assert padded[0] % 2 != columns % 2
    assert padded[1] == 1


@fewer
@given(shapes, layouts, dtypes, st.data())
def test_any_one_element_written_outside_is_noticed(
    shape: tuple[int, ...], layout: Layout, dtype: torch.dtype, data: st.DataObject
) -> None:
    held = guard_output(shape, dtype, layout, "cpu")
    within, guard = inside(held), FENCE[dtype.itemsize]
    # As often between rows and beside the first and last element as far away.
    near = [p for p in range(min(within) - 2, max(within) + 3) if p not in within]
    spot = data.draw(st.sampled_from(near) | st.integers(0, held.flat.numel() - 1).filter(lambda p: p not in within))
    assert not held.outside_changed(guard)
    held.flat[spot] ^= 1
    assert held.outside_changed(guard)


@fewer
@given(shapes, layouts, dtypes, st.data())
def test_what_is_written_inside_is_not(
    shape: tuple[int, ...], layout: Layout, dtype: torch.dtype, data: st.DataObject
) -> None:
    held = guard_output(shape, dtype, layout, "cpu")
    held.flat[data.draw(st.sampled_from(sorted(inside(held))))] = 0
    held.tensor.copy_(values_of(shape, dtype))
    assert not held.outside_changed(FENCE[dtype.itemsize])
    assert torch.equal(held.tensor, values_of(shape, dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_patterns_are_different_nans_and_not_the_hardwares_own(dtype: torch.dtype) -> None:
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    patterns = [pattern[dtype.itemsize] for pattern in (FENCE, POISON, BLANK, UNDEFINED, UNCLEARED)]
    # What a host makes of inf - inf, and what NVIDIA's devices do: a payload of zeros or of ones, of either sign.
    own = torch.tensor([math.nan, -math.nan], dtype=dtype).view(integer).tolist()
    own += [torch.iinfo(integer).max, -1]
    assert bool(torch.tensor(patterns, dtype=integer).view(dtype).isnan().all())
    assert len({*patterns, *own}) == 5 + len(set(own))


def test_a_margin_has_a_largest_size() -> None:
    wide = place((2, 1 << 20), "contiguous")
    assert wide.offset == LARGEST_MARGIN
    assert wide.length == 2 * LARGEST_MARGIN + (2 << 20)


distant_shapes = st.tuples(st.integers(2, 5), st.integers(2, 9))
distant_layouts = st.sampled_from(list(DISTANT))


@fewer
@given(distant_shapes, distant_layouts, st.sampled_from([0, 64, FAR]))
def test_the_last_of_what_lies_far_apart_begins_past_what_32_bits_hold(
    shape: tuple[int, int], layout: Layout, room: int
) -> None:
    found = place_distant(shape, layout, room)
    axis = DISTANT[layout] % 2
    assert (shape[axis] - 1) * found.strides[axis] >= FAR
    assert found.strides[1 - axis] == 1
    # Else a stride would itself be a number of 64 bits, and no offset would be computed in 32.
    assert shape[axis] == 2 or found.strides[axis] < FAR
    assert found.offset >= room
    assert found.offset % 64 == 0
    assert found.strides[axis] % 64 == 0


@pytest.mark.parametrize("shape", [(), (5,), (1, 1)])
@pytest.mark.parametrize("layout", DISTANT)
def test_what_has_no_two_rows_cannot_be_apart(shape: tuple[int, ...], layout: Layout) -> None:
    with pytest.raises(ValueError, match="needs two rows and columns at least"):
        place_distant(shape, layout, 0)


def test_any_axis_of_three_can_be_the_one_that_is_spread() -> None:
    found = {layout: place_distant((3, 4, 5), layout, 0).strides for layout in DISTANT}
    far = {layout: FAR // (size - 1) for layout, size in zip(DISTANT, (3, 4, 5), strict=True)}
    assert found["distant"][1:] == (5, 1)
    assert found["distant"][0] >= far["distant"]
    assert (found["distant-rows"][0], found["distant-rows"][2]) == (5, 1)
    assert found["distant-rows"][1] >= far["distant-rows"]
    assert found["distant-columns"][:2] == (4, 1)
    assert found["distant-columns"][2] >= far["distant-columns"]


@fewer
@given(distant_shapes, distant_layouts, floats)
def test_what_is_distant_holds_its_values_between_guards(
    shape: tuple[int, int], layout: Layout, dtype: torch.dtype
) -> None:
    values = values_of(shape, dtype)
    held = guard_input(values, layout, "cpu")
    assert torch.equal(held.tensor, values)
    assert not held.outside_changed(POISON[dtype.itemsize])
    for window in held.placement.windows:
        assert held.flat[window.first - 1] == POISON[dtype.itemsize]
        assert held.flat[window.first + window.shape[0]] == POISON[dtype.itemsize]
    assert bytes_needed(shape, dtype, layout) > FAR * dtype.itemsize


@fewer
@given(distant_shapes, distant_layouts, st.data())
def test_a_write_beside_what_is_distant_is_noticed(shape: tuple[int, int], layout: Layout, data: st.DataObject) -> None:
    held = guard_output(shape, torch.float32, layout, "cpu")
    window = data.draw(st.sampled_from(held.placement.windows))
    before, behind = (window.start, window.first - 1), (window.first + window.shape[0], window.stop - 1)
    spot = data.draw(st.integers(*before) | st.integers(*behind))
    assert not held.outside_changed(FENCE[4])
    held.flat[spot] ^= 1
    assert held.outside_changed(FENCE[4])


@fewer
@given(shapes, layouts, dtypes)
def test_an_output_is_reset_to_what_it_was(shape: tuple[int, ...], layout: Layout, dtype: torch.dtype) -> None:
    held = guard_output(shape, dtype, layout, "cpu")
    before = held.snapshot()
    held.flat.fill_(3)
    assert not held.unchanged(before)
    reset(held)
    assert held.unchanged(before)


@fewer
@given(shapes, st.sampled_from(get_args(Layout)), dtypes)
def test_a_hollow_tensor_lies_as_one_with_values_does(
    shape: tuple[int, ...], layout: Layout, dtype: torch.dtype
) -> None:
    if layout in DISTANT:
        # Far apart is defined from two rows and two columns on.
        shape = (2, 2, 3) if len(shape) < 2 else tuple(max(2, extent) for extent in shape)
    like, held = hollow(shape, dtype, layout), guard_input(values_of(shape, dtype), layout, "cpu").tensor
    assert (like.shape, like.stride(), like.dtype) == (held.shape, held.stride(), held.dtype)
    # What Triton specialises on.
    assert like.data_ptr() % 16 == held.data_ptr() % 16
    assert not like.any()

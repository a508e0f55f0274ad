"""Tensors between guards: what a kernel may not read is poisoned, what it may not write is fenced.

A tensor of the harness is a view into a larger flat allocation. Around and between its rows lies a bit pattern: NaN
around an input, so that a load past an edge shows in the result, and a fence around an output, whose own elements start
as a third pattern, so that an element never written is told from one that was computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from assay.kernel import Layout

# Quiet NaNs (or, read as integers, odd numbers) that no arithmetic produces: hardware's own NaN has a payload of zeros,
# or of ones. Those of two bytes are NaN both as float16 and as bfloat16.
POISON = {1: 0x5B, 2: 0x7FDB, 4: 0x7FC0BEEF, 8: 0x7FF8BEEFBEEFBEEF}
FENCE = {1: 0x5C, 2: 0x7FDC, 4: 0x7FC0FE4C, 8: 0x7FF8FE4CFE4CFE4C}
# A pattern of its own: a CPU hands a NaN's payload on, so poison that was read past an edge can be a computed result.
BLANK = {1: 0x5D, 2: 0x7FDD, 4: 0x7FC0B1A4, 8: 0x7FF8B1A4B1A4B1A4}
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

PADDING = 13
"""Elements between rows of a padded tensor: odd, so that no row but the first is aligned."""

SMALLEST_MARGIN = 4096
LARGEST_MARGIN = 1 << 22
GUARDED_ROWS = 160
"""Rows that the margin covers at least: more than the tallest block of the kernels at hand."""


@dataclass(frozen=True)
class Placement:
    """Where a tensor lies: shape and strides (elements), first element and length of the flat allocation."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    length: int


def place(shape: Sequence[int], layout: Layout) -> Placement:
    """Lay out a shape; the margin on both sides is a multiple of 64 elements, so that it keeps the alignment."""
    extents = list(shape)
    order = list(range(len(extents)))
    if layout == "transposed":
        order.reverse()
    strides, step = [0] * len(extents), 1
    for position, axis in enumerate(reversed(order)):
        strides[axis] = step
        step *= extents[axis] + (PADDING if layout == "padded" and position == 0 and len(extents) > 1 else 0)
    rows = GUARDED_ROWS * max([1, *strides])
    margin = -(-min(max(rows, SMALLEST_MARGIN), LARGEST_MARGIN) // 64) * 64
    offset = margin + (1 if layout == "sliced" else 0)
    return Placement(tuple(extents), tuple(strides), offset, offset + max(step, 1) + margin)


@dataclass(frozen=True)
class Guarded:
    """A tensor in its allocation. `flat` holds the whole allocation as integers, so that bits can be compared."""

    placement: Placement
    flat: torch.Tensor
    dtype: torch.dtype

    @property
    def tensor(self) -> torch.Tensor:
        """The view that the kernel gets."""
        p = self.placement
        return self.flat.view(self.dtype).as_strided(p.shape, p.strides, p.offset)

    def bits(self) -> torch.Tensor:
        """The view's elements as integers."""
        p = self.placement
        return self.flat.as_strided(p.shape, p.strides, p.offset)

    def outside_changed(self, guard: int) -> bool:
        """Return whether any element outside the view is no longer `guard`."""
        rest = self.flat.clone()
        p = self.placement
        rest.as_strided(p.shape, p.strides, p.offset).fill_(guard)
        return bool((rest != guard).any())


def _filled(placement: Placement, pattern: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.full((placement.length,), pattern, dtype=_INTEGERS[dtype.itemsize], device=device)


def guard_input(values: torch.Tensor, layout: Layout, device: str) -> Guarded:
    """Place host values between poisoned margins and move the whole allocation to `device`: the same bits anywhere."""
    placement = place(tuple(values.shape), layout)
    held = Guarded(placement, _filled(placement, POISON[values.dtype.itemsize], values.dtype, "cpu"), values.dtype)
    held.tensor.copy_(values)
    return Guarded(placement, held.flat.to(device), values.dtype)


def guard_output(shape: Sequence[int], dtype: torch.dtype, layout: Layout, device: str) -> Guarded:
    """Allocate an output between fences, every element of it blank."""
    placement = place(tuple(shape), layout)
    held = Guarded(placement, _filled(placement, FENCE[dtype.itemsize], dtype, device), dtype)
    held.bits().fill_(BLANK[dtype.itemsize])
    return held

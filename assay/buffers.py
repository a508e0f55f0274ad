"""Tensors between guards: what a kernel may not read is poisoned, what it may not write is fenced.

A tensor of the harness is a view into a larger flat allocation. Around and between its rows lies a bit pattern: NaN
around an input, so that a load past an edge shows in the result, and a fence around an output, whose own elements start
as a third pattern, so that an element never written is told from one that was computed.
"""

import contextlib
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from assay.kernel import Layout

# Quiet NaNs (or, read as integers, odd numbers) that no arithmetic produces: hardware's own NaN has a payload of zeros,
# or of ones. Those of two bytes are NaN both as float16 and as bfloat16.
POISON = {1: 0x5B, 2: 0x7FDB, 4: 0x7FC0BEEF, 8: 0x7FF8BEEFBEEFBEEF}
FENCE = {1: 0x5C, 2: 0x7FDC, 4: 0x7FC0FE4C, 8: 0x7FF8FE4CFE4CFE4C}
# A pattern of its own: a CPU hands a NaN's payload on, so poison that was read past an edge can be a computed result.
BLANK = {1: 0x5D, 2: 0x7FDD, 4: 0x7FC0B1A4, 8: 0x7FF8B1A4B1A4B1A4}
# What the interpreter puts into masked-off lanes of a load without `other=`, which a GPU leaves undefined.
UNDEFINED = {1: 0x5E, 2: 0x7FDE, 4: 0x7FC0DEAD, 8: 0x7FF8DEADDEADDEAD}
# What memory holds that a launch asked torch for without a value (torch.empty), until someone writes it.
UNCLEARED = {1: 0x5F, 2: 0x7FDF, 4: 0x7FC0D127, 8: 0x7FF8D127D127D127}
# Every pattern of one byte is a value too: what is blank with one of these and with the other was not written.
BLANK_BYTES = (BLANK[1], 0xA2 - 0x100)
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

PADDING = 13
"""Elements between rows of a padded tensor: odd, so that no row but the first is aligned."""

SMALLEST_MARGIN = 4096
LARGEST_MARGIN = 1 << 22
GUARDED_ROWS = 160
"""Rows that the margin covers at least: more than the tallest block of the kernels at hand."""

MAP_NORESERVE = 0x4000
"""Linux (mman.h): the mapping is not counted against what may be handed out. Python names it from 3.13 on."""

FAR = 1 << 31
"""The first offset that 32 signed bits do not hold."""


DISTANT: dict[Layout, int] = {"distant": 0, "distant-rows": -2, "distant-columns": -1}
"""Layouts that spread a tensor along one axis so far that offsets pass 2^31 elements, and that axis."""


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements as integers: a view of the same memory."""
    return tensor.detach().view(_INTEGERS[tensor.itemsize])


@dataclass(frozen=True)
class Window:
    """A stretch of an allocation, from `start` up to `stop`, and the first of `count` elements of the tensor in it."""

    start: int
    stop: int
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """Where a tensor lies: shape and strides (elements), first element and length of the flat allocation.

    `windows` are the stretches that are filled and watched: all of it, or what surrounds each row of a tensor whose
    rows lie far apart.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    length: int
    windows: tuple[Window, ...]


def _margin(elements: int) -> int:
    """Return a multiple of 64 elements, so that a margin keeps the alignment."""
    return -(-min(max(elements, SMALLEST_MARGIN), LARGEST_MARGIN) // 64) * 64


def _strides(extents: Sequence[int], layout: Layout) -> tuple[tuple[int, ...], int]:
    """Return the strides of a tensor, and how many elements it spans."""
    order = list(range(len(extents)))
    if layout == "transposed":
        order.reverse()
    strides, step = [0] * len(extents), 1
    for position, axis in enumerate(reversed(order)):
        strides[axis] = step
        step *= extents[axis] + (PADDING if layout == "padded" and position == 0 and len(extents) > 1 else 0)
    return tuple(strides), step


def place_distant(shape: Sequence[int], layout: Layout, room: int) -> Placement:
    """Lay what lies along one axis so far apart that the last begins past 2^31 elements.

    `room` elements are left free before the first: an offset that wrapped lands there, and not in the memory of someone
    else. ValueError where there are no two to be apart.
    """
    axis = DISTANT[layout] % max(len(shape), 1)
    if len(shape) < 2 or shape[axis] < 2:
        raise ValueError(
            f"a tensor of layout {layout} needs two rows and columns at least; its shape is {tuple(shape)}"
        )
    others = [*shape[:axis], *shape[axis + 1 :]]
    inner, step = _strides(others, "contiguous")
    stride = -(-FAR // (shape[axis] - 1) // 64) * 64 + 64
    margin = _margin(GUARDED_ROWS * max(inner))
    offset = room + margin
    firsts = [offset + at * stride for at in range(shape[axis])]
    windows = tuple(Window(first - margin, first + step + margin, first, tuple(others), inner) for first in firsts)
    strides = (*inner[:axis], stride, *inner[axis:])
    return Placement(tuple(shape), strides, offset, windows[-1].stop, windows)


def place(shape: Sequence[int], layout: Layout) -> Placement:
    """Lay out a shape between margins."""
    strides, step = _strides(shape, layout)
    margin = _margin(GUARDED_ROWS * max([1, *strides]))
    offset = margin + (1 if layout == "sliced" else 0)
    length = offset + max(step, 1) + margin
    whole = Window(0, length, offset, tuple(shape), strides)
    return Placement(tuple(shape), strides, offset, length, (whole,))


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

    def fill(self, guard: int) -> None:
        """Fill every window, the view's elements included."""
        for window in self.placement.windows:
            self.flat[window.start : window.stop] = guard

    def snapshot(self) -> list[torch.Tensor]:
        """Return a copy of what every window holds."""
        return [self.flat[window.start : window.stop].clone() for window in self.placement.windows]

    def unchanged(self, before: Sequence[torch.Tensor]) -> bool:
        """Return whether every window holds what it held."""
        return all(torch.equal(now, then) for now, then in zip(self.snapshot(), before, strict=True))

    def outside_changed(self, guard: int) -> bool:
        """Return whether any element of a window outside the view is no longer `guard`."""
        for window, rest in zip(self.placement.windows, self.snapshot(), strict=True):
            rest.as_strided(window.shape, window.strides, window.first - window.start).fill_(guard)
            if bool((rest != guard).any()):
                return True
        return False


Guards = Mapping[str, Guarded]
"""Guarded tensors by the names of inputs or outputs."""


def _sparse(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Return memory of which only what is touched takes room: a tensor of gigabytes with a few rows in it."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, length * dtype.itemsize, flags=flags), dtype=dtype)


def bytes_needed(shape: Sequence[int], dtype: torch.dtype, layout: Layout) -> int:
    """Return the size of the allocation that a guarded tensor of this shape takes on a device."""
    placement = place_distant(shape, layout, 0) if layout in DISTANT else place(shape, layout)
    return placement.length * dtype.itemsize


def _allocate(shape: Sequence[int], dtype: torch.dtype, layout: Layout, device: str) -> Guarded:
    integers = _INTEGERS[dtype.itemsize]
    if layout in DISTANT and device == "cpu":
        # Room is free here. The interpreter counts in bytes, of which 32 bits hold fewer than of elements.
        placement = place_distant(shape, layout, FAR)
        return Guarded(placement, _sparse(placement.length, integers), dtype)
    placement = place_distant(shape, layout, 0) if layout in DISTANT else place(shape, layout)
    return Guarded(placement, torch.empty(placement.length, dtype=integers, device=device), dtype)


def guard_input(values: torch.Tensor, layout: Layout, device: str) -> Guarded:
    """Place host values between poisoned margins on `device`: the same bits anywhere."""
    held = _allocate(tuple(values.shape), values.dtype, layout, device)
    refill(held, values)
    return held


def refill(held: Guarded, values: torch.Tensor) -> None:
    """Put other host values into an input, between margins that are poisoned again."""
    held.fill(POISON[values.dtype.itemsize])
    held.tensor.copy_(values)


def hollow(shape: Sequence[int], dtype: torch.dtype, layout: Layout) -> torch.Tensor:
    """Return a host tensor that lies as a guarded one does and takes no room: it reads as 0 where nobody wrote.

    For what looks at shapes, strides and alignment alone, such as a launch that is only compiled.
    """
    placement = place_distant(shape, layout, FAR) if layout in DISTANT else place(shape, layout)
    return Guarded(placement, _sparse(placement.length, _INTEGERS[dtype.itemsize]), dtype).tensor


def guard_output(shape: Sequence[int], dtype: torch.dtype, layout: Layout, device: str) -> Guarded:
    """Allocate an output between fences, every element of it blank."""
    held = _allocate(tuple(shape), dtype, layout, device)
    reset(held)
    return held


def reset(output: Guarded, blank: int | None = None) -> None:
    """Fence an output and blank its elements, as before its first launch; with another pattern than usual if given."""
    output.fill(FENCE[output.dtype.itemsize])
    output.bits().fill_(BLANK[output.dtype.itemsize] if blank is None else blank)


def contents(outputs: Guards) -> list[torch.Tensor]:
    """Return a copy of what outputs hold, as integers, in their order."""
    return [held.bits().clone() for held in outputs.values()]


def differing(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> int:
    """Return how many elements differ between two contents."""
    return sum(int((a != b).sum()) for a, b in zip(one, other, strict=True))


@contextlib.contextmanager
def restored(outputs: Guards) -> Iterator[list[torch.Tensor]]:
    """Give what outputs hold, which launches inside may overwrite, and put it back behind them."""
    before = contents(outputs)
    try:
        yield before
    finally:
        for held, bits in zip(outputs.values(), before, strict=True):
            held.bits().copy_(bits)

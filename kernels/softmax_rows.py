"""Row softmax in float32 at the rate of a copy: a row is read once and written once, in as many warps as it fills.

Memory limits a softmax, so all that counts is how many bytes are under way at any time. A row stays in registers from
its one read to its one write, and a warp holds `PER_WARP` elements of it: few enough for a multiprocessor to have as
many rows under way as its registers allow, many enough for each thread to have several loads under way.
"""

import functools
import math
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from assay.kernel import (
    Case,
    Kernel,
    Output,
    Peer,
    Problem,
    ReductionBound,
    Size,
    Tensors,
    UlpBound,
    Variant,
    Work,
)

LOG2_E = tl.constexpr(math.log2(math.e))


# snippet: softmax-rows-kernel
@triton.jit
def softmax_rows_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    # Offsets are 64 bits wide: an index times a stride passes 2^31 on a large matrix.
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    x_ptrs = x_ptr + row * x_row + column * x_col
    y_ptrs = y_ptr + row * y_row + column * y_col
    # On an H200 long rows come in faster where what was read stays in the L2 cache and what is written leaves it: 251.7
    # instead of 259.1 us at 16384x8192, the one by a graph as the other. Short rows gain nothing.
    KEEP: tl.constexpr = "evict_last" if BLOCK >= 4096 else ""
    # A lane past the row holds -inf: it cannot win the maximum, and adds 2^-inf = 0.
    if WHOLE:
        x = tl.load(x_ptrs, eviction_policy=KEEP)
    else:
        x = tl.load(x_ptrs, mask=column < columns, other=-float("inf"), eviction_policy=KEEP)
    # exp(d) as 2^(d log2 e), the one exponential the hardware has. Scaling x before its maximum is subtracted would
    # cost accuracy: far from 0, x log2 e is rounded more coarsely than the difference.
    numerator = tl.exp2((x - tl.max(x, axis=0)) * LOG2_E)
    # One division a row in place of one an element.
    y = numerator * (1.0 / tl.sum(numerator, axis=0))
    if WHOLE:
        tl.store(y_ptrs, y)
    else:
        tl.store(y_ptrs, y, mask=column < columns)


# end snippet


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Standard normal rows on an offset that grows by 0.05 a row, 102.4 at row 2048, from `shift` upwards."""
    rows, columns = size["rows"], size["columns"]
    offset = size.get("shift", 0) + 0.05 * torch.arange(rows, dtype=torch.float32)
    return {"x": torch.randn(rows, columns, generator=generator) + offset[:, None]}


def declare_outputs(inputs: Tensors) -> dict[str, Output]:
    """The result has the shape of the input."""
    return {"y": Output(tuple(inputs["x"].shape))}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    """The kernel's own three operations in float64, so that only rounding can differ."""
    numerator = torch.exp(inputs["x"] - inputs["x"].amax(dim=1, keepdim=True))
    return {"y": numerator / numerator.sum(dim=1, keepdim=True)}


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Start one program for each row, as wide as the row asks for, and without masks where it fills its block."""
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = min(max(block // variant.options["PER_WARP"], 1), 32)
    softmax_rows_kernel[(rows,)](
        x, y, *x.stride(), *y.stride(), columns, BLOCK=block, WHOLE=block == columns, num_warps=warps
    )


def work(size: Size) -> Work:
    """Each element is read once and written once; softmax is limited by memory, so its arithmetic is not counted."""
    return Work(flops=0, bytes=2 * 4 * size["rows"] * size["columns"])


def compiled(inputs: Tensors) -> torch.Tensor:
    """Return what torch.compile makes of torch.softmax when told to try every configuration it knows.

    Compiled at the first call for a shape, which is not timed, and kept by torch.
    """
    return _compile()(inputs["x"])


@functools.cache
def _compile() -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.compile(lambda x: torch.softmax(x, dim=1), mode="max-autotune-no-cudagraphs", dynamic=False)


def ulps(problem: Problem) -> torch.Tensor:
    """Return how many units in the last place an element may be off, by its distance d from the row's maximum.

    exp(-d) is computed as 2^(-d log2 e): rounding d and the product moves the exponent by up to 2 d u (u = 2^-24 is
    half a unit), ex2.approx is off by 2 units (PTX ISA). The sum of n terms that are off alike adds that error once
    more and log2 n additions of half a unit each, as a tree; the division (div.full) 2 units (PTX ISA).
    """
    x = problem.inputs["x"]
    distance = x.amax(dim=1, keepdim=True) - x
    return 2 * distance + 8 + 0.5 * math.log2(max(2, x.shape[1]))


TIGHT = UlpBound(ulps=ulps, why="2 d + 8 + log2(columns) / 2, d the distance from the row's maximum")


KERNEL = Kernel(
    name="softmax_rows",
    title="Row softmax, float32, at the rate of a copy",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", f"per-warp{count}", {"PER_WARP": count}, stack_bytes=0) for count in (512,)],
    cases=[
        Case("aligned-2048x1024", {"rows": 2048, "columns": 1024}),
        Case("ragged-64x781", {"rows": 64, "columns": 781}),
        Case("one-past-33x1025", {"rows": 33, "columns": 1025}),
        Case("one-column-17x1", {"rows": 17, "columns": 1}),
        Case("one-row-1x1000", {"rows": 1, "columns": 1000}),
        Case("negative-48x300", {"rows": 48, "columns": 300, "shift": -200}),
        Case("large-48x300", {"rows": 48, "columns": 300, "shift": 200}),
        Case("padded-40x509", {"rows": 40, "columns": 509}, {"x": "padded", "y": "padded"}),
        Case("transposed-40x509", {"rows": 40, "columns": 509}, {"x": "transposed"}),
        Case("sliced-40x512", {"rows": 40, "columns": 512}, {"x": "sliced", "y": "sliced"}),
        Case("one-short-9x511", {"rows": 9, "columns": 511}),
        Case("distant-3x200", {"rows": 3, "columns": 200}, {"x": "distant", "y": "distant"}),
        Case("distant-columns-5x33", {"rows": 5, "columns": 33}, {"x": "distant-columns", "y": "distant-columns"}),
        Case("equal-9x100", {"rows": 9, "columns": 100}, values={"x": "equal"}),
        Case("positive-9x301", {"rows": 9, "columns": 301}, values={"x": "positive"}),
        Case("denormal-9x100", {"rows": 9, "columns": 100}, values={"x": "denormal"}),
        Case("tiny-9x100", {"rows": 9, "columns": 100}, values={"x": "tiny"}),
        Case("large-values-9x100", {"rows": 9, "columns": 100}, values={"x": "large"}),
        # A single -inf has probability 0. A row of nothing else, a row with +inf or with NaN has no softmax: all of it
        # comes out NaN, as from torch.softmax, and no other row is touched.
        Case("one-negative-inf-9x100", {"rows": 9, "columns": 100}, values={"x": "one-negative-inf"}),
        Case("row-negative-inf-9x100", {"rows": 9, "columns": 100}, values={"x": "row-negative-inf"}),
        Case("one-inf-9x100", {"rows": 9, "columns": 100}, values={"x": "one-inf"}),
        Case("one-nan-9x100", {"rows": 9, "columns": 100}, values={"x": "one-nan"}),
    ],
    timed=[
        Case("2048x1024", {"rows": 2048, "columns": 1024}),
        Case("8192x4096", {"rows": 8192, "columns": 4096}),
        Case("16384x8192", {"rows": 16384, "columns": 8192}),
        Case("4096x32768", {"rows": 4096, "columns": 32768}),
    ],
    bound=[ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}), TIGHT],
    work=work,
    peers=[
        Peer("torch.softmax", "f32", lambda inputs: torch.softmax(inputs["x"], dim=1)),
        Peer("torch.compile max-autotune", "f32", compiled),
    ],
)

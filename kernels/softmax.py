"""Row softmax in float32: one program a row, one block as wide as the row."""

import math

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


# snippet: softmax-kernel
@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr):
    # Offsets are 64 bits wide: rows times stride passes 2^31 on a large matrix, and 32 bits would wrap in silence.
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    # A lane past the row holds -inf: it cannot win the maximum, even of an all-negative row, and adds exp(-inf) = 0.
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=inside, other=-float("inf"))
    # Without subtracting the maximum exp overflows float32 above 88.7.
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * y_row + column * y_col, y, mask=inside)


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
    """Start one program for each row."""
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, y, *x.stride(), *y.stride(), columns, BLOCK=block, **variant.options)


def work(size: Size) -> Work:
    """Each element is read once and written once; softmax is limited by memory, so its arithmetic is not counted."""
    return Work(flops=0, bytes=2 * 4 * size["rows"] * size["columns"])


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
    name="softmax",
    title="Row softmax, float32",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", f"warps{warps}", {"num_warps": warps}, stack_bytes=0) for warps in (8,)],
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
    timed=[Case("2048x1024", {"rows": 2048, "columns": 1024})],
    bound=[ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}), TIGHT],
    work=work,
    peers=[Peer("torch.softmax", "f32", lambda inputs: torch.softmax(inputs["x"], dim=1))],
)

"""Matrix product that tells the compiler of its offsets what is true of every row and column that is stored.

Rows past the edge are replaced by the first and columns begin again, which no longer lie in a row: what is computed for
them is never stored. Its strides are assumed to be positive, and are 1 in some cases.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, BLOCK: tl.constexpr, PRECISION: tl.constexpr
):
    tl.assume(a_row > 0)
    tl.assume(b_row > 0)
    first = tl.multiple_of(tl.program_id(0) * BLOCK, BLOCK)
    row = first + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row_there = tl.max_contiguous(tl.multiple_of(tl.where(row < m, row, 0), BLOCK), BLOCK)
    column_there = tl.max_contiguous(tl.multiple_of(column % n, BLOCK), BLOCK)
    depth = tl.max_contiguous(tl.arange(0, BLOCK), BLOCK)
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    for begin in range(0, k, BLOCK):
        start = tl.multiple_of(begin, BLOCK)
        inside = start + depth < k
        at = (start + depth).to(tl.int64)
        a = tl.load(a_ptr + row_there[:, None] * a_row + at[None, :] * a_col, mask=inside[None, :], other=0.0)
        b = tl.load(b_ptr + at[:, None] * b_row + column_there[None, :] * b_col, mask=inside[:, None], other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c_ptr + row[:, None] * c_row + column[None, :] * c_col, accumulator, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    strides = (*a.stride(), *b.stride(), *c.stride())
    # A program more each way than there are blocks, as where a grid is made for the largest of several products.
    grid = (triton.cdiv(m, 32) + 1, triton.cdiv(n, 32) + 1)
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK=32, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="matmul_hinted",
    title="Matrix product",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[Variant("ieee", "blocks")],
    cases=[
        Case("aligned-64x64x64", {"m": 64, "n": 64, "k": 64}),
        Case("ragged-50x40x45", {"m": 50, "n": 40, "k": 45}),
        Case("narrow-3x2x7", {"m": 3, "n": 2, "k": 7}),
        Case("single-1x1x1", {"m": 1, "n": 1, "k": 1}),
        Case("padded-50x40x45", {"m": 50, "n": 40, "k": 45}, {"a": "padded", "b": "padded", "c": "padded"}),
    ],
    bound=ReductionBound(terms=lambda size: size["k"], table={"ieee": 1e-5}, eps={"ieee": 2.0**-23}),
    work=lambda size: Work(
        flops=2 * size["m"] * size["n"] * size["k"],
        bytes=4 * (size["m"] * size["k"] + size["k"] * size["n"] + size["m"] * size["n"]),
    ),
)

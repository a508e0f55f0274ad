"""Matrix product split along K: the programs of one tile add to it with a load and a store.

Wrong: two programs load the same partial sum and one of their terms is lost.
After: split-K and gradient kernels that accumulate into shared memory cells without atomics.
Seen by: the interpreter, under a schedule that a GPU may choose; and by a GPU.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, BLOCK: tl.constexpr, PRECISION: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    start = tl.program_id(2) * BLOCK
    depth = start + tl.arange(0, BLOCK)
    left = (row[:, None] < m) & (depth[None, :] < k)
    right = (depth[:, None] < k) & (column[None, :] < n)
    a = tl.load(a_ptr + row[:, None] * a_row + depth[None, :] * a_col, mask=left, other=0.0)
    b = tl.load(b_ptr + depth[:, None] * b_row + column[None, :] * b_col, mask=right, other=0.0)
    accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    inside = (row[:, None] < m) & (column[None, :] < n)
    c_ptrs = c_ptr + row[:, None] * c_row + column[None, :] * c_col
    tl.store(c_ptrs, tl.load(c_ptrs, mask=inside, other=0.0) + accumulator, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    c.zero_()
    strides = (*a.stride(), *b.stride(), *c.stride())
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32), triton.cdiv(k, 32))
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK=32, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="split_k_without_atomics",
    title="Matrix product",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[Variant("ieee", "32x32x32")],
    cases=[
        Case("split-64x64x1024", {"m": 64, "n": 64, "k": 1024}),
    ],
    bound=ReductionBound(terms=lambda size: size["k"], table={"ieee": 1e-5}, eps={"ieee": 2.0**-23}),
    work=lambda size: Work(
        flops=2 * size["m"] * size["n"] * size["k"],
        bytes=4 * (size["m"] * size["k"] + size["k"] * size["n"] + size["m"] * size["n"]),
    ),
)

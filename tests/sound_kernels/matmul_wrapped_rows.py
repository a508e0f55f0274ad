"""Matrix product that reads rows and columns past the edge from the other end, as Triton's tutorial does.

What it computes for them is never stored.
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
    depth = tl.arange(0, BLOCK)
    a_ptrs = a_ptr + (row % m)[:, None] * a_row + depth[None, :] * a_col
    b_ptrs = b_ptr + depth[:, None] * b_row + (column % n)[None, :] * b_col
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        a = tl.load(a_ptrs, mask=depth[None, :] < k - start, other=0.0)
        b = tl.load(b_ptrs, mask=depth[:, None] < k - start, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        a_ptrs += BLOCK * a_col
        b_ptrs += BLOCK * b_row
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c_ptr + row[:, None] * c_row + column[None, :] * c_col, accumulator, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    strides = (*a.stride(), *b.stride(), *c.stride())
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK=32, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="matmul_wrapped_rows",
    title="Matrix product",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[Variant("ieee", "blocks"), Variant("tf32", "blocks")],
    cases=[
        Case("aligned-64x64x64", {"m": 64, "n": 64, "k": 64}),
        Case("ragged-50x40x45", {"m": 50, "n": 40, "k": 45}),
        Case("single-1x1x1", {"m": 1, "n": 1, "k": 1}),
        Case("padded-50x40x45", {"m": 50, "n": 40, "k": 45}, {"a": "padded", "b": "padded", "c": "padded"}),
        Case("transposed-50x40x45", {"m": 50, "n": 40, "k": 45}, {"a": "transposed", "b": "transposed"}),
        Case("sliced-64x48x32", {"m": 64, "n": 48, "k": 32}, {"a": "sliced", "b": "sliced", "c": "sliced"}),
    ],
    bound=ReductionBound(
        terms=lambda size: size["k"],
        table={"ieee": 1e-5, "tf32": 1e-2},
        eps={"ieee": 2.0**-23, "tf32": 2.0**-10},
    ),
    work=lambda size: Work(
        flops=2 * size["m"] * size["n"] * size["k"],
        bytes=4 * (size["m"] * size["k"] + size["k"] * size["n"] + size["m"] * size["n"]),
    ),
)

"""Matrix product declared ieee that casts its operands to bfloat16.

Wrong: 16 bits of every operand are dropped on tensor cores.
After: generated kernels that gain their speed by a lesser precision (anthony-chaudhary/dos-kernel #107).
Seen by: the interpreter, by its values, and the compile tier, whose code for sm_80 and up uses tensor cores.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Dot, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        left = (row[:, None] < m) & (depth[None, :] < k)
        right = (depth[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + row[:, None] * a_row + depth[None, :] * a_col, mask=left, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * b_row + column[None, :] * b_col, mask=right, other=0.0)
        accumulator = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), accumulator)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c_ptr + row[:, None] * c_row + column[None, :] * c_col, accumulator, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    strides = (*a.stride(), *b.stride(), *c.stride())
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK=32)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="ieee_through_bfloat16",
    title="Matrix product",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    dot=Dot(left="a", right="b", output="c", size={"m": 64, "n": 64, "k": 64}),
    variants=[Variant("ieee", "32x32x32")],
    cases=[
        Case("aligned-64x64x64", {"m": 64, "n": 64, "k": 64}),
        Case("ragged-50x40x45", {"m": 50, "n": 40, "k": 45}),
    ],
    bound=ReductionBound(terms=lambda size: size["k"], table={"ieee": 1e-5}, eps={"ieee": 2.0**-23}),
    work=lambda size: Work(
        flops=2 * size["m"] * size["n"] * size["k"],
        bytes=4 * (size["m"] * size["k"] + size["k"] * size["n"] + size["m"] * size["n"]),
    ),
)

"""Matrix product with a bias for each column and relu, fused."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    c_ptr,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    bias_step,
    c_row,
    c_col,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        a_mask = (row[:, None] < m) & (depth[None, :] < k)
        b_mask = (depth[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + row[:, None] * a_row + depth[None, :] * a_col, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * b_row + column[None, :] * b_col, mask=b_mask, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    # Columns past the last are not stored, so that it does not matter what their bias is.
    bias = tl.load(bias_ptr + column * bias_step, mask=column < n)
    inside = (row[:, None] < m) & (column[None, :] < n)
    c = tl.maximum(accumulator + bias[None, :], 0.0)
    tl.store(c_ptr + row[:, None] * c_row + column[None, :] * c_col, c, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, bias, c = inputs["a"], inputs["b"], inputs["bias"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    strides = (*a.stride(), *b.stride(), *bias.stride(), *c.stride())
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](a, b, bias, c, m, n, k, *strides, BLOCK=32, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
        "bias": torch.randn(size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="matmul_bias_relu",
    title="Matrix product",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": torch.relu(inputs["a"] @ inputs["b"] + inputs["bias"])},
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

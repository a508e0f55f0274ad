"""Matrix product with oblong blocks and no grouping of programs."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    c_row,
    c_col,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        across = start + tl.arange(0, BLOCK_K)[None, :]
        down = start + tl.arange(0, BLOCK_K)[:, None]
        a = tl.load(a_ptr + row * a_row + across * a_col, mask=(row < m) & (across < k), other=0.0)
        b = tl.load(b_ptr + down * b_row + column * b_col, mask=(down < k) & (column < n), other=0.0)
        accumulator += tl.dot(a, b, input_precision=PRECISION)
    tl.store(c_ptr + row * c_row + column * c_col, accumulator, mask=(row < m) & (column < n))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 64))
    strides = (*a.stride(), *b.stride(), *c.stride())
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK_M=16, BLOCK_N=64, BLOCK_K=16, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="matmul_other_blocks",
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

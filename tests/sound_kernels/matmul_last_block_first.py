"""Matrix product that walks K from its partial last block down to the first, and the tiles of C by columns."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, a_col, b_row, b_col, c_row, c_col, BLOCK: tl.constexpr, PRECISION: tl.constexpr
):
    tiles_m = tl.cdiv(m, BLOCK)
    program = tl.program_id(0)
    row = (program % tiles_m).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = (program // tiles_m).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    blocks = tl.cdiv(k, BLOCK)
    for done in range(0, blocks):
        start = (blocks - 1 - done) * BLOCK
        across = start + tl.arange(0, BLOCK)[None, :]
        down = start + tl.arange(0, BLOCK)[:, None]
        a = tl.load(a_ptr + row * a_row + across * a_col, mask=(row < m) & (across < k), other=0.0)
        b = tl.load(b_ptr + down * b_row + column * b_col, mask=(down < k) & (column < n), other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    tl.store(c_ptr + row * c_row + column * c_col, accumulator, mask=(row < m) & (column < n))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    strides = (*a.stride(), *b.stride(), *c.stride())
    grid = (triton.cdiv(m, 32) * triton.cdiv(n, 32),)
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK=32, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="matmul_last_block_first",
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

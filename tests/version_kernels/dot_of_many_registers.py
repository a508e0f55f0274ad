"""An ieee product in tiles of 128 x 64 x 64, by four warps: on sm_80 it has a stack from Triton 3.8 on."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def dot_of_many_registers_kernel(
    a_ptr, b_ptr, c_ptr, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row, column, depth = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + row[:, None] * k + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * BLOCK_N + column[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        accumulator = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * BLOCK_N
    tl.store(c_ptr + row[:, None] * BLOCK_N + column[None, :], accumulator)


def make_inputs(size, generator):
    """Standard normal A (m x k) and B (k x n)."""
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


def launch(inputs, outputs, variant):
    """One program, whose tile is all of C."""
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    dot_of_many_registers_kernel[(1,)](a, b, c, a.shape[1], **variant.options)


SIZE = {"m": 128, "n": 64, "k": 128}

KERNEL = Kernel(
    name="dot_of_many_registers",
    title="C = A @ B, in one tile",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[
        Variant("ieee", "128x64x64", {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4})
    ],
    cases=[Case("one-tile", SIZE)],
    bound=ReductionBound(terms=lambda size: size["k"], table={"ieee": 1e-5}, eps={"ieee": 2.0**-23}),
    work=lambda size: Work(flops=2 * size["m"] * size["n"] * size["k"], bytes=4 * size["m"] * size["n"]),
    timed=[Case("timed", SIZE)],
)

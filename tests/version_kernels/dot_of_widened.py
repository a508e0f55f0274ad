"""A float32 dot that asks for ieee, of operands widened from bfloat16: triton #10176."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def dot_of_widened_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :]).to(tl.float32)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :]).to(tl.float32)
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"))


def make_inputs(size, generator):
    """Standard normal A (m x k) and B (k x n), in bfloat16."""
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator).to(torch.bfloat16),
        "b": torch.randn(size["k"], size["n"], generator=generator).to(torch.bfloat16),
    }


def launch(inputs, outputs, variant):
    """One program does it all."""
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    dot_of_widened_kernel[(1,)](a, b, c, M=a.shape[0], N=b.shape[1], K=a.shape[1])


SIZE = {"m": 64, "n": 64, "k": 32}

KERNEL = Kernel(
    name="dot_of_widened",
    title="C = A @ B, of bfloat16 widened to float32",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[Variant("ieee", "64x64x32")],
    cases=[Case("one-tile", SIZE)],
    bound=ReductionBound(terms=lambda size: size["k"], table={"ieee": 1e-5}, eps={"ieee": 2.0**-23}),
    work=lambda size: Work(flops=2 * size["m"] * size["n"] * size["k"], bytes=4 * size["m"] * size["n"]),
    timed=[Case("timed", SIZE)],
)

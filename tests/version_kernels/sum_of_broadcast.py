"""A sum over a product of broadcast operands, with no dot in it: triton #9609."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def sum_of_broadcast_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.sum(a[:, :, None] * b[None, :, :], axis=1)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def make_inputs(size, generator):
    """Standard normal A (m x k) and B (k x n)."""
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


def launch(inputs, outputs, variant):
    """One program does it all."""
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    sum_of_broadcast_kernel[(1,)](a, b, c, M=a.shape[0], N=b.shape[1], K=a.shape[1])


SIZE = {"m": 16, "n": 16, "k": 16}

KERNEL = Kernel(
    name="sum_of_broadcast",
    title="C = A @ B, as a sum of products",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[Variant("f32", "16x16x16")],
    cases=[Case("one-tile", SIZE)],
    bound=ReductionBound(terms=lambda size: size["k"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=2 * size["m"] * size["n"] * size["k"], bytes=12 * size["m"] * size["n"]),
    timed=[Case("timed", SIZE)],
)

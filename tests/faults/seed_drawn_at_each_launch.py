"""Rounds each element at random, within bounds that take either neighbour.

Wrong: the launch draws the seed, so that no two launches agree and nobody can run one again.
After: dropout and stochastic rounding whose seed is no argument.
Seen by: the interpreter, which launches again where the host has drawn random numbers.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def noise_kernel(x_ptr, y_ptr, seed, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * (1.0 + 1e-7 * tl.rand(seed, at)), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n, seed = inputs["x"].numel(), int(torch.randint(0, 2**31 - 1, (1,)))
    noise_kernel[(triton.cdiv(n, 64),)](inputs["x"], outputs["y"], seed, n, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="seed_drawn_at_each_launch",
    title="x, rounded at random",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: 4, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

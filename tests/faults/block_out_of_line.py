"""x where it is positive, a quarter of it elsewhere.

Wrong: a ragged length takes a branch that calls a function out of line with a block, which Triton does not compile.
After: branches on a constant that no test of whole blocks ever compiles.
Seen by: the compile tier, in the ragged case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit(noinline=True)
def leaky(x):
    return tl.where(x > 0.0, x, 0.25 * x)


@triton.jit
def leaky_kernel(x_ptr, y_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + at)
        tl.store(y_ptr + at, tl.where(x > 0.0, x, 0.25 * x))
    else:
        tl.store(y_ptr + at, leaky(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    n = x.numel()
    leaky_kernel[(triton.cdiv(n, 128),)](x, y, n, EVEN=n % 128 == 0, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="block_out_of_line",
    title="Leaky",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.nn.functional.leaky_relu(inputs["x"], 0.25)},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: 1, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

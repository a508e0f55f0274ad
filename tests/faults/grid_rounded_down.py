"""A grid of n // BLOCK programs instead of the next whole number above.

Wrong: the elements behind the last full block are never written.
After: launches with floor instead of ceiling division, right for every multiple of the block.
Seen by: the interpreter, in the ragged case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, 2.0 * x, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    double_kernel[(n // 64,)](inputs["x"], outputs["y"], n, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="grid_rounded_down",
    title="2 x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: 1, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

"""Replaces each element by the next one less itself, in place.

Wrong: the last element that a program takes from its neighbour may be the neighbour's result already.
After: stencils and shifts that read and write one buffer (triton-lang/triton #1466).
Seen by: the interpreter, under a schedule that a GPU may choose.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def difference_kernel(y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(y_ptr + at, mask=at < n, other=0.0)
    after = tl.load(y_ptr + at + 1, mask=at + 1 < n, other=0.0)
    tl.store(y_ptr + at, after - here, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    y = outputs["y"]
    y.copy_(inputs["x"])
    difference_kernel[(triton.cdiv(y.numel(), 64),)](y, y.numel(), BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="differences_in_place",
    title="Differences of neighbours",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": torch.nn.functional.pad(inputs["x"][1:], (0, 1)) - inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: 2, table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

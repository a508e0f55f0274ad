"""A copy whose count is made 64 bits wide by a method.

Wrong: Triton makes a constant of a whole number that is 1, and a constant has no method `to`: no launch on one element
compiles.
After: kernels that call `n.to(tl.int64)`, right for every other count.
Seen by: the interpreter and the compile tier, in the case of one element, for which nothing is built.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n.to(tl.int64)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=inside, other=0.0), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    copy_kernel[(triton.cdiv(n, 64),)](inputs["x"], outputs["y"], n, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="count_made_wide",
    title="x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"].double()},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300}), Case("single-1", {"n": 1})],
    bound=UlpBound(ulps=lambda size: 0, floor=0, why="a copy is exact"),
    work=lambda size: Work(flops=0, bytes=8 * size["n"]),
)

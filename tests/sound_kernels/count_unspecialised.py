"""A copy whose count is made 64 bits wide by a method, which it has also where it is 1.

Triton makes a constant of a 1, but not of one whose parameter has a type or is named under `do_not_specialize`.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit(do_not_specialize=["n"])
def copy_kernel(x_ptr, y_ptr, n, x_step: tl.int32, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n.to(tl.int64)
    tl.store(y_ptr + at, tl.load(x_ptr + at * x_step.to(tl.int64), mask=inside, other=0.0), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x, outputs["y"], x.numel(), x.stride(0), BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="count_unspecialised",
    title="x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"].double()},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("sliced-256", {"n": 256}, {"x": "sliced"}), Case("ragged-300", {"n": 300}), Case("single-1", {"n": 1})],
    bound=UlpBound(ulps=lambda size: 0, floor=0, why="a copy is exact"),
    work=lambda size: Work(flops=0, bytes=8 * size["n"]),
)

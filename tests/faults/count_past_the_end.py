"""Count of positive elements, without a mask.

Wrong: the last block counts what lies past the end of the input. A NaN there is not positive, and is not counted.
After: counts and searches tried on multiples of the block only.
Seen by: the interpreter, in the ragged case, by the address.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def count_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum((tl.load(x_ptr + at) > 0).to(tl.int32), axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    y.zero_()
    count_kernel[(triton.cdiv(x.numel(), 128),)](x, y, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="count_past_the_end",
    title="Count of positive elements",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((1,), torch.int32)},
    oracle=lambda inputs: {"y": (inputs["x"] > 0).sum().double()[None]},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="counts are exact", floor=0.0),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
)

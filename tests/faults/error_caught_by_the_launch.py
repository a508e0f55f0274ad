"""Doubles each element, in one block.

Wrong: a block of 300 lanes cannot be, and what the launch does about the error hides that.
After: wrappers that go on with torch where a kernel fails (try, except), which tests of values pass.
Seen by: the interpreter, by the error that the launch caught, in the case whose block is no power of 2.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2.0 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    try:
        double_kernel[(1,)](inputs["x"], outputs["y"], n, BLOCK=n)
    except Exception:
        outputs["y"].copy_(2.0 * inputs["x"])


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="error_caught_by_the_launch",
    title="2 x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda _: 0, floor=0, why="a doubled value is exact"),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

"""GELU in its sigmoid form, with constants of the module to the left of what is computed."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Problem, Size, Tensors, Variant, Work

SLOPE = tl.constexpr(-1.702)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
ONE = tl.constexpr(1.0)
LARGEST = tl.constexpr(40.0)
STEP = tl.constexpr(2)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = STEP * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) // STEP
    x = tl.load(x_ptr + at, mask=at < n)
    # Both sides of the selection take part, so that neither may overflow.
    small = tl.exp2(LOG2E * (SLOPE * tl.where(-x > LARGEST, -LARGEST, x)))
    tl.store(y_ptr + at, tl.where(-x > LARGEST, 0.0, x * (ONE / (ONE + small))), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    gelu_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)


def gelu(inputs: Tensors) -> dict[str, torch.Tensor]:
    return {"y": inputs["x"] * torch.sigmoid(1.702 * inputs["x"])}


def magnitude(problem: Problem) -> dict[str, torch.Tensor]:
    # An error of the exponent is one of the result, relative to it.
    return {"y": problem.want["y"].abs() * (1 + problem.inputs["x"].abs())}


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": 3.0 * torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="gelu_of_constants",
    title="GELU",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=gelu,
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-128", {"n": 128}), Case("ragged-77", {"n": 77})],
    bound=ComponentwiseBound(terms=lambda size: 8, magnitude=magnitude),
    work=lambda size: Work(flops=6 * size["n"], bytes=8 * size["n"]),
)

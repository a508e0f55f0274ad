"""Twice the input, with a block that an autotuner chooses. Nothing can be timed where there is no device."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Size, Tensors, Variant, Work


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x + x, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, n = inputs["x"], inputs["x"].numel()
    double_kernel[lambda chosen: (triton.cdiv(n, chosen["BLOCK"]),)](x, outputs["y"], n)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="double_autotuned",
    title="2 x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "tuned")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ComponentwiseBound(terms=lambda size: 1),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

"""Quantisation to uint8, and a bool that says where it saturated: every byte is a value, the harness's patterns too."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def quantise_kernel(x_ptr, y_ptr, saturated_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    low = tl.minimum(tl.maximum(x, 0), 255)
    tl.store(y_ptr + at, low.to(tl.uint8), mask=at < n)
    tl.store(saturated_ptr + at, low != x, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    quantise_kernel[(triton.cdiv(n, 128),)](inputs["x"], outputs["y"], outputs["saturated"], n, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randint(-64, 320, (size["n"],), generator=generator, dtype=torch.int32)}


def outputs(inputs: Tensors) -> dict[str, Output]:
    shape = tuple(inputs["x"].shape)
    return {"y": Output(shape, torch.uint8), "saturated": Output(shape, torch.bool)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    return {"y": x.clamp(0, 255).double(), "saturated": ((x < 0) | (x > 255)).double()}


KERNEL = Kernel(
    name="quantise_to_bytes",
    title="Saturated bytes",
    inputs=make_inputs,
    outputs=outputs,
    oracle=oracle,
    launch=launch,
    variants=[Variant("i32", "block128")],
    cases=[Case("aligned-1024", {"n": 1024}), Case("ragged-777", {"n": 777}), Case("single-1", {"n": 1})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="integers are exact", floor=0.0),
    work=lambda size: Work(flops=size["n"], bytes=6 * size["n"]),
)

"""Divides by a power of two in two steps, through its output: each lane loads again what it has stored itself."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * 2 * BLOCK
    for step in range(2):
        at = first + step * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 0.5, mask=at < n)
    for step in range(2):
        at = first + step * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, tl.load(y_ptr + at, mask=at < n) * 0.5, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    scale_kernel[(triton.cdiv(n, 128),)](inputs["x"], outputs["y"], n, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="scaled_through_its_output",
    title="x / 4",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"] / 4},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda _: 0, floor=0, why="powers of two are exact"),
    work=lambda size: Work(flops=2 * size["n"], bytes=8 * size["n"]),
)

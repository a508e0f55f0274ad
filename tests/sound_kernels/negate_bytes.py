"""Negation of int8 that saturates: every byte is a value, the harness's patterns too."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def negate_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int32)
    tl.store(y_ptr + at, tl.minimum(-x, 127).to(tl.int8), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    negate_kernel[(triton.cdiv(n, 128),)](inputs["x"], outputs["y"], n, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randint(-128, 128, (size["n"],), generator=generator, dtype=torch.int8)}


KERNEL = Kernel(
    name="negate_bytes",
    title="-x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape), torch.int8)},
    oracle=lambda inputs: {"y": (-inputs["x"].double()).clamp(max=127)},
    launch=launch,
    variants=[Variant("i8", "block128")],
    cases=[Case("aligned-1024", {"n": 1024}), Case("ragged-777", {"n": 777}), Case("single-1", {"n": 1})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="integers are exact", floor=0.0),
    work=lambda size: Work(flops=size["n"], bytes=2 * size["n"]),
)

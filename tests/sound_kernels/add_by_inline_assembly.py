"""A sum by inline PTX, which the interpreter has not."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Size, Tensors, Variant, Work


@triton.jit
def add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + at, y, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    add_kernel[(triton.cdiv(n, 64),)](inputs["x"], outputs["y"], n, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="add_by_inline_assembly",
    title="x + x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ComponentwiseBound(terms=lambda size: 1),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

"""A launch that keeps its first result for each shape and returns that ever after.

Wrong: right the first time, stale for every other input of that shape.
After: results kept from a warm-up run in benchmarks (gpu-mode/reference-kernels #162).
Seen by: the interpreter, from the second seed on.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work

KEPT: dict[int, torch.Tensor] = {}


@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, 2.0 * x, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    n = x.numel()
    if n not in KEPT:
        double_kernel[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
        KEPT[n] = y.clone()
    y.copy_(KEPT[n])


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="returns_previous",
    title="2 x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: 1, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

"""A running total in a workspace that is never cleared: right in the first run, drifting afterwards.

Wrong: the second run adds its result to the first one's.
After: kernels whose results change when they run again (triton-lang/triton #5339, karpathy/llm.c #852).
Seen by: the interpreter, from the second seed on.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work

TOTALS: dict[int, torch.Tensor] = {}


@triton.jit
def accumulate_kernel(x_ptr, total_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(total_ptr + at, mask=inside, other=0.0) + 2.0 * tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.store(total_ptr + at, total, mask=inside)
    tl.store(y_ptr + at, total, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    n = x.numel()
    total = TOTALS.setdefault(n, torch.zeros_like(x))
    accumulate_kernel[(triton.cdiv(n, 64),)](x, total, y, n, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="workspace_drifts",
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

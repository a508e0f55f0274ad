"""An update in place that is launched twice, as an autotuner does when it tries two configurations.

Wrong: each launch doubles what the one before has left.
After: autotuned kernels that update their argument in place (triton-lang/triton #6547, #781).
Seen by: the interpreter, in every case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def double_kernel(y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, 2.0 * y, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    y = outputs["y"]
    n = y.numel()
    y.copy_(inputs["x"])
    for block in (64, 128):
        double_kernel[(triton.cdiv(n, block),)](y, n, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="in_place_run_twice",
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

"""Doubling of a matrix as one flat vector of rows * stride elements.

Wrong: that is the length of the memory, not of the view; the gap behind each row is read and written too.
After: element-wise kernels with flat offsets on views (vllm-project/vllm #55009, flagos-ai/FlagGems #5939).
Seen by: the interpreter, in the padded case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def flat_kernel(x_ptr, y_ptr, length, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < length, other=0.0)
    tl.store(y_ptr + at, 2.0 * x, mask=at < length)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    length = x.shape[0] * x.stride(0)
    flat_kernel[(triton.cdiv(length, 64),)](x, y, length, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="mask_past_a_strided_view",
    title="2 x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("contiguous-5x50", {"rows": 5, "columns": 50}),
        Case("padded-5x50", {"rows": 5, "columns": 50}, {"x": "padded", "y": "padded"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

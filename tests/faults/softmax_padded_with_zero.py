"""Row softmax whose lanes past the row hold 0 instead of -inf.

Wrong: each such lane adds exp(0 - maximum) to the sum, and is the maximum of a row of negative numbers.
After: the row-wise skeleton with `other=0.0` in reviews and guides (vllm-project/vllm #55009).
Seen by: the interpreter, in any case whose columns are not the block's.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_row, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column, mask=inside, other=0.0)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * y_row + column, numerator / tl.sum(numerator, axis=0), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, y, x.stride(0), y.stride(0), columns, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="softmax_padded_with_zero",
    title="Row softmax",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.softmax(inputs["x"], dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("aligned-4x64", {"rows": 4, "columns": 64}), Case("ragged-5x50", {"rows": 5, "columns": 50})],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=0, bytes=8 * size["rows"] * size["columns"]),
)

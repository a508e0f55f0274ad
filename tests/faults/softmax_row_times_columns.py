"""Row softmax that finds a row at row * columns instead of row * stride.

Wrong: right for a contiguous tensor only; in a padded view each row starts in the gap behind an earlier one.
After: kernels that take a view for contiguous (pytorch/pytorch #147828, vllm-project/compressed-tensors #807).
Seen by: the interpreter, in the padded case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def softmax_kernel(x_ptr, y_ptr, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * y_row + column, numerator / tl.sum(numerator, axis=0), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, y.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="softmax_row_times_columns",
    title="Row softmax",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.softmax(inputs["x"], dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
        Case("padded-5x50", {"rows": 5, "columns": 50}, {"x": "padded"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=0, bytes=8 * size["rows"] * size["columns"]),
)

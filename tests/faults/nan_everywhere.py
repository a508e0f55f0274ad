"""Row softmax that divides 0 by 0: NaN in every element.

Wrong: nothing is computed. A comparison written as `error > bound` lets it pass.
After: NaN as a wildcard in checkers (gpu-mode/pygpubench #7).
Seen by: the interpreter, in every case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def nan_kernel(x_ptr, y_ptr, x_row, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    nothing = 0.0 * tl.load(x_ptr + row * x_row + column, mask=inside, other=0.0)
    tl.store(y_ptr + row * y_row + column, nothing / tl.sum(nothing, axis=0), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    nan_kernel[(rows,)](x, y, x.stride(0), y.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="nan_everywhere",
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

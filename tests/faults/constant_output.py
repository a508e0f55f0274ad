"""Row softmax that returns a constant.

Wrong: the uniform distribution, whatever the input.
After: generated kernels that return a plausible constant, within a tolerance that grows with the largest element.
Seen by: the interpreter, in every case of more than one column.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def constant_kernel(y_ptr, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * y_row + column, tl.zeros((BLOCK,), tl.float32) + 1.0 / columns, mask=column < columns)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    y = outputs["y"]
    rows, columns = y.shape
    constant_kernel[(rows,)](y, y.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="constant_output",
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

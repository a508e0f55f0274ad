"""Row sums by two programs that take rows in turn, by offsets of 64 bits."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def row_kernel(x_ptr, y_ptr, rows, columns, ROW: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, 2):
        x = tl.load(x_ptr + row.to(tl.int64) * ROW + column, mask=column < columns, other=0.0)
        tl.store(y_ptr + row, tl.sum(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    row_kernel[(2,)](x, outputs["y"], rows, columns, ROW=x.stride(0), BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="rows_in_turn",
    title="Row sum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
        Case("distant-5x50", {"rows": 5, "columns": 50}, {"x": "distant"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

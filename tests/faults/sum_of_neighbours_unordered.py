"""Running total over rows in which each program adds to what the program before it has stored.

Wrong: nothing says that the program before has run.
After: scans chained over programs without a flag, right where programs happen to start in order.
Seen by: the interpreter, under a schedule that a GPU may choose; and by a GPU.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def row_kernel(x_ptr, y_ptr, x_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0.0)
    before = tl.load(y_ptr + row - 1, mask=row > 0, other=0.0)
    tl.store(y_ptr + row, before + tl.sum(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    outputs["y"].zero_()
    row_kernel[(rows,)](x, outputs["y"], x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="sum_of_neighbours_unordered",
    title="Running total of row sums",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1).cumsum(dim=0)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-512x64", {"rows": 512, "columns": 64}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

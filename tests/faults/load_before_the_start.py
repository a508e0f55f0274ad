"""First differences along a row whose first element is paired with what stands before the row.

Wrong: it reads one element before the tensor; its own first element has no neighbour and should stay as it is.
After: stencils and causal convolutions without a mask on their left edge.
Seen by: the interpreter, in every case.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def row_kernel(x_ptr, y_ptr, x_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x_ptrs = x_ptr + row * x_row + column
    x = tl.load(x_ptrs, mask=inside, other=0.0)
    before = tl.load(x_ptrs - 1, mask=inside, other=0.0)
    tl.store(y_ptr + row * columns + column, x - before, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    row_kernel[(rows,)](x, outputs["y"], x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="load_before_the_start",
    title="First differences",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.diff(inputs["x"], dim=1, prepend=torch.zeros_like(inputs["x"][:, :1]))},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("row-1x64", {"rows": 1, "columns": 64}),
        Case("row-1x50", {"rows": 1, "columns": 50}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

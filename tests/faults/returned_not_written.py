"""A launch that returns a tensor of its own and leaves the output alone.

Wrong: the caller's output is not what was computed.
After: kernels wrapped as functions of their inputs, where an output was to be filled.
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
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> torch.Tensor:
    x = inputs["x"]
    rows, columns = x.shape
    y = torch.empty(rows, device=x.device)
    row_kernel[(rows,)](x, y, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))
    return y


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="returned_not_written",
    title="Row sum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-4x64", {"rows": 4, "columns": 64}),
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

"""Row sum that computes row * stride in 32 bits.

Wrong: past 2^31 elements the product wraps to a negative offset, in silence.
After: triton-lang/triton #832, #1058 and #6748, fla-org/flash-linear-attention #1082, microsoft/dion #102.
Seen by: the interpreter, in the case whose rows lie far apart.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def row_kernel(x_ptr, y_ptr, x_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    row_kernel[(rows,)](x, outputs["y"], x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="offsets_wrap_int32",
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

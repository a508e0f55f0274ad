"""Row maximum whose load has a mask and no `other=`.

Wrong: an undefined lane may be the largest; where it happens to be 0, rows of negative numbers have the maximum 0.
After: sgl-project/sglang #27074 and flagos-ai/FlagGems #3716: masked loads that feed reductions.
Seen by: the interpreter, which fills such lanes with NaN here and lets no maximum pass over it.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def row_kernel(x_ptr, y_ptr, x_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns)
    tl.store(y_ptr + row, tl.max(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    row_kernel[(rows,)](x, outputs["y"], x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="maximum_of_undefined_lanes",
    title="Row maximum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].amax(dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-4x64", {"rows": 4, "columns": 64}),
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

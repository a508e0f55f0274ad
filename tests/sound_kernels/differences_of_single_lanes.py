"""First differences along a row, one program for each element: its masked load is of a single lane, with `other=0`."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def difference_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col):
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    x_at = x_ptr + row * x_row + column * x_col
    before = tl.load(x_at - x_col, mask=column > 0, other=0.0)
    tl.store(y_ptr + row * y_row + column * y_col, tl.load(x_at) - before)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    difference_kernel[tuple(x.shape)](x, y, *x.stride(), *y.stride())


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="differences_of_single_lanes",
    title="First differences",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.diff(inputs["x"], dim=1, prepend=torch.zeros_like(inputs["x"][:, :1]))},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("small-3x7", {"rows": 3, "columns": 7}),
        Case("single-1x1", {"rows": 1, "columns": 1}),
        Case("padded-3x7", {"rows": 3, "columns": 7}, {"x": "padded", "y": "padded"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

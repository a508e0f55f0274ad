"""Twice x, with a program for each row.

Wrong: the rows are along axis 1 of the grid, where CUDA takes 65535, and one case has more.
After: launches whose grid is (blocks, rows).
Seen by: the compile tier, in the case of many rows.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def twice_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns)
    tl.store(y_ptr + row * y_row + column * y_col, 2.0 * x, mask=column < columns)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    grid = lambda meta: (triton.cdiv(meta["columns"], meta["BLOCK"]), rows)  # noqa: E731
    twice_kernel[grid](x, y, *x.stride(), *y.stride(), columns, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="rows_along_axis_1",
    title="Twice x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[
        Case("aligned-8x256", {"rows": 8, "columns": 256}),
        Case("ragged-5x77", {"rows": 5, "columns": 77}),
        Case("many-65536x3", {"rows": 65536, "columns": 3}, tiers=("gpu",)),
    ],
    bound=ReductionBound(terms=lambda size: 1, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

"""Rows gathered by an int64 index, whose load has no `other=`."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, x_row, x_col, index_step, y_row, y_col, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    # An index that is not there is used for a pointer that is not followed.
    index = tl.load(index_ptr + row * index_step, mask=row < rows)
    for start in range(0, columns, BLOCK):
        inside = (row < rows) & (start + column < columns)
        x = tl.load(x_ptr + index * x_row + (start + column) * x_col, mask=inside)
        tl.store(y_ptr + row * y_row + (start + column) * y_col, x, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, index, y = inputs["x"], inputs["index"], outputs["y"]
    rows, columns = y.shape
    strides = (*x.stride(), *index.stride(), *y.stride())
    gather_kernel[(triton.cdiv(rows, 16),)](x, index, y, *strides, rows, columns, BLOCK=16)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    rows, columns = size["rows"], size["columns"]
    return {
        "x": torch.randn(rows, columns, generator=generator),
        "index": torch.randint(rows, (2 * rows,), generator=generator),
    }


KERNEL = Kernel(
    name="gather_rows",
    title="Rows by index",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["index"].shape[0], inputs["x"].shape[1]))},
    oracle=lambda inputs: {"y": inputs["x"][inputs["index"]]},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-4x64", {"rows": 4, "columns": 64}),
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
        Case("single-1x1", {"rows": 1, "columns": 1}),
        Case("negative-5x50", {"rows": 5, "columns": 50, "shift": -200}),
        Case("large-5x50", {"rows": 5, "columns": 50, "shift": 200}),
        Case("padded-5x50", {"rows": 5, "columns": 50}, {"x": "padded", "y": "padded"}),
        Case("transposed-5x50", {"rows": 5, "columns": 50}, {"x": "transposed", "y": "transposed"}),
        Case("sliced-5x64", {"rows": 5, "columns": 64}, {"x": "sliced", "y": "sliced"}),
        Case("distant-5x50", {"rows": 5, "columns": 50}, {"x": "distant", "y": "distant"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

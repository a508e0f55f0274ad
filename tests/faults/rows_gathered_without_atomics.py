"""Adds rows to those of a table that an index names, as the gradient of an embedding does.

Wrong: two programs may load the same row of the table, and the sum of one is lost.
After: scatters that load, add and store where an index may come twice (triton-lang/triton #5326).
Seen by: the interpreter, under a schedule that a GPU may choose.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work

TABLE = 16


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, x_row, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0.0)
    cells = y_ptr + tl.load(index_ptr + row) * y_row + column
    tl.store(cells, tl.load(cells, mask=column < columns, other=0.0) + x, mask=column < columns)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    y.zero_()
    block = triton.next_power_of_2(columns)
    gather_kernel[(rows,)](x, inputs["index"], y, x.stride(0), y.stride(0), columns, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(size["rows"], size["columns"], generator=generator),
        "index": torch.randint(0, TABLE, (size["rows"],), generator=generator),
    }


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    return {"y": torch.zeros(TABLE, x.shape[1], dtype=x.dtype, device=x.device).index_add_(0, inputs["index"], x)}


KERNEL = Kernel(
    name="rows_gathered_without_atomics",
    title="Sums of rows by index",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((TABLE, inputs["x"].shape[1]))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("ragged-40x20", {"rows": 40, "columns": 20})],
    bound=ReductionBound(terms=lambda size: size["rows"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=12 * size["rows"] * size["columns"]),
)

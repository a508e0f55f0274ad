"""Sum of each row; programs take the next row from a counter until there is none.

Which program takes which row is left open, and changes nothing: no race.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Tensors, Variant, Work


@triton.jit
def sum_kernel(x_ptr, y_ptr, taken_ptr, rows, columns, x_row, BLOCK: tl.constexpr):
    row = tl.atomic_add(taken_ptr, 1)
    while row < rows:
        column = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * x_row + column, mask=column < columns, other=0.0)
        tl.store(y_ptr + row, tl.sum(x))
        row = tl.atomic_add(taken_ptr, 1)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    taken = torch.zeros(1, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    sum_kernel[(3,)](x, outputs["y"], taken, *x.shape, x.stride(0), BLOCK=block)


KERNEL = Kernel(
    name="rows_from_a_queue",
    title="Sums of rows",
    inputs=lambda size, generator: {"x": torch.randn(size["rows"], size["columns"], generator=generator)},
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(1)},
    launch=launch,
    variants=[Variant("f32", "three")],
    cases=[Case("ragged-7x50", {"rows": 7, "columns": 50}), Case("few-2x64", {"rows": 2, "columns": 64})],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

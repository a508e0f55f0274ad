"""Row sum whose accumulator is a bfloat16, as its inputs are.

Wrong: every addition is rounded to 8 bits, so that what a long row still has to add is lost.
After: losses and norms that add in the dtype of what they loaded.
Seen by: the interpreter, in every case of more than one block.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def sum_kernel(x_ptr, y_ptr, x_row, x_col, y_step, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.bfloat16)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK).to(tl.int64)
        total += tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0)
    tl.store(y_ptr + row * y_step, tl.sum(total.to(tl.float32), axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    sum_kernel[(rows,)](x, y, *x.stride(), y.stride(0), columns, BLOCK=16)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="accumulates_in_bfloat16",
    title="Row sum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1)},
    launch=launch,
    variants=[Variant("bf16", "row", dtype=torch.bfloat16)],
    cases=[Case("aligned-4x64", {"rows": 4, "columns": 64}), Case("ragged-5x50", {"rows": 5, "columns": 50})],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"bf16": 1e-5}, eps={"bf16": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=2 * size["rows"] * size["columns"]),
)

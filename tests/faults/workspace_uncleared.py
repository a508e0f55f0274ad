"""Partial sums in a workspace of which a part is read that nobody wrote.

Wrong: a row of fewer blocks than the workspace has slots leaves the rest as the allocator gave it.
After: split reductions over torch.empty scratch, right as long as fresh memory happens to be zero.
Seen by: the interpreter, on rows that do not fill the slots; what torch allocates bears a mark there.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work

SLOTS = 4


@triton.jit
def partial_kernel(x_ptr, part_ptr, columns, x_row, x_col, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    row, slot = tl.program_id(0), tl.program_id(1)
    column = slot * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0)
    tl.store(part_ptr + row * SLOTS + slot, tl.sum(x, axis=0))


@triton.jit
def total_kernel(part_ptr, y_ptr, SLOTS: tl.constexpr):
    row = tl.program_id(0)
    parts = tl.load(part_ptr + row * SLOTS + tl.arange(0, SLOTS))
    tl.store(y_ptr + row, tl.sum(parts, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    parts = torch.empty(rows, SLOTS, device=x.device)
    partial_kernel[(rows, triton.cdiv(columns, 64))](x, parts, columns, *x.stride(), SLOTS=SLOTS, BLOCK=64)
    total_kernel[(rows,)](parts, y, SLOTS=SLOTS)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="workspace_uncleared",
    title="Row sums in two steps",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1)},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-4x256", {"rows": 4, "columns": 256}), Case("short-4x100", {"rows": 4, "columns": 100})],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

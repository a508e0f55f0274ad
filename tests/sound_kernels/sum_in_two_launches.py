"""Row sum over a workspace of partial sums: one kernel for the parts, one for their sum, all of it written first."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def parts_kernel(x_ptr, parts_ptr, x_row, x_col, columns, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = part * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0)
    tl.store(parts_ptr + row * parts + part, tl.sum(x, axis=0))


@triton.jit
def total_kernel(parts_ptr, y_ptr, y_step, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK)
    sums = tl.load(parts_ptr + row * parts + part, mask=part < parts, other=0.0)
    tl.store(y_ptr + row * y_step, tl.sum(sums, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    parts = triton.cdiv(columns, 16)
    workspace = torch.empty(rows, parts, device=x.device)
    parts_kernel[(rows, parts)](x, workspace, *x.stride(), columns, parts, BLOCK=16)
    total_kernel[(rows,)](workspace, y, y.stride(0), parts, BLOCK=triton.next_power_of_2(parts))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="sum_in_two_launches",
    title="Row sum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-4x64", {"rows": 4, "columns": 64}),
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
        Case("single-1x1", {"rows": 1, "columns": 1}),
        Case("negative-5x50", {"rows": 5, "columns": 50, "shift": -200}),
        Case("large-5x50", {"rows": 5, "columns": 50, "shift": 200}),
        Case("padded-5x50", {"rows": 5, "columns": 50}, {"x": "padded"}),
        Case("transposed-5x50", {"rows": 5, "columns": 50}, {"x": "transposed"}),
        Case("sliced-5x64", {"rows": 5, "columns": 64}, {"x": "sliced"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

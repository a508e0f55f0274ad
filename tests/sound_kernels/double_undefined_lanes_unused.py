"""Doubling whose load has no `other=`: the store has the same mask, so no undefined lane is used. A persistent loop."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def double_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, length, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, length, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK).to(tl.int64)
        row, column = at // columns, at % columns
        x = tl.load(x_ptr + row * x_row + column * x_col, mask=at < length)
        tl.store(y_ptr + row * y_row + column * y_col, 2.0 * x, mask=at < length)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    double_kernel[(2,)](x, y, *x.stride(), *y.stride(), x.shape[1], x.numel(), BLOCK=32)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="double_undefined_lanes_unused",
    title="2 x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2.0 * inputs["x"]},
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

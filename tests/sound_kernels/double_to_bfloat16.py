"""Doubling of a float32 into a bfloat16, rounded to nearest at the end."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def double_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns)
    tl.store(y_ptr + row * y_row + column * y_col, (2.0 * x).to(tl.bfloat16), mask=column < columns)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    double_kernel[(rows,)](x, y, *x.stride(), *y.stride(), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="double_to_bfloat16",
    title="2 x in bfloat16",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape), torch.bfloat16)},
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
    ],
    bound=UlpBound(ulps=lambda problem: 0.5, why="one rounding to nearest", fraction_bits=7),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

"""Row softmax whose load has no `other=`: tl.where puts -inf into the undefined lanes before they are used."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=inside)
    x = tl.where(inside, x, -float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * y_row + column * y_col, numerator / tl.sum(numerator, axis=0), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, y, *x.stride(), *y.stride(), columns, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="softmax_undefined_lanes_replaced",
    title="Row softmax",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.softmax(inputs["x"], dim=1)},
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
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

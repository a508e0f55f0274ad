"""Row layer norm without parameters, which masks again between subtracting the mean and squaring."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def norm_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=inside, other=0.0)
    centred = tl.where(inside, x - tl.sum(x, axis=0) / columns, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    tl.store(y_ptr + row * y_row + column * y_col, centred / tl.sqrt(variance + 1e-2), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    norm_kernel[(rows,)](x, y, *x.stride(), *y.stride(), columns, BLOCK=block)


def oracle(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(dim=1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + 1e-2)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="layer_norm_masked_twice",
    title="Row layer norm",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": oracle(inputs["x"])},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-4x64", {"rows": 4, "columns": 64}),
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
        Case("single-1x1", {"rows": 1, "columns": 1}),
        Case("padded-5x50", {"rows": 5, "columns": 50}, {"x": "padded", "y": "padded"}),
        Case("transposed-5x50", {"rows": 5, "columns": 50}, {"x": "transposed", "y": "transposed"}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

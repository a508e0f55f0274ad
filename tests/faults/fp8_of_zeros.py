"""Rows scaled to the range of float8_e4m3fn and rounded to it.

Wrong: a row of zeros has a scale of 0, and 0 / 0 is NaN.
After: ROCm/aiter #4288 and huggingface/kernels-community #681.
Seen by: the interpreter, in the case of zeros.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def quantise_kernel(x_ptr, y_ptr, x_row, x_col, y_row, y_col, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0)
    scale = tl.max(tl.abs(x), axis=0) / 448.0
    tl.store(y_ptr + row * y_row + column * y_col, (x / scale).to(tl.float8e4nv), mask=column < columns)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    quantise_kernel[(rows,)](x, y, *x.stride(), *y.stride(), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    scale = inputs["x"].abs().amax(1, keepdim=True) / 448.0
    return {"y": inputs["x"] / torch.where(scale == 0.0, 1.0, scale)}


KERNEL = Kernel(
    name="fp8_of_zeros",
    title="Rows as fp8",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape), torch.float8_e4m3fn)},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("aligned-16x256", {"rows": 16, "columns": 256}),
        Case("ragged-7x200", {"rows": 7, "columns": 200}),
        Case("zero-7x100", {"rows": 7, "columns": 100}, values={"x": "zero"}),
    ],
    bound=UlpBound(
        ulps=lambda problem: 0.5 + 2.0**-18,
        why="rounded to nearest, after two divisions in float32",
        fraction_bits=3,
        # Half of the smallest number.
        floor=2.0**-10,
    ),
    work=lambda size: Work(flops=2 * size["rows"] * size["columns"], bytes=5 * size["rows"] * size["columns"]),
)

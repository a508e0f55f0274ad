"""Row sum of float16 and bfloat16 inputs, widened to float32 before anything is added."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def sum_kernel(x_ptr, y_ptr, x_row, x_col, y_step, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_step, tl.sum(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    sum_kernel[(rows,)](x, y, *x.stride(), y.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator) + size.get("shift", 0)}


KERNEL = Kernel(
    name="sum_of_narrow_inputs",
    title="Row sum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(dim=1)},
    launch=launch,
    variants=[Variant(name, "row", dtype=dtype) for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16))],
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
    bound=ReductionBound(
        terms=lambda size: size["columns"], table={"f16": 1e-5, "bf16": 1e-5}, eps={"f16": 2.0**-23, "bf16": 2.0**-23}
    ),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=8 * size["rows"] * size["columns"]),
)

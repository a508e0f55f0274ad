"""Row maxima in which the lanes past a row count as 0.

Wrong: a row of negative numbers has a maximum below 0, and gets 0.
After: maxima and normalisations that pad with `other=0.0` (FlagOpen/FlagGems #5938).
Seen by: the interpreter, where a whole row is negative; rows of both signs pass.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def maximum_kernel(x_ptr, y_ptr, columns, x_row, x_col, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column * x_col, mask=column < columns, other=0.0)
    tl.store(y_ptr + row, tl.max(x, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    maximum_kernel[(rows,)](x, y, columns, *x.stride(), BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="maximum_padded_with_zero",
    title="Row maxima",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": inputs["x"].amax(dim=1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[
        Case("ragged-5x50", {"rows": 5, "columns": 50}),
        Case("negative-5x50", {"rows": 5, "columns": 50}, values={"x": "negative"}),
    ],
    bound=UlpBound(ulps=lambda problem: 0.0, why="a maximum is exact", floor=0.0),
    work=lambda size: Work(flops=0, bytes=4 * size["rows"] * size["columns"]),
)

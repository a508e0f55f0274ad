"""The last element of each row that is not zero, or zero.

Wrong: the function that keeps the right one is given to tl.reduce, which combines elements in no order; scans keep it.
After: linear recurrences and "last valid" look-ups reduced by a function that is associative and does not commute.
Seen by: the interpreter, where it combines every second element first.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def keep_right(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def last_kernel(x_ptr, y_ptr, columns, x_row, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0.0)
    tl.store(y_ptr + row, tl.reduce(x, 0, keep_right))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    last_kernel[(rows,)](x, outputs["y"], columns, x.stride(0), BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    x = torch.randn(size["rows"], size["columns"], generator=generator)
    return {"x": torch.where(x > 1, 0.0, x)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    place = torch.arange(1, x.shape[1] + 1, device=x.device) * (x != 0)
    last = place.max(1).values
    return {"y": torch.where(last > 0, x.gather(1, (last - 1).clamp(min=0)[:, None])[:, 0], 0.0)}


KERNEL = Kernel(
    name="last_element_reduced",
    title="Last elements",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("aligned-9x64", {"rows": 9, "columns": 64}), Case("ragged-9x51", {"rows": 9, "columns": 51})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="an element is copied"),
    work=lambda size: Work(flops=0, bytes=4 * size["rows"] * (size["columns"] + 1)),
)

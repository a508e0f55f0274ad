"""Rows of y[t] = decay[t] y[t-1] + x[t], as one associative scan.

Wrong: the function forgets the product of the decays of what comes second, which only a whole group on the left needs.
After: linear recurrences whose function is right for one more element and wrong for two groups.
Seen by: the interpreter, where it combines groups as a GPU does.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def combine(decay, y, next_decay, next_y):
    return next_decay, next_decay * y + next_y


@triton.jit
def scan_kernel(decay_ptr, x_ptr, y_ptr, x_row, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    decay = tl.load(decay_ptr + row * x_row + column, mask=column < columns, other=0.0)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0.0)
    _, y = tl.associative_scan((decay, x), 0, combine)
    tl.store(y_ptr + row * y_row + column, y, mask=column < columns)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    scan_kernel[(rows,)](inputs["decay"], x, y, x.stride(0), y.stride(0), columns, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    shape = size["rows"], size["columns"]
    return {"decay": torch.rand(shape, generator=generator), "x": torch.randn(shape, generator=generator)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    found = [inputs["x"][:, 0]]
    for decay, x in zip(inputs["decay"].T[1:], inputs["x"].T[1:], strict=True):
        found.append(decay * found[-1] + x)
    return {"y": torch.stack(found, dim=1)}


KERNEL = Kernel(
    name="decay_combined_wrongly",
    title="Decaying sums",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("ragged-3x20", {"rows": 3, "columns": 20})],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=2 * size["rows"] * size["columns"], bytes=12 * size["rows"] * size["columns"]),
)

"""Online softmax that forgets to rescale the sum when a later block raises the maximum.

Wrong: the terms of earlier blocks stay relative to an older maximum.
After: flash-attention and online-softmax kernels that lack the factor exp(old - new).
Seen by: the interpreter, where a row takes more than one block.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_row, y_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        inside = start + lane < columns
        x = tl.load(x_ptr + row * x_row + start + lane, mask=inside, other=-float("inf"))
        largest = tl.maximum(largest, tl.max(x, axis=0))
        total += tl.sum(tl.exp(x - largest), axis=0)
    for start in range(0, columns, BLOCK):
        inside = start + lane < columns
        x = tl.load(x_ptr + row * x_row + start + lane, mask=inside, other=-float("inf"))
        tl.store(y_ptr + row * y_row + start + lane, tl.exp(x - largest) / total, mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), y.stride(0), x.shape[1], BLOCK=32)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["rows"], size["columns"], generator=generator)}


KERNEL = Kernel(
    name="softmax_not_rescaled",
    title="Row softmax",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": torch.softmax(inputs["x"], dim=1)},
    launch=launch,
    variants=[Variant("f32", "block32")],
    cases=[Case("short-5x30", {"rows": 5, "columns": 30}), Case("long-5x100", {"rows": 5, "columns": 100})],
    bound=ReductionBound(terms=lambda size: size["columns"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=0, bytes=12 * size["rows"] * size["columns"]),
)

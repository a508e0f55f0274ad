"""Counts through integers that torch.empty hands out, of which some are read that nobody wrote.

Wrong: a vector of fewer blocks than there are counters leaves the rest as the allocator gave them.
After: split reductions over torch.empty scratch, right as long as fresh memory happens to be zero.
Seen by: the interpreter, on vectors that do not fill the counters; with other memory the count is another.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work

SLOTS = 4


@triton.jit
def count_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(part_ptr + block, tl.sum((x > 0.0).to(tl.int32), axis=0))


@triton.jit
def total_kernel(part_ptr, y_ptr, SLOTS: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, SLOTS)), axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    parts = torch.empty(SLOTS, dtype=torch.int32, device=x.device)
    count_kernel[(triton.cdiv(x.numel(), 64),)](x, parts, x.numel(), BLOCK=64)
    total_kernel[(1,)](parts, y, SLOTS=SLOTS)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="counters_uncleared",
    title="Count of what is positive",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((1,), torch.int32)},
    oracle=lambda inputs: {"y": (inputs["x"] > 0).sum().double().reshape(1)},
    launch=launch,
    variants=[Variant("i32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("short-150", {"n": 150})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="counts are exact", floor=0.0),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
)

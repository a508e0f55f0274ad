"""Counts added atomically to integers that nobody has set to 0.

Wrong: the counts start from what was in memory, and no integer says that it was never written.
After: atomic kernels without `zero_()` (triton-lang/triton #7181), here in integers, where no NaN spreads.
Seen by: the interpreter, in every case; over another blank the counts are others.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work

BINS = 4


@triton.jit
def histogram_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_add(y_ptr + value, 1, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    histogram_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randint(0, BINS, (size["n"],), generator=generator)}


KERNEL = Kernel(
    name="histogram_into_uncleared",
    title="Histogram",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((BINS,), torch.int32)},
    oracle=lambda inputs: {"y": torch.bincount(inputs["x"], minlength=BINS).double()},
    launch=launch,
    variants=[Variant("i32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="counts are exact", floor=0.0),
    work=lambda size: Work(flops=0, bytes=8 * size["n"]),
)

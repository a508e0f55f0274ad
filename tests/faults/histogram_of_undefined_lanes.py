"""Histogram of integers whose load has a mask and no `other=`.

Wrong: the lanes past the end are undefined, and are counted where they happen to be one of the bins.
After: histograms over blocks that trust what lies past the end to be no bin.
Seen by: the interpreter, in the ragged case, with plausible values in undefined lanes.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work

BINS = 16


@triton.jit
def histogram_kernel(x_ptr, y_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.atomic_add(y_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    y.zero_()
    histogram_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BINS=BINS, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randint(BINS, (size["n"],), generator=generator, dtype=torch.int32)}


KERNEL = Kernel(
    name="histogram_of_undefined_lanes",
    title="Histogram",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((BINS,), torch.int32)},
    oracle=lambda inputs: {"y": torch.bincount(inputs["x"].long(), minlength=BINS).double()},
    launch=launch,
    variants=[Variant("i32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="counts are exact", floor=0.0),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
)

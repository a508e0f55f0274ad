"""Halves elements in place, and says whether any was negative.

Programs load more than they use, lanes that their neighbours store to, and several store the same flag: neither changes
what comes out.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def halve_kernel(y_ptr, flag_ptr, n, USED: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0) * USED + lane
    used = (lane < USED) & (at < n)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    if tl.min(tl.where(used, y, 0.0)) < 0:
        tl.store(flag_ptr, 1.0)
    tl.store(y_ptr + at, y / 2, mask=used)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    y = outputs["y"]
    y.copy_(inputs["x"])
    outputs["negative"].zero_()
    halve_kernel[(triton.cdiv(y.numel(), 48),)](y, outputs["negative"], y.numel(), USED=48, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="halved_in_place_by_wide_blocks",
    title="Halves, in place",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape)), "negative": Output((1,))},
    oracle=lambda inputs: {"y": inputs["x"] / 2, "negative": (inputs["x"] < 0).any().reshape(1).double()},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-192", {"n": 192}), Case("ragged-500", {"n": 500})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="halving is exact"),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

"""Reverses each block of 64 elements in place.

Wrong: no barrier stands between the load and the store, so that a thread may load what another has stored already.
After: the hazard "write after read" that compute-sanitizer's racecheck looks for in shared memory alone.
Seen by: the interpreter, lane by lane.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def reverse_kernel(y_ptr, n, BLOCK: tl.constexpr):
    first, lanes = tl.program_id(0) * BLOCK, tl.arange(0, BLOCK)
    size = tl.minimum(n - first, BLOCK)
    turned = tl.load(y_ptr + first + size - 1 - lanes, mask=lanes < size)
    tl.store(y_ptr + first + lanes, turned, mask=lanes < size)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    y = outputs["y"]
    y.copy_(inputs["x"])
    reverse_kernel[(triton.cdiv(y.numel(), 64),)](y, y.numel(), BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="reversed_in_place",
    title="Blocks of 64, reversed",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],))},
    oracle=lambda inputs: {"y": torch.cat([block.flip(0) for block in inputs["x"].split(64)])},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda _: 0, floor=0, why="values are moved"),
    work=lambda size: Work(flops=0, bytes=8 * size["n"]),
)

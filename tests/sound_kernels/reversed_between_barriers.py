"""Reverses each block of 64 elements by way of a scratch buffer, then in place, with barriers between."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def reverse_kernel(x_ptr, scratch_ptr, y_ptr, n, BLOCK: tl.constexpr):
    first, lanes = tl.program_id(0) * BLOCK, tl.arange(0, BLOCK)
    size = tl.minimum(n - first, BLOCK)
    tl.store(scratch_ptr + first + lanes, tl.load(x_ptr + first + lanes, mask=lanes < size), mask=lanes < size)
    tl.debug_barrier()
    turned = tl.load(scratch_ptr + first + size - 1 - lanes, mask=lanes < size)
    tl.store(y_ptr + first + lanes, turned, mask=lanes < size)
    # Back and forth once more, within the output alone.
    for _ in range(2):
        tl.debug_barrier()
        again = tl.load(y_ptr + first + size - 1 - lanes, mask=lanes < size)
        tl.debug_barrier()
        tl.store(y_ptr + first + lanes, again, mask=lanes < size)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, scratch = inputs["x"], torch.empty_like(inputs["x"])
    reverse_kernel[(triton.cdiv(x.numel(), 64),)](x, scratch, outputs["y"], x.numel(), BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="reversed_between_barriers",
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

"""Positive elements to the front, in their order; a counter says where a program's go.

Wrong: programs come to the counter in any order, and so do the elements of different programs.
After: stream compaction and token permutation with an atomic counter in place of a prefix sum.
Seen by: the interpreter, with its programs in reversed order.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Tensors, UlpBound, Variant, Work


@triton.jit
def keep_kernel(x_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    kept = (x > 0).to(tl.int32)
    start = tl.atomic_add(count_ptr, tl.sum(kept))
    tl.store(y_ptr + start + tl.cumsum(kept) - 1, x, mask=x > 0)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    count = torch.zeros(1, dtype=torch.int32, device=x.device)
    y.zero_()
    keep_kernel[(triton.cdiv(x.numel(), 128),)](x, y, count, x.numel(), BLOCK=128)


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    y, kept = torch.zeros_like(x), x[x > 0]
    y[: kept.numel()] = kept
    return {"y": y}


KERNEL = Kernel(
    name="kept_in_any_order",
    title="Compaction",
    inputs=lambda size, generator: {"x": torch.randn(size["n"], generator=generator)},
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="elements are copied"),
    work=lambda size: Work(flops=0, bytes=8 * size["n"]),
)

"""For each of eight keys, the first place at which it stands.

Wrong: whoever comes first to an empty cell claims it, and that need not be the first in the list.
After: hash tables and deduplication by compare-and-swap, where a minimum is wanted.
Seen by: the interpreter, with its programs and lanes in reversed order.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Tensors, UlpBound, Variant, Work


@triton.jit
def claim_kernel(key_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # What is past the end claims a cell that nobody asks for.
    key = tl.load(key_ptr + at, mask=at < n, other=8)
    tl.atomic_cas(y_ptr + key, tl.full((BLOCK,), -1, tl.int32), at)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    key, y = inputs["key"], outputs["y"]
    y.fill_(-1)
    claim_kernel[(triton.cdiv(key.numel(), 64),)](key, y, key.numel(), BLOCK=64)
    y[8] = -1


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    key = inputs["key"].tolist()
    first = [key.index(cell) if cell in key else -1 for cell in range(9)]
    return {"y": torch.tensor(first, dtype=torch.float64, device=inputs["key"].device)}


KERNEL = Kernel(
    name="first_to_claim",
    title="First places",
    inputs=lambda size, generator: {"key": torch.randint(0, 8, (size["n"],), generator=generator, dtype=torch.int32)},
    outputs=lambda inputs: {"y": Output((9,), torch.int32)},
    oracle=oracle,
    launch=launch,
    variants=[Variant("i32", "block64")],
    cases=[Case("one-block-60", {"n": 60}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="places are integers"),
    work=lambda size: Work(flops=0, bytes=4 * size["n"]),
)

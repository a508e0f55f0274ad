"""Two vectors, one behind the other.

Wrong: tl.cat may reorder, as can_reorder says, and what it returns is stored as if it had not.
After: keys and rotary halves put together with tl.cat because it had the name.
Seen by: the interpreter, where it does reorder.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Tensors, UlpBound, Variant, Work


@triton.jit
def join_kernel(a_ptr, b_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.cat(tl.load(a_ptr + at), tl.load(b_ptr + at), can_reorder=True)
    tl.store(y_ptr + tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK), both)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b = inputs["a"], inputs["b"]
    join_kernel[(a.shape[0],)](a, b, outputs["y"], BLOCK=a.shape[1])


KERNEL = Kernel(
    name="halves_put_together",
    title="Concatenation",
    inputs=lambda size, generator: {
        name: torch.randn(size["rows"], size["half"], generator=generator) for name in ("a", "b")
    },
    outputs=lambda inputs: {"y": Output((inputs["a"].shape[0], 2 * inputs["a"].shape[1]))},
    oracle=lambda inputs: {"y": torch.cat([inputs["a"], inputs["b"]], 1)},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("small-3x16", {"rows": 3, "half": 16}), Case("one-1x64", {"rows": 1, "half": 64})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="elements are copied"),
    work=lambda size: Work(flops=0, bytes=16 * size["rows"] * size["half"]),
)

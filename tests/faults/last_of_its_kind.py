"""Keeps, for each kind, the last value that has it.

Wrong: of the lanes of one store that write to one address, any may be the last.
After: scatters that count on the order of lanes (triton-lang/triton #5326).
Seen by: the interpreter, under a schedule that a GPU may choose.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work

KINDS = 8


@triton.jit
def last_kernel(x_ptr, kind_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    kind = tl.load(kind_ptr + at, mask=at < n, other=0)
    tl.store(y_ptr + kind, x, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    y.zero_()
    last_kernel[(1,)](x, inputs["kind"], y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(size["n"], generator=generator),
        "kind": torch.randint(0, KINDS, (size["n"],), generator=generator),
    }


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    x, y = inputs["x"], torch.zeros(KINDS, dtype=torch.float64, device=inputs["x"].device)
    for at, kind in enumerate(inputs["kind"].tolist()):
        y[kind] = x[at]
    return {"y": y}


KERNEL = Kernel(
    name="last_of_its_kind",
    title="Last value of each kind",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((KINDS,))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "block")],
    cases=[Case("ragged-100", {"n": 100})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="values are copied"),
    work=lambda size: Work(flops=size["n"], bytes=12 * size["n"]),
)

"""Windows of 64 elements, each copied from where it starts, which is said to be a multiple of 16.

Wrong: the starts are any numbers, and what the compiler is told makes it read four elements at once, which a GPU does
from addresses that divide by 16 bytes alone.
After: `tl.multiple_of` kept from a kernel whose windows were whole blocks, and passed over by the interpreter.
Seen by: the interpreter.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work

WINDOW = 64


@triton.jit
def window_kernel(x_ptr, starts_ptr, y_ptr, WINDOW: tl.constexpr):
    window = tl.program_id(0).to(tl.int64)
    start = tl.multiple_of(tl.load(starts_ptr + window), 16)
    at = tl.arange(0, WINDOW)
    tl.store(y_ptr + window * WINDOW + at, tl.load(x_ptr + start + at))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    starts = inputs["starts"]
    window_kernel[(starts.numel(),)](inputs["x"], starts, outputs["y"], WINDOW=WINDOW, **variant.options)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    n = size["n"]
    starts = torch.randint(0, n + 1, (9,), generator=generator)
    return {"x": torch.randn(n + WINDOW, generator=generator), "starts": starts}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    windows = [inputs["x"][start : start + WINDOW] for start in inputs["starts"].tolist()]
    return {"y": torch.stack(windows).double()}


KERNEL = Kernel(
    name="windows_said_to_be_aligned",
    title="Windows of x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["starts"].numel(), WINDOW))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "window", {"num_warps": 1})],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda size: 0, floor=0, why="a copy is exact"),
    work=lambda size: Work(flops=0, bytes=8 * 9 * WINDOW),
)

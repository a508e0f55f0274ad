"""Windows of up to 64 elements, each copied from where it starts, which is a multiple of 16 as the compiler is told.

The grid has programs past the last window. Their starts come from masked lanes and mean nothing, nor are they used.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work

WINDOW = 64


@triton.jit
def window_kernel(x_ptr, starts_ptr, y_ptr, windows, x_length, WINDOW: tl.constexpr):
    window = tl.program_id(0)
    start = tl.multiple_of(tl.load(starts_ptr + window, mask=window < windows), 16)
    lane = tl.arange(0, WINDOW)
    at = start + lane
    # The mask changes where the vector ends only: of four neighbours all are inside, or none.
    there = window * WINDOW + lane < windows * WINDOW
    inside = tl.max_constancy((at < x_length) & there, [4])
    x = tl.load(tl.multiple_of(x_ptr + at, 16), mask=inside, other=0.0)
    tl.store(y_ptr + window * WINDOW + lane, x, mask=there)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, starts = inputs["x"], inputs["starts"]
    window_kernel[(8,)](x, starts, outputs["y"], starts.numel(), x.numel(), WINDOW=WINDOW, **variant.options)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    n = size["n"]
    starts = 16 * torch.randint(0, n // 16, (size["windows"],), generator=generator)
    return {"x": torch.randn(n, generator=generator), "starts": starts}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    padded = torch.nn.functional.pad(inputs["x"], (0, WINDOW))
    return {"y": torch.stack([padded[start : start + WINDOW] for start in inputs["starts"].tolist()]).double()}


KERNEL = Kernel(
    name="windows_aligned",
    title="Windows of x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["starts"].numel(), WINDOW))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "window")],
    cases=[
        Case("aligned-8x256", {"windows": 8, "n": 256}),
        Case("fewer-5x300", {"windows": 5, "n": 300}),
        Case("single-1x20", {"windows": 1, "n": 20}),
    ],
    bound=UlpBound(ulps=lambda size: 0, floor=0, why="a copy is exact"),
    work=lambda size: Work(flops=0, bytes=8 * size["windows"] * WINDOW),
)

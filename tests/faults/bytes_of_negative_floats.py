"""Quantisation that casts floats, negative ones too, to uint8 and counts on them to wrap.

Wrong: a C compiler's CPU code mostly makes 251 of -5, a GPU 0: Triton promises nothing past an integer's range.
After: kernels that were tried on a CPU alone, where NumPy casts as C does.
Seen by: the interpreter, in every case, because it casts as a GPU does.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def wrap_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x.to(tl.uint8), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    n = inputs["x"].numel()
    wrap_kernel[(triton.cdiv(n, 128),)](inputs["x"], outputs["y"], n, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randint(-64, 64, (size["n"],), generator=generator).float()}


KERNEL = Kernel(
    name="bytes_of_negative_floats",
    title="Floats as bytes",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape), torch.uint8)},
    oracle=lambda inputs: {"y": inputs["x"].remainder(256)},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="integers are exact", floor=0.0),
    work=lambda size: Work(flops=size["n"], bytes=5 * size["n"]),
)

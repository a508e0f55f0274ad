"""float16 x, scaled, cut off and shifted as floats and flags say that are arguments of the launch."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def scaled_kernel(x_ptr, y_ptr, n, scale, least, shift, mirrored, cut, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (at < n) & (scale != 0.0)
    x = tl.load(x_ptr + at, mask=inside, other=least)
    # Both are float32 from here on: an argument is a tensor, to which float16 yields.
    y = x * scale.to(tl.float32)
    if mirrored:
        y = -y
    if cut and not least > 0.0:
        y = tl.maximum(y, least * scale)
    factor = 1.0 if shift == 0.0 else 0.5
    y = tl.where(cut, y, -1.0) * factor + shift
    tl.store(y_ptr + at, y, mask=inside & (mirrored | cut))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    grid = lambda meta: (triton.cdiv(int(meta["n"] / meta["scale"] * 0.3), meta["BLOCK"]),)  # noqa: E731
    scaled_kernel[grid](x, y, x.numel(), 0.3, -1.0, 0.1, x.numel() % 2 == 0, True, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator).half()}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    y = 0.3 * inputs["x"] * (-1.0 if inputs["x"].numel() % 2 == 0 else 1.0)
    return {"y": 0.5 * y.clamp(min=-0.3) + 0.1}


KERNEL = Kernel(
    name="scaled_by_arguments",
    title="x, scaled and cut off",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300}), Case("single-1", {"n": 1})],
    bound=ReductionBound(terms=lambda size: 2, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=4 * size["n"], bytes=6 * size["n"]),
)

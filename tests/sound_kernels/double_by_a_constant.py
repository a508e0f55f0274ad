"""0.1 x + b in float64, where 0.1 is a constant of the kernel's and keeps all of its bits."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def axpy_kernel(x_ptr, b_ptr, y_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x, b = tl.load(x_ptr + at, mask=at < n), tl.load(b_ptr + at, mask=at < n)
    tl.store(y_ptr + at, FACTOR * x + b, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    axpy_kernel[(triton.cdiv(x.numel(), 128),)](x, inputs["b"], y, x.numel(), 0.1, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {name: torch.randn(size["n"], generator=generator, dtype=torch.float64) for name in ("x", "b")}


KERNEL = Kernel(
    name="double_by_a_constant",
    title="0.1 x + b in float64",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape), torch.float64)},
    oracle=lambda inputs: {"y": 0.1 * inputs["x"] + inputs["b"]},
    launch=launch,
    variants=[Variant("f64", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: 2, table={"f64": 1e-14}, eps={"f64": 2.0**-52}),
    work=lambda size: Work(flops=2 * size["n"], bytes=24 * size["n"]),
)

"""Square and fourth power, by kernels that a function makes: each keeps a constant and a function of its own."""

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Size, Tensors, Variant, Work


@triton.jit
def square(x):
    return x * x


def power_kernel(times: int, function: Any) -> Any:
    TIMES: tl.constexpr = tl.constexpr(times)

    @triton.jit
    def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        for _ in tl.static_range(TIMES):
            x = function(x)
        tl.store(y_ptr + at, x, mask=at < n)

    return kernel


KERNELS: Mapping[str, Any] = {"square": power_kernel(1, square), "fourth": power_kernel(2, square)}


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    for name, kernel in KERNELS.items():
        kernel[(triton.cdiv(x.numel(), 64),)](x, outputs[name], x.numel(), BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="powers_of_a_factory",
    title="x^2 and x^4",
    inputs=make_inputs,
    outputs=lambda inputs: {name: Output(tuple(inputs["x"].shape)) for name in KERNELS},
    oracle=lambda inputs: {"square": inputs["x"] ** 2, "fourth": inputs["x"] ** 4},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-128", {"n": 128}), Case("ragged-77", {"n": 77})],
    bound=ComponentwiseBound(terms=lambda size: 4),
    work=lambda size: Work(flops=3 * size["n"], bytes=12 * size["n"]),
)

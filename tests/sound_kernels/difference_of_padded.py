"""Second difference over a padded copy that the launch makes, handed over from its middle."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Problem, Size, Tensors, Variant, Work


@triton.jit
def difference_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    around = tl.load(x_ptr + at - 1, mask=inside) + tl.load(x_ptr + at + 1, mask=inside)
    tl.store(y_ptr + at, around - 2.0 * tl.load(x_ptr + at, mask=inside), mask=inside)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    padded = torch.nn.functional.pad(x, (1, 1))
    difference_kernel[(triton.cdiv(x.numel(), 64),)](padded[1:-1], y, x.numel(), BLOCK=64)


def difference(inputs: Tensors, sign: int) -> dict[str, torch.Tensor]:
    padded = torch.nn.functional.pad(inputs["x"], (1, 1))
    return {"y": padded[:-2] + padded[2:] + sign * 2.0 * padded[1:-1]}


def magnitude(problem: Problem) -> dict[str, torch.Tensor]:
    return difference({"x": problem.inputs["x"].abs()}, 1)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="difference_of_padded",
    title="Second difference",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: difference(inputs, -1),
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-128", {"n": 128}), Case("ragged-77", {"n": 77}), Case("one", {"n": 1})],
    bound=ComponentwiseBound(terms=lambda size: 3, magnitude=magnitude),
    work=lambda size: Work(flops=3 * size["n"], bytes=8 * size["n"]),
)

"""Adds blocks of a vector up through a tensor descriptor, in which the hardware adds.

Triton's interpreter has no such addition: inapplicable there, and no fault.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def add_kernel(x, y, BLOCK: tl.constexpr):
    y.atomic_add([0], x.load([tl.program_id(0) * BLOCK]))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    y.zero_()
    block = y.numel()
    given, kept = (TensorDescriptor.from_tensor(tensor, [block]) for tensor in (x, y))
    add_kernel[(triton.cdiv(x.numel(), block),)](given, kept, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    x = inputs["x"]
    return {"y": torch.nn.functional.pad(x, (0, -x.numel() % 64)).view(-1, 64).sum(dim=0)}


KERNEL = Kernel(
    name="sums_through_descriptor",
    title="Sums of blocks",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((64,))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ReductionBound(terms=lambda size: size["n"] // 64 + 1, table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
    capability=(9, 0),
)

"""Twice several vectors, reached through a table of their addresses: no pointer to them is an argument."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Size, Tensors, Variant, Work


@triton.jit
def double_kernel(table_ptr, lengths_ptr, starts_ptr, y_ptr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    x_ptr = tl.load(table_ptr + group).to(tl.pointer_type(tl.float32))
    length, start = tl.load(lengths_ptr + group), tl.load(starts_ptr + group)
    for first in range(0, length, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < length)
        tl.store(y_ptr + start + at, 2.0 * x, mask=at < length)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    vectors, y = list(inputs.values()), outputs["y"]
    lengths = torch.tensor([x.numel() for x in vectors], device=y.device)
    table = torch.tensor([x.data_ptr() for x in vectors], device=y.device)
    double_kernel[(len(vectors),)](table, lengths, lengths.cumsum(0) - lengths, y, BLOCK=32)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        name: torch.randn(n, generator=generator)
        for name, n in zip("abc", (size["n"], 3, 2 * size["n"] + 1), strict=True)
    }


KERNEL = Kernel(
    name="double_through_pointers",
    title="2 x of several x",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((sum(x.numel() for x in inputs.values()),))},
    oracle=lambda inputs: {"y": 2.0 * torch.cat(list(inputs.values()))},
    launch=launch,
    variants=[Variant("f32", "block32")],
    cases=[Case("aligned-64", {"n": 64}), Case("ragged-77", {"n": 77})],
    bound=ComponentwiseBound(terms=lambda size: 1),
    work=lambda size: Work(flops=3 * size["n"], bytes=24 * size["n"]),
)

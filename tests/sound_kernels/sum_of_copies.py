"""Sum of several vectors in float16, reached through a table of the addresses of copies that the launch makes."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Size, Tensors, Variant, Work


@triton.jit
def sum_kernel(table_ptr, y_ptr, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for number in range(COUNT):
        x_ptr = tl.load(table_ptr + number).to(tl.pointer_type(tl.float16))
        total += tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, total, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    y = outputs["y"]
    copies = [x.half() for x in inputs.values()]
    table = torch.tensor([x.data_ptr() for x in copies], device=y.device)
    sum_kernel[(triton.cdiv(y.numel(), 64),)](table, y, y.numel(), COUNT=len(copies), BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {name: torch.randn(size["n"], generator=generator).half().float() for name in "abc"}


KERNEL = Kernel(
    name="sum_of_copies",
    title="a + b + c",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["a"].shape))},
    oracle=lambda inputs: {"y": torch.stack(list(inputs.values())).sum(0)},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("aligned-128", {"n": 128}), Case("ragged-77", {"n": 77})],
    bound=ComponentwiseBound(terms=lambda size: 3),
    work=lambda size: Work(flops=3 * size["n"], bytes=22 * size["n"]),
)

"""Running total over blocks, in which each program waits for the total of the one before it.

It polls a flag by volatile loads, which the program before stores once its total is there: no race.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def total_kernel(x_ptr, y_ptr, total_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    before = 0.0
    if program > 0:
        while tl.load(flag_ptr + program - 1, volatile=True) == 0:
            pass
        before = tl.load(total_ptr + program - 1, volatile=True)
    tl.store(total_ptr + program, before + tl.sum(x))
    tl.debug_barrier()
    tl.store(flag_ptr + program, 1)
    tl.store(y_ptr + at, before + tl.cumsum(x), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    programs = triton.cdiv(x.numel(), 128)
    totals = torch.empty(programs, device=x.device)
    flags = torch.zeros(programs, dtype=torch.int32, device=x.device)
    total_kernel[(programs,)](x, outputs["y"], totals, flags, x.numel(), BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="running_total_polled",
    title="Running total, one launch",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"].cumsum(0)},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-1024", {"n": 1024}), Case("ragged-900", {"n": 900})],
    bound=ReductionBound(terms=lambda size: size["n"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

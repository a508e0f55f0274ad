"""Running total over blocks, in which each program waits for the total of the one before it.

Wrong: the flag that the first program raises is not the one that the second polls, so that it waits for ever.
After: semaphores counted from 1 on one side and from 0 on the other.
Seen by: the interpreter, where no other program is left that could raise it.
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
        while tl.atomic_add(flag_ptr + program - 1, 0) == 0:
            pass
        before = tl.load(total_ptr + program - 1)
    tl.store(total_ptr + program, before + tl.sum(x))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + program + 1, 1)
    tl.store(y_ptr + at, before + tl.cumsum(x), mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    programs = triton.cdiv(x.numel(), 128)
    totals = torch.empty(programs, device=x.device)
    flags = torch.zeros(programs + 1, dtype=torch.int32, device=x.device)
    total_kernel[(programs,)](x, outputs["y"], totals, flags, x.numel(), BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="waits_for_ever",
    title="Running total, one launch",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"].cumsum(0)},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-200", {"n": 200})],
    bound=ReductionBound(terms=lambda size: size["n"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)

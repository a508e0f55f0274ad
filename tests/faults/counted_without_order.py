"""Sum of all elements: each program leaves a partial sum, and the one that is counted last adds them up.

Wrong: the counter is relaxed, so that the partial sums of others may not be there yet when it has counted them.
After: split-K reductions whose semaphore was made relaxed because it was faster.
Seen by: the interpreter, under a schedule that a GPU may choose.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def sum_kernel(x_ptr, partial_ptr, count_ptr, y_ptr, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    program, programs = tl.program_id(0), tl.num_programs(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + program, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0)))
    if tl.atomic_add(count_ptr, 1, sem="relaxed") == programs - 1:
        each = tl.arange(0, PROGRAMS)
        tl.store(y_ptr, tl.sum(tl.load(partial_ptr + each, mask=each < programs, other=0.0)))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    programs = triton.cdiv(x.numel(), 128)
    partial = torch.empty(programs, device=x.device)
    count = torch.zeros(1, dtype=torch.int32, device=x.device)
    most = triton.next_power_of_2(programs)
    sum_kernel[(programs,)](x, partial, count, outputs["y"], x.numel(), BLOCK=128, PROGRAMS=most)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="counted_without_order",
    title="Sum, one launch",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((1,))},
    oracle=lambda inputs: {"y": inputs["x"].sum().reshape(1)},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-1024", {"n": 1024}), Case("ragged-900", {"n": 900})],
    bound=ReductionBound(terms=lambda size: size["n"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
)

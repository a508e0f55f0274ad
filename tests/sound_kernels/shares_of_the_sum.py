"""Each element over the sum of all, in one launch: programs leave partial sums and wait until all have.

They wait for each other, so that they must run at the same time, as so few do on a GPU: no race.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def share_kernel(x_ptr, y_ptr, partial_ptr, count_ptr, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(partial_ptr + program, tl.sum(x))
    tl.debug_barrier()
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < PROGRAMS:
        pass
    tl.debug_barrier()
    whole = tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS)))
    tl.store(y_ptr + at, x / whole, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    partial = torch.empty(4, device=x.device)
    count = torch.zeros(1, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(triton.cdiv(x.numel(), 4))
    share_kernel[(4,)](x, outputs["y"], partial, count, x.numel(), BLOCK=block, PROGRAMS=4)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.rand(size["n"], generator=generator) + 0.1}


KERNEL = Kernel(
    name="shares_of_the_sum",
    title="Shares, one launch",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"] / inputs["x"].sum()},
    launch=launch,
    variants=[Variant("f32", "four")],
    cases=[Case("aligned-1024", {"n": 1024}), Case("ragged-900", {"n": 900})],
    bound=ReductionBound(terms=lambda size: size["n"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=2 * size["n"], bytes=8 * size["n"]),
)

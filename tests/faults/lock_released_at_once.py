"""Column sums, which programs add up one after another under a lock.

Wrong: one thread releases the lock, and no barrier makes it wait for what the others store.
After: the gradient of a layer norm, wrong in 99 of 100 runs on a card (meta-pytorch/tritonbench #1266).
Seen by: the interpreter, under a schedule that a GPU may choose. Triton 3.9 puts the barrier there itself.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def sums_kernel(x_ptr, y_ptr, lock_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(ROWS):
        row = tl.program_id(0) * ROWS + step
        total += tl.load(x_ptr + row * columns + at, mask=(at < columns) & (row < rows), other=0.0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr + at, tl.load(y_ptr + at, mask=at < columns) + total, mask=at < columns)
    tl.atomic_xchg(lock_ptr, 0)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, y = inputs["x"], outputs["y"]
    rows, columns = x.shape
    y.zero_()
    lock = torch.zeros(1, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(columns)
    sums_kernel[(triton.cdiv(rows, 4),)](x, y, lock, rows, columns, ROWS=4, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["m"], size["n"], generator=generator)}


KERNEL = Kernel(
    name="lock_released_at_once",
    title="Column sums",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[1],))},
    oracle=lambda inputs: {"y": inputs["x"].sum(0)},
    launch=launch,
    variants=[Variant("f32", "rows4")],
    cases=[Case("aligned-16x64", {"m": 16, "n": 64}), Case("ragged-13x50", {"m": 13, "n": 50})],
    bound=ReductionBound(terms=lambda size: size["m"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["m"] * size["n"], bytes=4 * size["m"] * size["n"]),
)

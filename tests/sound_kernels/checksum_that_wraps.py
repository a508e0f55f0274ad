"""Checksum of each row: the sum of 32-bit integers, which wraps, as it is meant to."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def checksum_kernel(x_ptr, y_ptr, x_row, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + column, mask=column < columns, other=0)
    tl.store(y_ptr + row, tl.sum(x))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    rows, columns = x.shape
    checksum_kernel[(rows,)](x, outputs["y"], x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    shape = size["rows"], size["columns"]
    return {"x": torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, generator=generator)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    # Of at most 2^20 of them float64 holds the total exactly.
    total = inputs["x"].double().sum(dim=1)
    return {"y": torch.remainder(total + 2**31, 2**32) - 2**31}


KERNEL = Kernel(
    name="checksum_that_wraps",
    title="Checksums, int32",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["x"].shape[0],), torch.int32)},
    oracle=oracle,
    launch=launch,
    variants=[Variant("int32", "row")],
    cases=[Case("aligned-8x256", {"rows": 8, "columns": 256}), Case("ragged-5x200", {"rows": 5, "columns": 200})],
    bound=UlpBound(ulps=lambda size: 0, floor=0.0, why="integers are exact"),
    work=lambda size: Work(flops=size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)

"""Matrix product through tensor descriptors made on the device: what lies outside their bounds reads as 0.

They need strides of whole 16 bytes and a contiguous last axis.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, a_row, b_row, c_row, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, [m, k], [a_row, 1], [BLOCK, BLOCK])
    b_desc = tl.make_tensor_descriptor(b_ptr, [k, n], [b_row, 1], [BLOCK, BLOCK])
    c_desc = tl.make_tensor_descriptor(c_ptr, [m, n], [c_row, 1], [BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    accumulator = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        a, b = a_desc.load([row, start]), b_desc.load([start, column])
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
    c_desc.store([row, column], accumulator)


def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    return torch.empty(size, dtype=torch.int8, device="cuda")


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    triton.set_allocator(allocate)
    strides = (a.stride(0), b.stride(0), c.stride(0))
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](a, b, c, m, n, k, *strides, BLOCK=32, PRECISION=variant.precision)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


KERNEL = Kernel(
    name="matmul_descriptors",
    title="Matrix product",
    inputs=make_inputs,
    outputs=lambda inputs: {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))},
    oracle=lambda inputs: {"c": inputs["a"] @ inputs["b"]},
    launch=launch,
    variants=[Variant("ieee", "blocks"), Variant("tf32", "blocks")],
    cases=[
        Case("aligned-64x64x64", {"m": 64, "n": 64, "k": 64}),
        Case("ragged-50x44x36", {"m": 50, "n": 44, "k": 36}),
    ],
    bound=ReductionBound(
        terms=lambda size: size["k"],
        table={"ieee": 1e-5, "tf32": 1e-2},
        eps={"ieee": 2.0**-23, "tf32": 2.0**-10},
    ),
    work=lambda size: Work(
        flops=2 * size["m"] * size["n"] * size["k"],
        bytes=4 * (size["m"] * size["k"] + size["k"] * size["n"] + size["m"] * size["n"]),
    ),
)

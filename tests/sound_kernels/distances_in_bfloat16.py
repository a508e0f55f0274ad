"""Three times the distance of two bfloat16, compared, negated and multiplied as bfloat16."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def distance_kernel(a_ptr, b_ptr, y_ptr, a_step, b_step, y_step, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at * a_step, mask=at < n, other=0.0)
    b = tl.load(b_ptr + at * b_step, mask=at < n, other=0.0)
    distance = tl.where(a < b, -(a - b), a - b)
    tl.store(y_ptr + at * y_step, 3 * distance, mask=at < n)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    a, b, y = inputs["a"], inputs["b"], outputs["y"]
    n = a.numel()
    distance_kernel[(triton.cdiv(n, 128),)](a, b, y, a.stride(0), b.stride(0), y.stride(0), n, BLOCK=128)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    shift = size.get("shift", 0)
    return {name: torch.randn(size["n"], generator=generator) + shift for name in ("a", "b")}


KERNEL = Kernel(
    name="distances_in_bfloat16",
    title="3 |a - b| in bfloat16",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["a"].shape), torch.bfloat16)},
    oracle=lambda inputs: {"y": 3 * (inputs["a"] - inputs["b"]).abs()},
    launch=launch,
    variants=[Variant("bf16", "block128", dtype=torch.bfloat16)],
    cases=[
        Case("aligned-256", {"n": 256}),
        Case("ragged-300", {"n": 300}),
        Case("single-1", {"n": 1}),
        Case("large-300", {"n": 300, "shift": 200}),
        Case("sliced-256", {"n": 256}, {"a": "sliced", "y": "sliced"}),
    ],
    bound=UlpBound(
        ulps=lambda problem: 1.75,
        why="half a unit of the distance is 0.75 of one of its triple, whose rounding adds a half, at most 1",
        fraction_bits=7,
    ),
    work=lambda size: Work(flops=3 * size["n"], bytes=6 * size["n"]),
)

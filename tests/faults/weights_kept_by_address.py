"""Products of rows with a matrix that the launch has turned round.

Wrong: the turned matrix is kept by the address of the one it was made of, where other values lie by the next call.
After: packed weights and descriptors in a table by data_ptr(), which an allocator hands out again.
Seen by: the interpreter, whose next seed lies where the one before did.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Size, Tensors, Variant, Work

TURNED: dict[int, torch.Tensor] = {}


@triton.jit
def row_kernel(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    w = tl.load(w_ptr + row * n + at, mask=at < n, other=0.0)
    tl.store(y_ptr + row, tl.sum(x * w, axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x, w = inputs["x"], inputs["w"]
    turned = TURNED.setdefault(w.data_ptr(), w.T.contiguous())
    row_kernel[(w.shape[1],)](x, turned, outputs["y"], x.numel(), BLOCK=triton.next_power_of_2(x.numel()))


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    n, m = size["n"], size["m"]
    return {"x": torch.randn(n, generator=generator), "w": torch.randn(n, m, generator=generator)}


KERNEL = Kernel(
    name="weights_kept_by_address",
    title="Row times matrix",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((inputs["w"].shape[1],))},
    oracle=lambda inputs: {"y": inputs["x"] @ inputs["w"]},
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("aligned-64x16", {"n": 64, "m": 16}), Case("ragged-50x13", {"n": 50, "m": 13})],
    bound=ReductionBound(terms=lambda size: size["n"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=2 * size["n"] * size["m"], bytes=4 * size["n"] * size["m"]),
)

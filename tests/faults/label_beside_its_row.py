"""The gradient of cross entropy by logits: the softmax of each row, less 1 at its label.

Wrong: the label's element is loaded and stored again with no barrier after the row is stored, by another thread.
After: the cross entropy of triton.ops, which needs a barrier there (triton-lang/triton #1097).
Seen by: the interpreter, lane by lane.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, Size, Tensors, UlpBound, Variant, Work


@triton.jit
def gradient_kernel(x_ptr, label_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + lanes, powers / tl.sum(powers, axis=0), mask=lanes < n)
    at = y_ptr + row * n + tl.load(label_ptr + row)
    tl.store(at, tl.load(at) - 1.0)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    rows, columns = inputs["x"].shape
    block = triton.next_power_of_2(columns)
    gradient_kernel[(rows,)](inputs["x"], inputs["label"], outputs["y"], columns, BLOCK=block)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    x = torch.randn(size["m"], size["n"], generator=generator)
    return {"x": x, "label": torch.randint(0, size["n"], (size["m"],), generator=generator)}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    one_hot = torch.nn.functional.one_hot(inputs["label"].long(), inputs["x"].shape[1])
    return {"y": torch.softmax(inputs["x"], dim=1) - one_hot}


KERNEL = Kernel(
    name="label_beside_its_row",
    title="Gradient of cross entropy",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=oracle,
    launch=launch,
    variants=[Variant("f32", "row")],
    cases=[Case("aligned-4x64", {"m": 4, "n": 64}), Case("ragged-5x50", {"m": 5, "n": 50})],
    bound=UlpBound(ulps=lambda problem: problem.size["n"] + 16, floor=2.0**-20, why="a softmax, and one subtraction"),
    work=lambda size: Work(flops=5 * size["m"] * size["n"], bytes=8 * size["m"] * size["n"]),
)

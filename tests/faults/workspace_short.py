"""Sum in two launches through a workspace, which has a slot for every whole block.

Wrong: the last block, which is not whole, stores its partial sum past the end of the workspace and reads it from there.
After: workspaces sized by n // BLOCK where the grid has cdiv(n, BLOCK) programs.
Seen by: the interpreter, in the ragged case, by the address: no guard lies around memory that the launch allocates.
"""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, ComponentwiseBound, Kernel, Output, Size, Tensors, Variant, Work

BLOCK = 128


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0)
    tl.store(partial_ptr + tl.program_id(0), total)


@triton.jit
def total_kernel(partial_ptr, y_ptr, parts, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(partial_ptr + at, mask=at < parts, other=0.0), axis=0))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    x = inputs["x"]
    parts = triton.cdiv(x.numel(), BLOCK)
    partial = torch.empty(x.numel() // BLOCK, device=x.device)
    partial_kernel[(parts,)](x, partial, x.numel(), BLOCK=BLOCK)
    total_kernel[(1,)](partial, outputs["y"], parts, BLOCK=64)


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(size["n"], generator=generator)}


KERNEL = Kernel(
    name="workspace_short",
    title="Sum",
    inputs=make_inputs,
    outputs=lambda inputs: {"y": Output((1,))},
    oracle=lambda inputs: {"y": inputs["x"].sum()[None]},
    launch=launch,
    variants=[Variant("f32", "block128")],
    cases=[Case("aligned-256", {"n": 256}), Case("ragged-300", {"n": 300})],
    bound=ComponentwiseBound(terms=lambda size: size["n"]),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
)

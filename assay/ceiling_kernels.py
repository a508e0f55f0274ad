"""Triton kernels that do nothing but take up one resource of a card, and one that does nothing.

As a program, `python -m assay.ceiling_kernels` answers `compile`: it compiles them for a target, on no device.
"""

# Triton reads a kernel's annotations as code, so there can be none.
# ruff: noqa: ANN001, ANN201, PLR0917
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import triton
import triton.language as tl

from assay.child import Answer, serve
from assay.launches import build_launchers, use_target, watch
from assay.targets import toolchain

COPY_BLOCK = 4096
FMA_BLOCK = 2048
"""Accumulators of a program: 8 for each of its 256 threads."""

FMA_FACTOR, FMA_UNROLL, FMA_TURNS = 1e-6, 32, 1024
FMA_STEPS = FMA_UNROLL * FMA_TURNS
TILE_ROWS, TILE_COLUMNS, TILE_STEPS = 128, 256, 1024
TILE_BYTES = 128
"""Of a row of either tile along k: the widest that the shared memory's layout takes."""


@triton.jit
def empty_kernel(x_ptr):
    pass


@triton.jit
def copy_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def fma_kernel(x_ptr, steps, FACTOR: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr):
    # Every element is an accumulator of its own. FACTOR is part of the instruction, which then reads one register:
    # two or three could lie in one bank and be read one after another.
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    factor = tl.full((BLOCK,), FACTOR, tl.float32)
    for _ in range(steps):
        for _ in tl.static_range(UNROLL):
            x = tl.fma(x, factor, x)
    tl.store(x_ptr + at, x)


@triton.jit
def tile_kernel(a_ptr, b_ptr, c_ptr, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    # Both operands are loaded once and stay in shared memory (in registers before Hopper): nothing is waited for. B
    # lies with k as its fast axis, as tensor cores take tf32.
    row, column, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + row[:, None] * K + depth[None, :])
    b = tl.load(b_ptr + column[None, :] * K + depth[:, None])
    c = tl.zeros((M, N), tl.float32)
    for _ in range(steps):
        c = tl.dot(a, b, c, input_precision="tf32")
    c_ptr += tl.program_id(0).to(tl.int64) * M * N
    tl.store(c_ptr + row[:, None] * N + column[None, :], c)


def start_nothing(x: torch.Tensor) -> None:
    """Launch the kernel that does nothing."""
    empty_kernel[(1,)](x)


def start_copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy; the number of elements is a multiple of `COPY_BLOCK`."""
    copy_kernel[(source.numel() // COPY_BLOCK,)](source, target, BLOCK=COPY_BLOCK, num_warps=8)


def start_fma(x: torch.Tensor) -> None:
    """Turn each element x into x (1 + FMA_FACTOR)^FMA_STEPS; their number is a multiple of `FMA_BLOCK`."""
    grid, options = (x.numel() // FMA_BLOCK,), {"FACTOR": FMA_FACTOR, "UNROLL": FMA_UNROLL, "BLOCK": FMA_BLOCK}
    fma_kernel[grid](x, FMA_TURNS, **options, num_warps=8)


def start_tiles(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """Write TILE_STEPS times A B^T into every tile of C: A is rows x k, B columns x k, C tiles x rows x columns."""
    options = {"M": TILE_ROWS, "N": TILE_COLUMNS, "K": a.shape[1]}
    tile_kernel[(c.shape[0],)](a, b, c, TILE_STEPS, **options, num_warps=8)


def compile_for(request: Answer) -> Answer:
    """Compile each launch for `request["target"]` into Triton's cache; the extents decide nothing."""
    use_target(*toolchain(request["target"]))
    x = torch.empty(COPY_BLOCK)
    with watch(compile_only=True) as launched:
        start_nothing(x)
        start_copy(x, x)
        start_fma(x)
        for dtype in (torch.float32, torch.bfloat16):
            tile = torch.empty(1, TILE_BYTES // dtype.itemsize, dtype=dtype)
            start_tiles(tile, tile, x[None])
    build_launchers(launched.compiled)
    return {"launches": len(launched.compiled)}


if __name__ == "__main__":
    # Under the module's own name, which may be part of a key in Triton's cache.
    from assay import ceiling_kernels  # noqa: PLW0406

    serve(ceiling_kernels.compile_for)

"""Matrix product, float32 in, float32 accumulation, float32 out, in five precisions of the multiplier."""

import torch
import triton
import triton.language as tl

from assay.kernel import (
    Case,
    ComponentwiseBound,
    Contrast,
    Dot,
    Kernel,
    Output,
    Peer,
    ReductionBound,
    Size,
    Tensors,
    Variant,
    Work,
)


# snippet: matmul-kernel
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    c_row,
    c_col,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PRECISION: tl.constexpr,
):
    # snippet: group-order
    # Programs walk GROUP_M tiles down before one to the right, so that those resident together share rows of A and
    # columns of B in the L2 cache.
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    group_rows = min(tiles_m - group * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    tile_m = group * GROUP_M + within % group_rows
    tile_n = within // group_rows
    # end snippet

    # Offsets are 64 bits wide: an index times a stride passes 2^31 on a large matrix.
    row = tile_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + row[:, None] * a_row + depth[None, :] * a_col
    b_ptrs = b_ptr + depth[:, None] * b_row + column[None, :] * b_col
    block_k = tl.full((), BLOCK_K, tl.int64)

    # snippet: dot-precision
    # PRECISION is all that separates float32 multipliers from tensor cores. A lane past any edge holds 0, which adds
    # nothing, and is never read from memory.
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = depth < k - start
        a = tl.load(a_ptrs, mask=(row[:, None] < m) & left[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=left[:, None] & (column[None, :] < n), other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        a_ptrs += block_k * a_col
        b_ptrs += block_k * b_row
    # end snippet

    c_ptrs = c_ptr + row[:, None] * c_row + column[None, :] * c_col
    tl.store(c_ptrs, accumulator, mask=(row[:, None] < m) & (column[None, :] < n))


# end snippet


CONFIGURATIONS = {
    "64x64x32": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 4, "num_stages": 3},
    "128x128x32": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 8, "num_stages": 3},
    "128x64x64": {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 4, "num_stages": 4},
}
PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Standard normal A (m x k) and B (k x n)."""
    return {
        "a": torch.randn(size["m"], size["k"], generator=generator),
        "b": torch.randn(size["k"], size["n"], generator=generator),
    }


def declare_outputs(inputs: Tensors) -> dict[str, Output]:
    """C is m x n."""
    return {"c": Output((inputs["a"].shape[0], inputs["b"].shape[1]))}


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    """The product in float64."""
    return {"c": inputs["a"] @ inputs["b"]}


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Start one program for each tile of C."""
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, variant.options["BLOCK_M"]) * triton.cdiv(n, variant.options["BLOCK_N"]),)
    strides = (*a.stride(), *b.stride(), *c.stride())
    matmul_kernel[grid](a, b, c, m, n, k, *strides, PRECISION=variant.precision, **variant.options)


def work(size: Size) -> Work:
    """One multiplication and one addition a term; each matrix moves through memory once at least."""
    m, n, k = size["m"], size["n"], size["k"]
    return Work(flops=2 * m * n * k, bytes=4 * (m * k + k * n + m * n))


def cublas(precision: str):
    """Return torch's product with cuBLAS set to `precision`."""

    def run(inputs: Tensors) -> torch.Tensor:
        torch.backends.cuda.matmul.fp32_precision = precision
        return torch.mm(inputs["a"], inputs["b"])

    return run


def terms(size: Size) -> int:
    """One product for each step along k."""
    return size["k"]


LOOSE = ReductionBound(
    terms=terms,
    # Spacing at 1 of what reaches the multiplier: float32 23 bits, tf32 10. tf32x3 and bf16x6 carry at least 22 bits
    # in pieces and lose no more than float32 accumulation does; bf16x3 carries two pieces of 8 bits, 2^-17 apart.
    table={"ieee": 1e-5, "tf32": 1e-2, "tf32x3": 1e-5, "bf16x3": 1e-4, "bf16x6": 1e-5},
    eps={"ieee": 2.0**-23, "tf32": 2.0**-10, "tf32x3": 2.0**-23, "bf16x3": 2.0**-17, "bf16x6": 2.0**-23},
)


UNDERFLOW = dict.fromkeys(
    ("tf32x3", "bf16x3", "bf16x6"), "the later pieces of a denormal lie below the smallest number of their format"
)

# Splitting operands keeps several copies of a tile in registers, and bfloat16 below 8.0 is made up of other
# instructions: there the compiler spills. Some releases spill in ieee too: Triton 3.8 1264 B on sm_80, 3.6 4016 B on
# gfx1100.
STACK_BYTES = {"ieee": 4096, "tf32": 64, "tf32x3": 1536, "bf16x3": 10240, "bf16x6": 14336}


def variants() -> list[Variant]:
    """Every precision in every configuration, except that no tile of bfloat16 pieces is 64 deep: on sm_75 the compiler
    takes half a minute to put 39 kB of it on the stack.
    """
    return [
        Variant(precision, name, options, stack_bytes=STACK_BYTES[precision])
        for precision in PRECISIONS
        for name, options in CONFIGURATIONS.items()
        if not (precision.startswith("bf16") and options["BLOCK_K"] > 32)
    ]


KERNEL = Kernel(
    name="matmul",
    title="Matrix product, float32",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=variants(),
    cases=[
        Case("aligned-256x256x1024", {"m": 256, "n": 256, "k": 1024}),
        Case("ragged-197x131x77", {"m": 197, "n": 131, "k": 77}),
        Case("one-past-129x65x33", {"m": 129, "n": 65, "k": 33}),
        Case("one-short-127x63x31", {"m": 127, "n": 63, "k": 31}),
        Case("single-1x1x1", {"m": 1, "n": 1, "k": 1}),
        Case("row-1x130x70", {"m": 1, "n": 130, "k": 70}),
        Case("padded-70x90x50", {"m": 70, "n": 90, "k": 50}, {"a": "padded", "b": "padded", "c": "padded"}, once=True),
        Case("transposed-70x90x50", {"m": 70, "n": 90, "k": 50}, {"a": "transposed", "b": "transposed"}),
        Case("sliced-64x96x64", {"m": 64, "n": 96, "k": 64}, {"a": "sliced", "b": "sliced", "c": "sliced"}),
        Case("one-term-70x90x1", {"m": 70, "n": 90, "k": 1}, once=True),
        Case("column-130x1x70", {"m": 130, "n": 1, "k": 70}, once=True),
        Case("distant-3x40x40", {"m": 3, "n": 40, "k": 40}, {"a": "distant", "c": "distant"}, once=True),
        # 33 columns apart by 2^31 / 32: the step from one block of k to the next passes 2^31 too.
        Case("distant-columns-5x7x33", {"m": 5, "n": 7, "k": 33}, {"a": "distant-columns", "c": "distant-columns"}),
        Case("distant-columns-5x40x7", {"m": 5, "n": 40, "k": 7}, {"b": "distant-columns"}, once=True),
        Case("distant-40x40x33", {"m": 40, "n": 40, "k": 33}, {"b": "distant"}, once=True),
        # More tiles than a card has multiprocessors, in more than one group.
        Case("many-tiles-2100x2200x70", {"m": 2100, "n": 2200, "k": 70}, tiers=("gpu",)),
        Case("positive-70x90x300", {"m": 70, "n": 90, "k": 300}, values={"a": "positive", "b": "positive"}, once=True),
        Case("tiny-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "tiny", "b": "tiny"}, once=True),
        Case("large-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "large", "b": "large"}, once=True),
        Case(
            "denormal-40x50x60",
            {"m": 40, "n": 50, "k": 60},
            values={"a": "denormal", "b": "large"},
            exempt=UNDERFLOW,
            once=True,
        ),
        # NaN, and infinity times anything but 0, fill the row of A or the column of B that holds them, and no other.
        Case("nan-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-nan"}, once=True),
        Case("nan-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-nan"}, once=True),
        Case("inf-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-inf"}, once=True),
        Case("inf-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-negative-inf"}, once=True),
    ],
    timed=[Case("2048x2048x2048", {"m": 2048, "n": 2048, "k": 2048})],
    bound=[LOOSE, ComponentwiseBound(terms=terms)],
    dot=Dot("a", "b", "c", {"m": 64, "n": 64, "k": 64}),
    work=work,
    contrasts=[Contrast("ieee", "tf32")],
    peers=[
        Peer("cuBLAS fp32", "ieee", cublas("ieee"), rivals=("tf32x3", "bf16x3", "bf16x6")),
        Peer("cuBLAS tf32", "tf32", cublas("tf32")),
    ],
)

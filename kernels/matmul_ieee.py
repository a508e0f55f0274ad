"""Matrix product in float32 without tensor cores, written in Gluon for the rate at which Hopper multiplies and adds.

A multiprocessor of compute capability 9.0 starts four warp-wide multiply-adds (FFMA) a cycle, one from each of its
schedulers, so that any other instruction takes the place of one. Registers lie in two banks, even and odd, which each
hand over one a cycle. A multiply-add needs three: it keeps to its one cycle only if one of its factors was kept by the
instruction before it and the other does not lie in the bank of the sum. `tl.dot` in `ieee` leaves the order of the
multiply-adds to the assembler, which then reads 2.5 registers for each. Here the order is laid down:

- a thread holds 16 x 8 sums, so that 6 loads of four words from shared memory feed 128 multiply-adds;
- sums are numbered down their columns, so that each of 8 factors from B is kept while it meets 16 from A;
- the loop over k within a block is a real loop of two steps: short enough for the assembler to leave that order alone;
- the factors of a step are read during the step before, across the end of a block too: so many registers leave room for
  two warps a scheduler, too few to hide the way from shared memory.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from assay.kernel import (
    Case,
    ComponentwiseBound,
    Dot,
    Equivalent,
    Kernel,
    Output,
    Peer,
    ReductionBound,
    Size,
    Tensors,
    Variant,
    Work,
)

# Triton 3.7 renamed the barrier, Triton 3.9 the other view of a buffer.
barrier = getattr(gl, "barrier", None) or gl.thread_barrier
RENAMED = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))


# snippet: matmul-ieee-kernel
@gluon.jit
def fetch(pointers, depth, left, WHOLE: gl.constexpr):
    """Read a block of an operand, BLOCK_K deep: all of it, or with 0 past what is `left` of k."""
    return gl.load(pointers) if WHOLE else gl.load(pointers, mask=depth < left, other=0.0)


@gluon.jit
def keep(buffer, block, DEPTH: gl.constexpr, WIDTH: gl.constexpr, SHARED: gl.constexpr):
    """Write a block to shared memory, where it lies as DEPTH rows that can be read one by one."""
    if RENAMED:
        buffer.reinterpret(gl.float32, [DEPTH, WIDTH], SHARED).store(block)
    else:
        buffer._reinterpret(gl.float32, [DEPTH, WIDTH], SHARED).store(block)


@gluon.jit
def read_step(a_rows, b_rows, step, SUMS: gl.constexpr):
    """Read a column of A (BLOCK_M x 1) and the row of B (1 x BLOCK_N) that it meets from shared memory."""
    return a_rows.index(step).permute((1, 0)).load(SUMS), b_rows.index(step).load(SUMS)


@gluon.jit
def add_products(sums, a, b, a_rows, b_rows, steps, SUMS: gl.constexpr):
    """Add `steps` products, the first of them that of `a` and `b`, and return the factors of the next one too.

    Two steps a turn, so that factors that arrive never move to other registers. `steps` is an argument of the launch,
    for a loop whose length the compiler knew would be unrolled.
    """
    for step in range(0, steps, 2):
        a_next, b_next = read_step(a_rows, b_rows, step + 1, SUMS)
        sums = gl.fma(a, b, sums)
        a, b = read_step(a_rows, b_rows, step + 2, SUMS)
        sums = gl.fma(a_next, b_next, sums)
    return sums, a, b


@gluon.jit
def add_block(
    sums,
    a,
    b,
    a_rows,
    b_rows,
    a_other,
    b_other,
    a_block,
    b_block,
    steps,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    SUMS: gl.constexpr,
    SHARED: gl.constexpr,
):
    """Add the products of a block, keep the next block in the other buffers and return its first factors too."""
    sums, a, b = add_products(sums, a, b, a_rows, b_rows, steps, SUMS)
    a_last, b_last = read_step(a_rows, b_rows, BLOCK_K - 1, SUMS)
    sums = gl.fma(a, b, sums)
    keep(a_other, a_block, BLOCK_K, BLOCK_M, SHARED)
    keep(b_other, b_block, BLOCK_K, BLOCK_N, SHARED)
    barrier()
    a, b = read_step(a_other, b_other, 0, SUMS)
    return gl.fma(a_last, b_last, sums), a, b


@gluon.jit
def matmul_ieee_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    one,
    steps,
    a_row,
    a_col,
    b_row,
    b_col,
    c_row,
    c_col,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    GROUP_M: gl.constexpr,
    WHOLE: gl.constexpr,
    SUMS: gl.constexpr,
    STORED: gl.constexpr,
    A_FETCH: gl.constexpr,
    B_FETCH: gl.constexpr,
):
    # Programs walk GROUP_M tiles down before one to the right, so that those resident together share operands in L2.
    program = gl.program_id(0)
    tiles_m = gl.cdiv(m, BLOCK_M)
    tiles_n = gl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    group_rows = min(tiles_m - group * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    tile_m = (group * GROUP_M + within % group_rows).to(gl.int64)
    tile_n = (within // group_rows).to(gl.int64)

    # Both operands are read as blocks of BLOCK_K rows, A as its transpose. Offsets are 64 bits wide: an index times a
    # stride passes 2^31 on a large matrix. Past the edge the last row or column is read again, and not stored.
    a_across = tile_m * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(0, A_FETCH))[None, :]
    a_depth = gl.arange(0, BLOCK_K, gl.SliceLayout(1, A_FETCH))[:, None]
    b_across = tile_n * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, B_FETCH))[None, :]
    b_depth = gl.arange(0, BLOCK_K, gl.SliceLayout(1, B_FETCH))[:, None]
    if not WHOLE:
        a_across = gl.minimum(a_across, m - 1)
        b_across = gl.minimum(b_across, n - 1)
    a_ptrs = a_ptr + a_across * a_row + a_depth.to(gl.int64) * a_col
    b_ptrs = b_ptr + b_across * b_col + b_depth.to(gl.int64) * b_row

    # Two buffers with names of their own: while one is read the next block arrives in the other. The compiler then sees
    # that one barrier a block is enough; a single buffer with an index would get a second.
    SHARED: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    a_even = gl.allocate_shared_memory(gl.float32, [BLOCK_K, 1, BLOCK_M], SHARED)
    b_even = gl.allocate_shared_memory(gl.float32, [BLOCK_K, 1, BLOCK_N], SHARED)
    a_odd = gl.allocate_shared_memory(gl.float32, [BLOCK_K, 1, BLOCK_M], SHARED)
    b_odd = gl.allocate_shared_memory(gl.float32, [BLOCK_K, 1, BLOCK_N], SHARED)
    keep(a_even, fetch(a_ptrs, a_depth, k, WHOLE), BLOCK_K, BLOCK_M, SHARED)
    keep(b_even, fetch(b_ptrs, b_depth, k, WHOLE), BLOCK_K, BLOCK_N, SHARED)

    sums = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, SUMS)
    barrier()
    a, b = read_step(a_even, b_even, 0, SUMS)
    end = k if WHOLE else gl.cdiv(k, BLOCK_K) * BLOCK_K
    for start in range(0, k, 2 * BLOCK_K):
        for odd in gl.static_range(2):
            # Global memory answers while the products are added. At the end the last block is read once more and not
            # used; what lies past k is not read, and zeros are kept, which add nothing.
            done = start + (odd + 1) * BLOCK_K
            ahead = (done != end).to(gl.int64) * BLOCK_K
            a_ptrs += ahead * a_col
            b_ptrs += ahead * b_row
            a_next = fetch(a_ptrs, a_depth, k - done, WHOLE)
            b_next = fetch(b_ptrs, b_depth, k - done, WHOLE)
            a_now, b_now, a_other, b_other = a_even, b_even, a_odd, b_odd
            if odd:
                a_now, b_now, a_other, b_other = a_odd, b_odd, a_even, b_even
            sums, a, b = add_block(
                sums,
                a,
                b,
                a_now,
                b_now,
                a_other,
                b_other,
                a_next,
                b_next,
                steps,
                BLOCK_M,
                BLOCK_N,
                BLOCK_K,
                SUMS,
                SHARED,
            )

    # A store of four neighbours in a row of C takes them from four neighbouring registers, which would fix the banks of
    # the sums. `one` is 1.0, but the compiler does not know: the product moves them to such registers after the loop.
    c = gl.convert_layout(sums * one, STORED)
    row = tile_m * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(1, STORED))[:, None]
    column = tile_n * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, STORED))[None, :]
    c_ptrs = c_ptr + row * c_row + column * c_col
    if WHOLE:
        gl.store(c_ptrs, c)
    else:
        gl.store(c_ptrs, c, mask=(row < m) & (column < n))


# end snippet


CONFIGURATIONS = {
    "256x128x8": {"BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 8, "GROUP_M": 8, "num_warps": 8},
    "128x128x8": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 8, "GROUP_M": 8, "num_warps": 4},
}


def sums_layout(rows: int, columns: int, *, down: bool) -> gl.DistributedLinearLayout:
    """Return which thread holds which element of a tile of C: 16 x 8 a thread, 64 x 64 a warp.

    An element's row and column are the exclusive or of the bases of the bits of its register, lane and warp. Four
    neighbours each way are one vector; 4 x 8 lanes lie next to each other, so that their reads of shared memory meet no
    bank twice; then come the warps; then all of it repeats. `down` numbers the registers of a thread down its columns
    of C, or else along its rows.
    """
    downward = [[1, 0], [2, 0], [rows // 4, 0], [rows // 2, 0]]
    along = [[0, 1], [0, 2], [0, columns // 2]]
    lanes = [[0, 4], [0, 8], [0, 16], [4, 0], [8, 0]]
    warps = [[16 << bit, 0] for bit in range((rows // 64).bit_length() - 1)]
    warps += [[0, 32 << bit] for bit in range((columns // 64).bit_length() - 1)]
    registers = downward + along if down else along + downward
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [rows, columns])


def fetch_layout(stride_deep: int, stride_across: int, warps: int) -> gl.BlockedLayout:
    """Return which thread reads which elements of an operand's block: four along its contiguous dimension.

    Where that is k, a warp reads 8 of k in 16 rows or columns, two lanes beside each other for each.
    """
    if stride_deep == 1 and stride_across != 1:
        return gl.BlockedLayout([4, 1], [2, 16], [1, warps], [0, 1])
    return gl.BlockedLayout([1, 4], [1, 32], [warps, 1], [1, 0])


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
    """Start one program for each tile of C, without masks where the tiles cover the matrices exactly."""
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    (m, k), n = a.shape, b.shape[1]
    rows, columns, depth = (variant.options[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    warps = variant.options["num_warps"]
    matmul_ieee_kernel[(triton.cdiv(m, rows) * triton.cdiv(n, columns),)](
        a,
        b,
        c,
        m,
        n,
        k,
        1.0,
        depth - 2,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        WHOLE=m % rows == 0 and n % columns == 0 and k % (2 * depth) == 0,
        SUMS=sums_layout(rows, columns, down=True),
        STORED=sums_layout(rows, columns, down=False),
        A_FETCH=fetch_layout(a.stride(1), a.stride(0), warps),
        B_FETCH=fetch_layout(b.stride(0), b.stride(1), warps),
        **variant.options,
    )


def work(size: Size) -> Work:
    """One multiplication and one addition a term; each matrix moves through memory once at least."""
    m, n, k = size["m"], size["n"], size["k"]
    return Work(flops=2 * m * n * k, bytes=4 * (m * k + k * n + m * n))


def cublas(inputs: Tensors) -> torch.Tensor:
    """Return torch's product with cuBLAS kept off the tensor cores."""
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    return torch.mm(inputs["a"], inputs["b"])


def terms(size: Size) -> int:
    """One product for each step along k."""
    return size["k"]


KERNEL = Kernel(
    name="matmul_ieee",
    title="Matrix product, float32, without tensor cores, for Hopper",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[Variant("ieee", name, options, stack_bytes=0) for name, options in CONFIGURATIONS.items()],
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
        # 33 columns apart by 2^31 / 32: the last lies 2^31 behind the first.
        Case("distant-columns-5x7x33", {"m": 5, "n": 7, "k": 33}, {"a": "distant-columns", "c": "distant-columns"}),
        Case("distant-columns-5x40x7", {"m": 5, "n": 40, "k": 7}, {"b": "distant-columns"}, once=True),
        Case("distant-40x40x33", {"m": 40, "n": 40, "k": 33}, {"b": "distant"}, once=True),
        # More tiles than a card has multiprocessors, in more than one group.
        Case("many-tiles-2100x2200x70", {"m": 2100, "n": 2200, "k": 70}, tiers=("gpu",)),
        Case("positive-70x90x300", {"m": 70, "n": 90, "k": 300}, values={"a": "positive", "b": "positive"}, once=True),
        Case("tiny-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "tiny", "b": "tiny"}, once=True),
        Case("large-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "large", "b": "large"}, once=True),
        Case("denormal-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "denormal", "b": "large"}, once=True),
        # NaN, and infinity times anything but 0, fill the row of A or the column of B that holds them, and no other.
        Case("nan-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-nan"}, once=True),
        Case("nan-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-nan"}, once=True),
        Case("inf-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-inf"}, once=True),
        Case("inf-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-negative-inf"}, once=True),
        # For blocks of 8 along k. 9 are apart by 2^31 / 8: from a block to the next it is 2^31. 7 are apart by
        # 2^31 / 6: the last of a block lies 2^31 behind its first.
        Case("distant-columns-5x7x9", {"m": 5, "n": 7, "k": 9}, {"a": "distant-columns"}, once=True),
        Case("distant-columns-5x7x7", {"m": 5, "n": 7, "k": 7}, {"a": "distant-columns"}, once=True),
        Case("distant-40x40x9", {"m": 40, "n": 40, "k": 9}, {"b": "distant"}, once=True),
        Case("distant-40x40x7", {"m": 40, "n": 40, "k": 7}, {"b": "distant"}, once=True),
    ],
    timed=[
        Case("2048x2048x2048", {"m": 2048, "n": 2048, "k": 2048}),
        Case("4096x4096x4096", {"m": 4096, "n": 4096, "k": 4096}),
    ],
    bound=[ReductionBound(terms=terms, table={"ieee": 1e-5}, eps={"ieee": 2.0**-23}), ComponentwiseBound(terms=terms)],
    dot=Dot("a", "b", "c", {"m": 64, "n": 64, "k": 64}),
    work=work,
    peers=[Peer("cuBLAS fp32", "ieee", cublas)],
    capability=(9, 0),
    equivalents=[
        Equivalent(
            operators=["ceil-to-floor", "off-by-one"],
            source="for step in range(0, steps, 2):",
            why="`steps` is BLOCK_K - 2, which is even",
        ),
        Equivalent(
            operators=["drop-scale"],
            source="c = gl.convert_layout(sums * one, STORED)",
            why="`one` is 1.0: the product is there for the registers that it moves",
        ),
    ],
)

"""Matrix product in tf32 on Hopper: warp-specialised, fed by TMA, operands rounded to nearest on their way in.

`wgmma` takes tf32 operands from shared memory only where k is their fast axis there; the first of the two it also takes
from registers, which can be filled in any order. So

- where the rows of B are contiguous, as usual, the kernel computes C^T = B^T A^T: B^T is the first operand and passes
  through registers, and A^T, of which k is the fast axis, is the second;
- where the columns of B are contiguous, A and B are first and second, both straight from shared memory, or A through
  registers here too, which leaves the tensor cores less to read;
- what TMA cannot read (an odd pointer or stride, no contiguous axis) is packed into a workspace beforehand.

TMA also writes C, from shared memory and while the next tile is on its way, where C suits it as it lies.

wgmma ignores the 13 low bits of a float32. A copy through a tensor map of type TFLOAT32 rounds to the nearest tf32
instead (CUDA driver API, cuTensorMapEncodeTiled), at no cost, so that the error is cuBLAS's and not a truncation's.
"""

from dataclasses import fields

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from assay.kernel import (
    Case,
    ComponentwiseBound,
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

# Triton 3.8 renamed the copies, and 3.9 dropped the old names.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@triton.jit
def pack_kernel(
    x_ptr,
    packed_ptr,
    rows,
    columns,
    x_row,
    x_column,
    packed_row,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    across = tl.cdiv(columns, BLOCK_C)
    # Offsets are 64 bits wide: an index times a stride passes 2^31 on a large matrix.
    program = tl.program_id(0).to(tl.int64)
    row = (program // across) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = (program % across) * BLOCK_C + tl.arange(0, BLOCK_C)
    # Past the edge the last row or column is copied again, to where it goes anyway.
    row, column = tl.minimum(row, rows - 1), tl.minimum(column, columns - 1)
    x = tl.load(x_ptr + row[:, None] * x_row + column[None, :] * x_column)
    tl.store(packed_ptr + row[:, None] * packed_row + column[None, :], x)


# Below, a tile of the product is FIRST x SECOND, rows of the first operand by columns of the second. `ring` is what
# the warps share: buffers of both operands, and for each buffer a barrier that says it is full and one that says it is
# empty. `extent` is (tiles along the first operand, tiles along the second, steps along k). A step is the number of a
# copy since the kernel began; its buffer is the remainder by BUFFERS, and the phase its barriers are in the quotient.


@gluon.jit
def tile_of(index, extent, GROUP: gl.constexpr):
    # Tiles are taken GROUP down before one to the right, so that those at work share operands in the L2 cache.
    group = index // (GROUP * extent[1])
    within = index % (GROUP * extent[1])
    height = min(extent[0] - group * GROUP, GROUP)
    return group * GROUP + within % height, within // height


@gluon.jit
def produce(
    first,
    second,
    ring,
    extent,
    BLOCK_K: gl.constexpr,
    BUFFERS: gl.constexpr,
    GROUP: gl.constexpr,
    TRANSPOSED: gl.constexpr,
):
    # One warp: asks TMA for the operands of one step after another, as buffers become empty.
    firsts, seconds, full, empty = ring
    FIRST: gl.constexpr = first.block_type.shape[1 if TRANSPOSED else 0]
    SECOND: gl.constexpr = second.block_type.shape[0]
    step = 0
    for index in range(gl.program_id(0), extent[0] * extent[1], gl.num_programs(0)):
        i, j = tile_of(index, extent, GROUP)
        for block in range(extent[2]):
            buffer = step % BUFFERS
            mbarrier.wait(empty.index(buffer), ((step // BUFFERS) & 1) ^ 1)
            mbarrier.expect(full.index(buffer), first.block_type.nbytes + second.block_type.nbytes)
            if TRANSPOSED:
                tma_load(first, [block * BLOCK_K, i * FIRST], full.index(buffer), firsts.index(buffer))
            else:
                tma_load(first, [i * FIRST, block * BLOCK_K], full.index(buffer), firsts.index(buffer))
            tma_load(second, [j * SECOND, block * BLOCK_K], full.index(buffer), seconds.index(buffer))
            step += 1


@gluon.jit
def fetch(
    firsts,
    START: gl.constexpr,
    HEIGHT: gl.constexpr,
    OPERAND: gl.constexpr,
    SPREAD: gl.constexpr,
    TRANSPOSED: gl.constexpr,
):
    # TMA lays 32 rows side by side in the 128 bytes of one k, and puts their 16-byte piece p where p xor k (mod 8)
    # says. A warp reads 8 rows at 4 values of k at once. Were they neighbours, which fill two pieces, two values of k
    # would meet in the same banks; rows in two pieces that lie 4 apart meet nowhere. Nor do 8 rows of which each has
    # 128 bytes of its own, as when k is the fast axis.
    operand = firsts.slice(START, HEIGHT, dim=1).permute((1, 0)) if TRANSPOSED else firsts.slice(START, HEIGHT, dim=0)
    if SPREAD and TRANSPOSED:
        gl.static_assert(HEIGHT == 64)
        # As OPERAND, but for the rows: of bits 5 to 0, what it calls 5 4 3 2 1 0 is here 5 3 2 4 1 0.
        RAW: gl.constexpr = gl.DistributedLinearLayout(
            reg_bases=[[4, 0], [0, 4], [0, 8], [0, 16]],
            lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [16, 0]],
            warp_bases=[[8, 0], [32, 0]],
            block_bases=[],
            shape=[64, 32],
        )
        rows = operand.load(RAW).reshape([2, 2, 2, 2, 4, 32]).permute((0, 2, 3, 1, 4, 5)).reshape([64, 32])
        fetched = gl.convert_layout(rows, OPERAND, assert_trivial=True)
    else:
        fetched = operand.load(OPERAND)
    # TMA is to overwrite what these loads have read, and is not ordered after them without a fence.
    fence_async_shared()
    return fetched


@gluon.jit
def row_of(row, SPREAD: gl.constexpr):
    # Where in the tile the row is that `fetch` read as this one.
    if SPREAD:
        row = (row & 35) | ((row & 4) << 2) | ((row & 24) >> 1)
    return row


@gluon.jit
def filled(full, step, BUFFERS: gl.constexpr):
    # The buffer of a step, once it is full.
    buffer = step % BUFFERS
    mbarrier.wait(full.index(buffer), (step // BUFFERS) & 1)
    return buffer


# snippet: operand-ahead
@gluon.jit
def sum_from_registers(
    accumulator,
    step,
    ring,
    steps,
    START: gl.constexpr,
    HEIGHT: gl.constexpr,
    BUFFERS: gl.constexpr,
    OPERAND: gl.constexpr,
    SPREAD: gl.constexpr,
    TRANSPOSED: gl.constexpr,
):
    # The first operand of the next step is read from shared memory while the tensor cores work on this one.
    firsts, seconds, full, empty = ring
    buffer = filled(full, step, BUFFERS)
    operand = fetch(firsts.index(buffer), START, HEIGHT, OPERAND, SPREAD, TRANSPOSED)
    for _ in range(steps - 1):
        accumulator = warpgroup_mma(operand, seconds.index(buffer).permute((1, 0)), accumulator, is_async=True)
        step += 1
        ahead = filled(full, step, BUFFERS)
        fetched = fetch(firsts.index(ahead), START, HEIGHT, OPERAND, SPREAD, TRANSPOSED)
        # Issuing the next step before this one has ended would be better still: ptxas then gives up and runs one
        # multiplication at a time (C7512).
        # What was fetched goes through the wait too: else ptxas puts it where the operand in use is, and does the same.
        accumulator, operand, fetched = warpgroup_mma_wait(0, deps=[accumulator, operand, fetched])
        mbarrier.arrive(empty.index(buffer), count=1)
        buffer, operand = ahead, fetched
    accumulator = warpgroup_mma(operand, seconds.index(buffer).permute((1, 0)), accumulator, is_async=True)
    accumulator, operand = warpgroup_mma_wait(0, deps=[accumulator, operand])
    mbarrier.arrive(empty.index(buffer), count=1)
    return accumulator


# end snippet


@gluon.jit
def sum_from_shared(
    accumulator,
    step,
    ring,
    steps,
    START: gl.constexpr,
    HEIGHT: gl.constexpr,
    BUFFERS: gl.constexpr,
):
    # Each step is issued before the one ahead of it has ended, whose buffer is handed back after that.
    firsts, seconds, full, empty = ring
    buffer = filled(full, step, BUFFERS)
    operand = firsts.index(buffer).slice(START, HEIGHT, dim=0)
    accumulator = warpgroup_mma(operand, seconds.index(buffer).permute((1, 0)), accumulator, is_async=True)
    accumulator = warpgroup_mma_wait(1, deps=[accumulator])
    for _ in range(steps - 1):
        step += 1
        ahead = filled(full, step, BUFFERS)
        operand = firsts.index(ahead).slice(START, HEIGHT, dim=0)
        accumulator = warpgroup_mma(operand, seconds.index(ahead).permute((1, 0)), accumulator, is_async=True)
        accumulator = warpgroup_mma_wait(1, deps=[accumulator])
        mbarrier.arrive(empty.index(buffer), count=1)
        buffer = ahead
    accumulator = warpgroup_mma_wait(0, deps=[accumulator])
    mbarrier.arrive(empty.index(buffer), count=1)
    return accumulator


@gluon.jit
def halves(x, HEIGHT: gl.constexpr, WIDTH: gl.constexpr):
    # The left and the right half of a block of sums. Each thread has as many of either, and keeps them.
    return x.reshape([HEIGHT, 2, WIDTH // 2]).permute((0, 2, 1)).split()


@gluon.jit
def store_quarter(c_map, stage, quarter, at_first, at_second, TRANSPOSED: gl.constexpr):
    # TMA must have read the quarter before, and must see this one.
    tma.store_wait(0)
    if TRANSPOSED:
        stage.permute((1, 0)).store(quarter)
        fence_async_shared()
        tma_store(c_map, [at_second, at_first], stage)
    else:
        stage.store(quarter)
        fence_async_shared()
        tma_store(c_map, [at_first, at_second], stage)


@gluon.jit
def store_staged(
    accumulator,
    c_map,
    stage,
    at_first,
    at_second,
    HEIGHT: gl.constexpr,
    SECOND: gl.constexpr,
    SPREAD: gl.constexpr,
    TRANSPOSED: gl.constexpr,
):
    # A quarter at a time, since a whole tile has no room beside the buffers. TMA drops what lies outside C.
    if SPREAD:
        # The reverse of what `fetch` did to the rows.
        rows = accumulator.reshape([2, 2, 2, 2, 4, SECOND]).permute((0, 3, 1, 2, 4, 5))
        accumulator = rows.reshape([HEIGHT, SECOND])
    left, right = halves(accumulator, HEIGHT, SECOND)
    one, two = halves(left, HEIGHT, SECOND // 2)
    three, four = halves(right, HEIGHT, SECOND // 2)
    WIDTH: gl.constexpr = SECOND // 4
    store_quarter(c_map, stage, one, at_first, at_second, TRANSPOSED)
    store_quarter(c_map, stage, two, at_first, at_second + WIDTH, TRANSPOSED)
    store_quarter(c_map, stage, three, at_first, at_second + 2 * WIDTH, TRANSPOSED)
    store_quarter(c_map, stage, four, at_first, at_second + 3 * WIDTH, TRANSPOSED)


@gluon.jit
def store_masked(
    accumulator,
    product,
    at_first,
    at_second,
    HEIGHT: gl.constexpr,
    SECOND: gl.constexpr,
    SUM: gl.constexpr,
    SPREAD: gl.constexpr,
):
    c_ptr, c_first, c_second, length_first, length_second = product
    first = at_first + row_of(gl.arange(0, HEIGHT, gl.SliceLayout(1, SUM)), SPREAD)
    second = at_second + gl.arange(0, SECOND, gl.SliceLayout(0, SUM))
    # Offsets are 64 bits wide: an index times a stride passes 2^31 on a large matrix.
    offsets = first[:, None].to(gl.int64) * c_first + second[None, :].to(gl.int64) * c_second
    gl.store(c_ptr + offsets, accumulator, mask=(first[:, None] < length_first) & (second[None, :] < length_second))


@gluon.jit
def consume(
    HALF: gl.constexpr,
    shared,
    FIRST: gl.constexpr,
    SECOND: gl.constexpr,
    BUFFERS: gl.constexpr,
    GROUP: gl.constexpr,
    SPREAD: gl.constexpr,
    LOADED: gl.constexpr,
    TRANSPOSED: gl.constexpr,
    STAGED: gl.constexpr,
):
    # One warpgroup: computes and stores its half of each tile.
    product, c_map, stages, ring, extent = shared
    HEIGHT: gl.constexpr = FIRST // 2
    SUM: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, SECOND, 8])
    OPERAND: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=SUM, k_width=1)
    step = 0
    for index in range(gl.program_id(0), extent[0] * extent[1], gl.num_programs(0)):
        i, j = tile_of(index, extent, GROUP)
        accumulator = gl.zeros((HEIGHT, SECOND), gl.float32, SUM)
        if TRANSPOSED or LOADED:
            accumulator = sum_from_registers(
                accumulator, step, ring, extent[2], HALF * HEIGHT, HEIGHT, BUFFERS, OPERAND, SPREAD, TRANSPOSED
            )
        else:
            accumulator = sum_from_shared(accumulator, step, ring, extent[2], HALF * HEIGHT, HEIGHT, BUFFERS)
        step += extent[2]
        at_first, at_second = i * FIRST + HALF * HEIGHT, j * SECOND
        if STAGED:
            stage = stages.index(HALF)
            store_staged(
                accumulator, c_map, stage, at_first, at_second, HEIGHT, SECOND, SPREAD and TRANSPOSED, TRANSPOSED
            )
        else:
            store_masked(accumulator, product, at_first, at_second, HEIGHT, SECOND, SUM, SPREAD and TRANSPOSED)
    if STAGED:
        # Shared memory must outlive what TMA has still to read of it.
        tma.store_wait(0)


@gluon.jit(do_not_specialize=["length_first", "length_second", "k"])
def matmul_tf32_kernel(
    first,
    second,
    c_map,
    c_ptr,
    length_first,
    length_second,
    k,
    c_first,
    c_second,
    FIRST: gl.constexpr,
    SECOND: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BUFFERS: gl.constexpr,
    GROUP: gl.constexpr,
    SPREAD: gl.constexpr,
    LOADED: gl.constexpr,
    TRANSPOSED: gl.constexpr,
    STAGED: gl.constexpr,
):
    firsts = gl.allocate_shared_memory(gl.float32, [BUFFERS] + first.block_type.shape, first.layout)  # noqa: RUF005
    seconds = gl.allocate_shared_memory(gl.float32, [BUFFERS] + second.block_type.shape, second.layout)  # noqa: RUF005
    STAGE: gl.constexpr = [2, SECOND // 4, FIRST // 2] if TRANSPOSED else [2, FIRST // 2, SECOND // 4]
    stages = gl.allocate_shared_memory(gl.float32, STAGE, c_map.layout) if STAGED else firsts
    full = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(full.index(buffer), count=1)
        mbarrier.init(empty.index(buffer), count=2)
    ring = (firsts, seconds, full, empty)
    extent = (gl.cdiv(length_first, FIRST), gl.cdiv(length_second, SECOND), gl.cdiv(k, BLOCK_K))
    product = (c_ptr, c_first, c_second, length_first, length_second)
    shared = (product, c_map, stages, ring, extent)
    gl.warp_specialize(
        [
            (consume, (0, shared, FIRST, SECOND, BUFFERS, GROUP, SPREAD, LOADED, TRANSPOSED, STAGED)),
            (consume, (1, shared, FIRST, SECOND, BUFFERS, GROUP, SPREAD, LOADED, TRANSPOSED, STAGED)),
            (produce, (first, second, ring, extent, BLOCK_K, BUFFERS, GROUP, TRANSPOSED)),
        ],
        [4, 1],
        [240, 24],
    )


MULTIPROCESSORS = 132
"""Of an H100 SXM or H200: so many programs go on to their next tile by themselves. Fewer or more are still right."""

REGISTERS = 168
"""For each thread at the launch: 65536 among three warpgroups, which then pass them on, 240 for one that multiplies."""

ROUNDING = "round_f32_to_tf32" in {field.name for field in fields(TensorDescriptor)}
"""Whether Triton rounds by TMA when asked to, as it does from 3.7 on."""

FLOAT32_MAP, TFLOAT32_MAP = 7, 11
"""CU_TENSOR_MAP_DATA_TYPE_FLOAT32 and _TFLOAT32 (CUDA driver API, CUtensorMapDataType)."""

# One tile shape, which fills shared memory with four buffers of operands and a quarter of the product. What differs is
# the order of tiles (GROUP), that of the rows of a transposed operand (SPREAD), and how A gets to the tensor cores
# where B lies by columns: through registers if LOADED.
SHAPE = {"FIRST": 128, "SECOND": 256, "BLOCK_K": 32, "BUFFERS": 4, "SPREAD": 0, "LOADED": 0}
CONFIGURATIONS = {
    "128x256x32-group16": {**SHAPE, "GROUP": 16},
    "128x256x32-group16-spread": {**SHAPE, "GROUP": 16, "SPREAD": 1},
    "128x256x32-group16-loaded": {**SHAPE, "GROUP": 16, "LOADED": 1},
}


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


def readable(x: torch.Tensor) -> bool:
    """Return whether TMA can copy a matrix as it lies: contiguous rows that start at multiples of 16 bytes."""
    row, column = x.stride()
    return column == 1 and row >= x.shape[1] and row % 4 == 0 and x.data_ptr() % 16 == 0


def pack(x: torch.Tensor) -> torch.Tensor:
    """Return a copy that TMA can read."""
    (rows, columns), stride = x.shape, triton.cdiv(x.shape[1], 4) * 4
    packed = torch.empty((rows, stride), device=x.device)[:, :columns]
    grid = (triton.cdiv(rows, 32) * triton.cdiv(columns, 128),)
    pack_kernel[grid](x, packed, rows, columns, *x.stride(), stride, BLOCK_R=32, BLOCK_C=128)
    return packed


def describe(x: torch.Tensor, block: list[int], rounded: bool = True) -> TensorDescriptor:
    """Return the map through which TMA copies blocks of a matrix: each float rounded to tf32 if asked, 0 outside."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float32)
    asked = {"round_f32_to_tf32": True} if ROUNDING and rounded else {}
    return TensorDescriptor(x, list(x.shape), list(x.stride()), block, layout, **asked)


def round_maps(compiled) -> bool:
    """Make a compiled kernel's maps of A and B round where Triton cannot be asked to; return whether any changed."""
    # The third, where there is one, writes C, which stays float32.
    maps = [] if ROUNDING or compiled is None else compiled.metadata.tensordesc_meta[:2]
    changed = [each for each in maps if each["elem_type"] == FLOAT32_MAP]
    for each in changed:
        each["elem_type"] = TFLOAT32_MAP
    return bool(changed)


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Pack what TMA cannot read, choose what is first and second, and start one program for each multiprocessor."""
    a, b, c = inputs["a"], inputs["b"], outputs["c"]
    a = a if readable(a) else pack(a)
    by_columns, staged = not readable(b) and readable(b.T), readable(c)
    height, width, depth = (variant.options[name] for name in ("FIRST", "SECOND", "BLOCK_K"))
    # A warpgroup has half the height of a tile, and stores a quarter of its width at a time.
    stage = [height // 2, width // 4]
    if by_columns:
        first, second = describe(a, [height, depth]), describe(b.T, [width, depth])
        lengths, strides = c.shape, c.stride()
    else:
        first, second = describe(b if readable(b) else pack(b), [depth, height]), describe(a, [width, depth])
        lengths, strides, stage = reversed(c.shape), reversed(c.stride()), stage[::-1]
    c_map = describe(c, stage, rounded=False) if staged else None
    arguments = (first, second, c_map, c, *lengths, a.shape[1], *strides)
    tiles = triton.cdiv(arguments[4], height) * triton.cdiv(arguments[5], width)
    start = matmul_tf32_kernel[(min(MULTIPROCESSORS, tiles),)]
    options = {**variant.options, "TRANSPOSED": not by_columns, "STAGED": staged}
    options |= {"num_warps": 4, "maxnreg": REGISTERS}
    # A kernel's maps exist from its first launch on: what that one computed, without rounding, is computed again.
    if round_maps(start(*arguments, **options)):
        start(*arguments, **options)


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
    table={"tf32": 1e-2},
    # Spacing at 1 of tf32, which has 10 bits after the point.
    eps={"tf32": 2.0**-10},
)


KERNEL = Kernel(
    name="matmul_tf32",
    title="Matrix product, tf32, Hopper",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[Variant("tf32", name, options, stack_bytes=64) for name, options in CONFIGURATIONS.items()],
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
        Case(
            "distant-columns-5x40x7",
            {"m": 5, "n": 40, "k": 7},
            {"b": "distant-columns", "c": "distant-columns"},
            once=True,
        ),
        Case("distant-40x40x33", {"m": 40, "n": 40, "k": 33}, {"b": "distant"}, once=True),
        # TMA reads B by columns, for which k is a multiple of 4.
        Case("by-columns-200x300x340", {"m": 200, "n": 300, "k": 340}, {"b": "transposed"}),
        # More tiles than a card has multiprocessors, in more than one group: programs take a second and a third tile,
        # and begin them in other phases of their barriers.
        Case("many-tiles-4300x2300x150", {"m": 4300, "n": 2300, "k": 150}, tiers=("gpu",)),
        Case(
            "many-tiles-by-columns-2300x4300x180",
            {"m": 2300, "n": 4300, "k": 180},
            {"b": "transposed"},
            tiers=("gpu",),
        ),
        Case("positive-70x90x300", {"m": 70, "n": 90, "k": 300}, values={"a": "positive", "b": "positive"}, once=True),
        Case("tiny-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "tiny", "b": "tiny"}, once=True),
        Case("large-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "large", "b": "large"}, once=True),
        Case(
            "denormal-40x50x60",
            {"m": 40, "n": 50, "k": 60},
            values={"a": "denormal", "b": "large"},
            once=True,
        ),
        # NaN, and infinity times anything but 0, fill the row of A or the column of B that holds them, and no other.
        Case("nan-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-nan"}, once=True),
        Case("nan-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-nan"}, once=True),
        Case("inf-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-inf"}, once=True),
        Case("inf-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-negative-inf"}, once=True),
    ],
    timed=[
        *(Case(f"{n}x{n}x{n}", {"m": n, "n": n, "k": n}) for n in (2048, 4096, 8192)),
        *(Case(f"{n}x{n}x{n}-b-by-columns", {"m": n, "n": n, "k": n}, {"b": "transposed"}) for n in (2048, 4096, 8192)),
    ],
    bound=[LOOSE, ComponentwiseBound(terms=terms)],
    dot=Dot("a", "b", "c", {"m": 64, "n": 64, "k": 64}),
    work=work,
    peers=[Peer("cuBLAS tf32", "tf32", cublas("tf32"))],
    capability=(9, 0),
    newest=(9, 0),
)

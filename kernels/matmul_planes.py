"""Matrix product of float32 accuracy on Hopper's 16-bit tensor cores, from operands split into planes.

A first launch splits both operands, each into planes whose sum it is: bf16x6 into three of bfloat16, 8 bits each and
the whole of a float32, of whose nine products the six largest are kept; fp16x3 into two of float16, 11 bits each, of
whose four products three are kept (Ootomo & Yokota, Int. J. High Perform. Comput. Appl. 36(4), 2022,
doi:10.1177/10943420221090256; Henry, Tang & Heinecke, ARITH 2019, arXiv:1904.06376). A second launch multiplies planes,
in one of two ways: one product after another and the smallest first, as one long sum; or all products of a block of k
together, while the next block is on its way, so that each plane is read once.

A tensor core truncates as it accumulates (Fasi, Higham, Mikaitis & Pranesh, PeerJ Comput. Sci. 7:e330, 2021), so that
a long sum drifts towards 0. Here it sums a few blocks only, from 0, and the partial sum is added by a float32 addition,
which rounds to nearest. Only the small products of the second way are one sum from beginning to end: they are below
2^-7 of the leading one, and so is their drift.

float16 has 5 bits of exponent. For fp16x3 each row of A and column of B is therefore scaled by a power of two that
takes its largest element to [2^14, 2^15), and the product is scaled back. An element down to 2^-18 of that largest
keeps 22 bits, a smaller one has an error of 2^-40 of the largest: nothing is lost with respect to |A||B| unless one row
of A, or column of B, spans far more than that. bf16x6 has the range of float32, except that what lies above bfloat16's
largest number, 3.39e38, counts as infinite, and that the later planes of a number near the smallest are lost.
"""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as SharedDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

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

# Triton 3.8 renamed the copy, and 3.9 dropped the old name.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared

# Splitting


@triton.jit
def power_of_two(exponent):
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def scaled(x, exponent):
    # In two steps: 2^141, of a row of denormals, is beyond float32.
    first = tl.minimum(tl.maximum(exponent, -126), 127)
    return x * power_of_two(first) * power_of_two(exponent - first)


@triton.jit
def load_block(x_ptr, row, column, rows, columns, x_row, x_column):
    # Offsets are 64 bits wide: an index times a stride passes 2^31 on a large matrix.
    offsets = row[:, None].to(tl.int64) * x_row + column[None, :].to(tl.int64) * x_column
    return tl.load(x_ptr + offsets, mask=(row[:, None] < rows) & (column[None, :] < columns), other=0.0)


@triton.jit
def exponent_for(largest):
    # Of the power of two that takes `largest`, which has no sign, to [2^14, 2^15), and a denormal below that. Infinity
    # makes everything beside it vanish, which it does in the product too.
    return 14 + 127 - (largest.to(tl.int32, bitcast=True) >> 23)


@triton.jit
def store_planes(planes_ptr, x, row, column, plane_rows, plane_columns, PLANES: tl.constexpr):
    # What lies outside the matrix but inside its plane is 0 already.
    inside = (row[:, None] < plane_rows) & (column[None, :] < plane_columns)
    at = row[:, None].to(tl.int64) * plane_columns + column[None, :]
    plane = tl.full((), plane_rows, tl.int64) * plane_columns
    for number in tl.static_range(PLANES):
        piece = x.to(planes_ptr.dtype.element_ty)
        tl.store(planes_ptr + number * plane + at, piece, mask=inside)
        x -= piece.to(tl.float32)


@triton.jit
def split_block(
    x_ptr,
    planes_ptr,
    program,
    rows,
    columns,
    x_row,
    x_column,
    plane_rows,
    plane_columns,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
    PLANES: tl.constexpr,
):
    across = tl.cdiv(plane_columns, BLOCK_C)
    row = (program // across) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = (program % across) * BLOCK_C + tl.arange(0, BLOCK_C)
    x = load_block(x_ptr, row, column, rows, columns, x_row, x_column)
    store_planes(planes_ptr, x, row, column, plane_rows, plane_columns, PLANES)


@triton.jit
def split_kernel(
    a_ptr,
    b_ptr,
    a_planes_ptr,
    b_planes_ptr,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    depth,
    width,
    programs_b,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
    PLANES: tl.constexpr,
):
    # One launch for both operands: A's planes are m x depth, B's are depth x width.
    program = tl.program_id(0)
    if program < programs_b:
        split_block(b_ptr, b_planes_ptr, program, k, n, b_row, b_col, depth, width, BLOCK_R, BLOCK_C, PLANES)
    else:
        program -= programs_b
        split_block(a_ptr, a_planes_ptr, program, m, k, a_row, a_col, m, depth, BLOCK_R, BLOCK_C, PLANES)


@triton.jit
def scale_rows(
    x_ptr,
    planes_ptr,
    exponents_ptr,
    first,
    rows,
    columns,
    x_row,
    x_column,
    plane_columns,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    PLANES: tl.constexpr,
):
    row = first + tl.arange(0, ROWS)
    largest = tl.zeros((ROWS, STEP), tl.float32)
    for start in range(0, columns, STEP):
        column = start + tl.arange(0, STEP)
        largest = tl.maximum(largest, tl.abs(load_block(x_ptr, row, column, rows, columns, x_row, x_column)))
    exponent = exponent_for(tl.max(largest, 1))
    tl.store(exponents_ptr + row, exponent)
    for block in range(tl.cdiv(plane_columns, STEP)):
        column = block * STEP + tl.arange(0, STEP)
        x = scaled(load_block(x_ptr, row, column, rows, columns, x_row, x_column), exponent[:, None])
        store_planes(planes_ptr, x, row, column, rows, plane_columns, PLANES)


@triton.jit
def scale_columns(
    x_ptr,
    planes_ptr,
    exponents_ptr,
    first,
    rows,
    columns,
    x_row,
    x_column,
    plane_rows,
    plane_columns,
    STEP: tl.constexpr,
    COLUMNS: tl.constexpr,
    PLANES: tl.constexpr,
):
    column = first + tl.arange(0, COLUMNS)
    largest = tl.zeros((STEP, COLUMNS), tl.float32)
    for start in range(0, rows, STEP):
        row = start + tl.arange(0, STEP)
        largest = tl.maximum(largest, tl.abs(load_block(x_ptr, row, column, rows, columns, x_row, x_column)))
    exponent = exponent_for(tl.max(largest, 0))
    tl.store(exponents_ptr + column, exponent)
    for block in range(tl.cdiv(plane_rows, STEP)):
        row = block * STEP + tl.arange(0, STEP)
        x = scaled(load_block(x_ptr, row, column, rows, columns, x_row, x_column), exponent[None, :])
        store_planes(planes_ptr, x, row, column, plane_rows, plane_columns, PLANES)


@triton.jit
def split_scaled_kernel(
    a_ptr,
    b_ptr,
    a_planes_ptr,
    b_planes_ptr,
    a_exponents_ptr,
    b_exponents_ptr,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    depth,
    width,
    programs_b,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    PLANES: tl.constexpr,
):
    # The programs for strips of columns of B come first, since each has more to do than one for rows of A.
    program = tl.program_id(0)
    if program < programs_b:
        first = program * COLUMNS
        scale_columns(
            b_ptr, b_planes_ptr, b_exponents_ptr, first, k, n, b_row, b_col, depth, width, STEP, COLUMNS, PLANES
        )
    else:
        first = (program - programs_b) * ROWS
        scale_rows(a_ptr, a_planes_ptr, a_exponents_ptr, first, m, k, a_row, a_col, depth, ROWS, STEP, PLANES)


# Multiplying, one product after another


@triton.jit
def multiply_kernel(
    a_planes,
    b_planes,
    c_ptr,
    a_exponents_ptr,
    b_exponents_ptr,
    m,
    n,
    depth,
    c_row,
    c_col,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    CHUNK: tl.constexpr,
    PRODUCTS: tl.constexpr,
    A_PLANES: tl.constexpr,
    B_PLANES: tl.constexpr,
    SCALED: tl.constexpr,
):
    # Programs walk GROUP_M tiles down before one to the right, so that those resident together share rows of A and
    # columns of B in the L2 cache.
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    group_rows = min(tiles_m - group * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    first_row = (group * GROUP_M + within % group_rows) * BLOCK_M
    first_column = (within // group_rows) * BLOCK_N

    # snippet: chunked-sum
    chunks = depth // (CHUNK * BLOCK_K)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # The two loops are made one, so that the operands of the next chunk are on their way when this one ends.
    for chunk in tl.range(0, PRODUCTS * chunks, flatten=True):
        product = chunk // chunks
        start = (chunk % chunks) * CHUNK * BLOCK_K
        # Which planes a product takes is packed into A_PLANES and B_PLANES, two bits each. The rows of a tile past the
        # end of A's plane are those of the next, and go to rows of C that are not stored.
        a_start = ((A_PLANES >> (2 * product)) & 3) * m + first_row
        b_start = ((B_PLANES >> (2 * product)) & 3) * depth
        partial = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for block in range(CHUNK):
            at = start + block * BLOCK_K
            a = a_planes.load([a_start, at])
            b = b_planes.load([b_start + at, first_column])
            partial = tl.dot(a, b, partial)
        accumulator += partial
        # Infinity less itself, or times a later plane, is NaN or has the wrong sign: the leading planes, which come
        # last, decide.
        decided = (product == PRODUCTS - 1) | (tl.abs(accumulator) < float("inf"))
        accumulator = tl.where(decided, accumulator, 0.0)
    # end snippet

    row = first_row + tl.arange(0, BLOCK_M)
    column = first_column + tl.arange(0, BLOCK_N)
    if SCALED:
        taken = tl.load(a_exponents_ptr + row)[:, None] + tl.load(b_exponents_ptr + column)[None, :]
        # 2^-252 takes any sum to 0, and half of it is still a float32.
        accumulator = scaled(accumulator, tl.maximum(-taken, -252))
    c_ptrs = c_ptr + row[:, None].to(tl.int64) * c_row + column[None, :].to(tl.int64) * c_col
    tl.store(c_ptrs, accumulator, mask=(row[:, None] < m) & (column[None, :] < n))


# Multiplying, all products of a block together. `ring` is what the warps share: buffers, each for all planes of a
# block, and for each a barrier that says it is full and one that says it is empty. `extent` is (tiles down, tiles
# across, blocks of k). A step is the number of a block since the kernel began; its buffer is the remainder by BUFFERS,
# and the phase its barriers are in the quotient.


@gluon.jit
def tile_of(index, extent, GROUP_M: gl.constexpr):
    # As above: GROUP_M tiles down before one to the right.
    group = index // (GROUP_M * extent[1])
    within = index % (GROUP_M * extent[1])
    height = min(extent[0] - group * GROUP_M, GROUP_M)
    return group * GROUP_M + within % height, within // height


@gluon.jit
def produce(
    a_planes,
    b_planes,
    ring,
    extent,
    m,
    depth,
    BUFFERS: gl.constexpr,
    GROUP_M: gl.constexpr,
    PLANES: gl.constexpr,
):
    # One warp: asks TMA for the planes of one block after another, as buffers become empty.
    a_blocks, b_blocks, full, empty = ring
    BLOCK_M: gl.constexpr = a_planes.block_type.shape[0]
    BLOCK_K: gl.constexpr = b_planes.block_type.shape[0]
    BLOCK_N: gl.constexpr = b_planes.block_type.shape[1]
    step = 0
    for index in range(gl.program_id(0), extent[0] * extent[1], gl.num_programs(0)):
        i, j = tile_of(index, extent, GROUP_M)
        for block in range(extent[2]):
            buffer = step % BUFFERS
            mbarrier.wait(empty.index(buffer), ((step // BUFFERS) & 1) ^ 1)
            mbarrier.expect(full.index(buffer), PLANES * (a_planes.block_type.nbytes + b_planes.block_type.nbytes))
            for plane in gl.static_range(PLANES):
                place = buffer * PLANES + plane
                a_at, b_at = plane * m + i * BLOCK_M, plane * depth + block * BLOCK_K
                tma_load(a_planes, [a_at, block * BLOCK_K], full.index(buffer), a_blocks.index(place))
                tma_load(b_planes, [b_at, j * BLOCK_N], full.index(buffer), b_blocks.index(place))
            step += 1


@gluon.jit
def multiply_block(
    leading,
    small,
    buffer,
    ring,
    START: gl.constexpr,
    HEIGHT: gl.constexpr,
    PLANES: gl.constexpr,
    PRODUCTS: gl.constexpr,
    A_PLANES: gl.constexpr,
    B_PLANES: gl.constexpr,
):
    # The leading product of one block alone, and the others added to `small`.
    a_blocks, b_blocks, _full, _empty = ring
    for product in gl.static_range(PRODUCTS - 1):
        a = a_blocks.index(buffer * PLANES + ((A_PLANES >> (2 * product)) & 3)).slice(START, HEIGHT, dim=0)
        b = b_blocks.index(buffer * PLANES + ((B_PLANES >> (2 * product)) & 3))
        small = warpgroup_mma(a, b, small, is_async=True)
    a = a_blocks.index(buffer * PLANES).slice(START, HEIGHT, dim=0)
    leading = warpgroup_mma(a, b_blocks.index(buffer * PLANES), leading, use_acc=False, is_async=True)
    return warpgroup_mma_wait(0, deps=[leading, small])


@gluon.jit
def gluon_power_of_two(exponent):
    return ((exponent + 127) << 23).to(gl.float32, bitcast=True)


@gluon.jit
def consume(
    HALF: gl.constexpr,
    shared,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BUFFERS: gl.constexpr,
    GROUP_M: gl.constexpr,
    PLANES: gl.constexpr,
    PRODUCTS: gl.constexpr,
    A_PLANES: gl.constexpr,
    B_PLANES: gl.constexpr,
    SCALED: gl.constexpr,
):
    # One warpgroup: computes and stores its half of each tile.
    product, ring, extent = shared
    c_ptr, a_exponents_ptr, b_exponents_ptr, m, n, c_row, c_col = product
    _a_blocks, _b_blocks, full, empty = ring
    HEIGHT: gl.constexpr = BLOCK_M // 2
    SUM: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_N, 16])
    step = 0
    leading = gl.zeros((HEIGHT, BLOCK_N), gl.float32, SUM)
    for index in range(gl.program_id(0), extent[0] * extent[1], gl.num_programs(0)):
        i, j = tile_of(index, extent, GROUP_M)
        accumulator = gl.zeros((HEIGHT, BLOCK_N), gl.float32, SUM)
        small = gl.zeros((HEIGHT, BLOCK_N), gl.float32, SUM)
        for _ in range(extent[2]):
            buffer = step % BUFFERS
            mbarrier.wait(full.index(buffer), (step // BUFFERS) & 1)
            leading, small = multiply_block(
                leading, small, buffer, ring, HALF * HEIGHT, HEIGHT, PLANES, PRODUCTS, A_PLANES, B_PLANES
            )
            mbarrier.arrive(empty.index(buffer), count=1)
            accumulator += leading
            step += 1
        # As above: beside infinity the small products are NaN, since a later plane is, and the leading planes decide.
        accumulator += gl.where(small == small, small, 0.0)
        row = i * BLOCK_M + HALF * HEIGHT + gl.arange(0, HEIGHT, gl.SliceLayout(1, SUM))
        column = j * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, SUM))
        if SCALED:
            taken = gl.load(a_exponents_ptr + row)[:, None] + gl.load(b_exponents_ptr + column)[None, :]
            back = gl.maximum(-taken, -252)
            accumulator = accumulator * gluon_power_of_two(back >> 1) * gluon_power_of_two(back - (back >> 1))
        offsets = row[:, None].to(gl.int64) * c_row + column[None, :].to(gl.int64) * c_col
        gl.store(c_ptr + offsets, accumulator, mask=(row[:, None] < m) & (column[None, :] < n))


@gluon.jit(do_not_specialize=["m", "n"])
def multiply_together_kernel(
    a_planes,
    b_planes,
    c_ptr,
    a_exponents_ptr,
    b_exponents_ptr,
    m,
    n,
    depth,
    c_row,
    c_col,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BUFFERS: gl.constexpr,
    GROUP_M: gl.constexpr,
    PLANES: gl.constexpr,
    PRODUCTS: gl.constexpr,
    A_PLANES: gl.constexpr,
    B_PLANES: gl.constexpr,
    SCALED: gl.constexpr,
):
    number: gl.constexpr = BUFFERS * PLANES
    a_blocks = gl.allocate_shared_memory(a_planes.dtype, [number] + a_planes.block_type.shape, a_planes.layout)  # noqa: RUF005
    b_blocks = gl.allocate_shared_memory(b_planes.dtype, [number] + b_planes.block_type.shape, b_planes.layout)  # noqa: RUF005
    full = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(full.index(buffer), count=1)
        mbarrier.init(empty.index(buffer), count=2)
    ring = (a_blocks, b_blocks, full, empty)
    extent = (gl.cdiv(m, BLOCK_M), gl.cdiv(n, BLOCK_N), depth // BLOCK_K)
    product = (c_ptr, a_exponents_ptr, b_exponents_ptr, m, n, c_row, c_col)
    shared = (product, ring, extent)
    gl.warp_specialize(
        [
            (consume, (0, shared, BLOCK_M, BLOCK_N, BUFFERS, GROUP_M, PLANES, PRODUCTS, A_PLANES, B_PLANES, SCALED)),
            (consume, (1, shared, BLOCK_M, BLOCK_N, BUFFERS, GROUP_M, PLANES, PRODUCTS, A_PLANES, B_PLANES, SCALED)),
            (produce, (a_planes, b_planes, ring, extent, m, depth, BUFFERS, GROUP_M, PLANES)),
        ],
        [4, 1],
        [240, 24],
    )


MULTIPROCESSORS = 132
"""Of an H100 SXM or H200: so many programs go on to their next tile by themselves. Fewer or more are still right."""

REGISTERS = 168
"""For each thread at the launch: 65536 among three warpgroups, which then pass them on, 240 for one that multiplies."""

TILE = 128
SHAPE = {"BLOCK_M": TILE, "BLOCK_N": TILE, "BLOCK_K": 64, "GROUP_M": 8}
IN_TURN = {"128x128x64": {**SHAPE, "num_warps": 8, "num_stages": 4}}
# As many buffers as shared memory holds: three planes of each operand, or two.
CONFIGURATIONS = {
    "bf16x6": {**IN_TURN, "128x128x64-together": {**SHAPE, "BUFFERS": 2}},
    "fp16x3": {**IN_TURN, "128x128x64-together": {**SHAPE, "BUFFERS": 3}},
}

CHUNK = 8
"""Blocks of k summed by the tensor cores alone: 32 steps of 16, the error of which stays below float32's own."""

PLANES = {"bf16x6": 3, "fp16x3": 2}
FORMATS = {"bf16x6": torch.bfloat16, "fp16x3": torch.float16}

# Plane of A and plane of B of each product, 0 the leading one; from the smallest product to the largest.
PAIRS = {
    "bf16x6": [(2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)],
    "fp16x3": [(1, 0), (0, 1), (0, 0)],
}


def two_bits_each(planes: list[int]) -> int:
    """Pack small numbers into one integer, the first one lowest."""
    return sum(plane << (2 * place) for place, plane in enumerate(planes))


def chunked(k: int, block: int, longest: int = CHUNK) -> tuple[int, int]:
    """Return the depth of the planes and the blocks in one chunk: equal chunks of `longest` at most, k or more."""
    blocks = triton.cdiv(k, block)
    chunks = triton.cdiv(blocks, longest)
    chunk = triton.cdiv(blocks, chunks)
    return chunks * chunk * block, chunk


def split(a: torch.Tensor, b: torch.Tensor, precision: str, depth: int) -> tuple[torch.Tensor, ...]:
    """Return the planes of A and of B, stacked by rows and filled up with 0, and the exponents of both."""
    (m, k), n = a.shape, b.shape[1]
    planes, dtype, width = PLANES[precision], FORMATS[precision], triton.cdiv(n, 8) * 8
    a_planes = torch.empty((planes * m, depth), dtype=dtype, device=a.device)
    b_planes = torch.empty((planes * depth, width), dtype=dtype, device=a.device)
    # As long as whole tiles, so that no tile asks which of its rows and columns there are: what stands past the last is
    # taken for rows and columns of C that are not stored.
    lengths = (triton.cdiv(length, TILE) * TILE for length in (m, n))
    exponents = [torch.empty(length, dtype=torch.int32, device=a.device) for length in lengths]
    shapes = (m, n, k, *a.stride(), *b.stride(), depth, width)
    if precision == "fp16x3":
        programs_b = triton.cdiv(width, 16)
        split_scaled_kernel[(programs_b + triton.cdiv(m, 8),)](
            a, b, a_planes, b_planes, *exponents, *shapes, programs_b, ROWS=8, COLUMNS=16, STEP=256, PLANES=planes
        )
    else:
        # Depth is whole blocks of the product.
        programs_b = (depth // 16) * triton.cdiv(width, 256)
        programs_a = triton.cdiv(m, 16) * triton.cdiv(depth, 256)
        split_kernel[(programs_b + programs_a,)](
            a, b, a_planes, b_planes, *shapes, programs_b, BLOCK_R=16, BLOCK_C=256, PLANES=planes
        )
    return a_planes, b_planes, *exponents


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


def multiply_in_turn(a_planes: torch.Tensor, b_planes: torch.Tensor, rest: tuple, chunk: int, options: dict) -> None:
    """Start one program for each tile of C. `rest` are the arguments after the planes, C first."""
    tile = options["BLOCK_M"], options["BLOCK_N"]
    grid = (triton.cdiv(rest[0].shape[0], tile[0]) * triton.cdiv(rest[0].shape[1], tile[1]),)
    a_map = TensorDescriptor.from_tensor(a_planes, [tile[0], options["BLOCK_K"]])
    b_map = TensorDescriptor.from_tensor(b_planes, [options["BLOCK_K"], tile[1]])
    multiply_kernel[grid](a_map, b_map, *rest, CHUNK=chunk, **options)


def multiply_together(a_planes: torch.Tensor, b_planes: torch.Tensor, rest: tuple, planes: int, options: dict) -> None:
    """Start one program for each multiprocessor. `rest` are the arguments after the planes, C first."""
    tile = options["BLOCK_M"], options["BLOCK_N"]
    tiles = triton.cdiv(rest[0].shape[0], tile[0]) * triton.cdiv(rest[0].shape[1], tile[1])
    maps = describe(a_planes, [tile[0], options["BLOCK_K"]]), describe(b_planes, [options["BLOCK_K"], tile[1]])
    start = multiply_together_kernel[(min(MULTIPROCESSORS, tiles),)]
    start(*maps, *rest, PLANES=planes, num_warps=4, maxnreg=REGISTERS, **options)


def describe(planes: torch.Tensor, block: list[int]) -> SharedDescriptor:
    """Return the map through which TMA reads blocks of planes, and 0 outside."""
    dtype = gl.bfloat16 if planes.dtype is torch.bfloat16 else gl.float16
    return SharedDescriptor.from_tensor(planes, block, gl.NVMMASharedLayout.get_default_for(block, dtype))


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Split both operands into a workspace, then multiply."""
    a, b, c, precision = inputs["a"], inputs["b"], outputs["c"], variant.precision
    together, pairs = "BUFFERS" in variant.options, PAIRS[precision]
    depth, chunk = chunked(a.shape[1], variant.options["BLOCK_K"], 1 if together else CHUNK)
    a_planes, b_planes, *exponents = split(a, b, precision, depth)
    rest = (c, *exponents, *c.shape, depth, *c.stride())
    options = {
        **variant.options,
        "PRODUCTS": len(pairs),
        "A_PLANES": two_bits_each([plane for plane, _ in pairs]),
        "B_PLANES": two_bits_each([plane for _, plane in pairs]),
        "SCALED": precision == "fp16x3",
    }
    if together:
        multiply_together(a_planes, b_planes, rest, PLANES[precision], options)
    else:
        multiply_in_turn(a_planes, b_planes, rest, chunk, options)


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
    # Both carry at least 22 bits in pieces and lose no more than float32 accumulation does.
    table={"bf16x6": 1e-5, "fp16x3": 1e-5},
    eps={"bf16x6": 2.0**-23, "fp16x3": 2.0**-23},
)

UNDERFLOW = {"bf16x6": "the later pieces of a denormal lie below the smallest number of their format"}


KERNEL = Kernel(
    name="matmul_planes",
    title="Matrix product, float32 from 16-bit planes, Hopper",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[
        Variant(precision, name, options, stack_bytes=0)
        for precision, configurations in CONFIGURATIONS.items()
        for name, options in configurations.items()
    ],
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
        Case("distant-3x40x40", {"m": 3, "n": 40, "k": 40}, {"a": "distant", "c": "distant"}),
        # 33 columns apart by 2^31 / 32: the step from one block of k to the next passes 2^31 too.
        Case("distant-columns-5x7x33", {"m": 5, "n": 7, "k": 33}, {"a": "distant-columns", "c": "distant-columns"}),
        Case("distant-columns-5x40x7", {"m": 5, "n": 40, "k": 7}, {"b": "distant-columns"}, once=True),
        Case("distant-40x40x33", {"m": 40, "n": 40, "k": 33}, {"b": "distant"}, once=True),
        # More tiles than a card has multiprocessors, in more than one group: programs take a second and a third tile.
        Case("many-tiles-2100x2200x70", {"m": 2100, "n": 2200, "k": 70}, tiers=("gpu",)),
        # Planes are 64 deep at least: those of A pass 2^31 elements each, from an A of 2^25.
        Case(
            "tall-33554500x1x1",
            {"m": 33554500, "n": 1, "k": 1},
            tiers=("gpu",),
            exempt={"fp16x3": "its planes are stored by the same function, and the case takes long"},
            once=True,
            vast=True,
        ),
        # One past the block in which the largest of a row or column is looked for.
        Case("one-past-9x17x257", {"m": 9, "n": 17, "k": 257}, once=True),
        Case("positive-70x90x300", {"m": 70, "n": 90, "k": 300}, values={"a": "positive", "b": "positive"}),
        Case("tiny-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "tiny", "b": "tiny"}),
        Case("large-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "large", "b": "large"}),
        Case(
            "denormal-40x50x60",
            {"m": 40, "n": 50, "k": 60},
            values={"a": "denormal", "b": "large"},
            exempt=UNDERFLOW,
        ),
        # NaN, and infinity times anything but 0, fill the row of A or the column of B that holds them, and no other.
        Case("nan-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-nan"}),
        Case("nan-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-nan"}),
        Case("inf-in-a-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"a": "one-inf"}),
        Case("inf-in-b-40x50x60", {"m": 40, "n": 50, "k": 60}, values={"b": "one-negative-inf"}),
    ],
    timed=[Case(f"{n}x{n}x{n}", {"m": n, "n": n, "k": n}) for n in (2048, 4096)],
    bound=[LOOSE, ComponentwiseBound(terms=terms)],
    dot=Dot("a", "b", "c", {"m": 64, "n": 64, "k": 64}),
    work=work,
    peers=[Peer("cuBLAS fp32", "ieee", cublas("ieee"), rivals=("bf16x6", "fp16x3"))],
    capability=(9, 0),
    newest=(9, 0),
    equivalents=[
        Equivalent(
            operators=["perturb-constant"],
            source="accumulator = tl.where(decided, accumulator, 0.0)",
            why="where later planes made infinity or NaN the leading ones do too, to which any number may be added",
        ),
        Equivalent(
            operators=["perturb-constant"],
            source="accumulator += gl.where(small == small, small, 0.0)",
            why="where later planes made NaN the leading ones make infinity or NaN, to which any number may be added",
        ),
        Equivalent(
            operators=["perturb-constant"],
            source="accumulator = scaled(accumulator, tl.maximum(-taken, -252))",
            why="2^-253 takes every sum to 0 as 2^-252 does",
        ),
        Equivalent(
            operators=["perturb-constant"],
            source="back = gl.maximum(-taken, -252)",
            why="2^-253 takes every sum to 0 as 2^-252 does",
        ),
    ],
)

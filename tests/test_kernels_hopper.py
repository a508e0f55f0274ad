"""kernels/matmul_tf32.py and kernels/matmul_planes.py: what can be known of them without a Hopper GPU."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trials import ROOT, Bench, Workshop, bench, planted, verdict_of, workshop

from assay.buffers import guard_input
from assay.instructions import matrix_instructions
from assay.kernel import Case, Layout, load
from assay.record import Binary, Cause, Check

MATMUL, TF32, PLANES = (ROOT / "kernels" / f"{name}.py" for name in ("matmul", "matmul_tf32", "matmul_planes"))
LOADED = "tf32/128x256x32-group16-loaded"
SCALED, WIDE = "fp16x3/128x128x64", "bf16x6/128x128x64"
TOGETHER = [f"{variant}-together" for variant in (SCALED, WIDE)]


def module(path: Path) -> ModuleType:
    load(path)
    return sys.modules[f"kernel_{path.stem}"]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("hopper") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = workshop(tmp_path_factory.mktemp("hopper"))
    with made.child:
        yield made


def covers(case: Case, plain: Case) -> bool:
    """Whether a case asks what one of the plain kernel does: persistent programs take more tiles for that."""
    larger = plain.name.startswith("many-tiles") and all(case.size[of] >= plain.size[of] for of in plain.size)
    placed = plain.layouts.items() <= case.layouts.items() and case.values == plain.values
    return (case.size == plain.size or larger) and placed and case.tiers == plain.tiers and case.once <= plain.once


@pytest.mark.parametrize("path", [TF32, PLANES], ids=lambda path: path.stem)
def test_it_is_asked_what_the_plain_kernel_is_and_runs_on_hopper_alone(path: Path) -> None:
    kernel = load(path)
    for plain in load(MATMUL).cases:
        assert any(covers(case, plain) for case in kernel.cases), plain.name
    assert (kernel.capability, kernel.newest) == ((9, 0), (9, 0))


# tf32


def binaries(built: Workshop, path: Path, variant: str, case: str) -> list[Binary]:
    made = built.build(path, variant, "sm_90", case)
    assert isinstance(made, list), made
    return made


@pytest.mark.parametrize(("path", "variant"), [(TF32, LOADED), *((PLANES, variant) for variant in TOGETHER)])
def test_gluon_is_beyond_the_interpreter_and_not_held_against_the_kernel(
    tried: Bench, path: Path, variant: str
) -> None:
    verdict = verdict_of(tried.check(path, variant, "single-1x1x1"), variant.partition("/")[0])
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-operation")
    assert "interpreter cannot run a Gluon kernel; a GPU can" in verdict.reason


@pytest.mark.parametrize("variant", [load(TF32).variants[0].id, LOADED])
@pytest.mark.parametrize(
    ("case", "packed"), [("aligned-256x256x1024", 0), ("2048x2048x2048-b-by-columns", 0), ("sliced-64x96x64", 1)]
)
def test_it_compiles_to_tf32_wgmma_that_fits(built: Workshop, variant: str, case: str, packed: int) -> None:
    *before, product = binaries(built, TF32, variant, case)
    assert [binary.function for binary in before] == ["pack_kernel"] * packed
    assert product.instructions.assembly["wgmma.tf32"] == matrix_instructions(product.instructions.assembly)
    assert product.shared_bytes <= product.shared_limit_bytes


def test_c_goes_through_shared_memory_where_tma_can_write_it(built: Workshop) -> None:
    variant, shape = load(TF32).variants[0].id, module(TF32).SHAPE
    staged, direct = (
        binaries(built, TF32, variant, case)[-1].shared_bytes for case in ("aligned-256x256x1024", "sliced-64x96x64")
    )
    # A quarter of the tile, in float32.
    assert staged - direct == pytest.approx(shape["FIRST"] * shape["SECOND"], abs=1024)


def test_how_b_lies_decides_the_code(built: Workshop) -> None:
    variant = load(TF32).variants[0].id
    rows, columns = (
        binaries(built, TF32, variant, f"2048x2048x2048{lies}")[-1].binary_sha256 for lies in ("", "-b-by-columns")
    )
    assert rows != columns


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((64, 96), "contiguous", True),
        ((64, 96), "sliced", False),
        ((64, 96), "transposed", False),
        ((64, 97), "contiguous", False),
        ((1, 1), "contiguous", False),
        ((40, 1), "contiguous", False),
    ],
)
def test_it_knows_what_tma_can_read(shape: tuple[int, int], layout: Layout, expected: bool) -> None:
    x = guard_input(torch.zeros(shape), layout, "cpu").tensor
    assert module(TF32).readable(x) is expected


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), gap=st.integers(0, 4), start=st.integers(0, 4))
def test_what_it_calls_readable_a_tensor_map_takes(rows: int, columns: int, gap: int, start: int) -> None:
    tf32 = module(TF32)
    x = torch.zeros(start + rows * (columns + gap))[start:].as_strided((rows, columns), (columns + gap, 1))
    if tf32.readable(x):
        assert tf32.describe(x, [16, 32]).strides == [columns + gap, 1]
    else:
        with pytest.raises(AssertionError, match="16-byte aligned"):
            tf32.describe(x, [16, 32])


def test_rows_are_stored_where_they_were_fetched() -> None:
    bits = torch.arange(64).reshape(2, 2, 2, 2, 4)
    stored = module(TF32).row_of.fn(torch.arange(64), True)
    assert stored.tolist() == bits.permute(0, 2, 3, 1, 4).flatten().tolist()
    # What `store_staged` does to them brings them into order.
    assert stored.reshape(2, 2, 2, 2, 4).permute(0, 3, 1, 2, 4).flatten().tolist() == list(range(64))
    # What the lanes of a warp read at once, 8 rows at 4 values of k, lies in all 32 banks of shared memory.
    eight = stored[:8]
    banks = {int(4 * ((row // 4) % 8 ^ k) + row % 4) for row in eight for k in range(4)}
    assert banks == set(range(32))


def test_maps_round_once_they_are_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    tf32 = module(TF32)
    maps = [{"elem_type": tf32.FLOAT32_MAP}, {"elem_type": 9}, {"elem_type": tf32.FLOAT32_MAP}]
    compiled = SimpleNamespace(metadata=SimpleNamespace(tensordesc_meta=maps))
    monkeypatch.setattr(tf32, "ROUNDING", False)
    assert tf32.round_maps(compiled)
    # The third is C's, which is float32.
    assert [each["elem_type"] for each in maps] == [tf32.TFLOAT32_MAP, 9, tf32.FLOAT32_MAP]
    assert not tf32.round_maps(compiled)


# Planes


@pytest.mark.parametrize("case", [c.name for c in load(PLANES).cases if "interpreter" in c.tiers])
def test_two_float16_planes_are_right(tried: Bench, case: str) -> None:
    check = tried.check(PLANES, SCALED, case)
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


@pytest.mark.parametrize(
    "case", [c.name for c in load(PLANES).cases if "interpreter" in c.tiers and "bf16x6" not in c.exempt]
)
def test_three_bfloat16_planes_are_right(tried: Bench, case: str) -> None:
    check = tried.check(PLANES, WIDE, case)
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


@pytest.mark.parametrize("variant", [SCALED, WIDE, *TOGETHER])
def test_it_splits_in_one_launch_and_multiplies_16_bits(built: Workshop, variant: str) -> None:
    instruction = "wgmma.f16" if variant.startswith("fp16x3/") else "wgmma.bf16"
    split, product = binaries(built, PLANES, variant, "aligned-256x256x1024")
    assert "split" in split.function
    assert matrix_instructions(split.instructions.assembly) == 0
    assert product.instructions.assembly[instruction] == matrix_instructions(product.instructions.assembly)
    assert product.shared_bytes <= product.shared_limit_bytes


@pytest.mark.parametrize("precision", ["bf16x6", "fp16x3"])
def test_every_product_is_kept_that_is_as_large_as_the_last_plane(precision: str) -> None:
    planes = module(PLANES)
    pairs, number = planes.PAIRS[precision], planes.PLANES[precision]
    assert sorted(pairs) == [(a, b) for a in range(number) for b in range(number) if a + b < number]
    # From the smallest to the largest, so that what one of infinity did is made good by the leading planes.
    assert [a + b for a, b in pairs] == sorted((a + b for a, b in pairs), reverse=True)


@given(k=st.integers(1, 20000), block=st.sampled_from([16, 32, 64]))
def test_chunks_are_equal_and_no_longer_than_they_may_be(k: int, block: int) -> None:
    planes = module(PLANES)
    depth, chunk = planes.chunked(k, block)
    assert 1 <= chunk <= planes.CHUNK
    assert depth % (chunk * block) == 0
    assert k <= depth < k + block * (1 + depth // (chunk * block))
    assert planes.chunked(k, block, 1) == (depth - (depth - k) // block * block, 1)


def cut(x: torch.Tensor, precision: str) -> list[torch.Tensor]:
    """Return the pieces that the splitting launch makes of a matrix in range, infinity and NaN in it or not."""
    planes, pieces, rest = module(PLANES), [], x
    for _ in range(planes.PLANES[precision]):
        pieces.append(rest.to(planes.FORMATS[precision]).float())
        rest = rest - pieces[-1]
    return pieces


ENTRIES = st.sampled_from([0.0, 1.0, -1.0, 3.0, 1 + 2.0**-20, -1 - 2.0**-12, math.inf, -math.inf, math.nan])
ROW = st.lists(ENTRIES, min_size=4, max_size=4)


@pytest.mark.parametrize("precision", ["bf16x6", "fp16x3"])
@given(left=st.lists(ROW, min_size=3, max_size=3), right=st.lists(ROW, min_size=4, max_size=4))
def test_what_the_small_products_make_of_infinity_can_be_left_out(
    precision: str, left: list[list[float]], right: list[list[float]]
) -> None:
    # The rule of the kernel that multiplies all planes of a block together, which needs a device, in torch.
    a, b = torch.tensor(left), torch.tensor(right)
    a_pieces, b_pieces = cut(a, precision), cut(b, precision)
    *rest, leading = (a_pieces[i] @ b_pieces[j] for i, j in module(PLANES).PAIRS[precision])
    small = torch.stack(rest).sum(0)
    got = leading + torch.where(small.abs() < math.inf, small, 0.0)
    torch.testing.assert_close(got, a @ b, rtol=0, atol=3e-6, equal_nan=True)


DECIDED = 'decided = (product == PRODUCTS - 1) | (tl.abs(accumulator) < float("inf"))'
UNDECIDED = "decided = accumulator == accumulator"
STORE = "c_ptrs, accumulator, mask=(row[:, None] < m) & (column[None, :] < n)"
SPLIT_B = "b_ptr, b_planes_ptr, b_exponents_ptr, first, k, n, b_row, b_col, depth, width"
Change = tuple[str, str]
FAULTS: list[tuple[str, list[Change], str, Cause]] = [
    ("a rest of infinity", [(DECIDED, "decided = product >= 0")], "inf-in-b-40x50x60", "wrong-value"),
    ("small products of infinity kept", [(DECIDED, UNDECIDED)], "inf-in-a-40x50x60", "wrong-value"),
    (
        "a product too few",
        [("for chunk in tl.range(0,", "for chunk in tl.range(chunks,")],
        "positive-70x90x300",
        "wrong-value",
    ),
    (
        "planes paired wrongly",
        [("(B_PLANES >> (2 * product)) & 3) * depth", "(A_PLANES >> (2 * product)) & 3) * depth")],
        "ragged-197x131x77",
        "wrong-value",
    ),
    (
        "the last chunk left out",
        [("PRODUCTS * chunks, flatten", "PRODUCTS * chunks - 1, flatten")],
        "positive-70x90x300",
        "wrong-value",
    ),
    ("not scaled back", [("tl.maximum(-taken, -252))\n", "0)\n")], "single-1x1x1", "wrong-value"),
    ("no store mask", [(STORE, "c_ptrs, accumulator")], "row-1x130x70", "out-of-bounds-write"),
    (
        "strides of B swapped",
        [(SPLIT_B, SPLIT_B.replace("b_row, b_col", "b_col, b_row"))],
        "transposed-70x90x50",
        "wrong-value",
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "case", "cause"), FAULTS, ids=[f"{name}: {case}" for name, _, case, _ in FAULTS]
)
def test_a_planted_fault_is_caught(
    tried: Bench, tmp_path: Path, name: str, changes: list[Change], case: str, cause: Cause
) -> None:
    verdict = verdict_of(tried.check(planted(PLANES, tmp_path, *changes), SCALED, case), "fp16x3")
    assert verdict.cause == cause, verdict.reason

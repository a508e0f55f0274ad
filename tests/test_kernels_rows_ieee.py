"""kernels/softmax_rows.py and kernels/matmul_ieee.py: right on their declared cases, and as fast as their code allows.

What a case of the second computes is worked out by NumPy, since the interpreter runs no Gluon kernel.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from numpy_gluon import stand_in
from trials import ROOT, Bench, Workshop, bench, planted, verdict_of, workshop

from assay.artifact import convert
from assay.child import Fault
from assay.diagnosis import diagnose
from assay.kernel import load
from assay.record import Cause, Check, Verdict
from assay.trial import Worker

SOFTMAX, MATMUL = ROOT / "kernels" / "softmax_rows.py", ROOT / "kernels" / "matmul_ieee.py"
ROWS = load(SOFTMAX).variants[0].id
SMALL = [case.name for case in load(SOFTMAX).cases if not case.name.startswith("aligned-")]
PRODUCTS = [case.name for case in load(MATMUL).cases if "interpreter" in case.tiers]
TILES = [variant.id for variant in load(MATMUL).variants]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("rows_ieee") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = workshop(tmp_path_factory.mktemp("rows_ieee_built"))
    with made.child:
        yield made


@pytest.mark.parametrize("plain", ["softmax", "matmul"])
def test_it_is_asked_the_cases_of_its_plain_sibling(plain: str) -> None:
    sibling, own = load(ROOT / "kernels" / f"{plain}.py"), load(SOFTMAX if plain == "softmax" else MATMUL)
    theirs = [(c.name, c.size, c.layouts, c.values) for c in sibling.cases]
    assert [(c.name, c.size, c.layouts, c.values) for c in own.cases][: len(theirs)] == theirs
    assert [bound.source for bound in own.bounds] == [bound.source for bound in sibling.bounds]


@pytest.mark.parametrize("case", SMALL)
def test_a_softmax_is_right(tried: Bench, case: str) -> None:
    check = tried.check(SOFTMAX, ROWS, case, [20260901, 7])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


FAULTS: list[tuple[str, tuple[str, str], str, Cause]] = [
    ("no mask at all", ("WHOLE=block == columns", "WHOLE=True"), "ragged-64x781", "poison-read"),
    ("masks by a width too large", ("WHOLE=block == columns", "WHOLE=columns > 509"), "one-short-9x511", "poison-read"),
    ("tail of zeros", ('other=-float("inf")', "other=0.0"), "negative-48x300", "wrong-value"),
    ("store past the row", ("y, mask=column < columns", "y"), "one-past-33x1025", "out-of-bounds-write"),
    ("no maximum", ("(x - tl.max(x, axis=0))", "x"), "large-48x300", "not-finite"),
    ("powers of 2", (" * LOG2_E)", ")"), "one-row-1x1000", "wrong-value"),
    ("columns taken as dense", ("column * x_col", "column"), "transposed-40x509", "wrong-value"),
    ("rows read as dense", ("row * x_row", "row * columns"), "padded-40x509", "poison-read"),
]


@pytest.mark.parametrize(("name", "change", "case", "cause"), FAULTS, ids=[row[0] for row in FAULTS])
def test_a_fault_planted_in_the_softmax_is_caught(
    tried: Bench, tmp_path: Path, name: str, change: tuple[str, str], case: str, cause: Cause
) -> None:
    verdict = verdict_of(tried.check(planted(SOFTMAX, tmp_path, change), ROWS, case), "f32")
    assert verdict.cause == cause, verdict.reason


def test_a_timed_row_leaves_room_for_all_threads_of_a_multiprocessor(built: Workshop) -> None:
    binaries = built.build(SOFTMAX, ROWS, "sm_90", "8192x4096")
    assert not isinstance(binaries, Fault), binaries
    (binary,) = binaries
    assert binary.stack_bytes == 0
    assert binary.registers * 2048 <= 65536


def try_by_numpy(path: Path, tile: str, case: str, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """Ask the worker of the correctness stages, in this process, for a case of a kernel file that NumPy computes."""
    worker = Worker(path, "cpu")
    worker.answer({"do": "describe"})
    stand_in(sys.modules[f"kernel_{path.stem}"], monkeypatch)
    answer = worker.answer({"do": "try", "variant": tile, "case": case, "seeds": [20260901, 7]})
    return convert(answer["check"], Check, "the worker's answer").verdict


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("case", PRODUCTS)
def test_a_product_is_right(case: str, tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = try_by_numpy(MATMUL, tile, case, monkeypatch)
    assert verdict.outcome == "passed", verdict.reason


MASKED = "gl.load(pointers, mask=depth < left, other=0.0)"
B_OFFSETS = "b_across * b_col + b_depth.to(gl.int64) * b_row"
SWAPPED = "b_across * b_row + b_depth.to(gl.int64) * b_col"
SLIPS: list[tuple[str, tuple[str, str], str, Cause]] = [
    ("no mask along k", (MASKED, "gl.load(pointers)"), "ragged-197x131x77", "poison-read"),
    ("never masked", ("WHOLE=m % rows == 0 and", "WHOLE=True or"), "one-short-127x63x31", "out-of-bounds-write"),
    ("ones past the end", ("other=0.0", "other=1.0"), "ragged-197x131x77", "wrong-value"),
    ("the last blocks dropped", ("range(0, k, 2", "range(0, k - 2 * BLOCK_K, 2"), "positive-70x90x300", "wrong-value"),
    (
        "a buffer read too early",
        ("a_other, b_other = a_odd", "a_other, b_other = a_even"),
        "ragged-197x131x77",
        "wrong-value",
    ),
    ("a step left out", ("BLOCK_K - 1, SUMS", "BLOCK_K - 2, SUMS"), "positive-70x90x300", "wrong-value"),
    ("a step read twice", ("step + 2, SUMS", "step + 1, SUMS"), "positive-70x90x300", "wrong-value"),
    (
        "the next block begun late",
        ("(a_other, b_other, 0", "(a_other, b_other, 1"),
        "positive-70x90x300",
        "wrong-value",
    ),
    ("a block too many", ("(odd + 1) * BLOCK_K", "odd * BLOCK_K"), "positive-70x90x300", "poison-read"),
    ("strides of B swapped", (B_OFFSETS, SWAPPED), "padded-70x90x50", "poison-read"),
    ("rows of C taken as dense", ("row * c_row", "row * n"), "padded-70x90x50", "out-of-bounds-write"),
    ("C stored past its edge", ("column < n)", "column < n + 1)"), "one-past-129x65x33", "out-of-bounds-write"),
]


@pytest.mark.parametrize(("name", "change", "case", "cause"), SLIPS, ids=[row[0] for row in SLIPS])
def test_a_fault_planted_in_the_product_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: tuple[str, str], case: str, cause: Cause
) -> None:
    verdict = try_by_numpy(planted(MATMUL, tmp_path, change), TILES[0], case, monkeypatch)
    assert verdict.cause == cause, verdict.reason


def test_the_interpreter_is_not_asked_for_a_gluon_kernel(tried: Bench) -> None:
    fault = tried.check(MATMUL, TILES[0], "single-1x1x1")
    assert isinstance(fault, Fault)
    verdict = diagnose(fault, "ieee")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-operation")


@pytest.mark.parametrize("tile", TILES)
def test_the_loop_over_k_stays_a_loop_that_keeps_its_sums_in_registers(built: Workshop, tile: str) -> None:
    binaries = built.build(MATMUL, tile, "sm_90", "2048x2048x2048")
    assert not isinstance(binaries, Fault), binaries
    (binary,) = binaries
    assert binary.instructions.machine is not None
    assert binary.instructions.machine["ffma"] == 2 * 128 * (2 + 2), "two buffers: two steps in a loop, two after it"
    assert set(binary.instructions.assembly) == {"fma.f32"}, "no tensor core"
    assert (binary.stack_bytes, binary.local_load_instructions) == (0, 0)

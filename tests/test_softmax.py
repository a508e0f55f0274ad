"""kernels/softmax.py under the interpreter: right on its declared cases, and every planted fault is caught by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trials import ROOT, Bench, bench, planted, verdict_of

from assay.kernel import Kernel, load
from assay.record import Cause, Check

KERNEL = ROOT / "kernels" / "softmax.py"
VARIANT = "f32/warps8"
SMALL = [case.name for case in load(KERNEL).cases if not case.name.startswith("aligned-")]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("softmax") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return load(KERNEL)


@pytest.mark.parametrize("case", SMALL)
def test_it_is_right(tried: Bench, case: str) -> None:
    check = tried.check(KERNEL, VARIANT, case, [20260901, 7])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


PLANTED: list[tuple[str, tuple[str, str], str, Cause]] = [
    ("no load mask", ("mask=inside, other", "mask=column < BLOCK, other"), "ragged-64x781", "poison-read"),
    ("tail of zeros", ('other=-float("inf")', "other=0.0"), "negative-48x300", "wrong-value"),
    ("no store mask", ("y, mask=inside)", "y)"), "one-past-33x1025", "out-of-bounds-write"),
    ("no maximum", ("tl.exp(x - tl.max(x, axis=0))", "tl.exp(x)"), "large-48x300", "not-finite"),
    ("no maximum of a negative row", ("tl.max(x, axis=0)", "0.0"), "negative-48x300", "not-finite"),
    ("columns taken as dense", ("column * x_col", "column"), "transposed-40x509", "wrong-value"),
    ("rows read as dense", ("row * x_row", "row * columns"), "padded-40x509", "poison-read"),
    ("rows written as dense", ("row * y_row", "row * columns"), "padded-40x509", "out-of-bounds-write"),
    (
        "half a block",
        ("next_power_of_2(columns)", "next_power_of_2(columns + 1) // 2"),
        "one-row-1x1000",
        "not-written",
    ),
    ("a row too few", ("[(rows,)]", "[(rows - 1,)]"), "one-column-17x1", "not-written"),
]


@pytest.mark.parametrize(("name", "change", "case", "cause"), PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_fault_is_caught(
    tried: Bench, tmp_path: Path, name: str, change: tuple[str, str], case: str, cause: Cause
) -> None:
    check = tried.check(planted(KERNEL, tmp_path, change), VARIANT, case)
    verdict = verdict_of(check, "f32")
    assert verdict.cause == cause, verdict.reason


@given(st.integers(1, 9), st.integers(1, 9), st.integers(-300, 300), st.integers(0, 2**32))
def test_the_oracle_gives_rows_of_sum_one_that_no_offset_changes(
    kernel: Kernel, rows: int, columns: int, shift: int, seed: int
) -> None:
    size = {"rows": rows, "columns": columns, "shift": shift}
    x = kernel.inputs(size, torch.Generator().manual_seed(seed))["x"].to(torch.float64)
    y = kernel.oracle({"x": x})["y"]
    assert torch.allclose(y.sum(dim=1), torch.ones(rows, dtype=torch.float64), rtol=1e-12)
    assert torch.allclose(kernel.oracle({"x": x + 1000})["y"], y, rtol=1e-9)


def test_the_rows_of_the_large_case_overflow_without_their_maximum(kernel: Kernel) -> None:
    x = kernel.inputs(kernel.case("aligned-2048x1024").size, torch.Generator().manual_seed(0))["x"]
    assert float((0.05 * torch.arange(2048.0)).max()) == pytest.approx(102.35)
    assert bool(torch.exp(x[-1]).isinf().any())
    assert bool(torch.exp(x[0]).isfinite().all())


def test_the_work_is_one_read_and_one_write_of_each_element(kernel: Kernel) -> None:
    work = kernel.work({"rows": 2048, "columns": 1024})
    assert (work.flops, work.bytes) == (0, 2 * 4 * 2048 * 1024)

"""kernels/layer_norm.py under the interpreter: right on its cases, its bound tight, and every planted fault caught."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trials import ROOT, Bench, bench, planted, verdict_of

from assay.kernel import Kernel, Problem, Size, Tensors, load, widen
from assay.record import Cause, Check

KERNEL = ROOT / "kernels" / "layer_norm.py"
VARIANT = "f32/32x64"
CASES = [case.name for case in load(KERNEL).cases]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("layer_norm") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return load(KERNEL)


def inputs_of(kernel: Kernel, size: Size, seed: int = 1) -> dict[str, torch.Tensor]:
    return kernel.inputs(size, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("case", CASES)
def test_it_is_right(tried: Bench, case: str) -> None:
    check = tried.check(KERNEL, VARIANT, case, [20260901, 7])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


def test_every_output_has_its_running_error_and_none_that_can_be_0_the_reference_rule(tried: Bench) -> None:
    check = tried.check(KERNEL, VARIANT, "ragged-5x781")
    assert isinstance(check, Check)
    rules = {rule: {c.output for c in check.comparisons if c.rule == rule} for rule in ("reduction", "running error")}
    assert rules["running error"] == {"y", "mean", "rstd", "dx", "dw", "db"}
    assert rules["reduction"] == rules["running error"] - {"dx", "dw"}


OFFSETS = """row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK).to(tl.int64)
    inside = column < columns
"""
LOAD = "    x = tl.load(x_ptr + row * x_row + column * x_col, mask=inside, other=0.0)\n"
MEAN = "    mean = tl.sum(x, axis=0) / columns\n"
VARIANCE = "tl.sum(centred * centred, axis=0) / columns"
Y = "centred * rstd * w + b"
DX = "dx = rstd * (slope - along_one - normal * along_normal)"
ALL_STRIDES = "*x.stride(), *dy.stride(), *dx.stride()"
PLANTED: list[tuple[str, tuple[str, str], str, Cause]] = [
    ("no mask on x", (LOAD + MEAN, LOAD.replace(", mask=inside, other=0.0", "") + MEAN), "ragged-5x781", "poison-read"),
    (
        "lanes past the row in the variance",
        ("tl.where(inside, x - mean, 0.0)", "x - mean"),
        "ragged-5x781",
        "wrong-value",
    ),
    (
        "the variance in one pass",
        (VARIANCE, "(tl.sum(x * x, axis=0) / columns - mean * mean)"),
        "far-9x300",
        "wrong-value",
    ),
    ("divided by one less", (VARIANCE, f"{VARIANCE[:-7]}(columns - 1)"), "ragged-5x781", "wrong-value"),
    ("no epsilon", (f"{VARIANCE} + EPS", VARIANCE), "equal-6x77", "not-finite"),
    ("no bias", (Y, Y[:-4]), "one-column-7x1", "wrong-value"),
    ("no store mask on y", (f"{Y}, mask=inside", Y), "ragged-5x781", "out-of-bounds-write"),
    (
        "y written with the strides of x",
        ("y_ptr + row * y_row + column * y_col", "y_ptr + row * x_row + column * x_col"),
        "strided-inputs-9x70",
        "out-of-bounds-write",
    ),
    (
        "dy read with the strides of x",
        (ALL_STRIDES, ALL_STRIDES.replace("dy", "x")),
        "strided-inputs-9x70",
        "poison-read",
    ),
    ("no part along the normal", (DX, DX.replace(" - normal * along_normal", "")), "one-row-1x300", "wrong-value"),
    ("no part along one", (DX, DX.replace(" - along_one", "")), "ragged-5x781", "wrong-value"),
    ("dw of rows past the last", ("(row[:, None] < rows) & (column", "(column"), "one-past-33x65", "poison-read"),
    (
        "the last block of rows left out",
        ("range(0, rows, BLOCK_ROWS)", "range(0, rows - BLOCK_ROWS + 1, BLOCK_ROWS)"),
        "one-past-33x65",
        "wrong-value",
    ),
    ("only the last block of rows", ("db += dy", "db = dy"), "one-past-33x65", "wrong-value"),
    (
        "the last block of columns left out",
        ("triton.cdiv(columns, variant", "(lambda a, b: max(a // b, 1))(columns, variant"),
        "one-past-33x65",
        "not-written",
    ),
    (
        "offsets of 32 bits",
        (OFFSETS + LOAD + MEAN, OFFSETS.replace(".to(tl.int64)", "") + LOAD + MEAN),
        "distant-inputs-5x70",
        "poison-read",
    ),
    (
        "NaN taken for 0",
        (LOAD + MEAN, f"{LOAD}    x = tl.where(x == x, x, 0.0)\n{MEAN}"),
        "nan-in-x-5x70",
        "wrong-value",
    ),
]


@pytest.mark.parametrize(("name", "change", "case", "cause"), PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_fault_is_caught(
    tried: Bench, tmp_path: Path, name: str, change: tuple[str, str], case: str, cause: Cause
) -> None:
    check = tried.check(planted(KERNEL, tmp_path, change), VARIANT, case)
    verdict = verdict_of(check, "f32")
    assert verdict.cause == cause, verdict.reason


@given(st.integers(1, 9), st.integers(1, 9), st.integers(-300, 300), st.integers(0, 2**32))
def test_the_oracle_is_torchs_layer_norm_and_its_gradients(
    kernel: Kernel, rows: int, columns: int, shift: int, seed: int
) -> None:
    wide = widen(inputs_of(kernel, {"rows": rows, "columns": columns, "shift": shift}, seed))
    x, w, b = (wide[name].clone().requires_grad_() for name in ("x", "w", "b"))
    y = torch.nn.functional.layer_norm(x, (columns,), w, b, eps=1e-5)
    gradients = torch.autograd.grad(y, (x, w, b), wide["dy"])
    got = kernel.oracle(wide)
    for name, want in zip(("y", "dx", "dw", "db"), (y.detach(), *gradients), strict=True):
        # One column, or equal ones, leaves only rounding in x - mean, which rstd = 316 makes 316 times as large.
        assert torch.allclose(got[name], want, rtol=1e-9, atol=1e-8), name


def test_a_nan_stays_where_the_oracle_says_it_does(kernel: Kernel) -> None:
    for place in ("x", "dy"):
        values = inputs_of(kernel, {"rows": 4, "columns": 6})
        values[place][2, 3] = float("nan")
        lost = {name: want.isnan() for name, want in kernel.oracle(widen(values)).items()}
        rows = torch.tensor([False, False, True, False])
        column = torch.arange(6) == 3
        if place == "x":
            assert all(torch.equal(lost[name].reshape(4, -1).all(dim=1), rows) for name in ("y", "mean", "rstd", "dx"))
            assert all(torch.equal(lost[name].reshape(4, -1).any(dim=1), rows) for name in ("y", "mean", "rstd", "dx"))
            assert bool(lost["dw"].all())
            assert not bool(lost["db"].any())
        else:
            assert torch.equal(lost["dx"], rows[:, None].expand(4, 6))
            assert torch.equal(lost["dw"], column)
            assert torch.equal(lost["db"], column)


def outside(kernel: Kernel, got: Tensors, problem: Problem) -> list[str]:
    """Return the outputs of which some element errs by more than the running error."""
    limits = {name: kernel.bounds[1].limit(problem, name) for name in got}
    return [name for name, limit in limits.items() if not bool(((got[name] - problem.want[name]).abs() <= limit).all())]


def problem_of(kernel: Kernel, values: Tensors, size: Size) -> Problem:
    wide = widen(values)
    return Problem(kernel.variants[0], size, wide, kernel.oracle(wide), kernel.oracle)


@given(st.integers(1, 40), st.integers(1, 600), st.sampled_from([0, 1, -200, 1000]), st.integers(0, 2**32))
def test_float32_arithmetic_stays_within_the_running_error(
    kernel: Kernel, rows: int, columns: int, shift: int, seed: int
) -> None:
    size = {"rows": rows, "columns": columns, "shift": shift}
    values = inputs_of(kernel, size, seed)
    assert outside(kernel, kernel.oracle(values), problem_of(kernel, values, size)) == []


@pytest.mark.parametrize("shift", [0, -200])
def test_less_than_float32_does_not(kernel: Kernel, shift: int) -> None:
    size = {"rows": 9, "columns": 300, "shift": shift}
    values = inputs_of(kernel, size)
    coarse = {name: value.bfloat16().float() for name, value in values.items()}
    assert outside(kernel, kernel.oracle(coarse), problem_of(kernel, values, size)) == list(kernel.outputs(values))


def test_the_words_name_the_formula_and_its_numbers(kernel: Kernel) -> None:
    size = {"rows": 12, "columns": 96}
    words = kernel.bounds[1].words(problem_of(kernel, inputs_of(kernel, size), size), "db")
    assert words.startswith("|got - want| <= E(db), E(db) = tau(R) sum|dy|; ")
    # tau(12 rows) = 4 sqrt(16) 2^-24
    assert f"tau(R) = {16 * 2.0**-24:.3g} for 12 rows" in words


def test_the_librarys_way_gives_the_same_six_results(kernel: Kernel) -> None:
    values = inputs_of(kernel, {"rows": 5, "columns": 30})
    want = kernel.oracle(widen(values))
    got = kernel.peers[0].run(values)
    for name, result in zip(("y", "mean", "rstd", "dx", "dw", "db"), got, strict=True):
        assert torch.allclose(result.double().flatten(), want[name].flatten(), rtol=1e-4, atol=1e-5), name


def test_the_work_is_two_reads_and_two_writes_of_each_element(kernel: Kernel) -> None:
    work = kernel.work({"rows": 8, "columns": 16})
    assert (work.flops, work.bytes) == (0, 4 * 4 * 8 * 16)

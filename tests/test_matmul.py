"""kernels/matmul.py under the interpreter: right on its declared cases, and every planted fault is caught by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from trials import ROOT, Bench, bench, planted, verdict_of

from assay.child import Fault
from assay.diagnosis import diagnose
from assay.kernel import Kernel, Problem, load
from assay.record import Cause, Check

KERNEL = ROOT / "kernels" / "matmul.py"
VARIANT = "ieee/64x64x32"
SMALL = [case.name for case in load(KERNEL).cases if not case.name.startswith(("aligned-", "many-tiles-"))]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("matmul") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return load(KERNEL)


@pytest.mark.parametrize("variant", [VARIANT, "tf32/128x64x64"])
@pytest.mark.parametrize("case", SMALL)
def test_it_is_right(tried: Bench, case: str, variant: str) -> None:
    check = tried.check(KERNEL, variant, case, [20260901, 7])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6"])
def test_a_precision_that_the_interpreter_lacks_is_inapplicable(tried: Bench, precision: str) -> None:
    fault = tried.check(KERNEL, f"{precision}/64x64x32", "single-1x1x1")
    assert isinstance(fault, Fault)
    verdict = diagnose(fault, precision)
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-precision")


A_MASK = "(row[:, None] < m) & left[None, :], other=0.0"
B_MASK = "left[:, None] & (column[None, :] < n), other=0.0"
C_MASK = "accumulator, mask=(row[:, None] < m) & (column[None, :] < n)"
Change = tuple[str, str]
PLANTED: list[tuple[str, list[Change], str, Cause]] = [
    (
        "no mask along K",
        [(A_MASK, A_MASK.replace(" & left[None, :]", "")), (B_MASK, B_MASK.replace("left[:, None] & ", ""))],
        "ragged-197x131x77",
        "poison-read",
    ),
    ("no mask along K of A", [(A_MASK, A_MASK.replace(" & left[None, :]", ""))], "one-past-129x65x33", "poison-read"),
    ("no mask along K of B", [(B_MASK, B_MASK.replace("left[:, None] & ", ""))], "single-1x1x1", "poison-read"),
    (
        "ones past the end of K",
        [(A_MASK, A_MASK.replace("0.0", "1.0")), (B_MASK, B_MASK.replace("0.0", "1.0"))],
        "one-short-127x63x31",
        "wrong-value",
    ),
    ("no store mask", [(C_MASK, "accumulator")], "row-1x130x70", "out-of-bounds-write"),
    (
        "no store mask of columns",
        [(C_MASK, "accumulator, mask=row[:, None] < m")],
        "padded-70x90x50",
        "out-of-bounds-write",
    ),
    ("strides of B swapped", [("*b.stride()", "*reversed(b.stride())")], "sliced-64x96x64", "poison-read"),
    ("strides of B swapped", [("*b.stride()", "*reversed(b.stride())")], "transposed-70x90x50", "wrong-value"),
    (
        "a block of K too few",
        [("range(0, k, BLOCK_K)", "range(0, k - BLOCK_K + 1, BLOCK_K)")],
        "ragged-197x131x77",
        "wrong-value",
    ),
    (
        "a tile of M too few",
        [("triton.cdiv(m, variant", "(lambda a, b: max(a // b, 1))(m, variant")],
        "one-past-129x65x33",
        "not-written",
    ),
    (
        "a last group as tall as the others",
        [("min(tiles_m - group * GROUP_M, GROUP_M)", "GROUP_M")],
        "ragged-197x131x77",
        "not-written",
    ),
    ("only the last block of K", [("tl.dot(a, b, accumulator, ", "tl.dot(a, b, ")], "ragged-197x131x77", "wrong-value"),
]


@pytest.mark.parametrize(
    ("name", "changes", "case", "cause"), PLANTED, ids=[f"{name}: {case}" for name, _, case, _ in PLANTED]
)
def test_a_planted_fault_is_caught(
    tried: Bench, tmp_path: Path, name: str, changes: list[Change], case: str, cause: Cause
) -> None:
    check = tried.check(planted(KERNEL, tmp_path, *changes), VARIANT, case)
    verdict = verdict_of(check, VARIANT.partition("/")[0])
    assert verdict.cause == cause, verdict.reason


def test_every_precision_has_the_references_configurations_but_of_bfloat16_no_deep_tiles(kernel: Kernel) -> None:
    whole, pieces = ("64x64x32", "128x128x32", "128x64x64"), ("64x64x32", "128x128x32")
    configurations = {"ieee": whole, "tf32": whole, "tf32x3": whole, "bf16x3": pieces, "bf16x6": pieces}
    assert [variant.id for variant in kernel.variants] == [
        f"{precision}/{configuration}" for precision, names in configurations.items() for configuration in names
    ]


def test_the_references_bound_knows_every_precision_and_only_tf32_gets_much_room(kernel: Kernel) -> None:
    want, bound = {"c": torch.ones(1, dtype=torch.float64)}, kernel.bounds[0]
    limits = {
        v.precision: float(bound.limit(Problem(v, {"k": 1024}, {}, want, kernel.oracle), "c")) for v in kernel.variants
    }
    # rtol = max(table, 4 eps sqrt(1024)), twice because the largest element is also this one.
    assert limits["ieee"] == limits["tf32x3"] == limits["bf16x6"] == pytest.approx(2 * 128 * 2.0**-23)
    assert limits["tf32"] == pytest.approx(2 * 128 * 2.0**-10)
    assert limits["bf16x3"] == pytest.approx(2 * 128 * 2.0**-17)


def test_tf32_is_set_apart_from_ieee_and_needs_no_more_than_the_gate(kernel: Kernel) -> None:
    assert [(contrast.reference, contrast.lesser) for contrast in kernel.contrasts] == [("ieee", "tf32")]
    assert {variant.capability for variant in kernel.variants} == {None}


def test_the_work_is_a_multiplication_and_an_addition_a_term(kernel: Kernel) -> None:
    work = kernel.work({"m": 2, "n": 3, "k": 5})
    assert (work.flops, work.bytes) == (2 * 2 * 3 * 5, 4 * (10 + 15 + 6))

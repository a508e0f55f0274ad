"""Compiling a kernel's own launch with no GPU, for real: what the instructions show, and repeatable digests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from trials import DOUBLE, LIMIT_S, ROOT, Workshop, changed, workshop, written

from assay.child import Answer, Fault
from assay.diagnosis import diagnose
from assay.record import Binary
from assay.targets import TARGETS

MATMUL = ROOT / "kernels" / "matmul.py"
CASE = "aligned-256x256x1024"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    found = workshop(tmp_path_factory.mktemp("cache"))
    with found.child:
        yield found


def build(made: Workshop, kernel: Path, variant: str, target: str, case: str = CASE) -> Binary:
    binaries = made.build(kernel, variant, target, case)
    assert isinstance(binaries, list), binaries
    assert len(binaries) == 1
    return binaries[0]


def test_on_a_target_without_tensor_cores_for_it_tf32_is_the_same_code_as_ieee(made: Workshop) -> None:
    ieee, tf32 = (build(made, MATMUL, f"{precision}/64x64x32", "sm_75") for precision in ("ieee", "tf32"))
    assert tf32 == ieee
    assert set(tf32.instructions.assembly) == {"fma.f32"}
    assert tf32.shared_limit_bytes == 65536


def test_tf32_takes_the_tensor_cores_of_sm_90_and_ieee_none(made: Workshop) -> None:
    ieee, tf32 = (build(made, MATMUL, f"{precision}/64x64x32", "sm_90") for precision in ("ieee", "tf32"))
    assert tf32.instructions.assembly["wgmma.tf32"] > 0
    assert tf32.instructions.machine is not None
    assert ieee.instructions.machine is not None
    assert tf32.instructions.machine["hgmma.tf32"] > 0
    assert "fma.f32" not in tf32.instructions.assembly
    assert set(ieee.instructions.assembly) == {"fma.f32"}
    assert ieee.instructions.machine["ffma"] > 0
    assert not [name for name in ieee.instructions.machine if "mma." in name]
    assert tf32.binary_sha256 != ieee.binary_sha256
    assert ieee.function == tf32.function == "matmul_kernel"
    assert 0 < tf32.registers <= 255
    assert 0 < tf32.shared_bytes <= tf32.shared_limit_bytes == TARGETS["sm_90"].shared_limit_bytes


def test_a_digest_depends_neither_on_the_process_nor_on_where_the_kernel_lies(made: Workshop, tmp_path: Path) -> None:
    here = [build(made, MATMUL, "tf32/64x64x32", target) for target in ("sm_75", "sm_90")]
    elsewhere = written(tmp_path / "another checkout", "matmul", MATMUL.read_text("utf-8"))
    (tmp_path / "cache").mkdir()
    fresh = workshop(tmp_path / "cache")
    with fresh.child:
        # In another order, too: what was compiled before leaves no trace.
        there = [build(fresh, elsewhere, "tf32/64x64x32", target) for target in ("sm_90", "sm_75")]
    assert there == [here[1], here[0]]


def test_the_arguments_of_the_real_launch_decide_the_code(made: Workshop) -> None:
    # Sizes that are multiples of 16 are another specialisation than sizes of 1.
    aligned, single = (build(made, MATMUL, "ieee/64x64x32", "sm_90", case) for case in (CASE, "single-1x1x1"))
    assert aligned.binary_sha256 != single.binary_sha256


TWO = changed(
    DOUBLE,
    ("def launch(inputs", "@triton.jit\ndef second_kernel(y_ptr):\n    tl.store(y_ptr, 1.0)\n\n\ndef launch(inputs"),
    (
        "    double_kernel[",
        "    second_kernel[(1,)](y)\n    second_kernel[(9,)](y)\n    double_kernel[",
    ),
)
NONE = changed(DOUBLE, ("    double_kernel[", "    return y.copy_(2 * x)\n    double_kernel["))
TUNED = changed(
    DOUBLE,
    (
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], key=['n'])\n@triton.jit",
    ),
    (", BLOCK=64)", ")"),
)
BROKEN = changed(DOUBLE, ("2.0 * x", "2.0 * undefined"))


def test_each_device_function_is_listed_once_in_the_order_of_first_launch(made: Workshop, tmp_path: Path) -> None:
    binaries = made.build(written(tmp_path, "double", TWO), "f32/block64", "sm_90", "ragged")
    assert isinstance(binaries, list)
    assert [binary.function for binary in binaries] == ["second_kernel", "double_kernel"]


def test_a_launch_that_starts_no_kernel_has_no_binary(made: Workshop, tmp_path: Path) -> None:
    assert made.build(written(tmp_path, "double", NONE), "f32/block64", "sm_90", "ragged") == []


def test_an_autotuned_kernel_is_told_to_declare_its_configurations(made: Workshop, tmp_path: Path) -> None:
    fault = made.build(written(tmp_path, "double", TUNED), "f32/block64", "sm_90", "ragged")
    assert isinstance(fault, Fault)
    assert fault.reason.endswith("declare its configurations as variants instead")


def test_code_that_does_not_compile_is_a_compile_error(made: Workshop, tmp_path: Path) -> None:
    fault = made.build(written(tmp_path, "double", BROKEN), "f32/block64", "sm_90", "ragged")
    assert isinstance(fault, Fault)
    assert diagnose(fault, "f32").cause == "compile-error"
    assert "undefined" in fault.reason


TALL = changed(DOUBLE, ("triton.cdiv(x.numel(), 64),)", "triton.cdiv(x.numel(), 64), 65536)"))


def test_a_grid_that_cuda_does_not_take_is_refused_for_its_targets_alone(made: Workshop, tmp_path: Path) -> None:
    path = written(tmp_path, "double", TALL)
    fault = made.build(path, "f32/block64", "sm_90", "ragged")
    assert isinstance(fault, Fault)
    assert diagnose(fault, "f32").cause == "launch-failed"
    assert re.search(r"kernels/double.py:\d+: GridTooLarge: expected .* along axis 1, .* found 65536;", fault.reason)
    assert len(made.build(path, "f32/block64", "gfx942", "ragged")) == 1  # type: ignore[arg-type]


BY_SIZE = changed(
    DOUBLE,
    ("BLOCK=64)\n", "BLOCK=64 if x.numel() > 64 else 48)\n"),
    ('Case("ragged", {"n": 100})', 'Case("ragged", {"n": 100}), Case("more", {"n": 4096})'),
)
"""In blocks of 64 but for the case `sliced`, whose block Triton does not take."""


def others(made: Workshop, kernel: Path, *cases: str) -> list[str]:
    request = {"kernel": str(kernel), "do": "others", "variant": "f32/block64", "target": "sm_90", "cases": cases}
    answer = made.child.ask(request, LIMIT_S)
    assert isinstance(answer, dict), answer
    return list(answer["cases"])


def translate(made: Workshop, kernel: Path, case: str) -> Answer | Fault:
    request = {"kernel": str(kernel), "do": "translate", "variant": "f32/block64", "target": "sm_90", "case": case}
    return made.child.ask(request, LIMIT_S)


ONLY_INTERPRETED = changed(BY_SIZE, ('{"x": "sliced", "y": "sliced"})', '{"x": "sliced"}, tiers=("interpreter",))'))
NARROW = changed(
    BY_SIZE,
    ("x, y = inputs", 'inputs["x"] = inputs["x"].half() if len(inputs["x"]) > 100 else inputs["x"]\n    x, y = inputs'),
)
MORE_WARPS = changed(BY_SIZE, ("else 48)\n", "else 64, num_warps=8 if x.numel() > 100 else 4)\n"))
OTHER_FUNCTION = changed(
    TWO,
    ('Case("sliced", ', 'Case("one", {"n": 7}), Case("sliced", '),
    ("second_kernel[(9,)](y)\n", "if x.numel() < 64:\n        return\n"),
)


@pytest.mark.parametrize(
    ("text", "cases", "found"),
    [
        (DOUBLE, ["ragged", "sliced"], []),
        (BY_SIZE, ["ragged", "more", "sliced"], ["sliced"]),
        (BY_SIZE, ["sliced", "more", "ragged"], ["more"]),
        (ONLY_INTERPRETED, ["ragged", "more", "sliced"], []),
        (NARROW, ["ragged", "more", "sliced"], ["more", "sliced"]),
        (MORE_WARPS, ["ragged", "more", "sliced"], ["more"]),
        (OTHER_FUNCTION, ["ragged", "one"], []),
        (OTHER_FUNCTION, ["one", "ragged", "sliced"], ["ragged"]),
    ],
    ids=["alike", "constant", "in the order asked", "on no device", "dtype", "option", "fewer", "another function"],
)
def test_cases_that_launch_other_code_are_found_without_compiling(
    made: Workshop, tmp_path: Path, text: str, cases: list[str], found: list[str]
) -> None:
    assert others(made, written(tmp_path, "double", text), *cases) == found


def test_the_front_end_alone_refuses_what_no_build_could_be_made_of(made: Workshop, tmp_path: Path) -> None:
    path = written(tmp_path, "double", BY_SIZE)
    assert translate(made, path, "ragged") == {}
    # The refusal is the same that a build meets, and what was translated can still be built.
    refused, unmade = translate(made, path, "sliced"), made.build(path, "f32/block64", "sm_90", "sliced")
    assert isinstance(refused, Fault)
    assert refused == unmade
    assert refused.reason.endswith("ValueError: arange's range must be a power of 2")
    assert diagnose(refused, "f32").cause == "compile-error"
    assert len(made.build(path, "f32/block64", "sm_90", "ragged")) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (("x, y = inputs", "assert len(inputs['x']) > 100\n    x, y = inputs"), "exception"),
        (("2.0 * x,", "tl.sum(tl.dot(x[:, None], x[None, :]), axis=0),"), "compile-error"),
    ],
    ids=["of the launch", "of the compiler"],
)
def test_of_assertions_only_the_compilers_are_compile_errors(
    made: Workshop, tmp_path: Path, change: tuple[str, str], cause: str
) -> None:
    fault = translate(made, written(tmp_path, "double", changed(DOUBLE, change)), "ragged")
    assert isinstance(fault, Fault)
    assert "AssertionError" in fault.reason
    assert diagnose(fault, "f32").cause == cause

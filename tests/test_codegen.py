"""Compiling a kernel's own launch with no GPU, for real: what the instructions show, and repeatable digests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from trials import DOUBLE, ROOT, Workshop, changed, workshop, written

from assay.child import Fault
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

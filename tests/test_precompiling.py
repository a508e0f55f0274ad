"""Compiling ahead: what a process compiled is found by the next one, and what cannot be compiled costs nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import DOUBLE, changed, workshop, written

from assay.artifact import sha256_bytes
from assay.child import Fault
from assay.precompiling import Lot, lots, precompile
from assay.record import Binary, Precompiled

VARIANT = "f32/block64"
CASES = ("ragged", "sliced")
PRODUCT = """
import torch
import triton
import triton.language as tl

from assay.kernel import Case, Dot, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def copy_kernel(a_ptr, c_ptr, n):
    i = tl.arange(0, 16)
    tl.store(c_ptr + i, tl.load(a_ptr + i, mask=i < n), mask=i < n)


def launch(inputs, outputs, variant):
    copy_kernel[(1,)](inputs["a"], outputs["c"], inputs["a"].numel())


KERNEL = Kernel(
    name="product",
    title="Stands for a product",
    inputs=lambda size, generator: {"a": torch.randn(size["n"], generator=generator)},
    outputs=lambda inputs: {"c": Output(tuple(inputs["a"].shape), inputs["a"].dtype)},
    oracle=lambda inputs: {"c": inputs["a"]},
    launch=launch,
    variants=[Variant("bf16", "a", dtype=torch.bfloat16)],
    cases=[Case("one", {"n": 32})],
    bound=ReductionBound(terms=lambda size: 1, table={"bf16": 1e-6}, eps={"bf16": 2.0**-23}),
    work=lambda size: Work(flops=1, bytes=1),
    dot=Dot("a", "a", "c", {"n": 33}),
)
"""


def ahead(
    kernel: Path, cache: Path, wanted: Mapping[str, Sequence[str]], target: str = "sm_90", workers: int = 1
) -> Precompiled:
    cache.mkdir(exist_ok=True)
    log = cache.with_name("logs") / "gpu.log"
    return precompile(
        kernel,
        log,
        str(cache),
        wanted,
        target,
        label="compiling",
        workers=workers,
        limit_s=120,
        loading_limit_s=120,
    )


def binaries(cache: Path) -> dict[str, str]:
    return {str(path.relative_to(cache)): sha256_bytes(path.read_bytes()) for path in cache.glob("*/*.cubin")}


def built(found: list[Binary] | Fault) -> list[Binary]:
    assert isinstance(found, list), found
    return found


def logged(cache: Path) -> str:
    return (cache.with_name("logs") / "gpu-compile-0.log").read_text("utf-8")


@given(st.dictionaries(st.text(min_size=1), st.lists(st.text(), max_size=4), max_size=6))
def test_every_variant_with_cases_is_compiled_once_and_the_longest_first(wanted: dict[str, list[str]]) -> None:
    found = lots(wanted)
    assert {lot.variant: list(lot.cases) for lot in found} == {name: cases for name, cases in wanted.items() if cases}
    assert len(found) == len({lot.variant for lot in found})
    assert [len(lot.cases) for lot in found] == sorted((len(lot.cases) for lot in found), reverse=True)


def test_among_equals_what_is_declared_last_is_compiled_first() -> None:
    assert lots({"simple": ["a"], "elaborate": ["b"]}) == [Lot("elaborate", ("b",)), Lot("simple", ("a",))]


def test_what_was_compiled_ahead_is_found_by_another_process(tmp_path: Path) -> None:
    kernel, cache = written(tmp_path, "double", DOUBLE), tmp_path / "cache"
    done = ahead(kernel, cache, {VARIANT: CASES})
    assert (done.launches, done.workers) == (2, 1)
    assert done.duration_ns > 0
    made = binaries(cache)
    # Aligned and sliced pointers are two binaries.
    assert len(made) == 2
    # A real launch on tensors with values, guarded as on the device, needs nothing that is not there.
    with (other := workshop(cache)).child:
        digests = [
            binary.binary_sha256 for case in CASES for binary in built(other.build(kernel, VARIANT, "sm_90", case))
        ]
        found = binaries(cache)
        # What was not compiled ahead is.
        built(other.build(kernel, VARIANT, "sm_80", "ragged"))
    assert sorted(digests) == sorted(made.values())
    assert found == made
    assert len(binaries(cache)) == len(made) + 1


def test_a_target_without_figures_of_its_own_is_compiled_for_all_the_same(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert ahead(written(tmp_path, "double", DOUBLE), cache, {VARIANT: CASES}, "sm_87").launches == 2
    assert len(binaries(cache)) == 2


def test_the_rounding_canary_is_compiled_too_on_inputs_as_they_are_made(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert ahead(written(tmp_path, "product", PRODUCT), cache, {"bf16/a": ["one"]}).launches == 2
    texts = sorted(path.read_text("utf-8") for path in cache.glob("*/*.ttir"))
    assert len(texts) == 2
    # The case is cast to the variant's dtype, and the canary is not.
    assert ["%a_ptr: !tt.ptr<bf16>" in text for text in texts].count(True) == 1
    assert ["%a_ptr: !tt.ptr<f32>" in text for text in texts].count(True) == 1


def test_one_launch_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    fails = changed(DOUBLE, ("    double_kernel[", "    assert x.numel() != 100, 'not this one'\n    double_kernel["))
    cache = tmp_path / "cache"
    assert ahead(written(tmp_path, "double", fails), cache, {VARIANT: CASES}).launches == 1
    assert len(binaries(cache)) == 1
    assert "not this one" in logged(cache)


def test_one_launch_that_does_not_compile_takes_no_other_with_it(tmp_path: Path) -> None:
    start = DOUBLE.index("BLOCK=64)")
    fails = f"{DOUBLE[:start]}BLOCK=63 if x.numel() == 100 else 64){DOUBLE[start + len('BLOCK=64)') :]}"
    cache = tmp_path / "cache"
    assert ahead(written(tmp_path, "double", fails), cache, {VARIANT: CASES}).launches == 1
    assert len(binaries(cache)) == 1
    assert "power of 2" in logged(cache)


def test_a_process_that_ends_takes_only_its_lot_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = changed(
        DOUBLE,
        ("    double_kernel[", "    if variant.configuration == 'ends':\n        os._exit(3)\n    double_kernel["),
        ('variants=[Variant("f32", "block64")]', 'variants=[Variant("f32", "block64"), Variant("f32", "ends")]'),
    )
    cache = tmp_path / "cache"
    done = ahead(written(tmp_path, "double", ends), cache, {VARIANT: CASES, "f32/ends": CASES})
    assert done.launches == 2
    assert "2 launches compiled by 1 processes in" in capsys.readouterr().err


def test_a_file_that_cannot_be_loaded_compiles_nothing(tmp_path: Path) -> None:
    assert ahead(written(tmp_path, "double", "1 / 0"), tmp_path / "cache", {VARIANT: CASES}).launches == 0


def test_a_case_that_no_device_runs_is_left_out(tmp_path: Path) -> None:
    left = changed(DOUBLE, ('Case("ragged", {"n": 100})', 'Case("ragged", {"n": 100}, tiers=("interpreter",))'))
    assert ahead(written(tmp_path, "double", left), tmp_path / "cache", {VARIANT: CASES}).launches == 1


def test_compiling_takes_up_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    looks = changed(
        DOUBLE, ("    double_kernel[", "    assert os.environ['CUDA_VISIBLE_DEVICES'] == ''\n    double_kernel[")
    )
    assert ahead(written(tmp_path, "double", looks), tmp_path / "cache", {VARIANT: CASES}).launches == 2


def test_a_size_of_gigabytes_takes_no_room_for_its_launch(tmp_path: Path) -> None:
    # 2^36 elements: nothing of that size can be made, and nothing is.
    huge = changed(
        DOUBLE,
        ('torch.randn(size["n"], generator=generator)', 'torch.zeros(1).expand(size["n"])'),
        ('Case("ragged", {"n": 100})', 'Case("ragged", {"n": 2**36})'),
    )
    assert ahead(written(tmp_path, "double", huge), tmp_path / "cache", {VARIANT: ["ragged"]}).launches == 1


def test_nothing_to_compile_starts_no_process(tmp_path: Path) -> None:
    done = ahead(written(tmp_path, "double", "1 / 0"), tmp_path / "cache", {VARIANT: []}, workers=0)
    assert (done.launches, done.workers) == (0, 0)
    assert not (tmp_path / "logs").exists()

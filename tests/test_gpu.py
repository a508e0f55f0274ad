"""The gpu stage: what it says where nothing can run, which binaries it compares, and a real run where a device is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH
from records import MATMUL, NO_DRIVER, ONCE, PASSED, ROOT, replaced
from trials import DOUBLE, written
from worlds import card, environments, gates

from assay.admission import availability, chosen_device
from assay.artifact import open_session, read
from assay.config import GpuSettings, Settings
from assay.correctness import Tried
from assay.gpu import compile_ahead, executions, main
from assay.record import Check, DeclaredVariant, Environment, Gate, StageName
from assay.stage import Job

VARIANT = MATMUL.variants[0].id


def tried(case: str, *cubins: str) -> Tried:
    check = Check(variant=VARIANT, case=case, seeds=[1], verdict=PASSED, comparisons=[], repeat=ONCE)
    return Tried(check=check, binaries=list(cubins))


def test_each_trial_that_launched_something_is_compared_with_what_was_compiled_for_it() -> None:
    one, two = "1" * 64, "2" * 64
    expected = {(VARIANT, "first"): [one], (VARIANT, "second"): [one, two]}
    found = executions([tried("first", one), tried("second", two, one), tried("third", one), tried("none")], expected)
    assert [(e.case, e.binary_sha256, e.predicted) for e in found] == [
        ("first", [one], "identical"),
        ("second", [two, one], "different"),
        ("third", [one], "not-compiled-ahead"),
    ]


@given(st.lists(st.builds(card, st.sampled_from(["sm_80", "sm_90"]), st.booleans()), max_size=4))
def test_the_device_is_the_first_visible_one(cards: list[Any]) -> None:
    environment = replaced(records.environment(records.device()), devices=cards)
    chosen = chosen_device(environment)
    visible = [device for device in cards if device.visible]
    assert chosen is (visible[0] if visible else None)


@given(environments(), gates())
def test_kernels_run_only_behind_an_open_gate_on_a_captured_device(environment: Environment, gate: Gate) -> None:
    device = chosen_device(environment)
    verdict = availability(gate, device)
    assert (verdict.outcome == "passed") == (gate.protects.outcome == "passed" and device is not None)
    if gate.protects.outcome != "passed":
        assert verdict == gate.protects


def test_a_gate_that_saw_what_was_not_captured_disagrees() -> None:
    verdict = availability(records.gate(records.device()), None)
    assert (verdict.outcome, verdict.cause) == ("untested", "gate-disagrees")
    assert verdict.reason == "the gate found a device that the captured environment does not have; capture it again"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out like the project, with one small kernel."""
    (tmp_path / "assay").symlink_to(ROOT / "assay")
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, "double", DOUBLE).relative_to(tmp_path)


def test_without_a_driver_the_record_says_so_and_the_kernel_is_not_even_loaded(project: Path) -> None:
    project.write_text("raise SystemExit('loaded')")
    earlier: dict[StageName, tuple[str | None, Any]] = {
        "environment": (None, records.environment(None)),
        "gate": (None, records.gate(None)),
        "compile": ("double", records.compilation(MATMUL, ("sm_90",))),
    }
    for stage, (kernel, result) in earlier.items():
        open_session(stage, kernel, [], []).write(Path("results", kernel or "", f"{stage}.json"), result)
    assert main(["--kernel", str(project), "--settings", '{"seeds":[1]}']) == 0
    artifact = read(Path("results/double/gpu.json"), "gpu")
    assert artifact.result == replaced(records.gpu(MATMUL, None), availability=NO_DRIVER)
    assert {"kernels/double.py", "results/gate.json", "results/environment.json"} <= set(artifact.materials)
    assert "results/double/compile.json" in artifact.materials


def test_all_that_the_device_is_asked_for_is_compiled_before_it_is_asked(project: Path, tmp_path: Path) -> None:
    job = Job("gpu", project, Settings(gpu=GpuSettings(workers=1)), {}, Path("results/double/gpu.json"), [])
    variant = DeclaredVariant(id="f32/block64", precision="f32", configuration="block64", minimum_capability=None)
    declared = replaced(MATMUL.declaration(), variants=[variant], cases=["ragged", "sliced"])
    cache = tmp_path / "cache"
    cache.mkdir()
    compile_ahead(job, declared, records.device(), str(cache))
    assert len(list(cache.glob("*/double_kernel.cubin"))) == 2
    assert Path("results/double/logs/gpu-compile-0.log").exists()
    newer = replaced(declared, variants=[replaced(variant, minimum_capability="10.0")])
    compile_ahead(job, newer, records.device(), str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def stage(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_on_a_device_the_kernel_is_right_and_runs_the_binary_that_was_compiled_ahead(project: Path) -> None:
    stage("environment")
    device = chosen_device(read(Path("results/environment.json"), "environment").result)
    assert device is not None
    stage("gate", "--settings", "{}")
    stage("compile", "--kernel", str(project), "--settings", json.dumps({"targets": [device.target]}))
    stage("gpu", "--kernel", str(project), "--settings", '{"seeds":[1,2]}')
    result = read(Path("results/double/gpu.json"), "gpu").result
    assert result.availability.outcome == "passed", result.availability.reason
    assert result.device == device
    assert {check.verdict.outcome for check in result.checks} == {"passed"}
    # The first case is the one that is compiled ahead; the sliced one has other pointers.
    assert [(e.case, e.predicted) for e in result.executions] == [
        ("ragged", "identical"),
        ("sliced", "not-compiled-ahead"),
    ]

"""Reproducing: a record is like itself, every change is noticed, and nothing of a bundle runs unless asked to."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import records
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packed import archive_of, payload_of
from project import ROOT, Project
from records import MATMUL, Tree, device, environment, replaced

from assay import reproduce as command
from assay.__main__ import main
from assay.artifact import canonical, decode, read, seal, write_bytes
from assay.machines import blame, differences, missing
from assay.opening import Opened, UnsoundError, open_bytes
from assay.progress import Progress
from assay.record import Compile, Gpu, Interpreter, StageName, Timing, Unavailable, Verdict
from assay.reproduce import Reproduction, edited, rerun, told, told_plan
from assay.reproduction import About, Reproduced, compare
from assay.steps import bar, plan
from assay.workshop import workshop

HERE = environment(device())
RESULTS: dict[StageName, type[Any]] = {"interpreter": Interpreter, "compile": Compile, "gpu": Gpu, "timing": Timing}
FAILED = Verdict(outcome="failed", cause="wrong-value", reason="3 elements are past the bound")
OLDER = "Triton 3.7.1 here, 3.6.0 there"


def likenesses(rows: list[Reproduced]) -> set[str]:
    return {row.likeness for row in rows}


def compared(stage: StageName, there: Any, here: Any, *blamed: str) -> list[Reproduced]:
    return compare(About(stage, "matmul", blamed), there, here, (HERE, HERE))


# Comparing


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(sorted(RESULTS)))
def test_a_record_is_like_itself(data: st.DataObject, stage: StageName) -> None:
    result = data.draw(strategies.of(RESULTS[stage]))
    assert likenesses(compared(stage, result, result)) <= {"identical", "within the bound"}
    assert likenesses(compared(stage, result, result)) == {"identical"} or stage == "timing"


@given(st.integers(0, 10**9), st.booleans())
def test_a_binary_that_differs_is_named(place: int, blamed: bool) -> None:
    there = records.compilation(MATMUL, records.TARGETS)
    at = place % len(there.builds)
    build = there.builds[at]
    other = replaced(build, binaries=[replaced(build.binaries[0], cubin_sha256="0" * 64)])
    here = replaced(there, builds=[*there.builds[:at], other, *there.builds[at + 1 :]])
    rows = compared("compile", there, here, *([OLDER] if blamed else []))
    assert [row.target for row in rows] == list(records.TARGETS)
    for row in rows:
        expected = "not reproducible here" if blamed else "different"
        assert row.likeness == (expected if row.target == build.target else "identical")
    (row,) = [row for row in rows if row.target == build.target]
    (words,) = row.differing
    assert words.startswith(f"{build.variant}: binary {build.binaries[0].cubin_sha256[:12]} there, 000000000000 here")
    assert (OLDER in row.what) == blamed


@given(st.sampled_from(["interpreter", "gpu"]), st.integers(0, 10**9))
def test_a_check_that_ends_otherwise_is_different_whatever_may_explain_it(stage: StageName, place: int) -> None:
    there: Any = records.interpreter(MATMUL) if stage == "interpreter" else records.gpu(MATMUL, device())
    at = place % len(there.checks)
    checks = [replaced(c, verdict=FAILED) if i == at else c for i, c in enumerate(there.checks)]
    (row,) = compared(stage, there, replaced(there, checks=checks), OLDER)
    assert row.likeness == "different"
    assert row.differing == [
        f"{checks[at].variant} {checks[at].case}: passed there, failed (wrong-value) here: {FAILED.reason}"
    ]
    assert f"it may be because of {OLDER}" in row.what


def test_other_errors_within_the_bound_are_within_the_bound() -> None:
    there = records.interpreter(MATMUL)
    checks = [replaced(c, comparisons=[records.comparison(3e-6)]) for c in there.checks]
    (row,) = compared("interpreter", there, replaced(there, checks=checks))
    assert row.likeness == "within the bound"
    assert "largest normalised error 3e-6 here, 5.5e-8 there" in row.what


def test_another_bound_is_not_the_same_bound() -> None:
    there = records.interpreter(MATMUL)
    checks = [replaced(c, comparisons=[records.comparison(5e-8, "|got - want| <= 1e9")]) for c in there.checks]
    (row,) = compared("interpreter", there, replaced(there, checks=checks), OLDER)
    assert row.likeness == "different"
    assert "other outputs, shapes or bounds" in row.differing[0]


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        ("interpreter", "checks"),
        ("interpreter", "contrasts"),
        ("compile", "builds"),
        ("compile", "findings"),
        ("gpu", "checks"),
        ("gpu", "executions"),
    ],
)
@pytest.mark.parametrize("lacking", ["there", "here"])
def test_what_only_one_of_them_has_is_different(stage: StageName, field: str, lacking: str) -> None:
    whole: Any = {
        "interpreter": records.interpreter(MATMUL),
        "compile": records.compilation(MATMUL, ("sm_90",)),
        "gpu": records.gpu(MATMUL, device()),
    }[stage]
    part = replaced(whole, **{field: getattr(whole, field)[1:]})
    (row,) = compared(stage, *((part, whole) if lacking == "there" else (whole, part)), OLDER)
    assert row.likeness == "different"
    assert row.differing[0].endswith(f": only {'here' if lacking == 'there' else 'there'}")


def test_an_executed_binary_that_differs_is_named() -> None:
    there = records.gpu(MATMUL, device())
    executions = [replaced(there.executions[0], cubin_sha256=["0" * 64]), *there.executions[1:]]
    (row,) = compared("gpu", there, replaced(there, executions=executions))
    assert row.likeness == "different"
    assert "000000000000 here" in row.differing[0]


def test_the_devices_own_description_is_not_compared() -> None:
    there = records.gpu(MATMUL, device())
    here = replaced(there, device=device("NVIDIA H100"), availability=replaced(there.availability, reason="on H100"))
    assert likenesses(compared("gpu", there, here)) == {"identical"}


def test_times_are_within_the_bound_while_every_entrant_ends_as_it_did() -> None:
    there = records.timing(MATMUL, device())
    rows = [replaced(row, median_ns=float(str(row.median_ns)) * 1.5) for row in there.sweeps[0].rows]
    here = replaced(there, sweeps=[replaced(there.sweeps[0], rows=rows)])
    (row,) = compared("timing", there, here)
    assert row.likeness == "within the bound"
    assert "medians 1.5 to 1.5 times those there" in row.what
    slow = replaced(there.sweeps[0].speedups[0], verdict=replaced(FAILED, cause="speed"))
    (row,) = compared("timing", there, replaced(there, sweeps=[replaced(there.sweeps[0], speedups=[slow])]), OLDER)
    assert row.likeness == "different"
    assert row.differing[0].startswith("speed-up of tf32 over ieee 2048x2048x2048: passed there, failed (speed) here")


def test_a_gate_on_another_device_is_not_reproducible_here() -> None:
    pair = records.gate(device()), records.gate(None)
    (row,) = compare(About("gate", None), *pair, (environment(device()), environment(None)))
    assert row.likeness == "not reproducible here"
    assert row.what == (
        "no driver here, NVIDIA H200 (9.0) there; exit 0 there, exit 1 here, as this machine calls for"
    )


def test_a_gate_that_answers_otherwise_on_the_same_device_is_different() -> None:
    pair = records.gate(device()), records.gate(None)
    (row,) = compare(About("gate", None), *pair, (HERE, HERE))
    assert row.likeness == "different"
    wrong = replaced(records.gate(None), verdict=replaced(FAILED, cause="gate-disagrees"))
    (row,) = compare(About("gate", None), pair[0], wrong, (HERE, environment(None)))
    assert row.likeness == "different"


# What can explain a difference


def with_versions(**versions: str) -> Any:
    return replaced(HERE, distributions={**HERE.distributions, "numpy": "2.4.0", **versions})


@pytest.mark.parametrize(
    ("name", "words", "stages"),
    [
        ("triton", "Triton 3.7.1 here, 3.6.0 there", {"interpreter", "compile", "gpu", "timing"}),
        ("torch", "torch 3.7.1 here, 2.11.0 there", {"interpreter", "gpu", "timing"}),
        ("numpy", "NumPy 3.7.1 here, 2.4.0 there", {"interpreter"}),
    ],
)
def test_a_version_explains_what_it_decides_and_nothing_else(name: str, words: str, stages: set[str]) -> None:
    found = differences(with_versions(), with_versions(**{name: "3.7.1"}))
    assert found == {name: [words]}
    everything: tuple[StageName, ...] = ("environment", "gate", "interpreter", "compile", "gpu", "timing")
    assert {stage for stage in everything if words in blame(stage, found)} == stages


def test_machines_that_are_alike_explain_nothing() -> None:
    elsewhere = replaced(HERE, variables={"TRITON_CACHE_DIR": "/somewhere", "CUDA_VISIBLE_DEVICES": "1"})
    assert differences(HERE, elsewhere) == {}
    changed = replaced(HERE, variables={"TRITON_F32_DEFAULT": "ieee"})
    assert differences(HERE, changed) == {"variable": ["TRITON_F32_DEFAULT ieee here, unset there"]}


def test_a_distribution_that_is_not_here_is_named() -> None:
    bare = replaced(HERE, distributions={"torch": "2.11.0"})
    assert missing("compile", bare, HERE) == "triton is not installed here (3.6.0 there)"
    assert missing("gate", bare, HERE) is None
    assert missing("compile", HERE, HERE) is None


# Bundles whose package is a stand-in that needs no torch

STAND_IN = """
import os, pathlib, sys, time
out = sys.argv[sys.argv.index("--out") + 1]
{before}
path = pathlib.Path(out)
path.parent.mkdir(parents=True, exist_ok=True)
path.write_bytes(pathlib.Path("prepared", out).read_bytes())
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Opened]:
    """Return a maker of bundles whose package copies prepared records; `before` is code that it runs first."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)

    def make(before: str = "", found: Any = None, there: Mapping[str, bytes] = {}, prepared: Any = None) -> Opened:
        tree = Tree(tmp_path / f"tree{len(list(tmp_path.iterdir()))}", (MATMUL,), prepared or found)
        tree.folder.mkdir()
        tree.lay_out()
        made = payload_of(tree.folder)
        ready = {f"prepared/{path}": data for path, data in made.items() if path.startswith("results/")}
        if prepared is not None:
            made = {**made, **other_payload(tmp_path, found)}
        package = {"assay/__init__.py": b"", "assay/__main__.py": STAND_IN.format(before=before).encode()}
        name, data = archive_of({**made, **ready, **package, **there})
        return open_bytes(data, name)

    return make


def other_payload(folder: Path, found: Any) -> dict[str, bytes]:
    tree = Tree(folder / "other", (MATMUL,), found)
    tree.folder.mkdir()
    return payload_of(tree.lay_out().folder)


def quiet(steps: list[Any]) -> Progress:
    return Progress("reproduce", len(steps))


def run(opened: Opened) -> list[Reproduced]:
    steps = plan(opened)
    return rerun(opened, steps, quiet(steps))[1]


def left(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "temporary").iterdir()]

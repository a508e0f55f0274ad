"""The teeth stage, run for real on a small kernel whose faults meet every fate; and on a device where there is one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import records
from project import PYTHON_PATH
from records import MATMUL, ROOT, environment, gate, replaced
from trials import DOUBLE, written

from assay import compile as compile_stage
from assay import exposing
from assay import interpreter as interpreter_stage
from assay import teeth as teeth_stage
from assay.admission import chosen_device, usable, without_device
from assay.artifact import open_session, read
from assay.catching import wrong_words
from assay.errors import UsageError
from assay.exposing import Faulty
from assay.journal import open_journal
from assay.mutation import mutants
from assay.original import Original, parts_of
from assay.pool import worker_count
from assay.record import Artifact, Device, Mutant, Teeth
from assay.stage import job_of, parser

SUMS = '''
"""Adds up a vector, block by block."""

import os

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Equivalent, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def sums_kernel(x_ptr, y_ptr, n, FAR: tl.constexpr):
    i = tl.arange(0, 64).to(tl.int64)
    total = 0.0 * tl.load(x_ptr)
    start = 0
    while start < n:
        inside = start + i < n
        at = tl.where(inside, start + i, FAR)
        x = tl.load(x_ptr + at, mask=inside, other=0.0)
        unused = x * 3.0
        total += tl.sum(x, axis=0)
        start += 64
    tl.store(y_ptr, total, mask=n > 0)


def launch(inputs, outputs, variant):
    x = inputs["x"]
    if triton.cdiv(x.numel(), 64) * 64 < x.numel():
        os.abort()
    sums_kernel[(1,)](x, outputs["y"], x.numel(), 1 << 40)


KERNEL = Kernel(
    name="sums",
    title="Sums",
    inputs=lambda size, generator: {"x": torch.rand(size["n"], generator=generator)},
    outputs=lambda inputs: {"y": Output((1,))},
    oracle=lambda inputs: {"y": inputs["x"].sum(0, keepdim=True)},
    launch=launch,
    variants=[Variant("f32", "only")],
    cases=[Case("aligned", {"n": 128}), Case("ragged", {"n": 100})],
    equivalents=[
        Equivalent(operators=["and-to-or"], source="inside = start + i < n", why="there is none"),
        Equivalent(operators=["drop-carry"], source="total += tl.sum(x, axis=0)", why="the author is wrong"),
        Equivalent(
            operators=["shift-comparison"], source="while start < n:", why="one more step, of lanes that are all masked"
        ),
    ],
    bound=ReductionBound(terms=lambda size: size["n"], table={"f32": 1e-5}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=4 * size["n"]),
)
'''

LINES = SUMS.splitlines()


def settings(**more: Any) -> str:
    limits = {"compile": {"workers": 1}, "interpreter": {"workers": 1}, "teeth": {"workers": 2, "limit_s": 10.0}}
    return json.dumps({"targets": ["sm_80", "sm_90"], "seeds": [1], **limits, **more})


def run_stages(kernel: Path) -> Artifact[Any]:
    """Run the stage, and those before it, in a folder laid out like the project; no device is there."""
    name, here = kernel.stem, environment(None)
    open_session("environment", None, [], []).write(Path("results/environment.json"), here)
    open_session("gate", None, [], []).write(Path("results/gate.json"), gate(None))
    for stage in (interpreter_stage, compile_stage):
        assert stage.main(["--kernel", str(kernel), "--settings", settings()]) == 0
    none = without_device(gate(None).protects)
    open_session("gpu", name, [kernel], []).write(Path(f"results/{name}/gpu.json"), none)
    assert teeth_stage.main([name, "--settings", settings()]) == 0
    return read(Path(f"results/{name}/teeth.json"), "teeth")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a project, which is the working folder meanwhile."""
    made = tmp_path_factory.mktemp("teeth")
    (made / "assay").symlink_to(ROOT / "assay")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        yield made


@pytest.fixture(scope="module")
def artifact(folder: Path) -> Artifact[Any]:
    """What became of the faults in the small kernel."""
    return run_stages(written(Path(), "sums", SUMS))


def fate_of(found: Teeth, operator: str, text: str) -> Mutant:
    """Return what became of the change that an operator made in the line that holds this text."""
    matching = [m for m in found.mutants if m.operator == operator and text in LINES[m.line - 1]]
    assert len(matching) == 1, f"{operator} in {text!r}: {len(matching)} changes"
    return matching[0]


CAUGHT = [
    ("drop-store", "tl.store", "not-written"),
    ("neighbour-row", "tl.store", "out-of-bounds-write"),
    ("drop-carry", "total +=", "wrong-value"),
    ("drop-other", "x = tl.load", "undefined-read"),
    ("ceil-to-floor", "triton.cdiv", "crash"),
    ("skip-advance", "start +=", "timeout"),
]


@pytest.mark.parametrize(("operator", "text", "cause"), CAUGHT)
def test_the_interpreter_catches_a_fault_and_says_how(
    artifact: Artifact[Any], operator: str, text: str, cause: str
) -> None:
    mutant = fate_of(artifact.result, operator, text)
    assert mutant.outcome == "caught"
    assert [(e.tier, e.verdict.outcome, e.verdict.cause) for e in mutant.exposures] == [
        ("interpreter", "failed", cause)
    ]
    assert mutant.exposures[0].place in ("aligned f32/only", "ragged f32/only")


def test_what_changes_the_code_and_no_result_is_accepted_on_the_authors_word(artifact: Artifact[Any]) -> None:
    mutant = fate_of(artifact.result, "shift-comparison", "while start < n")
    assert (mutant.outcome, mutant.differs) == ("accepted", "f32/only sm_80 aligned")
    assert [(e.tier, e.place, e.verdict.outcome, e.passed) for e in mutant.exposures] == [
        ("interpreter", "*", "passed", 2),
        ("compile", "*", "passed", 1),
    ]
    assert mutant.baseline.outcome == "passed"


def test_a_change_that_no_word_is_about_survives(artifact: Artifact[Any]) -> None:
    mutant = fate_of(artifact.result, "drop-mask", "tl.store")
    assert (mutant.outcome, mutant.differs) == ("survived", "f32/only sm_80 aligned")


def test_a_word_that_is_wrong_changes_nothing_and_is_named(artifact: Artifact[Any]) -> None:
    found: Teeth = artifact.result
    nothing, wrong, right = found.acceptances
    assert nothing.mutants == []
    assert [found.mutants[at].outcome for at in wrong.mutants] == ["caught"]
    assert [found.mutants[at].outcome for at in right.mutants] == ["accepted"]
    assert wrong_words(found) == [
        "the kernel file accepts and-to-or in 'inside = start + i < n', where no such fault is planted",
        "the kernel file accepts drop-carry in 'total += tl.sum(x, axis=0)' as no fault, and it is caught",
    ]


def test_what_compiles_to_the_same_code_everywhere_is_equivalent(artifact: Artifact[Any]) -> None:
    mutant = fate_of(artifact.result, "perturb-constant", "unused")
    assert (mutant.outcome, mutant.differs) == ("equivalent", None)
    assert [(e.tier, e.verdict.outcome) for e in mutant.exposures] == [("interpreter", "passed"), ("compile", "passed")]


def test_what_can_only_raise_is_invalid_and_names_the_file_as_its_project_does(artifact: Artifact[Any]) -> None:
    # An address of 2^40 is too large for 32 bits, and Triton says so.
    mutant = fate_of(artifact.result, "int64-to-int32", "tl.arange")
    assert mutant.outcome == "invalid"
    assert [(e.tier, e.verdict.outcome, e.passed) for e in mutant.exposures] == [
        ("interpreter", "failed", 0),
        ("compile", "failed", 0),
    ]
    for exposure in mutant.exposures:
        assert exposure.verdict.reason.startswith("kernels/sums.py:")


def test_the_reference_scripts_way_misses_what_its_one_case_does_not_reach(artifact: Artifact[Any]) -> None:
    assert fate_of(artifact.result, "drop-other", "x = tl.load").baseline.outcome == "passed"
    assert fate_of(artifact.result, "drop-carry", "total +=").baseline.cause == "wrong-value"
    assert fate_of(artifact.result, "skip-advance", "start +=").baseline.cause == "timeout"


def test_every_change_is_recorded_once_in_order_with_the_tiers_that_looked(artifact: Artifact[Any]) -> None:
    found: Teeth = artifact.result
    assert [(m.operator, m.line, m.source) for m in found.mutants] == [
        (m.operator, m.line, m.source) for m in mutants(SUMS)
    ]
    assert (found.tiers, found.device, found.loading.outcome) == (["interpreter", "compile"], None, "passed")
    assert {f"results/{name}.json" for name in ("environment", "gate", "sums/interpreter", "sums/compile")} <= set(
        artifact.materials
    )
    assert {"kernels/sums.py", "assay/faulty.py", "assay/mutation.py", "assay/trial.py"} <= set(artifact.materials)
    assert artifact.command[3:6] == ["teeth", "--kernel", "kernels/sums.py"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_ended_goes_on_where_it_was(
    artifact: Artifact[Any], folder: Path, capfd: pytest.CaptureFixture[str], how: signal.Signals
) -> None:
    journal, arguments = folder / "results/sums/teeth.journal", ["sums", "--settings", settings()]
    command = [sys.executable, "-m", "assay", "teeth", *arguments]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": PYTHON_PATH}, start_new_session=True) as process:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        os.killpg(process.pid, how)
    assert process.returncode == (-how if how == signal.SIGKILL else 130)
    assert "Traceback" not in capfd.readouterr().err
    phases = [json.loads(line)["phase"] for line in journal.read_bytes().split(b"\n")[:-1]]
    capfd.readouterr()
    assert teeth_stage.main(arguments) == 0
    count = len(artifact.result.mutants) - phases.count("interpreter")
    assert f"teeth sums, interpreter: {count} done" in capfd.readouterr().err
    assert read(Path("results/sums/teeth.json"), "teeth").result == artifact.result
    assert not journal.exists()


def test_no_fault_is_planted_in_a_file_that_does_not_load(folder: Path) -> None:
    found = run_stages(written(Path(), "broken", "import nothing_of_this_name")).result
    assert (found.loading.outcome, found.loading.cause) == ("failed", "import-error")
    assert (found.tiers, found.mutants) == ([], [])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["matmul"], ["--kernel", "kernels/matmul.py"]),
        (["kernels/matmul.py", "--out", "x"], ["--kernel", "kernels/matmul.py", "--out", "x"]),
        (["--kernel", "kernels/matmul.py"], ["--kernel", "kernels/matmul.py"]),
        ([], []),
    ],
)
def test_a_kernel_may_be_named_alone(given: list[str], meant: list[str]) -> None:
    assert teeth_stage.named(given) == meant


def test_without_earlier_records_it_says_which_command_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "sums", SUMS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"environment\.json: .*; snakemake --cores 1 results/sums/teeth\.json makes"):
        teeth_stage.main(["sums", "--settings", settings()])


def on_stand_in(folder: Path, journal: Path) -> tuple[list[Faulty], str]:
    """Put every fault before the compiler and a device, for which the interpreter stands in; return them."""
    job = job_of(
        "teeth", parser("teeth", per_kernel=True).parse_args(teeth_stage.named(["sums", "--settings", settings()]))
    )
    interpreter, compiled = job.read("interpreter").result, job.read("compile").result
    gpu = replaced(records.gpu(MATMUL, records.device()), checks=interpreter.checks, canaries=[], contrasts=[])
    original = Original(interpreter, compiled, gpu)
    faults = teeth_stage.write_all(job, original, folder)
    field = teeth_stage.Field(job, original, folder, [], open_journal(journal, "a run"))
    assert field.environment("cuda", 10_000)["OMP_NUM_THREADS"] == "1"
    assert field.environment("cuda", 1)["OMP_NUM_THREADS"] == str(worker_count(0))
    teeth_stage.compile_open(field, faults)
    teeth_stage.try_on_device(field, faults)
    teeth_stage.compare_code(field, faults)
    return faults, journal.read_text()


def test_a_device_makes_the_rest_of_the_trials_of_what_the_first_let_pass(
    artifact: Artifact[Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teeth_stage, "WORKER", "stand_in")
    monkeypatch.setattr(exposing, "parts_of", partial(parts_of, least=1))
    monkeypatch.setenv("PYTHONPATH", f"{PYTHON_PATH}{os.pathsep}{ROOT / 'tests'}")
    faults, found = on_stand_in(tmp_path / "first", tmp_path / "journal")
    fates = [mutant.outcome.replace("accepted", "survived") for mutant in artifact.result.mutants]
    assert [faulty.fate for faulty in faults] == fates
    # What compiles to the kernel's own code is proven to be no fault by that: nothing is kept of the device's look.
    for faulty in faults:
        tiers = ["compile"] if faulty.fate == "equivalent" else ["compile", "gpu"]
        assert [exposure.tier for exposure in faulty.exposures] == tiers
    phases = [json.loads(line)["phase"] for line in found.splitlines()]
    assert phases.count("gpu") == len(faults)
    late = [faulty for faulty in faults if faulty.exposures[-1].place == "ragged f32/only"]
    assert 0 < len(late) <= phases.count("gpu 1") < len(faults)
    again, same = on_stand_in(tmp_path / "second", tmp_path / "journal")
    assert ([faulty.exposures for faulty in again], same) == ([faulty.exposures for faulty in faults], found)


# On a device


def stage(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr


def all_tiers(folder: Path, name: str, text: str) -> tuple[list[Device], Teeth]:
    """Run every stage that teeth rests on, and teeth, in an empty folder that is the working folder; return the devices
    of this machine that it may have chosen.
    """
    (folder / "assay").symlink_to(ROOT / "assay")
    kernel = str(written(folder, name, text).relative_to(folder))
    stage("environment")
    environment = read(Path("results/environment.json"), "environment").result
    device = chosen_device(environment)
    assert device is not None
    stage("gate", "--settings", "{}")
    stage("interpreter", "--kernel", kernel, "--settings", '{"seeds":[1]}')
    stage("compile", "--kernel", kernel, "--settings", json.dumps({"targets": [device.target]}))
    stage("gpu", "--kernel", kernel, "--settings", '{"seeds":[1]}')
    stage("teeth", name, "--settings", '{"seeds":[1]}')
    return usable(environment), read(Path(f"results/{name}/teeth.json"), "teeth").result


@pytest.mark.gpu
def test_a_device_looks_at_what_the_other_tiers_let_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    devices, found = all_tiers(tmp_path, "double", DOUBLE)
    assert found.tiers == ["interpreter", "compile", "gpu"]
    assert found.device in devices
    assert {mutant.baseline.outcome for mutant in found.mutants} <= {"passed", "failed"}
    assert {mutant.outcome for mutant in found.mutants if mutant.operator == "drop-store"} == {"caught"}
    looked = [mutant for mutant in found.mutants if any(e.tier == "gpu" for e in mutant.exposures)]
    assert all(mutant.outcome in ("caught", "survived") for mutant in looked)


@pytest.mark.gpu
def test_additions_without_atomics_are_caught_as_a_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "tests/sound_kernels/matmul_split_k.py").read_text("utf-8")
    _, found = all_tiers(tmp_path, "matmul_split_k", text)
    (race,) = [mutant for mutant in found.mutants if mutant.operator == "plain-atomic"]
    assert race.outcome == "caught"
    assert [(e.tier, e.verdict.cause) for e in race.exposures] == [("interpreter", "race")]

"""What every stage does around its own work: options, the recorded command, and the record that a failure leaves."""

import dataclasses
import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import ROOT

from assay.artifact import exclusive, open_session, read, sha256_file
from assay.config import READS, Settings
from assay.errors import ConfigError, RecordError, UsageError
from assay.record import ARTIFACTS, StageName
from assay.stage import NEEDS, OPTIONAL, PER_KERNEL, Job, evidence_files, job_of, parser, record_path, run, stage_of

stages: st.SearchStrategy[StageName] = st.sampled_from(list(ARTIFACTS))
OF_A_KERNEL = (*PER_KERNEL, *OPTIONAL)
names = st.from_regex(r"\A[a-z][a-z0-9_]{0,8}\Z")


def job(stage: StageName, *arguments: str, all_evidence: bool = False) -> Job:
    per_kernel = stage in OF_A_KERNEL
    kernel = ["--kernel", "kernels/softmax.py"] if per_kernel else []
    return job_of(stage, parser(stage, per_kernel, all_evidence).parse_args([*kernel, *arguments]))


@given(stages, names)
def test_a_record_lies_under_a_name_that_tells_its_stage_and_kernel(stage: StageName, kernel: str) -> None:
    path = record_path(stage, kernel if stage in OF_A_KERNEL else None)
    assert stage_of(path) == stage
    assert path.parts[0] == "results"
    assert (kernel in path.parts) == (stage in OF_A_KERNEL)


def test_no_two_stages_share_a_path() -> None:
    assert len({record_path(stage, "matmul") for stage in ARTIFACTS}) == len(ARTIFACTS)


@pytest.mark.parametrize("name", ["gate.json.part", ".gate.json", "gates.json", "gate", "GATE.json"])
def test_a_file_of_another_name_is_no_record(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"^--record: expected a file named after its stage, such as results/gate\.json"
    ):
        stage_of(Path("results") / name)


@pytest.mark.parametrize("stage", ARTIFACTS)
def test_the_recorded_command_is_the_same_job_again(stage: StageName) -> None:
    first = job(stage)
    assert first.command[:4] == ["python", "-m", "assay", stage]
    again = job_of(stage, parser(stage, stage in OF_A_KERNEL).parse_args(first.command[4:]))
    assert again.command == first.command
    # Keys that a stage does not read are not in its command, and have their defaults.
    assert dataclasses.replace(again, settings=first.settings) == first
    for key in READS[stage]:
        assert getattr(again.settings, key) == getattr(first.settings, key)


@pytest.mark.parametrize("stage", ARTIFACTS)
def test_the_command_carries_the_settings_that_the_stage_reads_and_no_others(stage: StageName) -> None:
    command = job(stage).command
    assert tuple(sorted(json.loads(command[command.index("--settings") + 1]))) == tuple(sorted(READS[stage]))


@pytest.mark.parametrize("stage", ARTIFACTS)
def test_the_materials_are_the_stages_modules_the_kernel_and_the_records(stage: StageName) -> None:
    found = job(stage)
    materials = set(map(str, found.materials()))
    assert {f"assay/{stage}.py", "assay/stage.py", "assay/artifact.py"} <= materials
    assert ("kernels/softmax.py" in materials) == (stage in OF_A_KERNEL)
    assert {str(record_path(need, "softmax")) for need in NEEDS[stage]} <= materials


def test_a_stage_reads_only_records_of_stages_before_it() -> None:
    order = list(ARTIFACTS)
    for stage, needs in NEEDS.items():
        assert all(order.index(need) < order.index(stage) for need in needs)


def test_named_records_are_taken_instead_of_the_usual_ones() -> None:
    found = job("gpu", "--gate", "elsewhere/gate.json", "--out", "elsewhere/gpu.json")
    assert found.records["gate"] == Path("elsewhere/gate.json")
    assert found.records["compile"] == Path("results/softmax/compile.json")
    assert (found.out, found.log) == (Path("elsewhere/gpu.json"), Path("elsewhere/logs/gpu.log"))
    assert "elsewhere/gate.json" in found.command


def test_evidence_is_every_record_but_what_is_derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert evidence_files() == []
    for name in ("gate", "environment", "claims", "report", "matmul/gpu", "matmul/logs/gpu", ".hidden/gpu", "matmul/x"):
        path = Path("results") / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    Path("results/.gate.json.abc").write_bytes(b"half")
    found = [Path("results/environment.json"), Path("results/gate.json"), Path("results/matmul/gpu.json")]
    assert evidence_files() == found
    assert job_in(tmp_path, monkeypatch).evidence == tuple(found)


def planted(folder: Path, kernel: str) -> Path:
    """Write a record of planted faults that was made from one file."""
    path = Path(f"results/{kernel}/teeth.json")
    open_session("teeth", kernel, [folder / "kernel.py"], []).write(path, records.teeth())
    return path


def test_a_record_that_need_not_be_there_is_taken_while_it_is_current_and_else_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text("1", "utf-8")
    path = planted(Path(), "matmul")
    assert job_in(tmp_path, monkeypatch).evidence == (path,)
    Path("kernel.py").write_text("2", "utf-8")
    found = job_in(tmp_path, monkeypatch)
    assert found.evidence == ()
    assert str(path) not in found.command
    assert capsys.readouterr().err == (
        "results/matmul/teeth.json: left out, since kernel.py has changed; "
        "run stage 'teeth' again (snakemake --cores 1 teeth -R plant)\n"
    )


def test_a_record_that_was_edited_is_not_left_out_but_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text("1", "utf-8")
    path = planted(Path(), "matmul")
    path.write_bytes(path.read_bytes().replace(b"survived", b"caught"))
    with pytest.raises(RecordError, match=r"^results/matmul/teeth\.json: .*edited after it was written"):
        job_in(tmp_path, monkeypatch)


def job_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.chdir(folder)
    return job_of("claims", parser("claims", per_kernel=False, all_evidence=True).parse_args(["--settings", "{}"]))


REFUSED: list[tuple[list[str], type[Exception], str]] = [
    (
        ["--kernel", "absent.py"],
        UsageError,
        r"^--kernel: expected a kernel file such as .*, found no file absent\.py; name one",
    ),
    (["--kernel", "kernels"], UsageError, r"found no file kernels; name one"),
    (["--config", "absent.yaml"], ConfigError, r"^absent\.yaml: cannot be read"),
    (["--settings", '{"seed":[1]}'], ConfigError, r"^--settings: \$: unknown key 'seed'; allowed keys: "),
    (["--settings", '{"seeds":[1],"seeds":[2]}'], ConfigError, r"^--settings: \$\.seeds: key 'seeds' stands twice"),
    (["--settings", "{"], ConfigError, r"^--settings: \$: expected JSON in UTF-8, found something else"),
]


@pytest.mark.parametrize(("arguments", "kind", "said"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_does_not_fit_together_is_refused_in_one_sentence(
    arguments: list[str], kind: type[Exception], said: str
) -> None:
    options = ["--kernel", "kernels/softmax.py", *arguments]
    with pytest.raises(kind, match=said):
        job_of("interpreter", parser("interpreter", per_kernel=True).parse_args(options))


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs a stage `gate` whose work is given."""
    (tmp_path / "assay").symlink_to(ROOT / "assay")
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("results/environment.json").write_bytes(b"the environment")

    def stage(find: Callable[[Job], Any]) -> int:
        return run("gate", ["--settings", "{}"], find, per_kernel=False)

    return stage


def test_a_run_writes_what_was_found_with_what_it_was_made_of(gate: Callable[..., Any]) -> None:
    assert gate(lambda _: records.gate(None)) == 0
    artifact = read(Path("results/gate.json"), "gate")
    assert artifact.result == records.gate(None)
    assert artifact.materials["results/environment.json"] == sha256_file(Path("results/environment.json"))
    assert artifact.materials["assay/gate.py"] == sha256_file(ROOT / "assay/gate.py")
    assert (artifact.stage, artifact.kernel, artifact.run.exit_code) == ("gate", None, 0)


def test_a_run_waits_for_another_that_writes_the_same_record(gate: Callable[..., Any]) -> None:
    called = threading.Event()

    def find(_: Job) -> Any:
        called.set()
        return records.gate(None)

    runner = threading.Thread(target=gate, args=(find,))
    with exclusive(Path("results/gate.json")):
        runner.start()
        deadline = time.monotonic() + 30
        # The system itself lists who waits for which lock.
        while not re.search(rf"-> FLOCK .* {os.getpid()} ", Path("/proc/locks").read_text("utf-8")):
            assert time.monotonic() < deadline, "waited 30 s in vain"
            time.sleep(0.002)
        assert not called.is_set()
    runner.join()
    assert called.is_set()


def test_a_run_that_fails_leaves_the_earlier_record(gate: Callable[..., Any]) -> None:
    gate(lambda _: records.gate(None))
    before = Path("results/gate.json").read_bytes()

    def fail(_: Job) -> Any:
        raise RecordError("something is amiss")

    with pytest.raises(RecordError, match="something is amiss"):
        gate(fail)
    assert Path("results/gate.json").read_bytes() == before


def test_a_material_that_changes_meanwhile_is_noticed(gate: Callable[..., Any]) -> None:
    def meddle(_: Job) -> Any:
        Path("results/environment.json").write_bytes(b"another environment")
        return records.gate(None)

    with pytest.raises(RecordError, match=r"^results/environment\.json: changed while stage 'gate' ran; run it again$"):
        gate(meddle)
    assert not Path("results/gate.json").exists()


def test_a_stage_without_settings_needs_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert job("environment").settings == Settings()

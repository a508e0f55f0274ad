"""What a user does with the workflow, done: run it, change something, break something, kill it, run it again."""

import base64
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
from project import PER_KERNEL, RECORDS, ROOT, Project

from assay.artifact import read
from assay.commands import COMMANDS
from assay.record import ARTIFACTS, StageName

pytestmark = pytest.mark.slow

STAGES = get_args(StageName)
# Made on demand: a bundle under a name that nobody knows ahead, and planted faults, which take minutes.
PIPELINE = [stage for stage in STAGES if stage not in ("bundle", "teeth")]
FOLLOWS: dict[str, set[str]] = {
    "environment": {"interpreter", "compile", "gate", "gpu", "timing", "claims", "render"},
    "interpreter": {"claims", "render"},
    "compile": {"gpu", "timing", "claims", "render"},
    "gate": {"gpu", "timing", "claims", "render"},
    "gpu": {"timing", "claims", "render"},
    "timing": {"claims", "render"},
    "claims": {"render"},
    # Claims name the state of the whole source, so they are derived anew whatever is edited.
    "report": {"claims"},
}


def rule_of(stage: str) -> str:
    return "render" if stage == "report" else stage


def stage_of(name: str) -> StageName:
    stage: StageName = name.rpartition("/")[2]  # type: ignore[assignment]
    return stage


def assert_complete(project: Project) -> None:
    """Every record is there and passes every check of its reader, and so do the pages."""
    assert set(project.records()) == RECORDS
    for name in RECORDS:
        read(project.root / f"results/{name}.json", stage_of(name))
    assert (project.root / "results/report.html").read_text("utf-8").rstrip().endswith("</html>")
    assert (project.root / "results/report.md").stat().st_size


def report_of(project: Project) -> bytes:
    return b"".join((project.root / f"results/report.{kind}").read_bytes() for kind in ("html", "md", "json"))


# The whole run


def test_one_command_makes_every_record_and_the_report(finished: Project) -> None:
    assert_complete(finished)


def test_a_run_prints_what_it_does_and_not_thousands_of_lines(finished: Project) -> None:
    printed = (finished.root / "printed.txt").read_text("utf-8")
    assert "13 of 13 steps (100%) done" in printed
    assert "interpreter one: 1 passed" in printed
    assert printed.count("\n") < 150


def test_the_same_command_again_makes_nothing(project: Project) -> None:
    before = project.records()
    done = project.snakemake("report")
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout
    assert not project.made_since(before)


@pytest.mark.parametrize("stage", PIPELINE[1:])
def test_a_stage_runs_alone_and_finds_the_same(project: Project, stage: StageName) -> None:
    names = [name for name in RECORDS if stage_of(name) == stage]
    name = min(names)
    path = project.root / f"results/{name}.json"
    earlier = read(path, stage)
    arguments = ["--kernel", f"kernels/{name.split('/')[0]}.py"] if stage in PER_KERNEL else []
    # `gate` by itself is the gate; as a stage it is told where to write.
    arguments += ["--out", f"results/{name}.json"] if stage == "gate" else []
    variables = {"TRITON_INTERPRET": "1"} if stage == "interpreter" else {}
    done = project.assay(stage, *arguments, variables=variables)
    assert done.returncode == 0, done.stdout
    again = read(path, stage)
    assert again.run != earlier.run
    assert again.result == earlier.result


@pytest.mark.parametrize("closed", ["> >(exec true) 2>&1", ">&- 2>&-"], ids=["nobody reads", "closed"])
@pytest.mark.parametrize("stage", ["compile", "interpreter"])
def test_a_stage_that_nobody_listens_to_writes_its_record(project: Project, stage: StageName, closed: str) -> None:
    path = project.root / f"results/one/{stage}.json"
    earlier = read(path, stage)
    command = f'"$0" -m assay {stage} --kernel kernels/one.py {closed}'
    done = project.run("bash", "-c", command, sys.executable, variables={"TRITON_INTERPRET": "1"})
    assert (done.returncode, done.stdout) == (0, "")
    again = read(path, stage)
    assert again.run != earlier.run
    assert again.result == earlier.result


# What a change makes again


@pytest.mark.parametrize("stage", PIPELINE)
def test_editing_the_module_of_a_stage_runs_it_and_what_follows(project: Project, stage: str) -> None:
    with (project.root / f"assay/{stage}.py").open("a", encoding="utf-8") as module:
        module.write("# edited\n")
    assert project.planned() == {rule_of(stage), *FOLLOWS[stage]} | {"claims", "render"}


def test_a_new_date_on_the_same_content_runs_nothing(project: Project) -> None:
    for path in (*project.root.glob("assay/*.py"), *project.root.glob("kernels/*.py")):
        path.touch()
    assert project.planned() == set()


@pytest.mark.parametrize(
    ("old", "new", "stages"),
    [
        ("targets: [sm_80]", "targets: [sm_80, sm_90]", ["compile"]),
        ("seeds: [1]", "seeds: [2]", ["interpreter", "gpu", "timing"]),
        ("limit_s: 60", "limit_s: 61", ["interpreter"]),
        ("  rounds: 6", "  rounds: 7", ["timing"]),
        ("seeds:", "gate:\n  minimum_capability: '9.0'\nseeds:", ["gate"]),
        ("seeds:", "compile:\n  limit_s: 299\nseeds:", ["compile"]),
        ("seeds:", "gpu:\n  limit_s: 179\nseeds:", ["gpu"]),
    ],
)
def test_editing_a_key_runs_the_stages_that_read_it(project: Project, old: str, new: str, stages: list[str]) -> None:
    project.edit("config.yaml", old, new)
    expected = {rule for stage in stages for rule in (stage, *FOLLOWS[stage])}
    assert project.planned() == expected | {"claims", "render"}


def test_editing_a_kernel_runs_the_stages_of_that_kernel_alone(project: Project) -> None:
    before = project.records()
    project.edit("kernels/one.py", "1.0", "1.5")
    assert project.snakemake("report").returncode == 0
    assert project.made_since(before) == {*(f"one/{stage}" for stage in PER_KERNEL), "claims", "report"}
    assert_complete(project)


def test_another_variable_that_matters_captures_the_machine_again(project: Project) -> None:
    assert "environment" in project.planned(variables={"TRITON_F32_DEFAULT": "ieee"})
    assert project.planned(variables={"EDITOR": "ed"}) == set()


def test_another_installed_version_captures_the_machine_again(project: Project) -> None:
    installed = project.root / "elsewhere/added-1.0.dist-info"
    installed.mkdir(parents=True)
    assert "environment" in project.planned(variables={"PYTHONPATH": str(installed.parent)})


def test_a_stage_is_run_again_by_name(project: Project) -> None:
    before = project.records()
    done = project.snakemake("report", "-R", "timing")
    assert done.returncode == 0, done.stdout
    assert project.made_since(before) == {"one/timing", "two/timing", "claims", "report"}


# Records that are not what the pipeline wrote


def test_a_deleted_record_is_made_again(project: Project) -> None:
    before = project.records()
    (project.root / "results/two/gpu.json").unlink()
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert project.made_since(before) == {"two/gpu", "two/timing", "claims", "report"}


def test_an_edited_record_is_refused_by_name_until_its_stage_has_run(project: Project) -> None:
    before = report_of(project)
    project.edit("results/one/compile.json", '"registers":', '"registers":1')
    done = project.snakemake("report")
    assert done.returncode == 1
    assert "results/one/compile.json: $.content_sha256" in done.stdout
    assert "edited after it was written" in done.stdout
    assert report_of(project) == before
    done = project.snakemake("report", "-R", "compile")
    assert done.returncode == 0, done.stdout
    assert_complete(project)


def test_a_record_of_other_sources_is_refused_by_name(project: Project) -> None:
    before = report_of(project)
    kernel = project.root / "kernels/one.py"
    dates = kernel.stat()
    project.edit("kernels/one.py", "1.0", "1.5")
    # With its old date, as from an archive: Snakemake compares dates first and does not see the edit.
    os.utime(kernel, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    done = project.snakemake("report", "-R", "render")
    assert done.returncode == 1
    assert re.search(r"results/one/\w+\.json: .*kernels/one\.py", done.stdout)
    assert report_of(project) == before


# Planted faults


def bitten(project: Project) -> set[str]:
    return {claim["kernel"] for claim in read_claims(project) if claim["tier"] == "teeth"}


def test_faults_are_planted_on_demand_and_shown_from_then_on(project: Project) -> None:
    assert "plant" not in project.planned()
    done = project.snakemake("teeth")
    assert done.returncode == 0, done.stdout
    printed = re.findall(
        r"^(one|two): (\d+) of (\d+) planted faults caught .* survived; the ", done.stdout, re.MULTILINE
    )
    assert [kernel for kernel, _, _ in printed][-2:] == ["one", "two"]
    assert project.planned() == {"claims", "render"}
    before = project.records()
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert project.made_since(before) == {"claims", "report"}
    assert bitten(project) == {"one", "two"}
    assert re.search(
        r"of \d+ planted faults \d+ are caught", json.loads(project.records()["report"])["result"]["status"]["sentence"]
    )
    assert project.planned() == set()
    _show_no_stale_faults(project)


def _show_no_stale_faults(project: Project) -> None:
    """What was planted in another version of a kernel is left out, by name, and not planted anew."""
    before = project.records()
    project.edit("kernels/one.py", "1.0", "1.5")
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert "results/one/teeth.json: left out, since kernels/one.py has changed" in done.stdout
    assert bitten(project) == {"two"}
    assert project.records()["one/teeth"] == before["one/teeth"]
    done = project.snakemake("teeth")
    assert done.returncode == 0, done.stdout
    assert project.made_since(before) >= {"one/teeth"}
    assert project.records()["two/teeth"] == before["two/teeth"]
    assert project.snakemake("report").returncode == 0
    assert bitten(project) == {"one", "two"}


# Runs that fail


def break_module(project: Project, stage: str) -> str:
    path = project.root / f"assay/{stage}.py"
    text = path.read_text("utf-8")
    path.write_text(f"{text}\n\ndef main(argv):\n    raise OSError('broken on purpose')\n", "utf-8")
    return text


def test_a_forced_run_that_fails_leaves_the_earlier_records(project: Project) -> None:
    before = project.records()
    text = break_module(project, "timing")
    done = project.snakemake("report", "-R", "timing")
    assert done.returncode == 1
    assert "broken on purpose" in done.stdout
    assert project.records() == before
    (project.root / "assay/timing.py").write_text(text, "utf-8")
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert_complete(project)


def test_a_failed_run_is_not_taken_for_the_run_that_new_settings_ask_for(project: Project) -> None:
    module = project.root / "assay/timing.py"
    dates = module.stat()
    text = break_module(project, "timing")
    project.edit("config.yaml", "  rounds: 6", "  rounds: 7")
    assert project.snakemake("report").returncode == 1
    module.write_text(text, "utf-8")
    os.utime(module, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    assert project.snakemake("report").returncode == 0
    for kernel in ("one", "two"):
        command = read(project.root / f"results/{kernel}/timing.json", "timing").command
        assert json.loads(command[command.index("--settings") + 1])["timing"]["rounds"] == 7


def test_a_kernel_that_fails_ends_in_a_report_and_check_names_it(project: Project) -> None:
    assert project.snakemake("check").returncode == 0
    before = project.records()
    (project.root / "kernels/three.py").write_text("raise RuntimeError('no such luck')\n", "utf-8")
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert project.made_since(before) == {*(f"three/{stage}" for stage in PER_KERNEL), "claims", "report"}
    assert "no such luck" in (project.root / "results/report.md").read_text("utf-8")
    done = project.snakemake("check")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    failed = [claim for claim in read_claims(project) if claim["outcome"] == "failed"]
    assert failed
    for claim in failed:
        assert re.search(rf"failed: {claim['tier']}, three\b", done.stdout)


def read_claims(project: Project) -> list[dict[str, str]]:
    claims: list[dict[str, str]] = json.loads(project.records()["claims"])["result"]["claims"]
    return claims


# Runs that are killed


def wait_until_running(project: Project, process: "subprocess.Popen[bytes]", record: str) -> None:
    """Wait for the mark that Snakemake sets while it makes `record`."""
    mark = project.root / ".snakemake/incomplete" / base64.urlsafe_b64encode(f"results/{record}.json".encode()).decode()
    deadline = time.monotonic() + 120
    while not mark.exists():
        assert process.poll() is None, "the run ended before the record was begun"
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("record", "whole"),
    [
        ("environment", True),
        ("one/interpreter", True),
        ("one/interpreter", False),
        ("one/compile", False),
        ("claims", True),
        ("report", True),
    ],
)
def test_after_a_kill_the_same_command_completes(project: Project, record: str, whole: bool) -> None:
    """The `whole` run is killed at once, or Snakemake alone, whose stage then goes on beside the next run."""
    earlier = project.records()[record]
    process = project.start("report", "-R", rule_of(stage_of(record)))
    wait_until_running(project, process, record)
    if whole:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert_complete(project)
    assert project.records()[record] != earlier
    assert project.planned() == set()


def test_a_run_that_was_interrupted_is_taken_up_again(project: Project) -> None:
    earlier = project.records()["one/interpreter"]
    process = project.start("report", "-R", "interpreter")
    wait_until_running(project, process, "one/interpreter")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 1
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    assert_complete(project)
    assert project.records()["one/interpreter"] != earlier


def test_a_second_run_in_the_same_folder_is_refused_in_one_sentence(project: Project) -> None:
    before = project.records()
    with (project.root / ".snakemake/assay.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = project.snakemake("report", "-R", "gate")
    assert done.returncode == 1
    assert "another run is at work in this folder: wait for its end, then run this again" in done.stdout
    assert "Traceback" not in done.stdout
    assert not project.made_since(before)
    assert project.snakemake("report", "-R", "gate").returncode == 0


# Configurations that make no sense


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds:", "seed:", r"config.yaml: \$: unknown key 'seed'; allowed keys: .*\bseeds\b"),
        ("  rounds: 6", "  rounds: many", r"config.yaml: \$.timing.rounds: found 'many'; allowed: .*integer"),
        ("[sm_80]", "[sm_81]", r"config.yaml: \$.targets\[0\]: found 'sm_81'; allowed: .*sm_80"),
        ("[sm_80]", "[]", r"config.yaml: \$.targets: found \[\]; allowed: .*at least 1"),
        ("kernels: all", "kernels: [four]", r"found 'four'; allowed: one, two"),
        ("kernels: all", "kernels: [", r"config.yaml: expected YAML in UTF-8, found something else .* line \d+"),
    ],
)
def test_a_bad_configuration_stops_at_once_in_one_sentence(project: Project, old: str, new: str, said: str) -> None:
    before = project.records()
    project.edit("config.yaml", old, new)
    done = project.snakemake("report")
    assert done.returncode == 1
    assert re.search(said, done.stdout), done.stdout
    assert "Traceback" not in done.stdout
    assert not project.made_since(before)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("timing={rounds: 9, half_width: 0.5, clock_band: [0.5, 1]}", None),
        ('timing={"rounds": 9}', None),
        ("seeds=[3, 4]", None),
        ("gate={minimum_capability: 9.0}", None),
        ("timing={rounds: many}", r"\$.timing.rounds: found 'many'; allowed: a value of type integer"),
        ("timing={rounds: 2}", r"\$.timing.rounds: found 2; allowed: a number of at least 6"),
        ("targets=[90]", r"\$.targets\[0\]: found '90'; allowed: .*sm_80"),
    ],
)
def test_a_number_behind_config_is_one_wherever_it_stands(project: Project, given: str, said: str | None) -> None:
    done = project.snakemake("report", "--dry-run", "--config", given)
    assert "Traceback" not in done.stdout
    assert done.returncode == (0 if said is None else 1), done.stdout
    assert said is None or re.search(f"config.yaml with --config: {said}", done.stdout), done.stdout


def test_a_folder_without_the_project_is_refused_in_one_sentence(project: Project, tmp_path: Path) -> None:
    done = project.snakemake("report", "--directory", str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert "run in the folder of the Snakefile" in done.stdout


# The files


def test_lint_has_nothing_to_say_but_that_conda_is_not_used(finished: Project) -> None:
    done = finished.snakemake("--lint", "json")
    found = set(re.findall(r"^    \* (.*):$", done.stdout, re.MULTILINE))
    assert found == {"Specify a conda environment or container for each rule."}, done.stdout


def test_every_stage_has_its_module_rule_record_test_schema_and_command() -> None:
    assert set(ARTIFACTS) == set(STAGES)
    for stage in STAGES:
        assert stage in COMMANDS
        for path in (
            f"assay/{stage}.py",
            f"rules/{stage}.smk",
            f"tests/test_{stage}.py",
            f"schemas/{stage}.schema.json",
        ):
            assert (ROOT / path).is_file(), path


def test_snakefile_and_rule_files_are_short_and_open_with_inputs_and_outputs() -> None:
    assert len((ROOT / "Snakefile").read_text("utf-8").splitlines()) < 60
    for path in (ROOT / "rules").glob("*.smk"):
        lines = path.read_text("utf-8").splitlines()
        assert len(lines) < 50, path
        head = "\n".join(lines[:8])
        assert "# inputs:" in head, path
        assert "# outputs:" in head, path


def test_every_record_is_made_by_a_rule_that_keeps_the_earlier_one() -> None:
    for stage in (*PIPELINE, "teeth"):
        assert "update(" in (ROOT / f"rules/{stage}.smk").read_text("utf-8")

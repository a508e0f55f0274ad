"""The whole pipeline through a real Slurm of one node, one job killed midway. Run by `make slurm-test` alone."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cluster import DEVICES, SETTINGS, cluster, jobs, lacking, obstacle_here, slurm, wait_until
from project import PER_KERNEL, ROOT, Project, new_project

from assay.artifact import canonical, read
from assay.record import StageName

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

# As docs/cluster.md has it. One core for each job then, so that they fit on any machine; and a shorter wait.
RUN = ("report", "--profile", "profiles/slurm")
HERE = ("--max-threads", "1", "--slurm-init-seconds-before-status-checks", "3")
RECORDS = {"environment", "gate", "claims", "report", *(f"one/{stage}" for stage in PER_KERNEL)}
GPU_RULES = {"environment", "gate", "gpu", "timing"}
CPU_RULES = {"interpreter", "compile", "claims", "render"}

GUIDE = (ROOT / "docs/cluster.md").read_text("utf-8")


def commands() -> list[str]:
    """Return the commands of docs/cluster.md that start Snakemake and are not marked as untested."""
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", GUIDE, re.M | re.S) for line in block.splitlines()]
    return [line for line in lines if line.startswith("snakemake ") and "# untested" not in line]


def small(folder: Path) -> Project:
    """Return a copy of the project with one tiny kernel, and nothing made yet."""
    project = new_project(folder)
    (project.root / "kernels/two.py").unlink()
    return project


def through_slurm(project: Project, *more: str) -> "subprocess.CompletedProcess[str]":
    return project.run(sys.executable, "-m", "snakemake", *RUN, *HERE, *more)


def rule_of(job: dict[str, str]) -> str:
    """Return the rule that a job was submitted for, which the plugin notes in the job's comment."""
    return job["Comment"].removeprefix("rule_").partition("_")[0]


def running(rule: str) -> list[str]:
    return [number for number, job in jobs().items() if rule_of(job) == rule and job["JobState"] == "RUNNING"]


class Broken(NamedTuple):
    """A run that lost a job: what a second run beside it said, and what it left, with Slurm's own logs by rule."""

    refused: str
    exit_code: int
    records: dict[str, bytes]
    logs: dict[str, str]


def kept_logs(project: Project) -> dict[str, str]:
    """Return what the jobs printed that did not succeed; the plugin deletes the others' logs."""
    folder = project.root / ".snakemake/slurm_logs"
    return {path.relative_to(folder).parts[0]: path.read_text("utf-8") for path in folder.rglob("*.log")}


def break_off(project: Project) -> Broken:
    """Run the pipeline, and cancel its interpreter job once the kernel is being interpreted."""
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *RUN, *HERE],
        cwd=project.root,
        env=project.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: bool(running("environment")), "the first job runs", 60)
        refused = through_slurm(project).stdout
        log = project.root / "results/one/logs/interpreter-0.log"
        wait_until(lambda: log.exists() and bool(running("interpreter")), "the kernel is interpreted", 90)
        slurm("scancel", *running("interpreter"))
        exit_code = process.wait(timeout=120)
    finally:
        process.kill()
        process.wait()
    return Broken(refused, exit_code, project.records(), kept_logs(project))


class Story(NamedTuple):
    """What there is to see: a run on this machine alone, and the same through Slurm, broken off and begun again."""

    alone: Project
    project: Project
    broken: Broken
    resumed: "subprocess.CompletedProcess[str]"
    jobs: list[dict[str, str]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    if reason := obstacle_here():
        pytest.fail(reason)
    assert not lacking(), "run by `make slurm-test`, which installs it"
    folder = tmp_path_factory.mktemp("slurm")
    alone, project = small(folder / "alone"), small(folder / "project")
    done = alone.snakemake("report")
    assert done.returncode == 0, done.stdout
    (folder / "daemons").mkdir()
    with cluster(folder / "daemons"):
        broken = break_off(project)
        resumed = through_slurm(project)
        yield Story(alone, project, broken, resumed, list(jobs().values()))
    assert not SETTINGS.exists()
    assert not DEVICES.exists()


def test_a_second_run_in_the_same_folder_is_refused(story: Story) -> None:
    assert "another run is at work in this folder" in story.broken.refused


def test_a_job_that_is_killed_ends_the_run_and_keeps_its_log(story: Story) -> None:
    assert story.broken.exit_code == 1
    assert set(story.broken.logs) == {"rule_interpreter"}
    assert "CANCELLED" in story.broken.logs["rule_interpreter"]
    assert "one/interpreter" not in story.broken.records
    assert "report" not in story.broken.records


def test_the_same_command_again_makes_only_what_was_missing(story: Story) -> None:
    assert story.resumed.returncode == 0, story.resumed.stdout
    after = story.project.records()
    assert set(after) == RECORDS
    assert "environment" in story.broken.records
    assert {name: after[name] for name in story.broken.records} == story.broken.records


def test_every_record_passes_the_checks_of_its_reader(story: Story) -> None:
    for name in RECORDS:
        stage: StageName = name.rpartition("/")[2]  # type: ignore[assignment]
        read(story.project.root / f"results/{name}.json", stage)


@pytest.mark.parametrize("stage", ["interpreter", "compile"])
def test_a_node_finds_what_this_machine_finds(story: Story, stage: StageName) -> None:
    there, here = (read(at.root / f"results/one/{stage}.json", stage) for at in (story.project, story.alone))
    assert there.run != here.run
    assert canonical(there.result) == canonical(here.result)


def test_jobs_on_the_device_ask_for_one_gpu_and_others_for_none(story: Story) -> None:
    asked = {rule_of(job): job.get("TresPerJob") for job in story.jobs}
    assert asked == {**dict.fromkeys(GPU_RULES, "gres:gpu:1"), **dict.fromkeys(CPU_RULES)}


def test_jobs_ask_for_time_and_memory(story: Story) -> None:
    asked = {rule_of(job): (job["TimeLimit"], job["TRES"].split(",")[1]) for job in story.jobs}
    assert asked["interpreter"] == ("01:00:00", "mem=8000M")
    assert asked["timing"] == ("02:00:00", "mem=16000M")
    assert asked["claims"] == ("00:10:00", "mem=2000M")


def test_a_job_is_started_once_on_the_card_that_slurm_gave_it(story: Story) -> None:
    environment = read(story.project.root / "results/environment.json", "environment").result
    assert environment.variables["CUDA_VISIBLE_DEVICES"] == "0"
    numbers = [job for job in story.jobs if rule_of(job) == "gpu"]
    assert [(job["NumTasks"], job["NumNodes"]) for job in numbers] == [("1", "1")]


def test_a_stage_starts_as_many_workers_as_slurm_gave_it_cores(story: Story) -> None:
    logs = story.project.root / "results/one/logs"
    assert [path.name for path in logs.glob("interpreter-*.log")] == ["interpreter-0.log"]


def test_afterwards_nothing_is_left_to_do_through_slurm_or_without_it(story: Story) -> None:
    for done in (through_slurm(story.project, "--dry-run"), story.project.snakemake("report", "--dry-run")):
        assert done.returncode == 0, done.stdout
        assert "Nothing to be done" in done.stdout


def test_the_guide_has_the_command_that_ran() -> None:
    assert " ".join(("snakemake", *RUN)) in commands()


@pytest.mark.parametrize("command", commands())
def test_snakemake_takes_a_command_of_the_guide(story: Story, command: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = story.project.run("bash", "-c", f"{command} --dry-run", variables={"PATH": path})
    assert done.returncode == 0, done.stdout

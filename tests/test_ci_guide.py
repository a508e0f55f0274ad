"""Continuous integration: the workflow file is a valid and careful one, and its commands and the guide's are run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT, Project

from assay.commands import COMMANDS

GUIDE = (ROOT / "docs/ci.md").read_text("utf-8")
TEMPLATE = ROOT / "docs/ci/assay.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
BIN = Path(sys.executable).parent
IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    # Else it would keep a clone in the home of who runs the tests.
    "PRE_COMMIT_HOME": ".pre-commit-home",
}


def workflow() -> Any:
    return yaml.safe_load(TEMPLATE.read_text("utf-8"))


def steps(job: str) -> list[tuple[str, str]]:
    """Return name and commands of each step that runs some."""
    return [(step["name"], step["run"]) for step in workflow()["jobs"][job]["steps"] if "run" in step]


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def tool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(BIN / arguments[0]), *arguments[1:]], capture_output=True, text=True, check=False)


# The workflow file


def test_it_is_a_workflow_by_the_published_schema() -> None:
    done = tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(TEMPLATE))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_audit_of_workflows_finds_nothing() -> None:
    done = tool("zizmor", "--offline", "--no-progress", str(TEMPLATE))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_audit_sees_what_is_careless(tmp_path: Path) -> None:
    careless = tmp_path / "careless.yml"
    careless.write_text(TEMPLATE.read_text("utf-8").replace("pull_request:", "pull_request_target:"), "utf-8")
    assert tool("zizmor", "--offline", "--no-progress", str(careless)).returncode != 0


def test_no_pull_request_gets_to_the_machine_with_the_gpu() -> None:
    jobs = workflow()["jobs"]
    own = [name for name, job in jobs.items() if "self-hosted" in job["runs-on"]]
    assert own == ["on-a-gpu"]
    assert jobs["on-a-gpu"]["if"].startswith("github.event_name != 'pull_request' && ")
    # YAML 1.1 reads the key `on` as true.
    assert set(workflow()[True]) == {"push", "pull_request", "schedule", "workflow_dispatch"}


def test_the_token_can_read_alone_and_every_action_is_pinned() -> None:
    assert workflow()["permissions"] == {"contents": "read"}
    assert not [job for job in workflow()["jobs"].values() if "permissions" in job]
    used = re.findall(r"uses: (.*)", TEMPLATE.read_text("utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_nothing_that_an_event_brings_gets_into_a_script() -> None:
    assert not [name for job in workflow()["jobs"] for name, run in steps(job) if "${{" in run]


@pytest.fixture
def installed(project: Project) -> Project:
    """A copy of the finished project, with what `make report` would have installed, under git."""
    folder = project.root / ".venv/bin"
    folder.mkdir(parents=True)
    for name, words in {"snakemake": "-m snakemake", "assay": "-m assay"}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', "utf-8")
        (folder / name).chmod(0o755)
    (project.root / ".venv/run.done").touch()
    assert project.assay("status", "README.md").returncode == 0
    shell(project, "git init --quiet && git add --all && git commit --quiet --message Start")
    return project


def shell(project: Project, command: str, variables: Mapping[str, str] | None = None) -> str:
    """Run a command as a step of a workflow is run, and return what it printed."""
    done = attempt(project, command, variables)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def attempt(
    project: Project, command: str, variables: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    outside = {name: "" for name in os.environ if name.startswith(("MAKE", "MFLAGS"))}
    settled = {**outside, **IDENTITY, "PATH": f"{BIN}:{os.environ['PATH']}", **(variables or {})}
    return project.run("bash", "-eo", "pipefail", "-c", command, variables=settled)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["without-a-gpu", "on-a-gpu"])
def test_the_steps_of_a_job_run_one_after_the_other(job: str, installed: Project) -> None:
    history = installed.root / "kept"
    history.mkdir()
    # What the job sets, with the folder in a place that is here.
    variables = {"HISTORY": str(history), "AGAIN": ""}
    for name, run in steps(job):
        # The README here is about results/, since the tiny project has no archive of its own.
        assert shell(installed, run.replace(" --evidence archive", ""), variables), name
    if job == "on-a-gpu":
        assert len(list(history.glob("*.tar"))) == 1
        assert (installed.root / "history/history.html").is_file()


# The guide


EXIT_CODES = {"python -m assay bisect one 'compiled sm_80' --figure registers --good 3.7.1 --bad 3.8.0": 2}
"""Here no environments of Triton releases are installed: that is what it says."""


@pytest.mark.slow
def test_the_commands_do_in_order_what_the_guide_says(installed: Project) -> None:
    shell(installed, ".venv/bin/snakemake --cores 1 bundle")
    (installed.root / ".pre-commit-config.yaml").write_text(example(), "utf-8")
    right, wrong = "tl.load(x_ptr + i, mask=i < n)", "tl.load(x_ptr + i + 1, mask=i < n)"
    shell(installed, "echo '# more' >> kernels/one.py && git commit --quiet --all --message More")
    installed.edit("kernels/one.py", right, wrong)
    shell(installed, "git commit --quiet --all --message Edit")
    # What stands in the checkout is what the evidence is of; the commits are another matter.
    shell(installed, "git show HEAD~2:kernels/one.py > kernels/one.py")
    config = (installed.root / "config.yaml").read_text("utf-8")
    (installed.root / "other.yaml").write_text(config.replace("limit_s: 60", "limit_s: 0.0001"), "utf-8")
    printed = {}
    for command in commands():
        done = attempt(installed, command)
        printed[command] = done.stdout
        assert done.returncode == EXIT_CODES.get(command, 0), f"{command}\n{done.stdout}"
        assert "Traceback" not in done.stdout, command
    said = "\n".join(printed.values())
    assert "It changed from verified to failed at interpreter.limit_s: 0.0001" in said
    assert "Triton 3.7.1: expected an environment in .venvs/3.7.1" in said
    assert "No regression at the newest point: 1 bundle" in said
    assert re.search(r"pages say what the evidence says\.*Passed", said)
    assert (installed.root / ".github/workflows/assay.yml").read_bytes() == TEMPLATE.read_bytes()
    assert (installed.root / "history/pages/history.html").is_file()


def example() -> str:
    """Return the guide's configuration of pre-commit."""
    (found,) = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_commands_that_it_is_about_are_commands() -> None:
    named = set(re.findall(r"python -m assay (\w+)", GUIDE))
    assert named == {"history", "bisect", "status"}
    assert named <= set(COMMANDS)


def test_the_paths_it_names_exist() -> None:
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", GUIDE):
        assert (ROOT / "docs" / path).exists(), path


# The hook


def test_the_guides_hook_is_the_one_that_other_repositories_take() -> None:
    (ours,) = yaml.safe_load(HOOKS.read_text("utf-8"))
    (local,) = yaml.safe_load(example())["repos"][0]["hooks"]
    assert local.pop("args") == ["README.md"]
    assert local == {name: ours[name] for name in local}


@pytest.mark.parametrize(("kind", "file"), [("manifest", HOOKS), ("config", None)])
def test_pre_commit_takes_both_files_as_valid(kind: str, file: Path | None, tmp_path: Path) -> None:
    written = file or tmp_path / ".pre-commit-config.yaml"
    if file is None:
        written.write_text(example(), "utf-8")
    done = tool("pre-commit", f"validate-{kind}", str(written))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_commit_that_states_what_the_evidence_does_not_is_refused(installed: Project, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(HOOKS, hooks)
    made = (
        f"cd {hooks} && git init --quiet && git add --all && git commit --quiet --message Hooks && git rev-parse HEAD"
    )
    revision = shell(installed, made).strip()
    repository = {"repo": str(hooks), "rev": revision, "hooks": [{"id": "assay-status", "args": ["README.md"]}]}
    (installed.root / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [repository]}), "utf-8")
    shell(installed, "pre-commit install && git add --all")
    shell(installed, "git commit --quiet --message 'As the evidence has it'")
    text = (installed.root / "README.md").read_text("utf-8")
    (installed.root / "README.md").write_text(text.replace("PARTIALLY VERIFIED", "VERIFIED"), "utf-8")
    shell(installed, "git add --all")
    refused = attempt(installed, "git commit --message 'As one would like it'")
    assert refused.returncode == 1
    assert re.search(r"pages say what the evidence says\.*Failed", refused.stdout)
    assert "+PARTIALLY VERIFIED" in refused.stdout
    assert shell(installed, "git log --format=%s -1").strip() == "As the evidence has it"

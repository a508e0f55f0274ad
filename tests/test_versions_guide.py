"""The guide to several releases: its commands are run as a user would, and what it names is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT, Project, new_project
from wheels import index_variables, lock_of

from assay.changes import FIELDS

GUIDE = (ROOT / "docs/versions.md").read_text("utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]


@pytest.mark.slow
def test_the_commands_do_what_the_guide_says(tmp_path: Path) -> None:
    """In the order in which they stand, with one release of wheels made here in the place of large ones."""
    project, index = new_project(tmp_path / "project"), tmp_path / "index"
    for lock in project.root.glob("envs/triton/*.txt"):
        lock.unlink()
    (project.root / "envs/triton/3.8.0.txt").write_text(lock_of(index, "3.8.0"), "utf-8")
    for command in commands():
        if command.startswith("snakemake"):
            run(project, command.replace("softmax", "one"), index_variables(index, tmp_path / "cache"))
    assert (project.root / "results/versions.html").is_file()
    assert "two" not in (project.root / "results/versions.md").read_text("utf-8").partition("## Matrix")[2]


def run(project: Project, command: str, variables: dict[str, str]) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = project.run("bash", "-c", command, variables={**variables, "PATH": path}, limit_s=900)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("target", ["versions-test", "envs/triton/3.9.0.txt"])
def test_make_knows_the_target(target: str) -> None:
    assert f"make {target}" in GUIDE
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"versions-test": "-m versions", "envs/triton/3.9.0.txt": "uv pip compile"}[target] in done.stdout


def test_ci_looks_for_the_known_changes() -> None:
    assert "\nmake versions-test\n" in (ROOT / ".ci/run").read_text("utf-8")


def test_both_kinds_of_command_are_there() -> None:
    assert sum(command.startswith("snakemake --cores 2 versions") for command in commands()) == 3
    assert "make envs/triton/3.9.0.txt" in commands()


def test_what_is_compared_is_what_the_guide_says() -> None:
    told = GUIDE.partition("matrix of kernel")[2].partition(".")[0].replace("\n", " ")
    for field in ("instructions", "registers", "stack", "shared"):
        assert field in FIELDS
        assert field in told
    assert "digest of each binary" in told


def test_the_paths_it_names_exist() -> None:
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", GUIDE):
        assert (ROOT / "docs" / path).exists(), path

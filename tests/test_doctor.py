"""The command `doctor`, on the machine that the tests run on, and with what it needs taken away."""

import os
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from project import ROOT, Project, new_project

from assay import doctor
from assay.__main__ import main
from assay.record import Unavailable


def test_it_says_what_this_machine_can_show_and_exits_with_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert f"triton {version('triton')}" in " ".join(said.split())
    assert re.search(r"^✓ interpreted +every kernel", said, re.MULTILINE)
    assert re.search(r"^✓ compiled, fits +on sm_75, ", said, re.MULTILINE)
    assert re.search(r"^■ ran, accurate, timed +untested on ", said, re.MULTILINE)
    # One screen; where a machine lacks more than this one, what to do comes on top.
    assert len(said.splitlines()) < 45
    assert max(map(len, said.splitlines())) <= 80


def test_in_another_folder_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 2
    assert "run in the folder of the Snakefile" in capsys.readouterr().err


@pytest.mark.slow
def test_a_broken_project_is_said_with_exit_code_1(tmp_path: Path) -> None:
    project: Project = new_project(tmp_path)
    with (project.root / "envs/node.txt").open("a") as stream:
        stream.write("no-such-distribution>=1\n")
    project.edit("config.yaml", "targets: [sm_80]", "targets: [sm_81]")
    done = project.assay("doctor")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1, done.stdout
    assert "✗ no-such-distribution expected no-such-distribution>=1, found none" in said
    assert "no-such-distribution: python -m pip install 'no-such-distribution>=1'" in said
    assert "✗ configuration config.yaml: $.targets[0]: found 'sm_81'; allowed: one of" in said
    assert "all tiers nothing can be run here yet" in said


@pytest.mark.parametrize(
    ("requirement", "wrong"),
    [
        ("packaging", None),
        ("packaging>=1", None),
        ("packaging>=999", "expected packaging>=999, found "),
        ("no-such-distribution", "expected no-such-distribution, found none; python -m pip install"),
    ],
)
def test_a_requirement_is_met_or_says_why_not(requirement: str, wrong: str | None) -> None:
    found = doctor.unmet(requirement)
    assert found is None if wrong is None else str(found).startswith(wrong)


def test_the_requirements_are_those_of_a_node_and_what_it_has_already() -> None:
    wanted = doctor.requirements((ROOT / "envs/node.txt").read_text("utf-8"))
    assert wanted[:2] == ["torch>=2.11", "triton>=3.6,<3.10"]
    assert "rich>=13" in wanted
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "torch from 2.11 and Triton 3.6 to 3.9" in readme


def test_free_space_is_that_of_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    found = doctor.free_bytes(tmp_path / "not" / "yet")
    assert isinstance(found, int)
    assert found > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_says_why() -> None:
    found = doctor.free_bytes(Path("/proc/none"))
    assert isinstance(found, Unavailable)
    assert found.reason.startswith("cannot be written (")


@pytest.mark.parametrize(
    ("set_to", "place"),
    [
        ({"TRITON_CACHE_DIR": "/a", "TRITON_HOME": "/b"}, "/a"),
        ({"TRITON_HOME": "/b"}, "/b/.triton/cache"),
        ({}, f"{Path.home()}/.triton/cache"),
    ],
)
def test_the_cache_is_where_triton_has_it(set_to: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    assert doctor.cache_folder(os.environ) == Path(place)


def test_a_compiler_that_is_named_and_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    found = doctor._compiler()
    assert isinstance(found, Unavailable)
    assert found.reason == "no-such-compiler is not on the PATH"

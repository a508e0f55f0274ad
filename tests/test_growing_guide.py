"""The guide to many kernels: its commands are run as a user would, and what it names is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT

from assay.storage import LARGEST_FOLDER_BYTES, VARIABLE

GUIDE = (ROOT / "docs" / "growing.md").read_text("utf-8")


def commands() -> list[str]:
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    return [line.partition("#")[0].strip() for line in block.strip().splitlines()]


@pytest.mark.parametrize("command", [command for command in commands() if not command.startswith("make ")])
def test_a_command_does_what_the_guide_says(command: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, VARIABLE: str(tmp_path / "cache")}
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "entries" in done.stdout


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("make ")])
def test_make_knows_the_target(command: str) -> None:
    assert f"\n{command.removeprefix('make ')}: " in (ROOT / "Makefile").read_text("utf-8")


def test_the_names_and_limits_are_those_of_the_code() -> None:
    assert f"`{VARIABLE}` names another folder" in GUIDE
    assert f"at most {LARGEST_FOLDER_BYTES // 2**30} GiB" in GUIDE

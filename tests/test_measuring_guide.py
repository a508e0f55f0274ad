"""The guide to timing: its commands are run as a user would, and what it names is there."""

import os
import re
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from project import ROOT, Project

from assay.config import TimingSettings
from assay.record import Cause, Conclusion

GUIDE = (ROOT / "docs" / "measuring.md").read_text("utf-8")


def commands() -> list[str]:
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    return [line.partition("#")[0].strip() for line in block.strip().splitlines()]


BENCHMARKS = [command for command in commands() if command.startswith("make ")]
OTHERS = [command for command in commands() if command not in BENCHMARKS]


@pytest.mark.slow
@pytest.mark.parametrize("command", OTHERS)
def test_a_command_does_what_the_guide_says(project: Project, command: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = project.run("bash", "-c", command, variables={"PATH": path})
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", BENCHMARKS)
def test_a_benchmark_says_that_it_needs_a_device(project: Project, command: str) -> None:
    """`make` would install the environment first, so what it would run then is run here."""
    planned = project.run("env", "-i", f"PATH={os.environ['PATH']}", "make", "--dry-run", *command.split()[1:])
    assert planned.returncode == 0, planned.stdout
    module = re.search(r"-m (benchmarks\.\w+)", planned.stdout.splitlines()[-1])
    assert module is not None
    done = project.run(sys.executable, "-m", module[1])
    assert done.returncode == 1
    assert "it needs a device" in done.stdout
    assert "Traceback" not in done.stdout


def test_both_kinds_of_command_are_there() -> None:
    assert BENCHMARKS == ["make bench-repeat", "make bench-sweep"]
    assert len(OTHERS) == 2


def test_every_setting_that_it_names_is_one() -> None:
    settings = {field.name for field in msgspec.structs.fields(TimingSettings)}
    named = {name for name in re.findall(r"`([a-z_]+)`", GUIDE) if "_" in name} - {"do_bench"}
    assert {"half_width", "minimum_s", "clock_band", "fewest_rounds", "screen_factor"} <= named
    assert named <= settings


@pytest.mark.parametrize("cause", ["throttled", "noise", "over-ceiling"])
def test_every_cause_that_it_names_is_one(cause: Cause) -> None:
    assert f"`{cause}`" in GUIDE


def test_every_conclusion_is_explained() -> None:
    for conclusion in get_args(Conclusion):
        assert f"*{conclusion}*" in GUIDE


def test_the_paths_it_names_exist() -> None:
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", GUIDE):
        assert (ROOT / "docs" / path).exists(), path

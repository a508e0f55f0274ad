"""The guide to AMD's targets: its commands are run as a user would, and what it says of records is in them."""

import os
import re
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from project import ROOT, Project

from assay.artifact import read
from assay.record import Binary, Cause, Instructions, RegisterFiles
from assay.targets import TARGETS, AmdTarget

GUIDE = (ROOT / "docs" / "amd.md").read_text("utf-8")


def commands() -> list[str]:
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    return [str(line) for line in block.strip().splitlines()]


def targets(command: str) -> list[str]:
    """Return the targets that a command of the guide names."""
    (named,) = re.findall(r"targets[=:] ?\[(.*?)\]", command)
    return re.split(r", ?", named)


@pytest.mark.slow
def test_its_commands_compile_for_what_they_name(project: Project) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    inline, written, overlaid = commands()
    for command, named in ((inline, targets(inline)), (f"{written}; {overlaid}", targets(written))):
        done = project.run("bash", "-c", command, variables={"PATH": path})
        assert done.returncode == 0, done.stdout
        found = read(project.root / "results/one/compile.json", "compile").result
        assert [build.target for build in found.builds] == named
        assert {build.compiled.outcome for build in found.builds} == {"passed"}
        report = (project.root / "results/report.html").read_text("utf-8")
        assert all(f"<td>{target}<" in report for target in named)
        for build in found.builds:
            (binary,) = build.binaries
            assert (binary.register_files is not None) == build.target.startswith("gfx")
            assert binary.binary_sha256[:8] in report


def test_it_names_every_target_and_limit() -> None:
    assert targets(commands()[1]) == list(get_args(AmdTarget))
    for name in get_args(AmdTarget):
        assert f"{TARGETS[name].shared_limit_bytes} B" in GUIDE


def test_every_field_and_cause_that_it_names_is_one() -> None:
    fields = {one.name for kind in (Binary, Instructions, RegisterFiles) for one in msgspec.structs.fields(kind)}
    named = {"assembly_sha256", "binary_sha256", "machine", "register_files", "registers"}
    assert named <= fields
    assert all(f"`{name}`" in GUIDE for name in named)
    assert {"unsupported-precision", "capability"} <= set(get_args(Cause))

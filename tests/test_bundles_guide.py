"""The guide to bundles: its commands, run in order as a user would."""

import re
import sys
from pathlib import Path

import pytest
from project import ROOT, Project

GUIDE = (ROOT / "docs" / "bundles.md").read_text("utf-8")


def commands() -> list[str]:
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    return [str(line) for line in block.strip().splitlines()]


@pytest.mark.slow
def test_the_commands_do_in_order_what_the_guide_says(project: Project) -> None:
    search = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    for command in commands():
        done = project.run("bash", "-c", f"shopt -s failglob\n{command}", variables={"PATH": search})
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert "Traceback" not in done.stdout, command
    assert "signed by the trusted key" in project.run(*verify(project)).stdout
    assert (project.root / "assay.key").stat().st_mode & 0o777 == 0o600
    assert (project.root / "merged" / "merged.html").is_file()


def verify(project: Project) -> list[str]:
    (bundle,) = (project.root / "bundles").glob("assay-*.tar")
    return [sys.executable, "-m", "assay", "verify", str(bundle), "--trust", "assay.key.pub"]


def test_every_command_of_the_archive_is_in_the_guide() -> None:
    for name in ("bundle", "keygen", "sign", "verify", "reproduce", "merge", "compare", "status"):
        assert re.search(rf"\b{name}\b", GUIDE), name

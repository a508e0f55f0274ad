"""Every command that the README tells people to type is run: here in a tiny copy, or by .ci/run where it is heavy."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT, Project

README = (ROOT / "README.md").read_text("utf-8")
CI = (ROOT / ".ci/run").read_text("utf-8")

# What makes an environment takes minutes and a network: .ci/run does it on a clean checkout, in these words.
IN_CI = {
    "make report": "make report\n",
    "make test": "make test\n",
    "make wheelhouse PYTHON=3.12": "make wheelhouse PYTHON=",
    "python -m pip install -r envs/node.txt": "-r envs/node.txt\n",
    "python -m pip install --no-index --find-links wheelhouse -r envs/node.txt": (
        "python -m pip install --quiet --isolated --no-index --find-links wheelhouse -r envs/node.txt\n"
    ),
}
EXIT_CODES = {"python -m assay gate": 1}


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(line for line in lines if line))


HERE = [command for command in commands() if command not in IN_CI]


def test_the_two_commands_come_first() -> None:
    assert commands()[:2] == ["make report", "make test"]
    assert README.index("make test") < README.index("\n## ")


@pytest.mark.parametrize("command", IN_CI)
def test_a_heavy_command_is_in_the_readme_and_run_by_ci(command: str) -> None:
    assert command in commands()
    assert IN_CI[command] in CI


@pytest.mark.parametrize("target", ["report", "test", "wheelhouse PYTHON=3.12"])
def test_make_knows_the_target(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "envs/run.txt", "envs/test.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    # Not as a part of the `make test` that may be running this.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--dry-run", *target.split()]
    done = subprocess.run(command, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "-m venv --clear .venv" in done.stdout
    last = done.stdout.splitlines()[-1]
    expected = {"report": "snakemake --cores 1 report", "test": "-m pytest", "wheelhouse PYTHON=3.12": "wheelhouse"}
    assert expected[target] in last


@pytest.mark.slow
@pytest.mark.parametrize("command", HERE)
def test_a_command_does_what_the_readme_says(project: Project, command: str) -> None:
    activate = project.root / ".venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'PATH={Path(sys.executable).parent}:"$PATH"\n', "utf-8")
    typed = command.replace("kernels/softmax.py", "kernels/one.py")
    done = project.run("bash", "-c", f". .venv/bin/activate\n{typed}", variables={"PATH": os.environ["PATH"]})
    assert done.returncode == EXIT_CODES.get(command, 0), done.stdout
    assert "Traceback" not in done.stdout


def test_the_picture_is_small_and_made_by_make() -> None:
    picture = ROOT / "docs/report.png"
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert picture.stat().st_size < 150_000
    assert "docs/picture.py" in (ROOT / "Makefile").read_text("utf-8")
    assert f"]({picture.relative_to(ROOT)})" in README


def test_without_a_report_there_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "chromium").write_text("#!/bin/sh\n")
    (tmp_path / "chromium").chmod(0o755)
    command = [sys.executable, str(ROOT / "docs/picture.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "results/report.html: expected a report, found none; run `make report`\n",
    )


def test_the_paths_it_names_exist() -> None:
    for path in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / path).exists(), path


def test_the_stages_it_names_are_the_stages() -> None:
    from assay.commands import COMMANDS

    named = re.search(r"The stages are (.*?);", README, re.DOTALL)
    assert named is not None
    for stage in re.findall(r"`(\w+)`", named[1]):
        assert stage in COMMANDS
        assert (ROOT / f"rules/{stage}.smk").is_file()


def test_ci_runs_make_test_last_and_stops_at_the_first_fault() -> None:
    assert CI.splitlines()[-1] == "make test"
    assert "set -euo pipefail" in CI
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_wheelhouse_leaves_out_what_a_node_has() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    left_out = re.search(r"^ON_THE_NODE := (.*)$", makefile, re.MULTILINE)
    assert left_out is not None
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(.+)$", (ROOT / "envs/run.txt").read_text("utf-8"), re.MULTILINE))
    assert {"torch", "triton"} <= set(left_out[1].split("|")) <= set(pinned)
    wanted = set(re.findall(r"^([a-z0-9-]+)", (ROOT / "envs/node.txt").read_text("utf-8"), re.MULTILINE))
    assert wanted <= set(pinned) - set(left_out[1].split("|"))

"""The Slurm of the tests and the profile for one, as far as no daemon is needed: the rest is in test_slurm.py."""

import re
from pathlib import Path

import pytest
import yaml
from cluster import DEVICES, SETTINGS, free_ports, lacking, obstacle
from project import ROOT

PROFILE = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text("utf-8"))
GUIDE = (ROOT / "docs/cluster.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def rules() -> set[str]:
    """Return every rule that runs a command."""
    texts = [path.read_text("utf-8") for path in (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk")))]
    found = re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", "\n".join(texts), re.MULTILINE | re.DOTALL)
    return {name for name, body in found if "shell:" in body}


def resources() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for line in PROFILE["set-resources"]:
        rule, name, value = re.split("[:=]", line)
        found.setdefault(rule, {})[name] = int(value)
    return found


# What stands in the way of a Slurm


@pytest.mark.parametrize(
    ("root", "taken", "lacks", "installer", "said"),
    [
        (True, [], [], False, None),
        (True, [], ["slurmd"], True, None),
        (True, [SETTINGS], [], True, "/etc/slurm/slurm.conf exists, and this test starts a Slurm only where"),
        (True, [DEVICES], [], True, "/etc/slurm/gres.conf exists"),
        (False, [], [], True, "takes root"),
        (True, [], ["munged", "slurmd"], False, "munged, slurmd: not found, and no apt-get to install slurm-wlm and"),
    ],
)
def test_a_machine_without_what_it_takes_is_told_in_one_sentence(
    root: bool, taken: list[Path], lacks: list[str], installer: bool, said: str | None
) -> None:
    found = obstacle(root, taken, lacks, installer)
    assert found is None if said is None else found is not None and said in found and "\n" not in found


def test_a_program_that_is_nowhere_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.PROGRAMS", ("sh", "no-such-program"))
    assert lacking() == ["no-such-program"]


def test_ports_are_different() -> None:
    assert len(set(free_ports(8))) == 8


# The profile


def test_every_rule_has_its_time_and_memory() -> None:
    found = resources()
    assert set(found) == rules()
    assert all(set(asked) == {"runtime", "mem_mb"} for asked in found.values())


def test_the_profile_asks_for_cores_where_a_stage_has_workers() -> None:
    assert {line.partition("=")[0] for line in PROFILE["set-threads"]} == {
        "interpreter",
        "compile",
        "gpu",
        "timing",
        "plant",
        "stage_in_version",
    }


def test_the_plugin_is_pinned_and_in_no_other_environment() -> None:
    lines = (ROOT / "envs/slurm.txt").read_text("utf-8").splitlines()
    assert lines[1] == "-r run.txt"
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in lines[2:])
    for name in ("run", "test", "node"):
        assert "slurm" not in (ROOT / f"envs/{name}.txt").read_text("utf-8")


# Where the test with daemons runs


def test_make_and_ci_run_the_test_and_a_plain_pytest_does_not() -> None:
    assert "-m pytest -m slurm tests/test_slurm.py" in MAKEFILE
    assert "\nmake slurm-test\n" in (ROOT / ".ci/run").read_text("utf-8")
    assert "-m 'not slurm and not versions'" in PYPROJECT


def test_the_guide_installs_as_make_does() -> None:
    for command in ("make .venv/run.done", ".venv/bin/python -m pip install -r envs/slurm.txt"):
        assert command in GUIDE
    assert ".venv/run.done:" in MAKEFILE
    assert "--requirement envs/slurm.txt" in MAKEFILE


def test_the_paths_it_names_exist() -> None:
    for path in re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", GUIDE):
        assert (ROOT / "docs" / path).exists(), path

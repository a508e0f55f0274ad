"""The guide to evidence: what it lists is all there is, its example is judged so, and its commands are run."""

import os
import re
import sys
from pathlib import Path
from typing import get_args

import pytest
from project import ROOT, Project
from records import device, environment, replaced

from assay.admission import Answer, expectation, protects, verdict_of
from assay.outcomes import CONFLICT, MARKS, mark_of
from assay.record import Cause, Outcome, Overall, Tier

GUIDE = (ROOT / "docs" / "evidence.md").read_text("utf-8")
SEARCH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table under a heading, cell by cell."""
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in row] for row in rows[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_the_guide_says(project: Project, command: str) -> None:
    done = project.run("bash", "-c", command, variables={"PATH": SEARCH})
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout


def test_every_tier_is_explained() -> None:
    assert {row[0] for row in table("A claim")} == set(get_args(Tier))


def test_every_outcome_has_its_word_and_real_causes() -> None:
    rows = table("Outcomes")
    assert {row[0] for row in rows} == set(get_args(Outcome))
    assert {row[1] for row in rows} == {mark.word for mark in MARKS} - {CONFLICT.word}
    assert f"*{CONFLICT.word}*" in GUIDE
    for outcome, word, _, causes in rows:
        for cause in re.findall(r"[a-z]+(?:-[a-z]+)*", causes):
            assert cause in get_args(Cause)
            assert mark_of(outcome, cause).word == word  # type: ignore[arg-type]


def test_every_status_is_explained() -> None:
    assert {row[0] for row in table("The status")} == set(get_args(Overall))


def test_a_gate_that_refuses_a_t4_has_passed_and_what_it_protects_is_inapplicable() -> None:
    t4 = replaced(device(), name="Tesla T4", target="sm_75", compute_capability="7.5")
    expected = expectation(environment(t4), "8.0")
    answer = Answer(1, "", "Tesla T4 is 7.5; 8.0 or newer is needed\n")
    assert verdict_of(answer, expected).outcome == "passed"
    protected = protects(answer, expected)
    assert (protected.outcome, protected.cause) == ("inapplicable", "capability")
    row = next(line for line in GUIDE.splitlines() if line.startswith("| what that gate protects"))
    assert "`inapplicable`, `capability`" in row
    assert re.search(r"never the later one wins", GUIDE)


def test_without_a_device_what_needs_one_is_blocked() -> None:
    absent = environment(device())
    expected = expectation(replaced(absent, devices=[]), "8.0")
    protected = protects(Answer(1, "", "the NVIDIA driver shows no device\n"), expected)
    assert (protected.outcome, protected.cause) == ("untested", "no-device")
    assert mark_of(protected.outcome, protected.cause).word == "blocked"
    assert GUIDE.count("`untested`, `no-device` | blocked") == 2

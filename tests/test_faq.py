"""The page of what goes wrong: every message that it quotes is one that the code says, and its commands are run."""

import errno
import os
import re
import sys
from pathlib import Path

import pytest
from project import ROOT, Project
from records import device, environment, replaced
from snakemake.exceptions import WorkflowError

from assay import doctor
from assay.admission import Answer
from assay.errors import refused_by_system
from assay.gate import decide
from assay.outlook import Facts, findings
from assay.record import Unavailable
from assay.situation import Seen, Situation
from assay.workflow import only_run

GUIDE = (ROOT / "docs" / "faq.md").read_text("utf-8")
QUOTED = [text.strip() for text in re.findall(r"^```text\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)]
SEARCH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
COMMANDS = re.findall(r"^```sh\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)


def refused(situation: Situation) -> str:
    return decide(situation, (8, 0)).message


def advised(**changes: object) -> list[str]:
    """Return what the doctor advises on a machine that is whole but for what is changed."""
    whole = replaced(environment(device()), variables={}, assemblers={"ptxas": "12.8.93"})
    facts = Facts(
        environment=replaced(whole, **changes),
        libcuda=1,
        answer=Answer(0, "usable\n", ""),
        targets=["sm_90"],
        compiler="gcc",
        folders=[],
        packages={},
        broken={},
    )
    return [f"{one.name}: {one.remedy}" for one in findings(facts) if one.remedy]


def system_full() -> str:
    number = errno.ENOSPC
    return str(refused_by_system(OSError(number, os.strerror(number), "results/softmax/compile.json")))


def said() -> list[str]:
    """Return the messages as the code says them, in the order of the page."""
    missing = "torch 2.13.0+cpu is built without CUDA"
    system = replaced(environment(None).system, release="5.15.90-microsoft-standard-WSL2")
    requirement = next(one for one in doctor.requirements((ROOT / "envs/node.txt").read_text("utf-8")) if "rich" in one)
    absent = str(doctor.unmet(requirement.replace("rich", "no-such-rich"))).replace("no-such-rich", "rich")
    return [
        refused(Situation(Unavailable(reason="libcuda.so.1 cannot be loaded"))),
        refused(Situation(1, (Seen("Tesla T4", (7, 5)),))),
        refused(Situation(1, Unavailable(reason=missing))),
        *advised(system=system),
        *advised(devices=[replaced(device(), mig=True)]),
        *advised(assemblers={"ptxas": "12.8.93", "TRITON_PTXAS_PATH": "12.4.131"}),
        f"rich: {absent}",
        system_full(),
    ]


def test_every_message_is_what_the_code_says() -> None:
    assert QUOTED[: len(said())] == said()


def stale_line(text: str) -> str:
    """Return the refusal of a stale record that a text quotes, without its digests."""
    line = next(line for line in text.splitlines() if re.match(r"results/\w+/\w+\.json: stale, ", line))
    return re.sub(r"[0-9a-f]{12}", "#", line)


def test_a_stale_record_is_refused_in_the_words_that_a_test_below_meets() -> None:
    met = stale_line((ROOT / "docs" / "evidence.md").read_text("utf-8"))
    assert stale_line(GUIDE) == met.replace("compile", "gpu").replace("one", "softmax")


def test_another_run_is_refused_in_these_words(tmp_path: Path) -> None:
    with only_run(tmp_path / "lock"), pytest.raises(WorkflowError) as refusal:
        only_run(tmp_path / "lock")
    assert str(refusal.value) in QUOTED


def test_nothing_is_quoted_that_no_test_knows() -> None:
    assert len(QUOTED) == len(said()) + 2


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_the_page_says(project: Project, command: str) -> None:
    done = project.run("bash", "-c", command, variables={"PATH": SEARCH})
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.slow
def test_an_edited_kernel_is_met_by_show_in_these_words(project: Project) -> None:
    guide = (ROOT / "docs" / "evidence.md").read_text("utf-8")
    project.edit("kernels/one.py", "Adds 1.0", "Adds 1.0 ")
    done = project.assay("show")
    assert done.returncode == 2
    said = done.stdout.strip().removeprefix("assay show: ")
    assert stale_line(said) == stale_line(guide)
    assert len(said.splitlines()) == 1


def test_what_it_links_to_is_there() -> None:
    for path in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", GUIDE):
        assert (ROOT / "docs" / path).exists(), path

"""Which cards a job may use, and that no two jobs hold one: real locks between real processes, simulated cards."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH
from records import ROOT, replaced
from test_nvml import UNSUPPORTED, UUIDS, SimulatedNvml
from test_nvml import card as answers

from assay import cards
from assay.admission import chosen_device, kind, usable
from assay.cards import Card, Hold, cards_here, lock_folder, matching
from assay.errors import UsageError
from assay.nvml import read_gpus, read_shown
from assay.record import Device, Environment, Unavailable

OLDER = {"Name": "NVIDIA A100", "CudaComputeCapability": (8, 0)}
WAIT_S = 60.0


def captured(*devices: Device) -> Environment:
    found: Environment = replaced(records.environment(records.device()), devices=list(devices))
    return found


def capture(nvml: SimulatedNvml, setting: str | None = None) -> Environment:
    devices = read_gpus(nvml, setting)[1]
    assert isinstance(devices, list)
    return captured(*devices)


def found(nvml: SimulatedNvml, setting: str | None, at_capture: str | None = None) -> list[Card]:
    """Return what a job may use under a setting, of what was captured under another."""
    return matching(read_shown(nvml, setting), capture(nvml, at_capture))


THREE = SimulatedNvml(answers(0), answers(1), answers(2))
MIXED = SimulatedNvml(answers(0), answers(1, **OLDER), answers(2))


# Which cards


@pytest.mark.parametrize(
    ("setting", "places"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        (UUIDS[1], [1]),
        ("GPU-3333", [2]),
        ("GPU-1111", []),
        ("", []),
        ("1,7,0", [1]),
        ("1,1", []),
    ],
)
def test_a_job_may_use_what_its_variable_shows_in_that_order(setting: str | None, places: list[int]) -> None:
    usable_cards = found(THREE, setting)
    assert [card.uuid for card in usable_cards] == [UUIDS[place] for place in places]
    # By UUID: an index means another card once the variable has changed.
    assert [card.variables for card in usable_cards] == [{"CUDA_VISIBLE_DEVICES": UUIDS[at]} for at in places]


@given(st.sampled_from([THREE, MIXED]), st.sampled_from([None, "0", "1", "2,1", "0,2", ""]), st.integers(0, 2))
def test_what_a_job_may_use_is_captured_and_of_one_kind(nvml: SimulatedNvml, at_capture: str | None, now: int) -> None:
    environment = capture(nvml, at_capture)
    first = chosen_device(environment)
    for card in matching(read_shown(nvml, str(now)), environment):
        assert first is not None
        assert card.device in usable(environment)
        assert kind(card.device) == kind(first)


def test_of_mixed_cards_a_run_is_over_those_of_the_first_visible_ones_kind() -> None:
    assert [card.uuid for card in found(MIXED, None)] == [UUIDS[0], UUIDS[2]]
    assert [card.uuid for card in found(MIXED, None, at_capture="1")] == [UUIDS[1]]
    assert found(MIXED, "1") == []


def test_a_card_that_was_hidden_at_the_capture_is_one_that_a_scheduler_can_give() -> None:
    (card,) = found(THREE, "2", at_capture="0")
    assert card.uuid == UUIDS[2]
    assert not card.device.visible


def test_a_card_that_was_not_captured_is_not_used() -> None:
    one, other = SimulatedNvml(answers(0)), SimulatedNvml(answers(1))
    assert matching(read_shown(other, None), capture(one)) == []


@pytest.mark.parametrize(
    ("setting", "selector"),
    [("MIG-b", "MIG-b"), ("MIG-b,MIG-a", "MIG-b"), ("0", "MIG-a"), (None, "MIG-a"), (UUIDS[0], "MIG-a")],
)
def test_instances_of_a_card_are_one_card_and_an_instance_is_what_is_selected(
    setting: str | None, selector: str
) -> None:
    instances = [{"nvmlDeviceGetUUID": "MIG-a"}, {"nvmlDeviceGetUUID": "MIG-b"}]
    sliced = SimulatedNvml({**answers(0, MigMode=[1, 1], MaxMigDeviceCount=2), "instances": instances})
    (card,) = found(sliced, setting)
    assert (card.lock, card.selector) == (UUIDS[0], selector)
    assert card.named(UUIDS[0].removeprefix("GPU-"))
    assert card.named(selector.removeprefix("MIG-"))
    assert not card.named("c")


def test_of_cards_without_a_uuid_only_the_first_can_be_used() -> None:
    nameless = SimulatedNvml(answers(0, UUID=UNSUPPORTED), answers(1, UUID=UNSUPPORTED))
    (card,) = found(nameless, None)
    assert (card.variables, card.lock) == ({}, "card-without-uuid")
    assert card.named("anything")


def test_a_lock_is_a_file_of_its_folder_whatever_nvml_answers() -> None:
    assert "/" not in Card(records.device(), "../../etc/passwd", None).lock


def test_without_nvml_there_is_no_card_and_the_reason_names_what_was_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "library", lambda: Unavailable(reason="no pynvml"))
    usable_cards, none = cards_here(captured(records.device()))
    assert usable_cards == []
    assert (none.outcome, none.cause) == ("untested", "no-device")
    assert none.reason == (
        "this job is shown no device, and no card that the captured environment lists beside NVIDIA H200; "
        "capture the environment where it runs"
    )


def test_the_variable_is_read_when_the_job_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "library", lambda: THREE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [card.uuid for card in cards_here(capture(THREE, "0"))[0]] == [UUIDS[1]]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cards_here(capture(THREE, "0"))[0] == []


@pytest.mark.parametrize(
    "nvml", [SimulatedNvml(nvmlInit=UNSUPPORTED), SimulatedNvml(answers(0), nvmlDeviceGetCount=UNSUPPORTED)]
)
def test_an_nvml_that_does_not_answer_shows_nothing(nvml: SimulatedNvml) -> None:
    assert read_shown(nvml, None) == []
    assert not nvml.running


def test_a_card_that_does_not_answer_is_left_out() -> None:
    nvml = SimulatedNvml(UNSUPPORTED, answers(1))
    assert [one.uuid for one in read_shown(nvml, None)] == [UUIDS[1]]


# Holding one


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the locks of these tests away from those of a real run."""
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    monkeypatch.setattr(cards, "ASKING_S", 0.01)
    return tmp_path


def some(*names: str) -> list[Card]:
    return [Card(replaced(records.device(), uuid_hash=name.encode().hex() * 8), name, name) for name in names]


HOLDER = """
import sys, time
from pathlib import Path
import test_cards
from assay import cards
from assay.child import Child
cards.FOLDER = Path(sys.argv[1])
with cards.Hold(test_cards.some(*sys.argv[3:]), "timing softmax") as hold:
    card = hold.take()
    with Child([sys.executable, "-c", sys.argv[2]], {}, cards.FOLDER / "log", held=hold.files) as child:
        if sys.argv[2]:
            child.ask({"do": "start"}, 60)
        print(card.uuid, flush=True)
        time.sleep(600)
"""
OUTLIVING = """
import os, time
print(os.getpid(), flush=True)
os.write(int(os.environ["ASSAY_REPLY_FD"]), b'{"answer":{}}\\n')
time.sleep(600)
"""
"""A child that, unlike the stages' own, does not end with its parent."""


@contextmanager
def holder(folder: Path, *names: str, child: str = "") -> "Iterator[subprocess.Popen[str]]":
    """Run a process that holds one of these cards, as long as it is not killed."""
    command = [sys.executable, "-c", HOLDER, str(folder), child, *names]
    path = os.pathsep.join([PYTHON_PATH, str(Path(__file__).parent)])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def held_by(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def is_free(name: str) -> bool:
    with Hold(some(name), "looking") as hold:
        return hold._free([0]) == 0


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_card_that_is_held_is_passed_over(folder: Path) -> None:
    with holder(folder, "a", "b") as first, Hold(some("a", "b"), "timing matmul") as hold:
        assert held_by(first) == "a"
        assert hold.take().uuid == "b"


def test_the_wanted_card_is_taken_where_it_is_free_and_another_where_it_is_not() -> None:
    two = some("a", "b")
    with Hold(two, "gpu matmul") as first, Hold(two, "timing softmax") as second:
        assert first.take(two[1].device) == two[1]
        assert second.take(two[1].device) == two[0]


def test_who_waits_says_for_what_and_for_whom_and_takes_the_card_when_its_holder_is_killed(folder: Path) -> None:
    said: list[str] = []
    with holder(folder, "a") as first, Hold(some("a"), "timing matmul", said.append) as hold:
        assert held_by(first) == "a"
        threading.Timer(0.3, lambda: os.kill(first.pid, signal.SIGKILL)).start()
        assert hold.take().uuid == "a"
    (line,) = said
    assert line == (
        f"timing matmul: waits, with no limit, until NVIDIA H200 is free; held by process {first.pid}, timing softmax; "
        "0 s so far"
    )


def test_who_waits_long_says_so_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "SAYING_S", 0.05)
    said: list[str] = []
    with holder(folder, "a") as first, Hold(some("a"), "timing matmul", said.append) as hold:
        held_by(first)

        def kill_after_three() -> None:
            wait_until(lambda: len(said) >= 3)
            first.kill()

        watcher = threading.Thread(target=kill_after_three)
        watcher.start()
        hold.take()
        watcher.join()
    assert len(said) >= 3


def test_of_two_contenders_one_gets_the_card_and_the_other_gets_it_next(folder: Path) -> None:
    with ExitStack() as both:
        contenders = [both.enter_context(holder(folder, "a")) for _ in range(2)]
        wait_until(lambda: not is_free("a"))
        lines: dict[int, str] = {}

        def listen(process: "subprocess.Popen[str]") -> None:
            lines[process.pid] = held_by(process)

        listeners = [threading.Thread(target=listen, args=(one,)) for one in contenders]
        for one in listeners:
            one.start()
        wait_until(lambda: "a" in lines.values())
        winner = next(one for one in contenders if one.pid in lines)
        time.sleep(0.2)
        assert list(lines.values()) == ["a"]
        winner.kill()
        wait_until(lambda: list(lines.values()).count("a") == 2)
        for listener in listeners:
            listener.join()


def test_a_child_that_outlives_its_parent_keeps_the_card(folder: Path) -> None:
    with holder(folder, "a", child=OUTLIVING) as first:
        assert held_by(first) == "a"
        child = int((folder / "log").read_text())
        first.kill()
        first.wait()
        try:
            assert not is_free("a")
        finally:
            os.kill(child, signal.SIGKILL)
        wait_until(lambda: is_free("a"))


def test_the_card_is_free_once_the_claim_ends_and_the_next_label_is_whole() -> None:
    with Hold(some("a"), "a very long label that the next one does not fill") as hold:
        hold.take()
        assert not is_free("a")
    assert is_free("a")
    with Hold(some("a"), "short") as hold:
        hold.take()
        assert (lock_folder() / "a").read_text() == f"process {os.getpid()}, short"


# The folder


def test_the_folder_is_this_users_alone(folder: Path) -> None:
    made = lock_folder()
    assert made == folder / f"assay-{os.getuid()}"
    assert made.stat().st_mode & 0o777 == 0o700
    assert lock_folder() == made


def _open(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.parametrize(
    "spoil",
    [_open, lambda path: path.symlink_to("/"), lambda path: path.write_text(""), lambda path: path.symlink_to(".")],
    ids=["open to all", "link to elsewhere", "file", "link to a folder of mine"],
)
def test_a_folder_that_somebody_else_could_write_to_is_refused(folder: Path, spoil: Callable[[Path], Any]) -> None:
    spoil(folder / f"assay-{os.getuid()}")
    with pytest.raises(UsageError, match=r"expected a folder"):
        lock_folder()


@pytest.mark.parametrize(("place", "found"), [("absent", "No such file or directory"), ("file", "Not a directory")])
def test_where_no_folder_can_be_made_it_says_what_to_do(
    place: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("assay.cards.FOLDER", tmp_path / place)
    said = (
        f"found {found}; see to it that this user can make one in {tmp_path / place}, or remove what is there instead"
    )
    with pytest.raises(UsageError, match=rf"{re.escape(said)}$"):
        lock_folder()


def test_a_link_in_the_place_of_a_lock_is_refused(folder: Path) -> None:
    (lock_folder() / "a").symlink_to(folder / "elsewhere")
    with pytest.raises(UsageError, match="a: expected a lock of this user's"), Hold(some("a"), "gpu matmul"):
        pass
    assert not (folder / "elsewhere").exists()


def test_two_jobs_whose_temporary_folders_differ_meet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = lock_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "other"))
    assert lock_folder() == here


# How many stages are on a device at a time


JOBS = """
rule all:
    input:
        "a",
        "b",


rule job:
    output:
        touch("{name}"),
    resources:
        gpu=1,
    shell:
        "touch here-{wildcards.name}; COMMAND"
"""
ALONE = "mkdir busy; sleep 0.2; rmdir busy"
TOGETHER = "for _ in $(seq 600); do if [ -e here-a ] && [ -e here-b ]; then exit 0; fi; sleep 0.1; done; exit 1"


@pytest.mark.parametrize(
    ("command", "more"), [(ALONE, []), (TOGETHER, ["--resources", "gpu=2"])], ids=["one at a time", "two with gpu=2"]
)
def test_as_many_are_on_a_device_as_snakemake_is_told(tmp_path: Path, command: str, more: list[str]) -> None:
    shutil.copytree(ROOT / "profiles/default", tmp_path / "profiles/default")
    (tmp_path / "Snakefile").write_text(JOBS.replace("COMMAND", command), "utf-8")
    words = [sys.executable, "-m", "snakemake", "--cores", "2", *more]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

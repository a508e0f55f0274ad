"""The whole workflow on a machine with two simulated cards: as many at work as Snakemake is told, one stage on each."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from two_cards import UUIDS, TwoCards, two_cards

pytestmark = pytest.mark.slow
LONG = '{"timing":{"rounds":100000,"repeats":300,"limit_s":600,"minimum_s":600}}'


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TwoCards:
    """Everything made, two stages on a device at a time."""
    project = two_cards(tmp_path_factory.mktemp("several") / "project")
    command = (sys.executable, "-m", "snakemake", "report", "--cores", "2", "--resources", "gpu=2")
    done = project.run(*command)
    assert done.returncode == 0, done.stdout
    return project


def device(project: TwoCards, name: str) -> Any:
    result = json.loads((project.root / f"results/{name}.json").read_text("utf-8"))["result"]
    assert result["availability"]["outcome"] == "passed"
    return result["device"]


def listed(project: TwoCards) -> list[Any]:
    found: list[Any] = json.loads((project.root / "results/environment.json").read_text())["result"]["devices"]
    return found


def test_every_record_names_a_card_of_the_environment(whole: TwoCards) -> None:
    assert len(listed(whole)) == 2
    for kernel in ("one", "two"):
        assert device(whole, f"{kernel}/gpu") in listed(whole)
        # Where its card is free again, a kernel is timed on it.
        assert device(whole, f"{kernel}/timing") in listed(whole)


def test_a_job_that_is_shown_one_card_uses_that_one(whole: TwoCards, tmp_path: Path) -> None:
    for at, uuid in enumerate(UUIDS):
        out = tmp_path / str(at) / "gpu.json"
        done = whole.assay(
            "gpu", "--kernel", "kernels/one.py", "--out", str(out), variables={"CUDA_VISIBLE_DEVICES": uuid[:12]}
        )
        assert done.returncode == 0, done.stdout
        assert json.loads(out.read_text())["result"]["device"] == listed(whole)[at]


def start_timing(project: TwoCards, log: Path, *more: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "assay", "timing", "--kernel", "kernels/one.py", "--out", str(log.with_suffix(""))]
    shown = project.variables({"CUDA_VISIBLE_DEVICES": "1"})
    with log.open("wb") as stream:
        return subprocess.Popen([*command, *more], cwd=project.root, env=shown, stdout=stream, stderr=stream)


def wait_for(log: Path, words: str) -> None:
    deadline = time.monotonic() + 120
    while words not in log.read_text("utf-8"):
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.1)


@pytest.fixture
def holder(whole: TwoCards, tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A timing that lasts until it is killed, on the second card."""
    log = tmp_path / "holder" / "timing.json.log"
    log.parent.mkdir()
    process = start_timing(whole, log, "--settings", LONG)
    try:
        wait_for(log, "sampling in rounds")
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_second_timing_on_a_card_waits_until_the_first_is_killed(
    whole: TwoCards, holder: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    log = tmp_path / "waiting" / "timing.json.log"
    log.parent.mkdir()
    waiting = start_timing(whole, log)
    try:
        wait_for(log, f"waits, with no limit, until NVIDIA H200 is free; held by process {holder.pid}, timing one")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert waiting.wait(timeout=240) == 0, log.read_text("utf-8")
    finally:
        waiting.kill()
        waiting.wait()
    result = json.loads(log.with_suffix("").read_text())["result"]
    assert (result["availability"]["outcome"], result["device"]) == ("passed", listed(whole)[1])

"""The child process of the timing stage: its answers on the host, as a real process, and on a real device."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from host_device import HostDevice, write_toy
from project import PYTHON_PATH

import assay
from assay.artifact import convert
from assay.child import Child, Fault, compiling_environment
from assay.record import Unavailable, Verdict
from assay.sampling import Checked, Prepared, Round, Subject
from assay.stopwatch import Worker

PROJECT = Path(assay.__file__).parents[1]
SIZE = {"size": "n64", "seed": 7}


def prepare(worker: Worker, name: str, warmup: int = 1, **more: Any) -> Prepared:
    request = {"do": "prepare", **SIZE, "entrant": name, "warmup": warmup, **more}
    return convert(worker.answer(request), Prepared, "answer")


def take(worker: Worker, *order: str, **more: Any) -> Round:
    return convert(worker.answer({"do": "round", **SIZE, "order": order, "repeats": 3, **more}), Round, "answer")


def check(worker: Worker, *variants: str) -> dict[str, Verdict]:
    return convert(worker.answer({"do": "check", **SIZE, "variants": variants}), Checked, "answer").verdicts


def toy(folder: Path, *how: tuple[str, str], sizes: tuple[int, ...] = (64,)) -> Worker:
    return Worker(write_toy(folder, *how, sizes=sizes), HostDevice)


def test_describe_names_entrants_and_work(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), ("tf32", "right"), sizes=(64, 128))
    subject = convert(worker.answer({"do": "describe"}), Subject, "answer")
    assert [(e.name, e.kind, e.configuration) for e in subject.entrants] == [
        ("ieee/right", "variant", "right"),
        ("tf32/right", "variant", "right"),
        ("torch", "peer", None),
    ]
    assert [(p.size, p.dimensions, p.flops, p.bytes) for p in subject.problems] == [
        ("n64", {"n": 64}, 64, 512),
        ("n128", {"n": 128}, 128, 1024),
    ]
    assert subject.declaration.contrasts == [("ieee", "tf32")]


def test_a_round_samples_those_who_are_asked_for(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), ("tf32", "right"))
    for name in ("ieee/right", "tf32/right", "torch"):
        # Nothing of Triton's is launched on the host.
        assert prepare(worker, name).cubin_sha256 == []
    found = take(worker, "torch", "ieee/right")
    assert found.samples_ns.keys() == {"torch", "ieee/right"}
    assert found.conditions.sm_clock_mhz == Unavailable(reason="the host is no card")


def test_what_timed_launches_wrote_is_checked(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), ("ieee", "wrong late"))
    names = ("ieee/right", "ieee/wrong-late")
    for name in names:
        prepare(worker, name)
    take(worker, *names)
    found = check(worker, *names)
    assert found["ieee/right"].outcome == "passed"
    assert (found["ieee/wrong-late"].outcome, found["ieee/wrong-late"].cause) == ("failed", "wrong-value")
    late = "after timing, 64 of 64 elements of 'y' are past the reduction bound"
    assert found["ieee/wrong-late"].reason.startswith(late)


def test_what_the_warm_up_wrote_is_forgotten(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "stops writing"))
    prepare(worker, "ieee/stops-writing", warmup=3)
    take(worker, "ieee/stops-writing")
    found = check(worker, "ieee/stops-writing")["ieee/stops-writing"]
    assert (found.outcome, found.cause) == ("failed", "not-finite")


def test_an_entrant_is_prepared_once(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "stops writing"))
    for _ in range(5):
        prepare(worker, "ieee/stops-writing")
    take(worker, "ieee/stops-writing")
    # Two launches of one preparation and one of the round are right; preparing again would have used them up.
    assert check(worker, "ieee/stops-writing")["ieee/stops-writing"].outcome == "passed"


def test_another_size_starts_over(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), sizes=(64, 128))
    prepare(worker, "ieee/right")
    prepare(worker, "ieee/right", size="n128")
    assert take(worker, "ieee/right", size="n128").samples_ns.keys() == {"ieee/right"}
    with pytest.raises(KeyError):
        take(worker, "ieee/right")


def test_a_peer_leaves_nothing_to_check(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"))
    prepare(worker, "torch")
    assert check(worker, "torch") == {}


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("child")
    path = write_toy(folder, ("ieee", "right"), ("ieee", "aborts"))
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    program = str(Path(__file__).with_name("host_device.py"))
    with Child([sys.executable, program, str(path)], environment, folder / "log") as started:
        yield started


def test_a_process_that_aborts_is_a_fault_and_the_next_one_prepares(child: Child) -> None:
    request = {"do": "prepare", **SIZE, "warmup": 1}
    crashed = child.ask({**request, "entrant": "ieee/aborts"}, 120)
    assert isinstance(crashed, Fault)
    assert (crashed.cause, "SIGABRT" in crashed.reason) == ("crash", True)
    assert child.ask({**request, "entrant": "ieee/right"}, 120) == {"cubin_sha256": []}


@pytest.mark.skipif(torch.cuda.is_available(), reason="a device is here")
def test_without_a_device_the_real_child_says_so(tmp_path: Path) -> None:
    path = write_toy(tmp_path, ("ieee", "right"))
    environment = {**compiling_environment(str(tmp_path / "cache")), "PYTHONPATH": PYTHON_PATH}
    with Child([sys.executable, "-m", "assay.stopwatch", str(path), "16"], environment, tmp_path / "log") as real:
        fault = real.ask({"do": "describe"}, 120)
    assert isinstance(fault, Fault)
    assert fault.kind == "NoDeviceError"
    assert "finds no CUDA device" in fault.reason


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_real_device_times_a_kernel(tmp_path: Path) -> None:
    environment = {**compiling_environment(str(tmp_path / "cache")), "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-m", "assay.stopwatch", str(PROJECT / "kernels" / "softmax.py"), "256"]
    with Child(command, environment, tmp_path / "log") as real:
        subject = convert(real.ask({"do": "describe"}, 300), Subject, "answer")
        about = {"size": subject.problems[0].size, "seed": 7}
        names = [entrant.name for entrant in subject.entrants]
        variants = [entrant.name for entrant in subject.entrants if entrant.kind == "variant"]
        for name in names:
            prepared = real.ask({"do": "prepare", **about, "entrant": name, "warmup": 3}, 300)
            found = convert(prepared, Prepared, "answer")
            assert bool(found.cubin_sha256) == (name in variants)
        answer = real.ask({"do": "round", **about, "order": names, "repeats": 3}, 60)
        taken = convert(answer, Round, "answer")
        assert all(taken.samples_ns[name] > 0 for name in names)
        checked = convert(real.ask({"do": "check", **about, "variants": variants}, 60), Checked, "answer")
    assert {name: verdict.outcome for name, verdict in checked.verdicts.items()} == dict.fromkeys(variants, "passed")

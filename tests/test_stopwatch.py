"""The child process of the timing stage: its answers on the host, as a real process, and on a real device."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from host_device import CachedDevice, HostDevice, UnrecordedDevice, write_toy
from project import PYTHON_PATH

import assay
from assay.artifact import convert
from assay.child import Child, Fault, compiling_environment
from assay.record import Accuracy, Inputs, Unavailable
from assay.sampling import Checked, Limits, Prepared, Round, Subject, value_count
from assay.stopwatch import STREAMS, Worker

PROJECT = Path(assay.__file__).parents[1]
SIZE = {"size": "n64", "seed": 7}


def prepare(worker: Worker, name: str, warmup: int = 1, **more: Any) -> Prepared:
    request = {"do": "prepare", **SIZE, "entrant": name, "warmup": warmup, "repeats": 3, **more}
    return convert(worker.answer(request), Prepared, "answer")


def take(worker: Worker, *order: str, **more: Any) -> Round:
    request = {"do": "round", **SIZE, "turn": 0, "order": order, **more}
    return convert(worker.answer(request), Round, "answer")


def check(worker: Worker, name: str) -> Checked:
    return convert(worker.answer({"do": "check", **SIZE, "entrant": name}), Checked, "answer")


def verdict(worker: Worker, name: str) -> tuple[str, str | None]:
    found = check(worker, name).verdict
    assert found is not None
    return found.outcome, found.cause


def toy(
    folder: Path, *how: tuple[str, str], sizes: tuple[int, ...] = (64,), device: type[HostDevice] = HostDevice
) -> Worker:
    return Worker(write_toy(folder, *how, sizes=sizes), device)


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


def test_a_round_samples_those_who_are_asked_for_in_both_modes(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), ("tf32", "right"))
    for name in ("ieee/right", "tf32/right", "torch"):
        # Nothing of Triton's is launched on the host.
        assert prepare(worker, name) == Prepared(binary_sha256=[], launches=3)
    found = take(worker, "torch", "ieee/right")
    assert found.samples_ns.keys() == found.replays_ns.keys() == {"torch", "ieee/right"}
    assert found.conditions.sm_clock_mhz == Unavailable(reason="the host is no card")


def test_what_cannot_be_recorded_is_timed_by_events_alone(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), device=UnrecordedDevice)
    assert prepare(worker, "ieee/right").no_replay == Unavailable(reason="the host has no graphs")
    found = take(worker, "ieee/right")
    assert (set(found.samples_ns), found.replays_ns) == ({"ieee/right"}, {})
    assert verdict(worker, "ieee/right") == ("passed", None)


def test_a_twin_launches_what_the_other_does_in_a_recording_of_its_own(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"))
    twin = "ieee/right (again)"
    # A child that was started a moment ago prepares both.
    prepare(worker, twin, again="ieee/right")
    contest = worker._contest
    assert contest is not None
    first, second = contest.lanes["ieee/right"], contest.lanes[twin]
    assert [heat.launches for heat in first.heats] == [heat.launches for heat in second.heats]
    assert all(one.recording is not other.recording for one, other in zip(first.heats, second.heats, strict=True))
    assert take(worker, twin, "ieee/right").replays_ns.keys() == {twin, "ieee/right"}


def test_rounds_take_the_streams_in_turn_and_a_warm_up_takes_each(tmp_path: Path) -> None:
    entered = list[str]()

    @contextmanager
    def stream(name: str) -> Iterator[None]:
        entered.append(name)
        yield

    class Streaming(HostDevice):
        @property
        def streams(self) -> Sequence[AbstractContextManager[object]]:
            return [stream(name) for name in "abc"]

    worker = toy(tmp_path, ("ieee", "right"), device=Streaming)
    prepare(worker, "ieee/right", warmup=2)
    for turn in range(5):
        take(worker, "ieee/right", turn=turn)
    assert entered == [*"abc", *"abcab"]


def test_limits_come_from_the_device(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"))
    found = convert(worker.answer({"do": "ceilings"}), Limits, "answer")
    assert found.launch_ns == [3.0, 2.0, 4.0]
    assert [burst.name for burst in found.bursts] == ["copy", "tf32"]


def test_inputs_are_described(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), device=CachedDevice)
    found = convert(worker.answer({"do": "inputs", **SIZE}), Inputs, "answer")
    assert (found.seed, found.sets, found.set_bytes, found.cache_bytes) == (7, 4, 512, 512)
    (x,) = found.tensors
    assert (x.name, x.shape, x.dtype, x.zeros, x.elements) == ("x", [64], "float32", 0, 64)
    values = torch.randn(64, generator=torch.Generator().manual_seed(7)).double()
    assert x.mean == pytest.approx(float(values.mean()))
    assert x.deviation == pytest.approx(float(values.std(correction=0)))


def test_an_unknown_cache_has_a_reason(tmp_path: Path) -> None:
    found = convert(toy(tmp_path, ("ieee", "right")).answer({"do": "inputs", **SIZE}), Inputs, "answer")
    assert (found.sets, found.cache_bytes) == (1, Unavailable(reason="torch does not know the size of the L2 cache"))


def test_another_size_starts_over(tmp_path: Path) -> None:
    worker = toy(tmp_path, ("ieee", "right"), sizes=(64, 128))
    prepare(worker, "ieee/right")
    prepare(worker, "ieee/right", size="n128")
    assert take(worker, "ieee/right", size="n128").samples_ns.keys() == {"ieee/right"}
    with pytest.raises(KeyError):
        take(worker, "ieee/right")


def test_inputs_made_ahead_are_those_that_are_fed_and_no_device_is_touched(tmp_path: Path) -> None:
    devices: list[HostDevice] = []

    def device() -> HostDevice:
        devices.append(CachedDevice())
        return devices[-1]

    worker = Worker(write_toy(tmp_path, ("ieee", "right"), sizes=(64, 128)), device)
    assert worker.answer({"do": "make", "seed": 7}) == {"sizes": 2}
    assert devices == []
    made = worker._made["n64", 7]["x"]
    prepare(worker, "ieee/right")
    assert worker._contest is not None
    assert worker._contest.values[0]["x"] is made
    for index, values in enumerate(worker._contest.values):
        assert torch.equal(values["x"], torch.randn(64, generator=torch.Generator().manual_seed(7 + index)))
    # Let go by then, and made anew where another seed is asked for.
    assert list(worker._made) == [("n128", 7)]
    convert(worker.answer({"do": "inputs", "size": "n128", "seed": 8}), Inputs, "answer")
    other = worker._contest.values[0]["x"]
    assert torch.equal(other, torch.randn(128, generator=torch.Generator().manual_seed(8)))


def test_how_long_each_request_took_is_printed_but_for_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = toy(tmp_path, ("ieee", "right"))
    prepare(worker, "ieee/right")
    take(worker, "ieee/right")
    check(worker, "ieee/right")
    printed = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["prepare n64 ieee/right", "check n64 ieee/right"]


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("child")
    path = write_toy(folder, ("ieee", "right"), ("ieee", "aborts"))
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    program = str(Path(__file__).with_name("host_device.py"))
    with Child([sys.executable, program, str(path)], environment, folder / "log") as started:
        yield started


def test_a_process_that_aborts_is_a_fault_and_the_next_one_prepares(child: Child) -> None:
    request = {"do": "prepare", **SIZE, "warmup": 1, "repeats": 1}
    crashed = child.ask({**request, "entrant": "ieee/aborts"}, 120)
    assert isinstance(crashed, Fault)
    assert (crashed.cause, "SIGABRT" in crashed.reason) == ("crash", True)
    assert child.ask({**request, "entrant": "ieee/right"}, 120) == {
        "binary_sha256": [],
        "launches": 1,
        "no_replay": None,
        "refused": None,
    }


@pytest.mark.skipif(torch.cuda.is_available(), reason="a device is here")
def test_without_a_device_the_real_child_says_so(tmp_path: Path) -> None:
    path = write_toy(tmp_path, ("ieee", "right"))
    environment = {**compiling_environment(str(tmp_path / "cache")), "PYTHONPATH": PYTHON_PATH}
    with Child([sys.executable, "-m", "assay.stopwatch", str(path), "16"], environment, tmp_path / "log") as real:
        fault = real.ask({"do": "describe"}, 120)
    assert isinstance(fault, Fault)
    assert fault.kind == "NoDeviceError"
    assert "sees none" in fault.reason


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
        inputs = convert(real.ask({"do": "inputs", **about}, 60), Inputs, "answer")
        # Its 16 MiB fit in any cache of a card that has tensor cores, but for the smallest.
        assert isinstance(inputs.cache_bytes, int)
        assert inputs.sets >= value_count(inputs.set_bytes, inputs.cache_bytes)
        for name in names:
            request = {"do": "prepare", **about, "entrant": name, "warmup": 3, "repeats": 3}
            found = convert(real.ask(request, 300), Prepared, "answer")
            assert bool(found.binary_sha256) == (name in variants)
            assert found.no_replay is None
        twin = {"entrant": "twin", "again": variants[0], "warmup": 3, "repeats": 3}
        convert(real.ask({"do": "prepare", **about, **twin}, 300), Prepared, "answer")
        for turn in range(STREAMS + 1):
            request = {"do": "round", **about, "turn": turn, "order": [*names, "twin"]}
            taken = convert(real.ask(request, 60), Round, "answer")
            assert all(taken.samples_ns[name] > 0 < taken.replays_ns[name] for name in [*names, "twin"])
        for name in names:
            checked = convert(real.ask({"do": "check", **about, "entrant": name}, 60), Checked, "answer")
            assert (checked.verdict is not None) == (name in variants)
            assert checked.verdict is None or checked.verdict.outcome == "passed"
            assert isinstance(checked.accuracy, Accuracy)
            assert isinstance(checked.accuracy.normwise, float)
            assert 0 < checked.accuracy.normwise < 1e-5

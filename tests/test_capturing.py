"""Recording launches as CUDA graphs, and what becomes of a process in which one could not be recorded."""

import contextlib
from functools import partial

import pytest
import torch

from assay.capturing import CaptureError, capture
from assay.sampling import Heat, Launch, take_round, turns
from assay.stopwatch import CudaDevice

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return CudaDevice(256)


def product(extent: int) -> tuple[torch.Tensor, Launch]:
    a, out = torch.randn(extent, extent, device="cuda"), torch.empty(extent, extent, device="cuda")
    return out, lambda: torch.mm(a, a, out=out)


def waiting() -> None:
    """Launch something and wait for it, which no recording can hold."""
    torch.ones(8, device="cuda").sum().item()


def raising() -> None:
    """Launch something, and then find it wrong."""
    torch.ones(8, device="cuda").add_(1)
    raise ValueError("not today")


def swallowing() -> None:
    """Wait for the device and hide that it cannot be done."""
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()


def test_a_replay_writes_and_takes_as_long_as_the_launch(device: CudaDevice) -> None:
    out, launch = product(2048)
    launch()
    want = out.clone()
    recording = device.record(turns([launch], 5))
    heat = Heat([0], [launch] * 5, recording)
    out.zero_()
    recording.play()
    device.synchronise()
    assert torch.equal(out, want)
    found = [take_round(device, {"x": heat}) for _ in range(10)]
    events, replays = sorted(one.samples_ns["x"] for one in found)[5], sorted(one.replays_ns["x"] for one in found)[5]
    # A kernel of hundreds of microseconds is not bound by its launch.
    assert replays == pytest.approx(events, rel=0.1)


@pytest.mark.parametrize(
    ("launch", "why"), [(waiting, "captur"), (raising, "ValueError: not today"), (swallowing, "captur")]
)
def test_after_a_failed_recording_the_process_can_be_used(device: CudaDevice, launch: Launch, why: str) -> None:
    calls: list[bool] = []

    def only_recorded() -> None:
        # As an entrant that ran well while it warmed up, on either stream.
        calls.append(torch.cuda.is_current_stream_capturing())
        if calls[-1]:
            launch()

    with pytest.raises(CaptureError, match=why):
        device.record([only_recorded])
    assert calls == [False, True]
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.stream(device._recording):
        assert not torch.cuda.is_current_stream_capturing()
        torch.ones(8, device="cuda").add_(1)
    # Its events, memory given back, random numbers, and another recording.
    assert take_round(device, {"x": Heat([0], [only_recorded] * 3)}).samples_ns["x"] > 0
    held = [torch.empty(1 << 26, device="cuda") for _ in range(3)]
    del held
    before = torch.cuda.memory_reserved()
    device.trim()
    assert torch.cuda.memory_reserved() <= before - (3 << 28)
    assert float(torch.randn(1000, device="cuda").std()) > 0.5
    out, sound = product(256)
    sound()
    want = out.clone()
    recording = device.record([sound, sound])
    out.zero_()
    recording.play()
    device.synchronise()
    assert torch.equal(out, want)


def test_a_recordings_memory_is_given_back_with_it(device: CudaDevice) -> None:
    a = torch.randn(8192, 8192, device="cuda")
    device.trim()
    before = torch.cuda.memory_reserved()
    recording = device.record([partial(torch.add, a, 1.0)])
    assert torch.cuda.memory_reserved() >= before + a.nbytes
    del recording
    device.trim()
    assert torch.cuda.memory_reserved() <= before


def test_a_torch_without_external_events_says_so(device: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(enable_timing: bool = False) -> None:
        """Take no more options."""

    monkeypatch.setattr(torch.cuda, "Event", old)
    with pytest.raises(CaptureError, match="has no external events"):
        capture([lambda: None], device.flush, device._recording)

"""What a process finds when it asks for a device: simulated drivers and torches, and the real ones here."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.record import Unavailable
from assay.situation import Seen, Situation, driver_devices, look, torch_situation

ROOT = Path(__file__).parents[1]


@dataclass
class SimulatedDriver:
    """Answers as libcuda.so.1 does: error codes, and a count through a pointer."""

    count: int = 0
    starts: int = 0
    counts: int = 0

    def load(self, name: str) -> "SimulatedDriver":
        assert name == "libcuda.so.1"
        return self

    def cuInit(self, flags: int) -> int:
        assert flags == 0
        return self.starts

    def cuDeviceGetCount(self, pointer: Any) -> int:
        pointer._obj.value = self.count
        return self.counts


@dataclass
class Version:
    cuda: str | None = "13.0"
    hip: str | None = None


@dataclass
class SimulatedTorch:
    """The part of torch that is asked. `allocate` stands for the work on the device."""

    devices: list[tuple[str, tuple[int, int]]] = field(default_factory=list)
    allocate: Callable[..., Any] | None = None
    version: Version = field(default_factory=Version)
    __version__: str = "2.11.0"

    @property
    def cuda(self) -> "SimulatedTorch":
        return self

    def device_count(self) -> int:
        return len(self.devices)

    def get_device_name(self, index: int) -> str:
        return self.devices[index][0]

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-")

    def get_device_capability(self, index: int) -> tuple[int, int]:
        return self.devices[index][1]

    def zeros(self, *arguments: Any, **options: Any) -> Any:
        # On the simulated device work is done by the real torch on the CPU.
        import torch

        return (self.allocate or torch.zeros)(*arguments, **(options | {"device": "cpu"}))


def busy(*_: Any, **__: Any) -> Any:
    raise RuntimeError(
        "CUDA error: all CUDA-capable devices are busy or unavailable\nCompile with `TORCH_USE_CUDA_DSA`"
    )


def test_no_library_is_no_driver() -> None:
    def absent(name: str) -> Any:
        raise OSError(name)

    assert driver_devices(absent) == Unavailable(reason="libcuda.so.1 cannot be loaded")


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (SimulatedDriver(count=2), 2),
        (SimulatedDriver(count=0), 0),
        (SimulatedDriver(count=7, starts=100), 0),
        (SimulatedDriver(count=7, starts=803), Unavailable(reason="libcuda.so.1 does not start (CUDA error 803)")),
        (SimulatedDriver(count=7, counts=3), Unavailable(reason="libcuda.so.1 does not start (CUDA error 3)")),
    ],
)
def test_what_the_driver_answers(driver: SimulatedDriver, expected: int | Unavailable) -> None:
    assert driver_devices(driver.load) == expected


def test_devices_that_work() -> None:
    torch = SimulatedTorch([("NVIDIA H200", (9, 0)), ("Tesla T4", (7, 5))])
    seen = (Seen("NVIDIA H200", (9, 0)), Seen("Tesla T4", (7, 5)))
    assert torch_situation(2, torch) == Situation(2, seen)


def test_a_device_that_does_no_work_keeps_its_name_and_a_reason() -> None:
    situation = torch_situation(1, SimulatedTorch([("NVIDIA H200", (9, 0))], busy))
    assert situation.torch == (Seen("NVIDIA H200", (9, 0)),)
    assert situation.fault is not None
    assert situation.fault.startswith("RuntimeError: CUDA error: all CUDA-capable devices are busy")


def test_a_build_without_cuda_is_a_reason() -> None:
    torch = SimulatedTorch([("NVIDIA H200", (9, 0))], version=Version(None))
    assert torch_situation(1, torch).torch == Unavailable(reason="torch 2.11.0 is built without CUDA")


def test_devices_of_hip_are_told_apart_by_their_target() -> None:
    torch = SimulatedTorch([("AMD Instinct MI300X", (9, 4))], version=Version(None, "7.0"))
    assert torch_situation(1, torch) == Situation(1, (Seen("AMD Instinct MI300X", None, "gfx942"),))


def test_a_driver_that_torch_refuses_is_a_reason() -> None:
    class TooOld(SimulatedTorch):
        def device_count(self) -> int:
            raise RuntimeError("The NVIDIA driver on your system is too old")

    reason = "RuntimeError: The NVIDIA driver on your system is too old"
    assert torch_situation(1, TooOld()) == Situation(1, Unavailable(reason=reason))


def test_torch_may_see_nothing_where_the_driver_shows_a_device() -> None:
    assert torch_situation(1, SimulatedTorch()) == Situation(1, ())


def test_a_hostile_name_is_one_line() -> None:
    situation = torch_situation(1, SimulatedTorch([("A\n\x1b[2JB\u202e", (9, 0))]))
    assert situation.torch == (Seen("A B\ufffd", (9, 0)),)


def test_the_real_look_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        situation = look()
    assert isinstance(situation.driver, int | Unavailable)


def test_torch_is_not_imported_where_there_is_no_device() -> None:
    code = "import sys; from assay.situation import look; print(look().driver or 0, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    if done.stdout.startswith(("0", "Unavailable")):
        assert done.stdout.endswith(" False\n")
    else:
        assert done.stdout.endswith(" True\n")

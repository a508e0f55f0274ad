"""What a process finds when it asks for a device: the driver first, then torch."""

import ctypes
import importlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay import kfd
from assay.privacy import one_line
from assay.record import Unavailable

_CUDA_ERROR_NO_DEVICE = 100  # cuda.h


@dataclass(frozen=True)
class Seen:
    """A device as torch sees it: NVIDIA's by its compute capability, AMD's by its target, such as gfx942."""

    name: str
    capability: tuple[int, int] | None
    target: str = ""


@dataclass(frozen=True)
class Situation:
    """What was found, in the order of asking; what was not reached keeps its default.

    `driver`: how many devices the driver shows, or why there is no driver. `torch`: torch's devices in its order, or
    why it has none. `fault`: why work on the first of them failed. `setting`: the value of CUDA_VISIBLE_DEVICES.
    """

    driver: int | Unavailable
    torch: tuple[Seen, ...] | Unavailable = ()
    fault: str | None = None
    setting: str | None = None


def driver_devices(load: Callable[[str], Any] = ctypes.CDLL) -> int | Unavailable:
    """Ask NVIDIA's driver itself: torch says the same of a missing driver, a hidden device and a build without CUDA."""
    try:
        cuda = load("libcuda.so.1")
    except OSError:
        return Unavailable(reason="libcuda.so.1 cannot be loaded")
    count = ctypes.c_int()
    error = cuda.cuInit(0)
    if error == _CUDA_ERROR_NO_DEVICE:
        return 0
    error = error or cuda.cuDeviceGetCount(ctypes.byref(count))
    return Unavailable(reason=f"libcuda.so.1 does not start (CUDA error {error})") if error else count.value


def _attempt(work: Callable[[], Any]) -> Any | Unavailable:
    """Return what torch answers; it raises half a dozen types, and each of them is a reason here."""
    try:
        return work()
    except Exception as error:
        return Unavailable(reason=one_line(f"{type(error).__name__}: {error}", 200))


def _devices(torch: Any) -> Any:
    if torch.version.cuda is None and torch.version.hip is None:
        return Unavailable(reason=f"torch {torch.__version__} is built without CUDA")
    cuda = torch.cuda  # which is torch's name for HIP's devices too
    indexes = range(cuda.device_count())
    if torch.version.hip is not None:
        # Features may stand behind the processor's name: gfx942:sramecc+:xnack-
        targets = [str(cuda.get_device_properties(at).gcnArchName).partition(":")[0] for at in indexes]
        return tuple(Seen(one_line(cuda.get_device_name(at)), None, one_line(targets[at])) for at in indexes)
    return tuple(Seen(one_line(cuda.get_device_name(at)), tuple(cuda.get_device_capability(at))) for at in indexes)


def torch_situation(driver: int, torch: Any) -> Situation:
    """Ask the module torch for its devices, and do a little work on the first.

    Only work shows that this build of torch has code for the device and that no other process holds it exclusively.
    """
    devices = _attempt(lambda: _devices(torch))
    if isinstance(devices, Unavailable) or not devices:
        return Situation(driver, devices)
    tried = _attempt(lambda: torch.zeros(1, device="cuda").add_(1).item())
    return Situation(driver, devices, tried.reason if isinstance(tried, Unavailable) else None)


def look() -> Situation:
    """Ask NVIDIA's driver, or else AMD's, then torch, which is imported only where there is a device."""
    driver = driver_devices()
    if isinstance(driver, Unavailable):
        driver = kfd.count() or driver
    if isinstance(driver, Unavailable) or driver == 0:
        return Situation(driver, setting=os.environ.get("CUDA_VISIBLE_DEVICES"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns where the gate answers with its one sentence
        torch = _attempt(lambda: importlib.import_module("torch"))
        if isinstance(torch, Unavailable):
            return Situation(driver, Unavailable(reason=f"torch cannot be imported ({torch.reason})"))
        return torch_situation(driver, torch)

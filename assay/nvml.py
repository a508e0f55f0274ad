"""Describes the GPUs as NVML lists them, and which of them CUDA shows to a process.

`nvml` is the module pynvml (from nvidia-ml-py) or something that answers alike. A virtual machine, a MIG slice or WSL
refuses single questions, so each field is asked by itself and is a value or the reason why there is none.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from assay.privacy import one_line, salted
from assay.record import Device, Driver, Unavailable
from assay.targets import target_of

T = TypeVar("T")
Gpus = tuple[Driver | Unavailable, list[Device] | Unavailable, list[Unavailable]]

_LARGEST = 2**53 - 1
_NOT_AVAILABLE = 2**32 - 1
"""NVML_VALUE_NOT_AVAILABLE, -1, as it reads in an unsigned field (nvml.h)."""


@dataclass(frozen=True)
class Listed:
    """What CUDA_VISIBLE_DEVICES can name: a device's UUID and those of its MIG instances; None where unreadable."""

    uuid: str | None
    instances: tuple[str, ...] = ()


def _match(entry: str, listed: Sequence[Listed]) -> tuple[int, str] | None:
    """Return the index and the name of what one entry selects; None where it is invalid or fits more than one."""
    if number := re.match(r"\+?([0-9]{1,9})", entry):  # as strtoul reads: '1x' is 1
        index = int(number[1])
        return (index, "") if index < len(listed) else None
    if entry.startswith("MIG-GPU-"):  # the form before driver 470: MIG-<UUID of the GPU>/<instance>/<instance>
        entry = entry.removeprefix("MIG-").partition("/")[0]
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    names = [(index, name) for index, one in enumerate(listed) for name in (one.uuid, *one.instances) if name]
    found = [(index, name) for index, name in names if name.startswith(entry)]
    return found[0] if len(found) == 1 else None


def selected(setting: str | None, listed: Sequence[Listed]) -> list[tuple[int, str]]:
    """Return what CUDA shows under a value of CUDA_VISIBLE_DEVICES, in CUDA's order: each the device's index, and the
    UUID by which it or a MIG instance of it was selected, empty where it was by its place.

    Unset shows all; an invalid entry ends the list; one that stands twice empties it. Source: CUDA C++ Programming
    Guide, "CUDA Environment Variables", and for the last rule torch.cuda's own reading of the variable.
    """
    if setting is None:
        return [(index, "") for index in range(len(listed))]
    chosen: list[tuple[int, str]] = []
    for entry in setting.split(","):
        match = _match(entry.strip(), listed)
        if match is None:
            break
        if match in chosen:
            return []
        chosen.append(match)
    return chosen


def visible(setting: str | None, listed: Sequence[Listed]) -> list[int]:
    """Return the indexes of the devices that CUDA shows, in CUDA's order, each once however many instances it has."""
    return list(dict.fromkeys(index for index, _ in selected(setting, listed)))


@dataclass(frozen=True)
class Shown:
    """A device that CUDA shows to this process: what it is, its UUID, and the value of CUDA_VISIBLE_DEVICES that shows
    it alone; None where NVML does not tell its UUID. The UUIDs never leave the machine.
    """

    device: Device
    uuid: str | None
    selector: str | None


def _ask(nvml: Any, question: Callable[[], T]) -> T | Unavailable:
    try:
        return question()
    except (nvml.NVMLError, ValueError) as error:  # ValueError: a text that is not UTF-8
        return Unavailable(reason=f"NVML says: {one_line(str(error))}")


def _text(nvml: Any, question: Callable[[], str]) -> str | Unavailable:
    answer = _ask(nvml, question)
    line = answer if isinstance(answer, Unavailable) else one_line(answer)
    return line or Unavailable(reason="NVML answers with an empty text")


def _count(nvml: Any, question: Callable[[], int]) -> int | Unavailable:
    answer = _ask(nvml, question)
    if isinstance(answer, Unavailable):
        return answer
    if not 0 <= answer <= _LARGEST or answer == _NOT_AVAILABLE:
        return Unavailable(reason=f"NVML answers {answer}, its mark for 'not available'")
    return answer


def _flag(nvml: Any, question: Callable[[], int]) -> bool | Unavailable:
    answer = _ask(nvml, question)
    return answer if isinstance(answer, Unavailable) else answer == 1


def _instances(nvml: Any, handle: Any) -> tuple[str, ...]:
    """Return the UUIDs of a device's MIG instances; places without one answer NotFound."""
    places = _ask(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    if isinstance(places, Unavailable):
        return ()

    def uuid(place: int) -> str | Unavailable:
        return _ask(nvml, lambda: nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)))

    return tuple(found for found in map(uuid, range(places)) if isinstance(found, str))


def _listed(nvml: Any, handle: Any) -> Listed:
    uuid = _ask(nvml, lambda: nvml.nvmlDeviceGetUUID(handle))
    return Listed(uuid if isinstance(uuid, str) else None, _instances(nvml, handle))


def _device(nvml: Any, index: int, handle: Any, uuid: str | None) -> Device | Unavailable:
    name = _text(nvml, lambda: nvml.nvmlDeviceGetName(handle))
    capability = _ask(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    if isinstance(name, Unavailable):
        return Unavailable(reason=f"device {index} has no name: {name.reason}")
    if isinstance(capability, Unavailable):
        return Unavailable(reason=f"device {index}, {name}, has no compute capability: {capability.reason}")
    clock = nvml.nvmlDeviceGetMaxClockInfo
    return Device(
        name=name,
        target=target_of(capability),
        compute_capability=f"{capability[0]}.{capability[1]}",
        uuid_hash=salted(uuid) if uuid else Unavailable(reason="NVML does not tell the device's UUID"),
        visible=False,
        memory_bytes=_count(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total),
        vbios=_text(nvml, lambda: nvml.nvmlDeviceGetVbiosVersion(handle)),
        ecc=_flag(nvml, lambda: nvml.nvmlDeviceGetEccMode(handle)[0]),
        mig=_flag(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle)[0]),
        persistence=_flag(nvml, lambda: nvml.nvmlDeviceGetPersistenceMode(handle)),
        power_limit_milliwatts=_count(nvml, lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle)),
        maximum_sm_clock_mhz=_count(nvml, lambda: clock(handle, nvml.NVML_CLOCK_SM)),
        maximum_memory_clock_mhz=_count(nvml, lambda: clock(handle, nvml.NVML_CLOCK_MEM)),
    )


def _cuda(nvml: Any) -> str | Unavailable:
    packed = _count(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)  # 13000 is 13.0
    return packed if isinstance(packed, Unavailable) else f"{packed // 1000}.{packed % 1000 // 10}"


def _driver(nvml: Any) -> Driver:
    return Driver(
        version=_text(nvml, nvml.nvmlSystemGetDriverVersion),
        cuda=_cuda(nvml),
        nvml=_text(nvml, nvml.nvmlSystemGetNVMLVersion),
    )


def _list(nvml: Any, count: int) -> tuple[list[Any], list[Listed]]:
    """Return a handle of each device, or why there is none, and the UUIDs that it can be selected by."""
    handles = [_ask(nvml, partial(nvml.nvmlDeviceGetHandleByIndex, index)) for index in range(count)]
    return handles, [Listed(None) if isinstance(one, Unavailable) else _listed(nvml, one) for one in handles]


def _devices(nvml: Any, count: int, setting: str | None) -> list[Device | Unavailable]:
    """Describe every device: first the visible ones as CUDA numbers them, then the hidden ones."""
    handles, listed = _list(nvml, count)
    shown = visible(setting, listed)

    def describe(index: int) -> Device | Unavailable:
        handle = handles[index]
        if isinstance(handle, Unavailable):
            return Unavailable(reason=f"device {index} does not answer: {handle.reason}")
        found = _device(nvml, index, handle, listed[index].uuid)
        return msgspec.structs.replace(found, visible=index in shown) if isinstance(found, Device) else found

    return [describe(index) for index in (*shown, *(index for index in range(count) if index not in shown))]


def _started(nvml: Any, setting: str | None) -> Gpus:
    driver = _driver(nvml)
    count = _count(nvml, nvml.nvmlDeviceGetCount)
    if isinstance(count, Unavailable):
        return driver, count, []
    found = _devices(nvml, count, setting)
    devices = [one for one in found if isinstance(one, Device)]
    return driver, devices, [one for one in found if isinstance(one, Unavailable)]


def read_gpus(nvml: Any, setting: str | None) -> Gpus:
    """Return the driver, the devices that NVML identifies, and a reason for each that it does not.

    `setting` is the value of CUDA_VISIBLE_DEVICES, which NVML itself ignores. Indexes in it are read as NVML counts,
    which is CUDA's order under CUDA_DEVICE_ORDER=PCI_BUS_ID, and under any order where all cards are alike.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        absent = Unavailable(reason=f"no NVIDIA driver: {one_line(str(error))}")
        return absent, absent, []
    try:
        return _started(nvml, setting)
    finally:
        _ask(nvml, nvml.nvmlShutdown)


def _selector(name: str, listed: Listed) -> str | None:
    """Return what shows one device alone: of a card in MIG mode an instance, the first where none was named."""
    if name.startswith("MIG-") or not listed.instances:
        return name or listed.uuid
    return listed.instances[0]


def _shown(nvml: Any, setting: str | None) -> list[Shown]:
    count = _count(nvml, nvml.nvmlDeviceGetCount)
    if isinstance(count, Unavailable):
        return []
    handles, listed = _list(nvml, count)
    found, names = list[Shown](), dict[int, str]()
    for index, name in selected(setting, listed):
        names.setdefault(index, name)
    for index, name in names.items():
        handle, one = handles[index], listed[index]
        device = handle if isinstance(handle, Unavailable) else _device(nvml, index, handle, one.uuid)
        if isinstance(device, Device):
            found.append(Shown(msgspec.structs.replace(device, visible=True), one.uuid, _selector(name, one)))
    return found


def read_shown(nvml: Any, setting: str | None) -> list[Shown]:
    """Return the devices that CUDA shows under a value of CUDA_VISIBLE_DEVICES, in its order, each once; none where
    NVML cannot be asked. Two MIG instances of a card are one device: they share its power and its clocks.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        return _shown(nvml, setting)
    finally:
        _ask(nvml, nvml.nvmlShutdown)


def library() -> Any | Unavailable:
    """Return the module pynvml, or why there is none."""
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        return Unavailable(reason=f"NVML cannot be asked: {one_line(str(error))}; install nvidia-ml-py")

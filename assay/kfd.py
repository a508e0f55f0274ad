"""Describes AMD's GPUs as the Linux driver amdgpu lists them in sysfs: no library is needed, and none is asked.

Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c. What only AMD SMI would tell is unavailable.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from assay.nvml import Gpus, Listed, Shown, visible
from assay.privacy import one_line, salted
from assay.record import Device, Driver, Unavailable

SYSFS = Path("/sys")
_NODES = "class/kfd/kfd/topology/nodes"
_UNASKED = Unavailable(reason="AMD SMI is not asked")
_FRAME_BUFFERS = (1, 2)
"""Heap types of a node's memory banks that lie on the card (kfd_crat.h, HSA_MEM_HEAP_TYPE_FB_*)."""

Properties = Mapping[str, int]


def _text(path: Path) -> str:
    try:
        return one_line(path.read_text("utf-8", errors="replace"))
    except OSError:
        return ""


def _properties(path: Path) -> Properties:
    """Return the properties in a file of lines such as `gfx_target_version 90402`; none where it cannot be read."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (re.fullmatch(r"(\w+) ([0-9]{1,20})", line) for line in lines)
    return {pair[1]: int(pair[2]) for pair in pairs if pair}


def target_of(version: int) -> str:
    """Return LLVM's name for the driver's: gfx942 for 90402, gfx90a for 90010."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _nodes(sysfs: Path) -> list[tuple[Path, Properties]]:
    """Return the folders of the GPUs among the nodes, in the driver's order; a processor's version is 0."""
    folders = sorted((path for path in (sysfs / _NODES).glob("*") if path.name.isdecimal()), key=lambda p: int(p.name))
    found = [(folder, _properties(folder / "properties")) for folder in folders]
    return [(folder, known) for folder, known in found if known.get("gfx_target_version")]


def count(sysfs: Path = SYSFS) -> int:
    """Return how many GPUs the driver lists; 0 without it."""
    return len(_nodes(sysfs))


def _memory(folder: Path) -> int | Unavailable:
    banks = [_properties(path) for path in sorted(folder.glob("mem_banks/*/properties"))]
    sizes = [bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _FRAME_BUFFERS]
    return sum(sizes) or Unavailable(reason="the driver lists no memory of the card's own")


def _uuid(known: Properties) -> str | None:
    return f"GPU-{known['unique_id']:016x}" if known.get("unique_id") else None


def _device(sysfs: Path, folder: Path, known: Properties) -> Device:
    target, uuid = target_of(known["gfx_target_version"]), _uuid(known)
    product = _text(sysfs / f"class/drm/renderD{known.get('drm_render_minor', 0)}/device/product_name")
    return Device(
        name=product or f"AMD {target}",
        target=target,
        compute_capability=Unavailable(reason="compute capabilities are CUDA's"),
        uuid_hash=salted(uuid) if uuid else Unavailable(reason="the driver tells no unique id"),
        visible=False,
        memory_bytes=_memory(folder),
        vbios=_UNASKED,
        ecc=_UNASKED,
        mig=_UNASKED,
        persistence=_UNASKED,
        power_limit_milliwatts=_UNASKED,
        maximum_sm_clock_mhz=known.get("max_engine_clk_fcompute") or _UNASKED,
        maximum_memory_clock_mhz=_UNASKED,
    )


def _shown(listed: list[Listed], variables: Mapping[str, str]) -> list[int]:
    """Return the indexes of the devices that a process sees: ROCr's variable chooses first, then HIP's among those.

    HIP reads CUDA's where its own is not set (ROCm documentation, "GPU isolation techniques").
    """
    first = visible(variables.get("ROCR_VISIBLE_DEVICES"), listed)
    setting = variables.get("HIP_VISIBLE_DEVICES", variables.get("CUDA_VISIBLE_DEVICES"))
    return [first[index] for index in visible(setting, [listed[index] for index in first])]


def _driver(sysfs: Path) -> Driver:
    version = _text(sysfs / "module/amdgpu/version")
    return Driver(
        version=version or Unavailable(reason="amdgpu comes with the kernel and has no version of its own"),
        cuda=Unavailable(reason="the driver is amdgpu"),
        nvml=Unavailable(reason="the driver is amdgpu"),
    )


def read_gpus(variables: Mapping[str, str], sysfs: Path = SYSFS) -> Gpus | None:
    """Return the driver and its devices, those first that a process sees; None where the driver lists none."""
    nodes = _nodes(sysfs)
    if not nodes:
        return None
    shown = _shown([Listed(_uuid(known)) for _, known in nodes], variables)
    devices = [_device(sysfs, folder, known) for folder, known in nodes]
    seen = [replace(devices[index], visible=True) for index in shown]
    hidden = [device for index, device in enumerate(devices) if index not in shown]
    return _driver(sysfs), [*seen, *hidden], []


def read_shown(variables: Mapping[str, str], sysfs: Path = SYSFS) -> list[Shown]:
    """Return the first device that a process sees, or none. It has no UUID here, since what torch says of one under
    ROCm has been seen on no machine: one lock stands for all of AMD's cards, and no variable selects another.
    """
    found = read_gpus(variables, sysfs)
    devices = found[1] if found else []
    seen = [] if isinstance(devices, Unavailable) else [device for device in devices if device.visible]
    return [Shown(device, None, None) for device in seen[:1]]

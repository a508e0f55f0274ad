"""Compile targets: name, architecture, and what one block may use on it."""

from dataclasses import dataclass
from typing import Literal

TargetName = Literal["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]


@dataclass(frozen=True)
class Target:
    """One architecture. `shared_limit_bytes` is the opt-in maximum of shared memory a block can have."""

    name: str
    backend: str
    architecture: int
    warp_size: int
    capability: tuple[int, int]
    shared_limit_bytes: int
    register_limit: int = 65536


# Source of the limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", maximum shared
# memory per thread block (64, 163, 99, 99, 227, 227 and 99 KiB) and 64 Ki registers per block.
_SHARED_KIB = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}

TARGETS = {
    f"sm_{arch}": Target(f"sm_{arch}", "cuda", arch, 32, (arch // 10, arch % 10), kib * 1024)
    for arch, kib in _SHARED_KIB.items()
}


def target_of(capability: tuple[int, int]) -> str:
    """Return the toolchain's name for a compute capability, such as sm_90 for (9, 0)."""
    return f"sm_{capability[0]}{capability[1]}"


def capability_of(target: str) -> tuple[int, int]:
    """Return (major, minor) for a target name such as sm_90 or sm_120."""
    digits = target.removeprefix("sm_").rstrip("af")
    return int(digits[:-1]), int(digits[-1])


def parse_capability(text: str) -> tuple[int, int]:
    """Return (9, 0) for '9.0'."""
    major, minor = text.split(".")
    return int(major), int(minor)


def capability_text(capability: tuple[int, int]) -> str:
    """Return '9.0' for (9, 0)."""
    return f"{capability[0]}.{capability[1]}"


def unsuited(name: str, capability: tuple[int, int], oldest: str | None, newest: str | None = None) -> str | None:
    """Return why a device or target called `name` cannot serve what runs from `oldest` to `newest`, or None."""
    if oldest is not None and not capability >= parse_capability(oldest):
        return f"{name} is {capability_text(capability)}; {oldest} or newer is needed"
    if newest is not None and not capability <= parse_capability(newest):
        return f"{name} is {capability_text(capability)}; {newest} or older is needed"
    return None

"""Compile targets: name, architecture, and what one block may use on it.

NVIDIA's are named by compute capability (sm_90), AMD's by LLVM's processor (gfx942).
"""

from dataclasses import dataclass
from typing import Literal, get_args

NvidiaTarget = Literal["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
AmdTarget = Literal["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]
TargetName = Literal[NvidiaTarget, AmdTarget]

Operand = Literal["tf32", "bf16", "f16"]
"""What the precisions that split or round their operands put into matrix units."""


@dataclass(frozen=True)
class Target:
    """One architecture. `shared_limit_bytes` is the most shared memory (LDS on AMD) that a block can have."""

    name: str
    shared_limit_bytes: int


# Source of NVIDIA's limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", maximum
# shared memory per thread block, opted in to.
_NVIDIA_KIB: dict[NvidiaTarget, int] = {
    "sm_75": 64,
    "sm_80": 163,
    "sm_86": 99,
    "sm_89": 99,
    "sm_90": 227,
    "sm_100": 227,
    "sm_120": 99,
}
# Source of AMD's: LLVM, AMDGPU.td, "the maximum number of bytes of LDS that can be allocated to a single workgroup"
# (AddressableLocalMemorySize), which Triton has too: TritonAMDGPUToLLVM/TargetInfo.cpp, getSharedMemorySize.
_AMD_KIB: dict[AmdTarget, int] = {"gfx90a": 64, "gfx942": 64, "gfx950": 160, "gfx1100": 64, "gfx1201": 64}

TARGETS: dict[str, Target] = {name: Target(name, kib * 1024) for name, kib in (*_NVIDIA_KIB.items(), *_AMD_KIB.items())}

DEFAULT_TARGETS: tuple[TargetName, ...] = get_args(NvidiaTarget)
"""What is compiled for where the configuration names no targets."""

# Source: AMD's instruction set guides of CDNA 2, 3 and 4 (v_mfma_*) and of RDNA 3 and 4 (v_wmma_*). xf32 is AMD's tf32,
# which CDNA 3 alone has.
_AMD_OPERANDS: dict[str, frozenset[Operand]] = {"gfx942": frozenset(("tf32", "bf16", "f16"))}
_AMD_OPERANDS_ELSEWHERE: frozenset[Operand] = frozenset(("bf16", "f16"))

# Source: CUDA C++ Programming Guide, appendix on compute capabilities: tensor cores for float16, then for the others.
_NVIDIA_OPERANDS: dict[Operand, tuple[int, int]] = {"f16": (7, 0), "bf16": (8, 0), "tf32": (8, 0)}

_WAVE_64 = "gfx9"
"""GCN and CDNA run 64 threads in step, RDNA 32 (Triton: TritonAMDGPUToLLVM/TargetInfo.cpp, getWarpSize)."""


def is_amd(target: str) -> bool:
    """Return whether a target's name is one of AMD's processors."""
    return target.startswith("gfx")


def toolchain(target: str) -> tuple[str, int | str, int]:
    """Return Triton's backend, its name for the architecture, and the threads in a warp, for any device's target."""
    capability = capability_of(target)
    if capability is None:
        return "hip", target, 64 if target.startswith(_WAVE_64) else 32
    return "cuda", 10 * capability[0] + capability[1], 32


def multiplies(target: str, operand: Operand) -> bool:
    """Return whether a target's matrix units take an operand; those of float32 take it as it is, and are no matter."""
    capability = capability_of(target)
    if capability is None:
        return operand in _AMD_OPERANDS.get(target, _AMD_OPERANDS_ELSEWHERE)
    return capability >= _NVIDIA_OPERANDS[operand]


def target_of(capability: tuple[int, int]) -> str:
    """Return the toolchain's name for a compute capability, such as sm_90 for (9, 0)."""
    return f"sm_{capability[0]}{capability[1]}"


def capability_of(target: str) -> tuple[int, int] | None:
    """Return (major, minor) for a target name such as sm_90 or sm_120; None for AMD's, which have none."""
    if is_amd(target):
        return None
    digits = target.removeprefix("sm_").rstrip("af")
    return int(digits[:-1]), int(digits[-1])


def parse_capability(text: str) -> tuple[int, int]:
    """Return (9, 0) for '9.0'."""
    major, minor = text.split(".")
    return int(major), int(minor)


def capability_text(capability: tuple[int, int]) -> str:
    """Return '9.0' for (9, 0)."""
    return f"{capability[0]}.{capability[1]}"


def unsuited(name: str, target: str, oldest: str | None, newest: str | None = None) -> str | None:
    """Return why a device called `name`, or a target itself, cannot serve what runs from one compute capability,
    `oldest`, to another, `newest`; or None.
    """
    capability = capability_of(target)
    if capability is None:
        needed = f"{oldest} or newer" if oldest is not None else f"{newest} or older"
        return None if oldest is newest is None else f"{name} has no CUDA compute capability; {needed} is needed"
    if oldest is not None and not capability >= parse_capability(oldest):
        return f"{name} is {capability_text(capability)}; {oldest} or newer is needed"
    if newest is not None and not capability <= parse_capability(newest):
        return f"{name} is {capability_text(capability)}; {newest} or older is needed"
    return None

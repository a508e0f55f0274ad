"""Counts the instructions that say how a kernel multiplies: pure functions over assembly and disassembly."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from assay.amdgcn import count_amdgcn
from assay.record import Instructions

_PTX_OPCODE = re.compile(r"^\s*(?:\{\s*)?(?:@!?%\w+\s+)?([a-z][\w.:]+)[\s;]", re.MULTILINE)
_SASS_OPCODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]+)", re.MULTILINE)

ATOMIC_NAMES = ("atom", "red", "atomic")
"""Read-modify-write instructions: PTX's with a result and without (PTX ISA, atom and red), and AMD's."""

_REDUCING = ("cp.reduce.async.bulk", "multimem.red", "multimem.ld_reduce")
"""Reductions by the copy engine, of tensor descriptors among others, and over several devices (PTX ISA)."""

_MATRIX_PTX = {"mma.sync": "mma", "wgmma.mma_async": "wgmma", "tcgen05.mma": "tcgen05"}
_MATRIX_KINDS = (*_MATRIX_PTX.values(), "mfma", "wmma")
_SAME_OPERAND = {"bf16": "tcgen05.f16", "tf32": "mfma.xf32"}
_MATRIX_SASS = ("HMMA", "HGMMA", "IMMA", "QMMA", "QGMMA", "DMMA", "OMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA")
_FUSED_SASS = ("FFMA", "FFMA2", "HFMA2", "DFMA", "STL", "LDL")
# In this order: `tf32` would also be found by `f32`, and accumulators are f32 throughout.
_OPERANDS = ("tf32", "bf16", "e4m3", "e5m2", "f8f6f4", "s8", "u8", "i8", "f64", "f16")


def _operand(opcode: str) -> str:
    parts = re.split(r"[.:]+", opcode.lower())
    return next((operand for operand in _OPERANDS if operand in parts), "other")


def count_ptx(ptx: str) -> dict[str, int]:
    """Count matrix instructions by kind and operand type (`wgmma.tf32`), fused multiply-adds (`fma.f32`) and
    atomic operations (`atom`; `red` without a result, those of the copy engine too).
    """
    counts: Counter[str] = Counter()
    for opcode in _PTX_OPCODE.findall(ptx):
        kind = next((name for prefix, name in _MATRIX_PTX.items() if opcode.startswith(prefix)), None)
        if kind is not None:
            counts[f"{kind}.{_operand(opcode)}"] += 1
        elif opcode.startswith("fma.rn"):
            counts[f"fma.{opcode.split('.')[-1]}"] += 1
        elif opcode.startswith(_REDUCING):
            counts["red"] += 1
        elif opcode.split(".")[0] in ATOMIC_NAMES:
            counts[opcode.split(".")[0]] += 1
    return dict(sorted(counts.items()))


def count_sass(sass: str) -> dict[str, int]:
    """Count matrix instructions (`hgmma.tf32`), fused multiply-adds (`ffma`) and local memory accesses (`stl`)."""
    counts: Counter[str] = Counter()
    for opcode in _SASS_OPCODE.findall(sass):
        root = opcode.split(".")[0]
        if root in _MATRIX_SASS:
            counts[f"{root.lower()}.{_operand(opcode)}"] += 1
        elif root in _FUSED_SASS:
            counts[root.lower()] += 1
    return dict(sorted(counts.items()))


def count_assembly(asm: Mapping[str, Any]) -> dict[str, int]:
    """Count the instructions of what Triton's compiler wrote last before the binary: PTX, or AMD's assembly."""
    return count_ptx(str(asm["ptx"])) if "ptx" in asm else count_amdgcn(str(asm["amdgcn"]))


def matrix_names(assembly: Mapping[str, int], operand: str | None = None) -> list[str]:
    """Return the names of the matrix instructions in counts of assembly: of one operand type, or of any.

    `tcgen05.mma` has one kind, f16, for float16 and bfloat16 operands (PTX ISA, tcgen05.mma). xf32 is AMD's tf32: it
    has as many bits of exponent and fraction (AMD Instinct MI300 Instruction Set Architecture, v_mfma_f32_*_xf32).
    """
    return [
        name
        for name in assembly
        if name.split(".")[0] in _MATRIX_KINDS
        and (operand is None or name.split(".")[1] == operand or name == _SAME_OPERAND.get(operand))
    ]


def matrix_instructions(assembly: Mapping[str, int], operand: str | None = None) -> int:
    """Return how many matrix instructions there are in counts of assembly: of one operand type, or of any."""
    return sum(assembly[name] for name in matrix_names(assembly, operand))


def rounding_instructions(assembly: Mapping[str, int]) -> int:
    """Return how many matrix instructions take less than float32: all of NVIDIA's, and of AMD's all but f32's."""
    return matrix_instructions(assembly) - matrix_instructions(assembly, "f32")


def local_accesses(instructions: Instructions) -> tuple[int, int]:
    """Return how many stores to and loads from a thread's own memory there are, which spilled registers go through."""
    if instructions.machine is None:
        return instructions.assembly.get("scratch_store", 0), instructions.assembly.get("scratch_load", 0)
    return instructions.machine.get("stl", 0), instructions.machine.get("ldl", 0)


def resource_usage(text: str) -> tuple[int, int]:
    """Return (registers, stack bytes) from `cuobjdump --dump-resource-usage`: the largest of its functions."""
    rows = re.findall(r"REG:(\d+) STACK:(\d+)", text)
    if not rows:
        raise ValueError("cuobjdump printed no resource usage")
    return max(int(r) for r, _ in rows), max(int(s) for _, s in rows)

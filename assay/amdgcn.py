"""What AMD's assembly says of a kernel: pure functions over the text that becomes the code object as it stands.

Triton's wheel carries no disassembler for code objects, and needs none: LLVM assembles this text one to one.
"""

import re
from collections import Counter

from assay.record import RegisterFiles

# RDNA pairs two instructions in one line: v_dual_fmac_f32 ... :: v_dual_mov_b32 ...
_OPCODE = re.compile(r"(?:^[ \t]+|::[ \t]*)([a-z]\w*)", re.MULTILINE)
# v_mfma_f32_32x32x4_xf32, v_mfma_f32_32x32x2f32, v_mfma_f32_32x32x8bf16_1k, v_mfma_f32_4x4x1_16b_f32 and
# v_mfma_scale_f32_16x16x128_f8f6f4; smfmac and swmmac take a sparse operand.
_MATRIX = re.compile(r"v_(mfma|smfmac|wmma|swmmac)_(?:scale_)?[a-z0-9]+_\d+x\d+x\d+_?(?:\d+b_)?([a-z][a-z0-9]*)")
_KINDS = {"smfmac": "mfma", "swmmac": "wmma"}
_FUSED = re.compile(r"v_(?:dual_)?(pk_)?(?:fma|fmac|fmaak|fmamk)_(bf16|f16|f32|f64)(?:_e32|_e64|_dpp)?")
_ATOMIC = re.compile(r"(?:global|flat|buffer)_atomic_\w+|ds_(?:add|sub|inc|dec|min|max|and|or|xor|pk_add|cmpst)\w*")
_SCRATCH = re.compile(r"scratch_(load|store)_\w+")
# Before CDNA 3 a lane's own memory is a buffer like any other, and LLVM says in a comment which accesses spill.
_SPILL_BUFFER = re.compile(r"^[ \t]+buffer_(load|store)_[^;\n]*;[^\n]*Folded (?:Spill|Reload)", re.MULTILINE)
_METADATA = re.compile(r"^\s*\.amdgpu_metadata$(.*?)^\s*\.end_amdgpu_metadata$", re.MULTILINE | re.DOTALL)


def _name(opcode: str) -> str | None:
    """Return under which name an instruction is counted, or None."""
    if matrix := _MATRIX.match(opcode):
        kind = _KINDS.get(matrix[1], matrix[1])
        return f"{kind}.{matrix[2]}"
    if fused := _FUSED.fullmatch(opcode):
        return f"fma.{fused[2]}{'x2' if fused[1] else ''}"
    if _ATOMIC.fullmatch(opcode):
        return "atomic"
    own = _SCRATCH.fullmatch(opcode)
    return f"scratch_{own[1]}" if own else None


def count_amdgcn(text: str) -> dict[str, int]:
    """Count matrix instructions by kind and operand type (`mfma.xf32`, `wmma.bf16`), fused multiply-adds (`fma.f32`),
    atomic operations (`atomic`) and accesses to a lane's own memory (`scratch_store`, `scratch_load`).
    """
    names = [*map(_name, _OPCODE.findall(text)), *(f"scratch_{way}" for way in _SPILL_BUFFER.findall(text))]
    return dict(sorted(Counter(name for name in names if name is not None).items()))


def _largest(metadata: str, key: str) -> int:
    found = re.findall(rf"^[ -]*\.{key}:\s+(\d+)\s*$", metadata, re.MULTILINE)
    if not found:
        raise ValueError(f"the assembly's metadata does not tell .{key}")
    return max(map(int, found))


def usage(text: str) -> tuple[int, int, RegisterFiles]:
    """Return the vector registers of a lane, its private memory in bytes, and the register files, from the metadata
    that goes into the code object (LLVM, User Guide for AMDGPU Backend, "Code Object V5 Metadata"): the largest of its
    functions. `.vgpr_count` includes accumulation registers where both lie in one file. ValueError where it is absent.
    """
    found = _METADATA.search(text)
    metadata = found[1] if found else ""
    vectors = _largest(metadata, "vgpr_count")
    # RDNA has no accumulation registers, and its metadata no such key.
    accumulators = _largest(metadata, "agpr_count") if ".agpr_count:" in metadata else None
    files = RegisterFiles(
        vgpr=vectors,
        agpr=accumulators,
        sgpr=_largest(metadata, "sgpr_count"),
        vgpr_spills=_largest(metadata, "vgpr_spill_count"),
        sgpr_spills=_largest(metadata, "sgpr_spill_count"),
    )
    return vectors, _largest(metadata, "private_segment_fixed_size"), files

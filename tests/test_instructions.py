"""Counting instructions in PTX and machine code: snippets written by hand, and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.instructions import (
    ATOMIC_NAMES,
    count_ptx,
    count_sass,
    matrix_instructions,
    matrix_names,
    resource_usage,
)

PTX: list[tuple[str, dict[str, int]]] = [
    ("\tmma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %r1, %r2 }, { %r3 }, { %r4 }, { %r5 };", {"mma.tf32": 1}),
    ("\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};", {"mma.bf16": 1}),
    ("\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", {"mma.f16": 1}),
    ("\tmma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%r1}, {%r2}, {%r3}, {%r4};", {"mma.e4m3": 1}),
    ("\tmma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r4};", {"mma.s8": 1}),
    ("\twgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%r1}, %rd1, %rd2, 1, 1, 1;", {"wgmma.tf32": 1}),
    ("\twgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, 1, 1, 1;", {"wgmma.bf16": 1}),
    ("\twgmma.fence.sync.aligned;\n\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;", {}),
    ("\t@%p9 tcgen05.mma.cta_group::1.kind::tf32 [ %r1 + 0 ], %rd1, %rd2, %r2, %p10;", {"tcgen05.tf32": 1}),
    ("\t@%p9 tcgen05.mma.cta_group::1.kind::f16 [ %r1 + 0 ], %rd1, %rd2, %r2, %p10;", {"tcgen05.f16": 1}),
    ("\ttcgen05.mma.cta_group::2.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p10;", {"tcgen05.f8f6f4": 1}),
    ("\ttcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 128;", {}),
    ("\tfma.rn.f32 %r3, %r1, %r2, %r3;", {"fma.f32": 1}),
    ("\tfma.rn.ftz.f32 %r3, %r1, %r2, %r3;", {"fma.f32": 1}),
    ("\tfma.rn.f32x2 %rd3, %rd1, %rd2, %rd3;", {"fma.f32x2": 1}),
    ("\tfma.rn.bf16x2 %r3, %r1, %r2, %r3;", {"fma.bf16x2": 1}),
    ("\t@%p1 fma.rn.f32 %r3, %r1, %r2, %r3;", {"fma.f32": 1}),
    ("\t@!%p1 mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r4};", {"mma.tf32": 1}),
    ("{ fma.rn.f32 %r3, %r1, %r2, %r3; }", {"fma.f32": 1}),
    ("\tatom.global.gpu.relaxed.add.f32 %r1, [ %rd1 + 0 ], %r2;", {"atom": 1}),
    ("\t@%p1 red.global.gpu.relaxed.add.f32 [ %rd1 + 0 ], %r2;", {"red": 1}),
    ("\t@%p5 cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%rd2, {%r4}], [%r2];", {"red": 1}),
    ("\tcp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 256;", {"red": 1}),
    ("\tmultimem.red.relaxed.gpu.global.add.f32 [%rd1], %r1;", {"red": 1}),
    ("\tmultimem.ld_reduce.relaxed.gpu.global.add.f32 %r1, [%rd1];", {"red": 1}),
    ("\tcp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd2, {%r4}], [%r2];", {}),
    ("\tredux.sync.add.s32 %r1, %r2, 0xffffffff;", {}),
    ("\tadd.f32 %r1, %r2, %r3;\n\tmul.f32 %r1, %r2, %r3;\n\tmad.lo.s32 %r1, %r2, %r3, %r4;", {}),
    ("\t// fma.rn.f32 in a comment;\n.visible .entry fma_kernel(\n\t.param .u64 fma.rn.f32\n)", {}),
    ("", {}),
]

SASS: list[tuple[str, dict[str, int]]] = [
    ("        /*0a10*/                   HMMA.1688.F32.TF32 R4, R8, R12, R4 ;", {"hmma.tf32": 1}),
    ("        /*0a10*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;", {"hmma.bf16": 1}),
    ("        /*0a10*/                   HMMA.16816.F32 R4, R8, R12, R4 ;", {"hmma.other": 1}),
    ("        /*1c30*/                   HGMMA.64x64x8.F32.TF32 R24, gdesc[UR4], R24 ;", {"hgmma.tf32": 1}),
    (
        "        /*1c30*/                   UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11] ;",
        {"utchmma.other": 1},
    ),
    ("        /*1c30*/              @!P0 UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8] ;", {"utchmma.other": 1}),
    ("        /*0110*/                   FFMA R1, R2, R3, R1 ;", {"ffma": 1}),
    ("        /*0110*/                   FFMA.FTZ R1, R2, R3, R1 ;", {"ffma": 1}),
    ("        /*0110*/              @P0  FFMA R1, R2, R3, R1 ;", {"ffma": 1}),
    ("        /*0110*/             @!UP1 FFMA R1, R2, R3, R1 ;", {"ffma": 1}),
    ("        /*0110*/                   FFMA2 R4, R8, R12, R4 ;", {"ffma2": 1}),
    ("        /*0110*/                   STL.64 [R1+0x8], R2 ;", {"stl": 1}),
    ("        /*0110*/                   LDL.LU R2, [R1] ;", {"ldl": 1}),
    ("        /*0110*/                   STS [R1], R2 ;\n        /*0120*/                   LDG.E R2, [R4] ;", {}),
    ("                                                   /* 0x000000030204c223 */", {}),
    ("\t.section\t.text.FFMA\n\tFunction : FFMA", {}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "counts"), PTX, ids=[text.strip()[:40] or "empty" for text, _ in PTX])
def test_ptx(text: str, counts: dict[str, int]) -> None:
    assert count_ptx(text) == counts


@pytest.mark.parametrize(("text", "counts"), SASS, ids=[text.strip()[:50] or "empty" for text, _ in SASS])
def test_sass(text: str, counts: dict[str, int]) -> None:
    assert count_sass(text) == counts


def added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


lines = st.lists(st.sampled_from([text for text, _ in PTX]), max_size=8).map("\n".join)
machine = st.lists(st.sampled_from([text for text, _ in SASS]), max_size=8).map("\n".join)


@given(lines, lines)
def test_counts_of_two_pieces_of_ptx_add_up(first: str, second: str) -> None:
    assert count_ptx(f"{first}\n{second}") == added(count_ptx(first), count_ptx(second))


@given(machine, machine)
def test_counts_of_two_pieces_of_machine_code_add_up(first: str, second: str) -> None:
    assert count_sass(f"{first}\n{second}") == added(count_sass(first), count_sass(second))


@given(lines)
def test_counts_stand_in_order_so_that_records_are_equal(text: str) -> None:
    assert list(count_ptx(text)) == sorted(count_ptx(text))


@given(lines)
def test_matrix_instructions_are_all_that_neither_multiply_and_add_alone_nor_are_atomic(text: str) -> None:
    counts = count_ptx(text)
    others = sum(n for name, n in counts.items() if not name.startswith("fma.") and name not in ATOMIC_NAMES)
    assert matrix_instructions(counts) == others
    assert all(matrix_instructions(counts, operand) <= matrix_instructions(counts) for operand in ("tf32", "bf16"))


def test_bf16_is_one_of_the_operands_of_the_f16_kind_of_tcgen05_and_of_no_other() -> None:
    counts = {"tcgen05.f16": 3, "mma.f16": 5, "wgmma.bf16": 7, "tcgen05.tf32": 11, "fma.bf16": 13}
    assert matrix_names(counts, "bf16") == ["tcgen05.f16", "wgmma.bf16"]
    assert matrix_instructions(counts, "bf16") == 10
    assert matrix_instructions(counts, "tf32") == 11
    assert matrix_instructions(counts, "f16") == 8
    assert matrix_instructions(counts) == 26


USAGE = """
Fatbin elf code:
================
arch = sm_90

Resource usage:
 Common:
  GLOBAL:0
 Function helper:
  REG:24 STACK:1360 SHARED:0 LOCAL:0 CONSTANT[0]:608 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function matmul_kernel:
  REG:168 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:608 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_resource_usage_is_the_largest_of_all_functions() -> None:
    assert resource_usage(USAGE) == (168, 1360)


def test_resource_usage_that_is_not_there_is_an_error_and_not_zero() -> None:
    with pytest.raises(ValueError, match="cuobjdump printed no resource usage"):
        resource_usage("Fatbin elf code:")

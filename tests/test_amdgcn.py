"""Compiling for AMD's targets, for real and with no GPU: what the assembly says, and what its compiler refuses.

No assembly is pasted here: what is counted is what this Triton writes.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from test_codegen import CASE, MATMUL
from trials import Workshop, workshop, written
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from assay.amdgcn import count_amdgcn, usage
from assay.child import Fault
from assay.diagnosis import diagnose
from assay.findings import judge_fit
from assay.record import Binary
from assay.targets import toolchain

SPILLING = "ieee/128x128x32"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    found = workshop(tmp_path_factory.mktemp("cache"))
    with found.child:
        yield found


def build(made: Workshop, variant: str, target: str, kernel: Path = MATMUL) -> Binary:
    binaries = made.build(kernel, variant, target, CASE)
    assert isinstance(binaries, list), binaries
    (binary,) = binaries
    return binary


@triton.jit  # type: ignore[untyped-decorator]
def product_kernel(a_ptr, b_ptr, c_ptr, TYPE: tl.constexpr):  # type: ignore[no-untyped-def]
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    a, b = tl.load(a_ptr + 32 * i + j), tl.load(b_ptr + 32 * i + j)
    tl.store(c_ptr + 32 * i + j, tl.dot(a.to(TYPE), b.to(TYPE), out_dtype=tl.float32))
    tl.atomic_add(c_ptr + j, tl.sum(a, axis=0)[None, :])


def assembly(target: str, dtype: tl.dtype) -> str:
    """Return what Triton writes for a product of two tiles in a type, and an atomic sum."""
    source = ASTSource(
        fn=product_kernel,
        signature={"a_ptr": "*fp32", "b_ptr": "*fp32", "c_ptr": "*fp32", "TYPE": "constexpr"},
        constexprs={"TYPE": dtype},
    )
    options = {"num_warps": 1, "enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget(*toolchain(target)), options=options)
    return str(compiled.asm["amdgcn"])


@pytest.fixture(scope="module")
def written_out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], str]]:
    """Return assembly by target and type, from a cache of this module's own."""
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield {
            (target, str(dtype)): assembly(target, dtype)
            for target in ("gfx90a", "gfx942", "gfx1100")
            for dtype in (tl.float16, tl.bfloat16, tl.float32)
        }


@pytest.mark.parametrize(
    ("target", "dtype", "name"),
    [
        ("gfx90a", "fp16", "mfma.f16"),
        ("gfx90a", "bf16", "mfma.bf16"),
        ("gfx90a", "fp32", "mfma.f32"),
        ("gfx942", "fp16", "mfma.f16"),
        ("gfx942", "bf16", "mfma.bf16"),
        ("gfx942", "fp32", "mfma.xf32"),  # a dot that asks for no precision gets tf32 where there is one
        ("gfx1100", "fp16", "wmma.f16"),
        ("gfx1100", "bf16", "wmma.bf16"),
    ],
)
def test_matrix_instructions_are_named_by_what_they_multiply(
    written_out: dict[tuple[str, str], str], target: str, dtype: str, name: str
) -> None:
    text = written_out[target, dtype]
    counts = count_amdgcn(text)
    assert [found for found in counts if found.startswith(("mfma", "wmma"))] == [name]
    assert counts[name] == len(re.findall(r"^\s+v_(?:mfma|wmma)_", text, re.MULTILINE)) > 0


def test_without_a_matrix_unit_for_float32_every_multiply_add_is_counted(
    written_out: dict[tuple[str, str], str],
) -> None:
    # Two can stand in one line.
    text = written_out["gfx1100", "fp32"]
    assert "::" in text
    assert count_amdgcn(text)["fma.f32"] == len(re.findall(r"v_(?:dual_)?fma(?:c|ak|mk)?_f32", text)) > 32


def test_atomics_are_counted_whatever_the_compiler_makes_of_them(written_out: dict[tuple[str, str], str]) -> None:
    assert all(count_amdgcn(text)["atomic"] > 0 for text in written_out.values())


def test_counts_of_two_pieces_add_up_and_stand_in_order(written_out: dict[tuple[str, str], str]) -> None:
    texts = list(written_out.values())
    for one, other in pairwise(texts):
        both, parts = count_amdgcn(f"{one}\n{other}"), (count_amdgcn(one), count_amdgcn(other))
        assert both == {name: sum(part.get(name, 0) for part in parts) for name in both}
        assert list(both) == sorted(both)


@given(st.text("; :.v_mfmaxf32\n\t", max_size=60))
def test_what_is_no_instruction_counts_as_nothing(text: str) -> None:
    assert set(count_amdgcn(f";{text.replace(chr(10), ' ')}\n.ascii v_fma_f32\nv_fma_f32:\n")) == set()


def test_metadata_that_is_not_there_is_an_error_and_not_zero(written_out: dict[tuple[str, str], str]) -> None:
    text = written_out["gfx942", "fp32"]
    with pytest.raises(ValueError, match=r"does not tell \.vgpr_count"):
        usage(text.partition(".amdgpu_metadata")[0])
    with pytest.raises(ValueError, match=r"does not tell \.sgpr_spill_count"):
        usage(re.sub(r"\.sgpr_spill_count:.*", "", text))


def test_tf32_takes_xf32_where_there_is_one_and_ieee_float32s_own(made: Workshop) -> None:
    ieee, tf32 = (build(made, f"{precision}/64x64x32", "gfx942") for precision in ("ieee", "tf32"))
    assert tf32.instructions.assembly["mfma.xf32"] > 0
    assert ieee.instructions.assembly["mfma.f32"] > 0
    assert "mfma.xf32" not in ieee.instructions.assembly
    assert ieee.instructions.machine is None, "the assembly is the machine's own"
    assert len({ieee.binary_sha256, tf32.binary_sha256, ieee.assembly_sha256, tf32.assembly_sha256}) == 4
    for binary in (ieee, tf32):
        assert binary.register_files is not None
        assert binary.register_files.agpr is not None
        assert 0 < binary.registers == binary.register_files.vgpr <= 512
        assert binary.register_files.sgpr > 0
        assert (binary.stack_bytes, binary.local_store_instructions, binary.register_files.vgpr_spills) == (0, 0, 0)


@pytest.mark.parametrize("target", ["gfx90a", "gfx950", "gfx1100", "gfx1201"])
def test_elsewhere_tf32_is_inapplicable_in_the_compilers_own_words(made: Workshop, target: str) -> None:
    fault = made.build(MATMUL, "tf32/64x64x32", target, CASE)
    assert isinstance(fault, Fault)
    verdict = diagnose(fault, "tf32")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-precision")
    assert "input_precision must be one of ('ieee', 'bf16x3', 'bf16x6'). Got tf32" in verdict.reason


def test_shared_memory_is_held_against_the_targets_lds(made: Workshop) -> None:
    small, large = build(made, "ieee/64x64x32", "gfx950"), build(made, "ieee/128x64x64", "gfx942")
    assert judge_fit([small], "gfx950").reason == f"{small.shared_bytes} of 163840 B of LDS"
    verdict = judge_fit([large], "gfx942")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "does-not-fit")
    assert verdict.reason == f"matmul_kernel needs {large.shared_bytes} B of LDS; a block on gfx942 has 65536 B"


def test_spilled_registers_show_in_the_metadata_and_in_the_code(made: Workshop) -> None:
    binary = build(made, SPILLING, "gfx1100")
    assert binary.register_files is not None
    assert binary.register_files.vgpr_spills > 0
    assert binary.register_files.agpr is None, "RDNA has none"
    assert min(binary.stack_bytes, binary.local_store_instructions, binary.local_load_instructions) > 0
    assert binary.instructions.assembly["scratch_store"] == binary.local_store_instructions


def test_a_code_object_depends_neither_on_the_process_nor_on_where_the_kernel_lies(
    made: Workshop, tmp_path: Path
) -> None:
    targets = ("gfx942", "gfx1100")
    here = [build(made, "ieee/64x64x32", target) for target in targets]
    elsewhere = written(tmp_path / "another checkout", "matmul", MATMUL.read_text("utf-8"))
    (tmp_path / "cache").mkdir()
    fresh = workshop(tmp_path / "cache")
    with fresh.child:
        # In another order, and after NVIDIA's: what was compiled before leaves no trace.
        build(fresh, "ieee/64x64x32", "sm_90", elsewhere)
        there = [build(fresh, "ieee/64x64x32", target, elsewhere) for target in reversed(targets)]
    assert there == [here[1], here[0]]

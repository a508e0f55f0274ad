"""Where Triton's compiler puts barriers around atomic operations, on which `assay.schedules` builds."""

import re

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from assay.schedules import RELEASES_WAIT

OPERATION = re.compile(r"\b(bar\.sync|st\.global|ld\.global|atom\.global|red\.global)")


@triton.jit  # type: ignore[untyped-decorator]
def under_a_lock(x_ptr, lock_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1.0)
    tl.atomic_xchg(lock_ptr, 0)


@pytest.fixture(scope="module", params=[80, 90])
def operations(request: pytest.FixtureRequest) -> list[str]:
    """Compile a kernel for a card; return its barriers and what it does to memory, in order."""
    signature = {"x_ptr": "*fp32", "lock_ptr": "*i32", "BLOCK": "constexpr"}
    source = ASTSource(under_a_lock, signature, {"BLOCK": 1024})
    # Triton 3.9 warns where nothing is said of fusion.
    options = {"enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", request.param, 32), options=options)
    return OPERATION.findall(compiled.asm["ptx"])


def test_what_was_acquired_all_threads_learn_behind_a_barrier(operations: list[str]) -> None:
    taken = operations.index("atom.global")
    assert "bar.sync" in operations[taken : operations.index("ld.global")]


def test_a_release_waits_for_all_threads_where_it_is_said_to(operations: list[str]) -> None:
    """Where this fails, RELEASES_WAIT in assay/schedules.py says something else than this version of Triton does."""
    stored = len(operations) - operations[::-1].index("st.global")
    released = max(at for at, one in enumerate(operations) if one in {"atom.global", "red.global"})
    assert stored <= released
    assert ("bar.sync" in operations[stored:released]) == RELEASES_WAIT

"""Which binaries a launch used: each once, in order, and Triton's launcher as it was afterwards."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from assay.artifact import sha256_bytes
from assay.launches import (
    AutotunedKernel,
    CompileOnlyDriver,
    Launches,
    binary_of,
    build_launchers,
    survey,
    translate_only,
    use_target,
    watch,
)


@triton.jit  # type: ignore[untyped-decorator]
def doubled(x, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    pass


@triton.jit  # type: ignore[untyped-decorator]
def tupled(xs, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    xs[0].to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator]
def widened(n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    n.to(tl.int64)


@triton.jit(do_not_specialize=["n"])  # type: ignore[untyped-decorator]
def kept_general(n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    n.to(tl.int64)


@triton.jit(do_not_specialize=["xs"])  # type: ignore[untyped-decorator]
def tupled_general(xs, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    xs[0].to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator]
def of_a_type(n: tl.int64, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    n.to(tl.int64)


def compiled(binary: bytes, kind: str = "cubin") -> SimpleNamespace:
    return SimpleNamespace(asm={kind: binary, "ptx": ""})


def test_each_compiled_kernel_is_kept_once_in_the_order_of_first_launch() -> None:
    first, second, again = compiled(b"1"), compiled(b"2"), compiled(b"1")
    seen = Launches()
    for kernel in (first, None, second, first, again):
        seen.add(kernel)
    assert seen.compiled == [first, second, again]
    assert seen.digests() == [sha256_bytes(b"1"), sha256_bytes(b"2"), sha256_bytes(b"1")]


def test_the_device_binary_is_a_cubin_or_an_hsaco() -> None:
    assert binary_of(compiled(b"\x7fELF")) == b"\x7fELF"
    assert binary_of(compiled(b"code object", "hsaco")) == b"code object"


def test_the_launcher_is_as_it_was_also_after_an_exception() -> None:
    before = JITFunction.run
    with watch() as seen:
        assert JITFunction.run is not before
    with pytest.raises(ZeroDivisionError), watch(compile_only=True):
        raise ZeroDivisionError
    assert JITFunction.run is before
    assert seen.compiled == []


def test_the_driver_that_only_compiles_names_its_target_and_has_no_device() -> None:
    driver = CompileOnlyDriver("cuda", 90, 32)
    target = driver.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    assert not CompileOnlyDriver.is_active()
    assert driver.get_active_torch_device().type == "cpu"
    with pytest.raises(RuntimeError, match="there is no device"):
        driver.get_device_interface()
    with pytest.raises(AutotunedKernel, match="declare its configurations as variants instead"):
        driver.get_benchmarker()


def host_driver(built: list[object], missing: bool = False) -> ModuleType:
    """Return a stand-in for Triton's module of this name, which needs the driver's library."""

    def utils() -> None:
        if missing:
            raise OSError("libcuda.so cannot found!")
        built.append("utils")

    module = ModuleType("driver")
    module.CudaUtils = utils  # type: ignore[attr-defined]
    module.CudaLauncher = lambda source, metadata: built.append((source, metadata))  # type: ignore[attr-defined]
    module.make_launcher = None  # type: ignore[attr-defined]
    return module


KERNELS = [SimpleNamespace(src="a", metadata=1), SimpleNamespace(src="b", metadata=2)]


@pytest.mark.parametrize(
    ("launchers", "missing", "expected"),
    [(True, False, ["utils", ("a", 1), ("b", 2)]), (False, False, ["utils"]), (True, True, [])],
)
def test_what_the_hosts_compiler_makes_is_built_ahead(
    monkeypatch: pytest.MonkeyPatch, launchers: bool, missing: bool, expected: list[object]
) -> None:
    built: list[object] = []
    module = host_driver(built, missing)
    if not launchers:
        # Since Triton 3.7 one launcher serves every signature.
        del module.make_launcher
    monkeypatch.setattr(triton.backends.nvidia, "driver", module)
    build_launchers(KERNELS)
    assert built == expected


def test_triton_has_what_is_built_ahead() -> None:
    from triton.backends.nvidia import driver

    assert callable(driver.CudaUtils)
    if hasattr(driver, "make_launcher"):
        assert list(inspect.signature(driver.CudaLauncher).parameters) == ["src", "metadata"]


def kinds(first: object, second: object, kernel: Any = doubled) -> bool:
    """Return whether Triton compiles a launch with one argument for what it compiles it for with another."""
    with survey() as one:
        kernel[(1,)](first, BLOCK=4)
    with survey() as two:
        kernel[(1,)](second, BLOCK=4)
    assert len(one) == len(two) == 1
    return one == two


def test_a_survey_tells_types_apart_and_no_values_but_those_of_constants_and_options() -> None:
    single, half = torch.ones(16), torch.ones(16, dtype=torch.float16)
    assert kinds(single, single[1:])
    assert kinds(16, 3)
    assert kinds((single, 2), (single[1:], 3))
    assert not kinds(single, half)
    assert not kinds(single, None)
    assert not kinds(1, 1.0)
    assert not kinds((single, 1), (half, 1))
    assert not kinds(((single,), (2, 1)), ((single,), (2, 3)))
    assert not kinds(tl.constexpr(2), tl.constexpr(3))
    assert not kinds(doubled, tupled)
    with survey() as seen:
        for options in ({"BLOCK": 4}, {"BLOCK": 8}, {"BLOCK": 8, "num_warps": 8}, {"BLOCK": 4}):
            doubled[(1,)](single, **options)
        # By position as by name.
        doubled[(1,)](single, 4)
    assert len(seen) == 3


def is_taken(kernel: Any, argument: object) -> bool:
    """Return whether Triton's front end takes a launch with this argument."""
    found = ""
    with translate_only():
        try:
            kernel[(1,)](argument, BLOCK=4)
        except CompilationError as error:
            found = str(error)
    assert not found or "object has no attribute 'to'" in found
    return not found


@pytest.mark.parametrize(
    ("kernel", "argument", "taken", "alike"),
    [
        (widened, 1, False, False),
        (widened, 2, True, True),
        (widened, 0, True, True),
        (widened, -1, True, True),
        (widened, True, True, False),
        (widened, None, False, False),
        (kept_general, 1, True, True),
        (of_a_type, 1, True, True),
        (tupled, (1, 2), False, False),
        (tupled, (2, 1), True, False),
        (tupled_general, (1, 2), False, False),
    ],
)
def test_a_launch_is_told_apart_where_triton_makes_a_constant_of_its_argument(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, argument: Any, taken: bool, alike: bool
) -> None:
    monkeypatch.setattr(triton.runtime.driver, "_active", None)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    use_target("cuda", 90, 32)
    whole = (7, 7) if isinstance(argument, tuple) else 7
    assert is_taken(kernel, whole)
    assert is_taken(kernel, argument) == taken
    # Whichever comes first.
    assert kinds(whole, argument, kernel) == kinds(argument, whole, kernel) == alike


numbers = st.sampled_from([-(2**31) - 1, -(2**31), 0, 1, 2, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1])


@given(numbers, numbers)
def test_whole_numbers_are_told_apart_as_triton_does(one: int, two: int) -> None:
    first, second = (mangle_type(number, specialize=True) for number in (one, two))
    assert kinds(one, two) == (first == second)


def test_a_survey_tells_a_grid_that_cuda_does_not_take_apart() -> None:
    with survey() as seen:
        for rows in (1, 65535, 65536, 65536, 65537):
            doubled[(1, rows)](16, BLOCK=4)
            doubled[lambda meta, rows=rows: (meta["x"], rows)](16, BLOCK=4)
    # One that it takes, and two that it does not.
    assert len(seen) == 3


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]))
def test_a_descriptor_is_told_by_its_block(one: int, two: int) -> None:
    tensor = torch.ones(16, 16)
    blocks = [TensorDescriptor(tensor, [16, 16], [16, 1], [size, 4]) for size in (one, two)]
    assert kinds(*blocks) == (one == two)


@pytest.mark.parametrize("look", [survey, translate_only])
def test_triton_is_as_it_was_after_a_look_that_failed(look: Callable[[], AbstractContextManager[object]]) -> None:
    before = JITFunction.run, ASTSource.make_ir
    with look():
        assert JITFunction.run is not before[0]
    with pytest.raises(ZeroDivisionError), look():
        raise ZeroDivisionError
    assert (JITFunction.run, ASTSource.make_ir) == before

"""Which binaries a launch used: each once, in order, and Triton's launcher as it was afterwards."""

from types import SimpleNamespace

import pytest
from triton.runtime.jit import JITFunction

from assay.artifact import sha256_bytes
from assay.launches import AutotunedKernel, CompileOnlyDriver, Launches, binary_of, watch


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

"""Watches Triton launches: which binaries a kernel file's own launch uses, on a device or with none at all.

Both the executed and the ahead-of-time digests come from here, so that they describe the same thing. Call in a child
process only: it imports Triton and patches its launcher.
"""

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler.compiler import ASTSource
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from assay.artifact import sha256_bytes
from assay.errors import AssayError
from assay.grids import GridTooLarge, excess_of
from assay.instructions import ATOMIC_NAMES, count_assembly
from assay.record import Digest


@dataclass
class Launches:
    """The compiled kernels of the launches made meanwhile, in order of their first launch, each once; and the first
    error that a launch `raised`.
    """

    compiled: list[Any] = field(default_factory=list)
    raised: Exception | None = None

    def add(self, kernel: Any) -> None:
        """Remember a compiled kernel (None, from a launch that a hook swallowed, is left out)."""
        if kernel is not None and all(kernel is not known for known in self.compiled):
            self.compiled.append(kernel)

    def surface(self) -> None:
        """Raise what a launch raised though someone has caught it: what came of it then is not the kernel's."""
        if self.raised is not None:
            raise self.raised

    def digests(self) -> list[Digest]:
        """Return the sha256 of each device binary, in the order of first launch."""
        return [sha256_bytes(binary_of(kernel)) for kernel in self.compiled]

    def atomics(self) -> int:
        """Return how many atomic instructions stand in the code that was launched."""
        return sum(atomic_instructions(kernel) for kernel in self.compiled)


def binary_of(kernel: Any) -> bytes:
    """Return the device binary of a compiled kernel: a cubin, or an hsaco on AMD."""
    return bytes(kernel.asm.get("cubin") or kernel.asm["hsaco"])


def atomic_instructions(kernel: Any) -> int:
    """Count the instructions of a compiled kernel whose order may change from launch to launch."""
    counts = count_assembly(kernel.asm)
    return sum(counts.get(name, 0) for name in ATOMIC_NAMES)


@contextlib.contextmanager
def watch(compile_only: bool = False) -> Iterator[Launches]:
    """Collect every kernel launched inside. `compile_only` compiles with the real arguments and launches nothing."""
    seen, launch = Launches(), JITFunction.run
    cleared: set[int] = set()

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        if compile_only and id(self) not in cleared:
            # Triton remembers a function's target by device index, and the one index here stands for every target.
            # Once only: a second launch finds the binary of the first, as it does on a device.
            self.device_caches.clear()
            cleared.add(id(self))
        try:
            _refuse_grid(self, grid, arguments, options)
            kernel = launch(self, *arguments, grid=grid, warmup=warmup or compile_only, **options)
        except Exception as error:
            seen.raised = seen.raised or (None if isinstance(error, _TRIED_OUT) else error)
            raise
        seen.add(kernel)
        return kernel

    JITFunction.run = run
    try:
        yield seen
    finally:
        JITFunction.run = launch


_TRIED_OUT = (OutOfResources, PTXASError, CompileTimeAssertionFailure)
"""What an autotuner catches, to go on with another configuration."""


def _refuse_grid(function: Any, grid: Any, arguments: Sequence[Any], more: Mapping[str, Any]) -> None:
    """Refuse a launch of more programs than CUDA allows, where the target is CUDA's."""
    said = excess_of(function, grid, arguments, more)
    if said is not None and triton.runtime.driver.active.get_current_target().backend == "cuda":
        raise GridTooLarge(said)


def _whole(value: int, specialised: bool) -> Hashable:
    """Return what Triton makes of a whole number: a 1 is a constant, and the size of any other decides its type."""
    if isinstance(value, bool):
        return "bool"
    if specialised and value == 1:
        return "constant", 1
    return next((f"i{bits}" for bits in (32, 64) if -(1 << bits - 1) <= value < 1 << bits - 1), "u64")


def _kind(value: Any, specialised: bool = True) -> Hashable:
    """Return what Triton's type of an argument comes from, or the argument itself where Triton makes it a constant.

    So it does a 1, which has no dtype and no method then, unless the parameter is not `specialised`. That holds for a
    parameter alone: of a tuple's elements every 1 is a constant.
    """
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    if isinstance(value, int):
        return _whole(value, specialised)
    if isinstance(value, tl.constexpr | JITFunction):
        return repr(value)
    if hasattr(value, "block_shape"):
        return str(value.base.dtype), tuple(value.block_shape), repr(getattr(value, "layout", None))
    return str(value.dtype) if hasattr(value, "dtype") else type(value).__name__


def _form(function: Any, arguments: Sequence[Any], more: Mapping[str, Any]) -> Hashable:
    """Return what a launch is compiled for: the function, its constants and options, and the types of the rest."""
    given = {**dict(zip(function.arg_names, arguments, strict=False)), **more}
    # A parameter whose annotation names a type is of that type, whatever it is given.
    ordinary = {
        parameter.name: not (parameter.do_not_specialize or parameter.annotation_type)
        for parameter in function.params
        if not parameter.is_constexpr
    }
    told = (
        (name, _kind(value, ordinary[name]) if name in ordinary else repr(value))
        for name, value in sorted(given.items())
    )
    return id(function), tuple(told)


@contextlib.contextmanager
def survey() -> Iterator[set[Hashable]]:
    """Collect what the launches made inside would be compiled for. None of them is compiled, let alone launched.

    A launch of more programs than CUDA allows counts as one of its own, so that it is looked at.

    That addresses and whole numbers divide by 16, for which Triton compiles besides, is left out: what compiles with
    one of these compiles with another. A whole number that is 1 is not, since the kernel gets a constant in its place.
    """
    seen, launch = set[Hashable](), JITFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        seen.add((_form(self, arguments, options), excess_of(self, grid, arguments, options)))

    JITFunction.run = run
    try:
        yield seen
    finally:
        JITFunction.run = launch


class _Translated(Exception):
    """A kernel that Triton's front end has taken, at which its compiler is stopped."""


def _stopping(make_ir: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **more: Any) -> Any:
        make_ir(*arguments, **more)
        raise _Translated

    return made


@contextlib.contextmanager
def translate_only() -> Iterator[None]:
    """Have every launch made inside go through Triton's front end alone, which takes a hundredth of what a build does.

    It holds the kernel's own source, with the launch's constants, against the language's rules: what it refuses no
    target takes, but for what a target has no instruction for. What is in Triton's cache was taken before.
    """
    launch, sources = JITFunction.run, [ASTSource, *ASTSource.__subclasses__()]
    makers = {source: vars(source)["make_ir"] for source in sources if "make_ir" in vars(source)}

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        self.device_caches.clear()
        _refuse_grid(self, grid, arguments, options)
        with contextlib.suppress(_Translated):
            launch(self, *arguments, grid=grid, warmup=True, **options)

    JITFunction.run = run
    for source, make_ir in makers.items():
        source.make_ir = _stopping(make_ir)
    try:
        yield
    finally:
        JITFunction.run = launch
        for source, make_ir in makers.items():
            source.make_ir = make_ir


def build_launchers(compiled: Iterable[Any]) -> None:
    """Build what Triton has the host's C compiler make at a first launch, into its cache: 0.2 s each.

    That is its way to the driver, and up to Triton 3.6 a launcher for each signature. Neither needs a device, but both
    need the driver's library: without it nothing is built, and who launches will say so.
    """
    from triton.backends.nvidia import driver

    with contextlib.suppress(Exception):
        driver.CudaUtils()
        for kernel in compiled if hasattr(driver, "make_launcher") else ():
            driver.CudaLauncher(kernel.src, kernel.metadata)


class AutotunedKernel(AssayError):
    """A kernel whose configuration is chosen by time, where there is none. `assay.diagnosis` knows it by its name."""


class CompileOnlyDriver(DriverBase):  # type: ignore[misc]
    """A driver that names a target and has no device, so that an ordinary launch compiles for that target."""

    def __init__(self, backend: str, architecture: int | str, warp_size: int) -> None:
        self.target = GPUTarget(backend, architecture, warp_size)

    @classmethod
    def is_active(cls) -> bool:
        """Never chosen by Triton itself."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Name any type: no launcher is ever built."""
        return "void*"

    def get_current_target(self) -> GPUTarget:
        """Return the target to compile for."""
        return self.target

    def get_current_device(self) -> int:
        """Return the only index there is."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Accept any index."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the null stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Say that tensors are on the CPU."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """There is no device to ask."""
        raise RuntimeError("compile-only: there is no device")

    def get_benchmarker(self) -> Callable[..., Any]:
        """There is nothing to time: an autotuned kernel cannot choose here."""
        raise AutotunedKernel(
            "expected one configuration, found an autotuned kernel, which picks its own on a device; declare its "
            "configurations as variants instead"
        )


def use_target(backend: str, architecture: int | str, warp_size: int) -> None:
    """Make Triton compile for a target from now on."""
    triton.runtime.driver.set_active(CompileOnlyDriver(backend, architecture, warp_size))

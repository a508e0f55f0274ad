"""Compiles a kernel's own launch for a target without a GPU: the child `python -m assay.codegen KERNEL`."""

import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import torch
import triton
from triton.runtime.cache import triton_key

from assay.artifact import sha256_bytes
from assay.buffers import guard_input, guard_output, hollow
from assay.child import Answer, serve
from assay.instructions import count_ptx, count_sass, resource_usage
from assay.kernel import Case, Kernel, Output, Size, Variant, cast, load
from assay.launches import binary_of, build_launchers, use_target, watch
from assay.nursery import serve_or_fork
from assay.record import Binary, Instructions
from assay.reusing import Reuse
from assay.storage import VARIABLE, Storage
from assay.targets import TARGETS, Target, capability_of


def _disassembler() -> Path:
    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def _dump(cubin: Path, what: str) -> str:
    done = subprocess.run([_disassembler(), what, cubin], capture_output=True, text=True, check=True)
    return done.stdout


Disassembly = tuple[int, int, dict[str, int]]
"""Registers, stack bytes and SASS counts."""


@lru_cache(maxsize=64)
def _disassemble(cubin: bytes) -> Disassembly:
    """Read what a binary needs and does. Cached: several variants can compile to one binary."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as stream:
        stream.write(cubin)
        stream.flush()
        registers, stack = resource_usage(_dump(Path(stream.name), "--dump-resource-usage"))
        return registers, stack, count_sass(_dump(Path(stream.name), "--dump-sass"))


def inspect(kernel: Any, target: Target, disassemble: Callable[[bytes], Disassembly] = _disassemble) -> Binary:
    """Read what the compiled kernel needs and which instructions it uses."""
    cubin, ptx = binary_of(kernel), str(kernel.asm["ptx"])
    registers, stack, sass = disassemble(cubin)
    return Binary(
        function=str(kernel.metadata.name),
        ptx_sha256=sha256_bytes(ptx.encode()),
        cubin_sha256=sha256_bytes(cubin),
        registers=registers,
        stack_bytes=stack,
        local_store_instructions=sass.get("stl", 0),
        local_load_instructions=sass.get("ldl", 0),
        shared_bytes=int(kernel.metadata.shared),
        shared_limit_bytes=target.shared_limit_bytes,
        tensor_memory_columns=int(getattr(kernel.metadata, "tmem_size", 0) or 0),
        instructions=Instructions(ptx=count_ptx(ptx), sass=sass),
    )


Declared = dict[str, Output]
"""Shape and dtype of tensors, by name."""

WARP_SIZE = 32
"""Threads, on every NVIDIA device (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""


def _reuse(path: Path) -> Reuse | None:
    """Return the dealings with what earlier runs compiled, where the stage that asks wants any."""
    folder = os.environ.get(VARIABLE)
    if not folder or not path.is_file():
        return None
    reuse = Reuse(Storage(Path(folder)), path)
    reuse.install()
    return reuse


class Worker:
    """Answers `describe`, `build` and `precompile` requests; the kernel file is imported at the first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kernel: Kernel | None = None
        self._reuse = _reuse(path)
        self._known: dict[tuple[frozenset[tuple[str, int]], torch.dtype | None], tuple[Declared, Declared]] = {}

    def answer(self, request: Answer) -> Answer:
        """`describe` returns the declaration; `build` the binaries of one variant for one target; `precompile` how many
        launches of one variant it compiled into Triton's cache.
        """
        self._kernel = self._kernel or self._load()
        if request["do"] == "describe":
            return {"declaration": msgspec.to_builtins(self._kernel.declaration())}
        if request["do"] == "precompile":
            return {"launches": self._precompile(self._kernel, request)}
        target = TARGETS[request["target"]]
        use_target(target.backend, target.architecture, target.warp_size)
        with watch(compile_only=True) as launches:
            self._launch(self._kernel, request["variant"], self._kernel.case(request["case"]))
        binaries = [msgspec.to_builtins(inspect(kernel, target, self._disassemble)) for kernel in launches.compiled]
        if self._reuse is None:
            return {"binaries": binaries}
        compilations, notes = self._reuse.take()
        return {"binaries": binaries, "compilations": msgspec.to_builtins(compilations), "notes": notes}

    def _load(self) -> Kernel:
        kernel = load(self._path)
        if self._reuse is not None:
            self._reuse.loaded()
        return kernel

    def _disassemble(self, cubin: bytes) -> Disassembly:
        if self._reuse is None:
            return _disassemble(cubin)
        found: Disassembly = self._reuse.recall(
            "disassembly", sha256_bytes(cubin), Disassembly, lambda: _disassemble(cubin)
        )
        return found

    def _launch(self, kernel: Kernel, name: str, case: Case) -> None:
        variant = kernel.variant(name)
        values = cast(kernel.inputs(case.size, torch.Generator().manual_seed(0)), variant.dtype)
        # Strides and alignment decide the code, so tensors lie as they do when the case runs.
        inputs = {n: guard_input(v, case.layouts.get(n, "contiguous"), "cpu").tensor for n, v in values.items()}
        outputs = {
            n: guard_output(o.shape, o.dtype, case.layouts.get(n, "contiguous"), "cpu").tensor
            for n, o in kernel.outputs(values).items()
        }
        kernel.launch(inputs, outputs, variant)

    def _precompile(self, kernel: Kernel, request: Answer) -> int:
        """Return how many launches were compiled; one that raises is none, and says why in the log."""
        variant, (major, minor) = kernel.variant(request["variant"]), capability_of(request["target"])
        cases = [(case, variant.dtype) for case in map(kernel.case, request["cases"]) if "gpu" in case.tiers]
        if kernel.dot is not None and cases:
            # The rounding canary is sent through as its inputs are made, whatever the variant casts to.
            cases.append((Case("", kernel.dot.size), None))
        # A device need not be one of the targets that have figures of their own.
        use_target("cuda", 10 * major + minor, WARP_SIZE)
        with watch(compile_only=True) as launched:
            gone = sum(self._launch_hollow(kernel, variant, case, dtype) for case, dtype in cases)
        build_launchers(launched.compiled)
        return gone

    def _launch_hollow(self, kernel: Kernel, variant: Variant, case: Case, dtype: torch.dtype | None) -> bool:
        """Launch on tensors that lie as they will and hold nothing, since a size may be large; say whether it went."""
        try:
            inputs, outputs = self._tensors(kernel, case.size, dtype)
            kernel.launch(
                {n: hollow(o.shape, o.dtype, case.layouts.get(n, "contiguous")) for n, o in inputs.items()},
                {n: hollow(o.shape, o.dtype, case.layouts.get(n, "contiguous")) for n, o in outputs.items()},
                variant,
            )
        except Exception:
            # The next case may go. The process that uses the device will meet this again, and record it.
            traceback.print_exc()
            return False
        return True

    def _tensors(self, kernel: Kernel, size: Size, dtype: torch.dtype | None) -> tuple[Declared, Declared]:
        """Return which inputs and outputs there are at a size. The inputs are made once, to be asked, and let go."""
        key = frozenset(size.items()), dtype
        if key not in self._known:
            values = cast(kernel.inputs(size, torch.Generator().manual_seed(0)), dtype)
            inputs = {name: Output(tuple(value.shape), value.dtype) for name, value in values.items()}
            self._known[key] = inputs, dict(kernel.outputs(values))
        return self._known[key]


if __name__ == "__main__":
    # Triton hashes itself, half a gigabyte, for the first key that it makes.
    serve_or_fork(lambda: serve(Worker(Path(sys.argv[1])).answer), prepare=triton_key)

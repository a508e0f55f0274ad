"""Compiles a kernel's own launch for a target without a GPU: the child `python -m assay.codegen KERNEL`."""

import contextlib
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import torch
import triton
from triton.runtime.cache import triton_key

from assay.amdgcn import usage
from assay.artifact import sha256_bytes
from assay.buffers import guard_input, guard_output, hollow
from assay.child import Answer, serve
from assay.instructions import count_assembly, count_sass, local_accesses, resource_usage
from assay.kernel import Case, Kernel, Output, Size, Variant, cast, load
from assay.launches import binary_of, build_launchers, survey, translate_only, use_target, watch
from assay.nursery import serve_or_fork
from assay.record import Binary, Instructions, RegisterFiles
from assay.reusing import Reuse
from assay.storage import VARIABLE, Storage
from assay.targets import TARGETS, Target, is_amd, toolchain


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


Disassemble = Callable[[bytes], Disassembly]


@dataclass(frozen=True)
class Needs:
    """What a thread needs, and the disassembly's counts, as the binary or its assembly tells."""

    registers: int
    stack_bytes: int
    files: RegisterFiles | None
    machine: dict[str, int] | None


def _needs(assembly: str, code: bytes, target: Target, disassemble: Disassemble) -> Needs:
    if is_amd(target.name):
        return Needs(*usage(assembly), None)
    registers, stack, sass = disassemble(code)
    return Needs(registers, stack, None, sass)


def inspect(kernel: Any, target: Target, disassemble: Disassemble = _disassemble) -> Binary:
    """Read what the compiled kernel needs and which instructions it uses."""
    code, counts = binary_of(kernel), count_assembly(kernel.asm)
    assembly = str(kernel.asm["amdgcn" if is_amd(target.name) else "ptx"])
    needs = _needs(assembly, code, target, disassemble)
    instructions = Instructions(assembly=counts, machine=needs.machine)
    stores, loads = local_accesses(instructions)
    return Binary(
        function=str(kernel.metadata.name),
        assembly_sha256=sha256_bytes(assembly.encode()),
        binary_sha256=sha256_bytes(code),
        registers=needs.registers,
        register_files=needs.files,
        stack_bytes=needs.stack_bytes,
        local_store_instructions=stores,
        local_load_instructions=loads,
        shared_bytes=int(kernel.metadata.shared),
        shared_limit_bytes=target.shared_limit_bytes,
        tensor_memory_columns=int(getattr(kernel.metadata, "tmem_size", 0) or 0),
        instructions=instructions,
    )


Declared = dict[str, Output]
"""Shape and dtype of tensors, by name."""


def _reuse(path: Path) -> Reuse | None:
    """Return the dealings with what earlier runs compiled, where the stage that asks wants any."""
    folder = os.environ.get(VARIABLE)
    if not folder or not path.is_file():
        return None
    reuse = Reuse(Storage(Path(folder)), path)
    reuse.install()
    return reuse


class Worker:
    """Answers `describe`, `build`, `others`, `translate` and `precompile`; the first one imports the kernel file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kernel: Kernel | None = None
        self._reuse = _reuse(path)
        self._known: dict[tuple[frozenset[tuple[str, int]], torch.dtype | None], tuple[Declared, Declared]] = {}

    def answer(self, request: Answer) -> Answer:
        """`describe` returns the declaration; `build` the binaries of one variant for one target; `others` which cases
        launch what no case before them does; `translate` nothing, if Triton's front end takes what one case launches;
        `precompile` how many launches of one variant it compiled into Triton's cache.
        """
        self._kernel = self._kernel or self._load()
        if request["do"] == "describe":
            return {"declaration": msgspec.to_builtins(self._kernel.declaration())}
        if request["do"] == "precompile":
            return {"launches": self._precompile(self._kernel, request)}
        target = TARGETS[request["target"]]
        use_target(*toolchain(target.name))
        if request["do"] == "others":
            return {"cases": self._others(self._kernel, request)}
        if request["do"] == "translate":
            with translate_only():
                self._launch(self._kernel, request["variant"], self._kernel.case(request["case"]))
            return {}
        with watch(compile_only=True) as launches:
            self._launch(self._kernel, request["variant"], self._kernel.case(request["case"]))
        launches.surface()
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

    def _others(self, kernel: Kernel, request: Answer) -> list[str]:
        """Return the cases after the first that launch what none before them does, of those that a device runs."""
        first, known, found = request["cases"][0], set[Hashable](), list[str]()
        for name in request["cases"]:
            if name != first and "gpu" not in kernel.case(name).tiers:
                continue
            with survey() as launched, contextlib.suppress(Exception):
                # What a launch raises that is not compiled, it may not raise where it is.
                self._launch(kernel, request["variant"], kernel.case(name))
            found += [] if launched <= known else [name]
            known |= launched
        return [name for name in found if name != first]

    def _precompile(self, kernel: Kernel, request: Answer) -> int:
        """Return how many launches were compiled; one that raises is none, and says why in the log."""
        variant = kernel.variant(request["variant"])
        cases = [(case, variant.dtype) for case in map(kernel.case, request["cases"]) if "gpu" in case.tiers]
        if kernel.dot is not None and cases:
            # The rounding canary is sent through as its inputs are made, whatever the variant casts to.
            cases.append((Case("", kernel.dot.size), None))
        # A device need not be one of the targets that have figures of their own.
        use_target(*toolchain(request["target"]))
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

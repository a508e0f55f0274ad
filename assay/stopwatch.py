"""The timing stage's child process: it prepares a kernel's entrants on the device and times them when asked.

As a program, `python -m assay.stopwatch KERNEL FLUSH_MEBIBYTES` answers `describe`, `prepare`, `round` and `check`.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import msgspec
import torch

from assay import sampling
from assay.buffers import BLANK, Guarded, guard_input, guard_output
from assay.child import Answer, serve
from assay.comparison import compare_all
from assay.conditions import find_card, read_conditions
from assay.errors import AssayError
from assay.judgement import judge_all
from assay.kernel import Case, Kernel, Layout, Tensors, Variant, cast, load, widen
from assay.launches import watch
from assay.multiplier import measured, pose
from assay.record import Conditions, Verdict
from assay.sampling import Checked, Entrant, Identity, Prepared, Problem, Round, Subject, take_round


class NoDeviceError(AssayError):
    """Torch finds no device that it can use."""


class TensorDevice(sampling.Device, Protocol):
    """A device that torch can put tensors on."""

    place: str

    def identity(self) -> Identity:
        """Return which device this is."""


class CudaDevice:
    """The first visible GPU, timed with its own events.

    The host's part of a launch stays out of a sample as long as it takes less time than the flush queued before it; a
    launch that keeps the host busy for longer is measured with the wait, as its user would see it.
    """

    place = "cuda"

    def __init__(self, flush_mebibytes: int) -> None:
        if not torch.cuda.is_available():
            raise NoDeviceError(f"torch {torch.__version__} finds no CUDA device; install a build for the driver here")
        self._properties = torch.cuda.get_device_properties(0)
        self._over_cache = torch.empty(flush_mebibytes * 2**20, dtype=torch.int8, device=self.place)
        self._card = find_card(str(self._properties.uuid))

    def identity(self) -> Identity:
        """Return UUID and compute capability."""
        properties = self._properties
        return Identity(uuid=str(properties.uuid), compute_capability=f"{properties.major}.{properties.minor}")

    def flush(self) -> None:
        """Queue a write over memory larger than the L2 cache."""
        self._over_cache.zero_()

    def mark(self) -> torch.cuda.Event:
        """Queue an event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def synchronise(self) -> None:
        """Wait for the device; raises what a launch did wrong."""
        torch.cuda.synchronize()

    def elapsed_ns(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Return nanoseconds, with a resolution of about 500 ns (CUDA Runtime API, cudaEventElapsedTime)."""
        return float(start.elapsed_time(end)) * 1e6

    def conditions(self) -> Conditions:
        """Return what NVML says now."""
        return read_conditions(self._card)


def entrants(kernel: Kernel) -> list[Entrant]:
    """Return all that is timed: the kernel's variants, then its peers."""
    variants = [
        Entrant(name=v.id, kind="variant", precision=v.precision, configuration=v.configuration)
        for v in kernel.variants
    ]
    peers = [Entrant(name=p.name, kind="peer", precision=p.precision, configuration=None) for p in kernel.peers]
    return [*variants, *peers]


def problem(kernel: Kernel, case: Case) -> Problem:
    """Return a timed size with the work declared for it."""
    work = kernel.work(case.size)
    return Problem(size=case.name, dimensions=dict(case.size), flops=work.flops, bytes=work.bytes)


class Contest:
    """A kernel's entrants at one size: the same inputs for all, and outputs of its own for each variant."""

    def __init__(self, kernel: Kernel, case: Case, seed: int, device: TensorDevice) -> None:
        self.kernel, self.case, self.device = kernel, case, device
        self.values = kernel.inputs(case.size, torch.Generator().manual_seed(seed))
        self.inputs: dict[torch.dtype | None, dict[str, torch.Tensor]] = {}
        self.want: dict[torch.dtype | None, dict[str, torch.Tensor]] = {}
        self.outputs: dict[str, dict[str, Guarded]] = {}
        self.launches: dict[str, Callable[[], object]] = {}
        self.binaries: dict[str, list[str]] = {}

    def _layout(self, name: str) -> Layout:
        return self.case.layouts.get(name, "contiguous")

    def _given(self, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
        """Return the inputs, cast for a variant, on the device: one set for all that ask for this dtype."""
        if dtype not in self.inputs:
            values, place = cast(self.values, dtype), self.device.place
            self.inputs[dtype] = {n: guard_input(v, self._layout(n), place).tensor for n, v in values.items()}
        return self.inputs[dtype]

    def _dtype_of(self, precision: str) -> torch.dtype | None:
        """Return the dtype of the variants of a precision, which a peer of that precision gets too."""
        return next((v.dtype for v in self.kernel.variants if v.precision == precision), None)

    def _launch_of(self, name: str) -> Callable[[], object]:
        peer = next((peer for peer in self.kernel.peers if peer.name == name), None)
        if peer is not None:
            return partial(peer.run, self._given(self._dtype_of(peer.precision)))
        variant, place = self.kernel.variant(name), self.device.place
        given = self._given(variant.dtype)
        declared = self.kernel.outputs(given)
        held = {n: guard_output(o.shape, o.dtype, self._layout(n), place) for n, o in declared.items()}
        self.outputs[name] = held
        return partial(self.kernel.launch, given, {n: h.tensor for n, h in held.items()}, variant)

    def enter(self, name: str, warmup: int) -> list[str]:
        """Compile and warm an entrant up, then forget what it wrote; return its binaries' digests."""
        if name not in self.binaries:
            launch = self._launch_of(name)
            with watch() as launched:
                launch()
            for _ in range(warmup):
                launch()
            self.device.synchronise()
            for held in self.outputs.get(name, {}).values():
                held.bits().fill_(BLANK[held.dtype.itemsize])
            self.launches[name], self.binaries[name] = launch, list(launched.digests())
        return self.binaries[name]

    def _wanted(self, variant: Variant) -> dict[str, torch.Tensor]:
        """The oracle's outputs in float64, computed on the device: on the host a timed size would take too long."""
        if variant.dtype not in self.want:
            self.want[variant.dtype] = self.kernel.oracle(widen(self._given(variant.dtype)))
        return self.want[variant.dtype]

    def _judge(self, name: str, outputs: Tensors) -> Verdict:
        variant = self.kernel.variant(name)
        multiplier = measured(self.kernel, variant, self.device.place)
        wide, want = widen(self._given(variant.dtype)), self._wanted(variant)
        problem = pose(self.kernel, variant, self.case.size, wide, want, multiplier=multiplier)
        verdict = judge_all(compare_all(self.kernel, outputs, problem))
        if verdict.outcome != "passed":
            return Verdict(outcome="failed", cause=verdict.cause, reason=f"after timing, {verdict.reason}")
        return Verdict(outcome="passed", reason="what the timed launches wrote is within the bound")

    def check(self, names: Sequence[str]) -> dict[str, Verdict]:
        """Judge what the timed launches of each variant left in its outputs."""
        held = {name: self.outputs[name] for name in names if name in self.outputs}
        return {name: self._judge(name, {n: h.tensor for n, h in outputs.items()}) for name, outputs in held.items()}


class Worker:
    """Answers the requests of the timing stage; one size is held at a time."""

    def __init__(self, path: Path, make_device: Callable[[], TensorDevice]) -> None:
        self._path, self._make_device = path, make_device
        self._contest: Contest | None = None

    @cached_property
    def _kernel(self) -> Kernel:
        return load(self._path)

    @cached_property
    def _device(self) -> TensorDevice:
        return self._make_device()

    def answer(self, request: Answer) -> Answer:
        """Do what `request["do"]` names and return its answer as plain values."""
        done = {"describe": self._describe, "prepare": self._prepare, "round": self._round, "check": self._check}
        return dict(msgspec.to_builtins(done[request["do"]](request)))

    def _describe(self, request: Answer) -> Subject:
        kernel = self._kernel
        return Subject(
            declaration=kernel.declaration(),
            entrants=entrants(kernel),
            problems=[problem(kernel, case) for case in kernel.timed],
            device=self._device.identity(),
        )

    def _held(self, request: Answer) -> Contest:
        if self._contest is None or self._contest.case.name != request["size"]:
            # The size before is let go first, so that two never share the memory.
            self._contest = None
            case = self._kernel.case(request["size"])
            self._contest = Contest(self._kernel, case, request["seed"], self._device)
        return self._contest

    def _prepare(self, request: Answer) -> Prepared:
        return Prepared(cubin_sha256=self._held(request).enter(request["entrant"], request["warmup"]))

    def _round(self, request: Answer) -> Round:
        return take_round(self._device, self._held(request).launches, request["order"], request["repeats"])

    def _check(self, request: Answer) -> Checked:
        return Checked(verdicts=self._held(request).check(request["variants"]))


if __name__ == "__main__":
    serve(Worker(Path(sys.argv[1]), partial(CudaDevice, int(sys.argv[2]))).answer, last_after_error=True)

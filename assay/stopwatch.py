"""The timing stage's child process: it prepares a kernel's entrants on the device and times them when asked.

As a program, `python -m assay.stopwatch KERNEL FLUSH_MEBIBYTES` answers `make`, `use`, `describe`, `ceilings`,
`inputs`, `prepare`, `round` and `check`; `make` alone touches no device. It prints how long each but a round took.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from assay import targets
from assay.capturing import capture
from assay.ceilings import find_limits
from assay.child import Answer, serve
from assay.conditions import find_card, read_conditions
from assay.contest import Contest, TensorDevice, make
from assay.errors import AssayError
from assay.kernel import Case, Kernel, load
from assay.record import Conditions, Inputs, Unavailable
from assay.sampling import (
    Checked,
    Entrant,
    Identity,
    Launch,
    Limits,
    Made,
    Prepared,
    Problem,
    Recording,
    Round,
    Subject,
)

STREAMS = 8
"""Streams that rounds take in turn."""


def target_of(properties: Any) -> str:
    """Return the target of a device by what torch says of it: on ROCm gfx942, with features behind a colon."""
    if torch.version.hip:
        return str(properties.gcnArchName).partition(":")[0]
    return targets.target_of((properties.major, properties.minor))


class NoDeviceError(AssayError):
    """Torch finds no device that it can use."""


class CudaDevice:
    """The first visible GPU, timed with its own events.

    The host's part of a launch stays out of a sample as long as it takes less time than the flush queued before it; a
    launch that keeps the host busy for longer is measured with the wait, as its user would see it. A recording has no
    such part.
    """

    place = "cuda"

    def __init__(self, flush_mebibytes: int) -> None:
        if not torch.cuda.is_available():
            raise NoDeviceError(
                f"expected a CUDA device, found that torch {torch.__version__} sees none; install a build of torch for "
                "the driver here"
            )
        self._properties = torch.cuda.get_device_properties(0)
        self._over_cache = torch.empty(flush_mebibytes * 2**20, dtype=torch.int8, device=self.place)
        rocm = torch.version.hip
        self._card = Unavailable(reason="AMD SMI is not asked") if rocm else find_card(str(self._properties.uuid))
        self._recording = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        more = [torch.cuda.Stream() for _ in range(1, STREAMS)]  # type: ignore[no-untyped-call]
        streams = (torch.cuda.current_stream(), *more)
        self.streams: Sequence[AbstractContextManager[object]] = [torch.cuda.stream(one) for one in streams]

    def identity(self) -> Identity:
        """Return the device's UUID."""
        return Identity(uuid=str(self._properties.uuid))

    def cache_bytes(self) -> int | None:
        """Return the size of the L2 cache, as torch has it."""
        return getattr(self._properties, "L2_cache_size", None) or None

    def memory_bytes(self) -> int | None:
        """Return the size of the device's memory, as torch has it."""
        return getattr(self._properties, "total_memory", None) or None

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

    def record(self, launches: Sequence[Launch]) -> Recording:
        """Record the launches in a CUDA graph, each after a flush; CaptureError where that cannot be."""
        return capture(launches, self.flush, self._recording)

    def limits(self) -> Limits:
        """Return what an empty kernel takes, and samples of the ceilings."""
        return find_limits(self, target_of(self._properties))

    def trim(self) -> None:
        """Give memory back that nothing holds any more, that of graphs included."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def entrants(kernel: Kernel) -> list[Entrant]:
    """Return all that is timed: the kernel's variants, then its peers."""
    variants = [
        Entrant(name=v.id, kind="variant", precision=v.precision, configuration=v.configuration, searched=v.searched)
        for v in kernel.variants
    ]
    peers = [Entrant(name=p.name, kind="peer", precision=p.precision, configuration=None) for p in kernel.peers]
    return [*variants, *peers]


def problem(kernel: Kernel, case: Case) -> Problem:
    """Return a timed size with the work declared for it."""
    work = kernel.work(case.size)
    return Problem(size=case.name, dimensions=dict(case.size), flops=work.flops, bytes=work.bytes)


class Worker:
    """Answers the requests of the timing stage; one size is held at a time."""

    def __init__(self, path: Path, make_device: Callable[[], TensorDevice]) -> None:
        self._path, self._make_device = path, make_device
        self._contest: Contest | None = None
        self._made: dict[tuple[str, int], dict[str, torch.Tensor]] = {}

    @cached_property
    def _kernel(self) -> Kernel:
        return load(self._path)

    @cached_property
    def _device(self) -> TensorDevice:
        return self._make_device()

    def answer(self, request: Answer) -> Answer:
        """Do what `request["do"]` names and return its answer as plain values."""
        done = {
            "make": self._make,
            "use": self._use,
            "describe": self._describe,
            "ceilings": self._ceilings,
            "inputs": self._inputs,
            "prepare": self._prepare,
            "round": self._round,
            "check": self._check,
        }
        start = time.monotonic()
        answer = dict(msgspec.to_builtins(done[request["do"]](request)))
        if request["do"] != "round":
            what = [str(request[key]) for key in ("do", "size", "entrant") if key in request]
            print(f"{' '.join(what)}: {time.monotonic() - start:.3f} s", flush=True)
        return answer

    def _make(self, request: Answer) -> Made:
        kernel, seed = self._kernel, request["seed"]
        with ThreadPoolExecutor() as beside:
            sets = beside.map(lambda case: make(kernel, case, seed), kernel.timed)
            self._made = {(case.name, seed): values for case, values in zip(kernel.timed, sets, strict=True)}
        return Made(sizes=len(self._made))

    def _use(self, request: Answer) -> Identity:
        """Take up the card that these variables select, and say which one came of it."""
        os.environ.update(request["variables"])
        return self._device.identity()

    def _describe(self, request: Answer) -> Subject:
        kernel = self._kernel
        return Subject(
            declaration=kernel.declaration(),
            entrants=entrants(kernel),
            problems=[problem(kernel, case) for case in kernel.timed],
            device=self._device.identity(),
        )

    def _ceilings(self, request: Answer) -> Limits:
        limits = self._device.limits()
        self._device.trim()
        return limits

    def _held(self, request: Answer) -> Contest:
        if self._contest is None or self._contest.case.name != request["size"]:
            # The size before is let go first, so that two never share the memory.
            self._contest = None
            self._device.trim()
            case, seed = self._kernel.case(request["size"]), request["seed"]
            made = self._made.pop((case.name, seed), None)
            self._contest = Contest(self._kernel, case, seed, self._device, made)
        return self._contest

    def _inputs(self, request: Answer) -> Inputs:
        return self._held(request).inputs()

    def _prepare(self, request: Answer) -> Prepared:
        """Prepare an entrant; under a second name where `again` says whose it is."""
        contest, name, repeats = self._held(request), request["entrant"], request["repeats"]
        entered = contest.enter(request.get("again") or name, request["warmup"], repeats)
        return contest.enter_again(name, request["again"]) if request.get("again") else entered

    def _round(self, request: Answer) -> Round:
        contest, streams = self._held(request), self._device.streams
        with streams[request["turn"] % len(streams)]:
            return contest.take(request["turn"], request["order"])

    def _check(self, request: Answer) -> Checked:
        return self._held(request).check(request["entrant"])


if __name__ == "__main__":
    serve(Worker(Path(sys.argv[1]), partial(CudaDevice, int(sys.argv[2]))).answer, last_after_error=True)

"""A device for the timing tests: the host, timed by its own clock.

`python host_device.py KERNEL` serves a kernel file like the real child process does, but for the GPU.
"""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from assay.capturing import CaptureError
from assay.child import Answer, Fault, serve
from assay.conditions import read_conditions
from assay.record import Conditions, Unavailable
from assay.sampling import Burst, Identity, Launch, Limits, Recording
from assay.stopwatch import Worker

TOY = '''
import os
import torch
from assay.kernel import Case, Contrast, Kernel, Output, Peer, ReductionBound, Variant, Work

class OutOfResources(Exception):
    """Stands for Triton's exception of this name."""

launched = {}

def launch(inputs, outputs, variant):
    how = variant.options.get("how", "right")
    launched[variant.id] = launched.get(variant.id, 0) + 1
    late = launched[variant.id] > 3
    if how == "aborts" or (how == "aborts late" and late):
        os.abort()
    if how == "too large":
        raise OutOfResources("out of resource: shared memory, Required: 147456, Hardware limit: 101376")
    if how == "stops writing" and late:
        return
    outputs["y"].copy_(inputs["x"] * (3.0 if how == "wrong late" and late else 2.0))

KERNEL = Kernel(
    name="toy",
    title="Twice the input",
    inputs=lambda size, generator: {"x": torch.randn(size["n"], generator=generator)},
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": inputs["x"] * 2},
    launch=launch,
    variants=[Variant(p, how.replace(" ", "-"), {"how": how}) for p, how in HOW],
    cases=[Case("small", {"n": 16})],
    timed=[Case(f"n{n}", {"n": n}, {"x": "sliced"}) for n in SIZES],
    bound=ReductionBound(terms=lambda size: 1, table={"ieee": 1e-6, "tf32": 1e-3}, eps={"ieee": 1e-7, "tf32": 1e-3}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
    contrasts=[Contrast("ieee", "tf32")],
    peers=[Peer("torch", "ieee", lambda inputs: inputs["x"] * 2)],
)
'''


def write_toy(folder: Path, *how: tuple[str, str], sizes: tuple[int, ...] = (64,)) -> Path:
    """Write a kernel file whose variants, (precision, behaviour), run on the host through torch; return its path."""
    path = folder / "toy.py"
    path.write_text(f"HOW, SIZES = {list(how)!r}, {sizes!r}\n{TOY}", "utf-8")
    return path


@dataclass
class Moment:
    """A time on the host's clock, in nanoseconds."""

    ns: int = 0

    def now(self) -> None:
        """Make it the time now."""
        self.ns = time.perf_counter_ns()


class HostDevice:
    """Runs a launch at once and reads the host's clock."""

    place = "cpu"

    @property
    def streams(self) -> Sequence[AbstractContextManager[object]]:
        """Return the only one there is."""
        return (nullcontext(),)

    cache: int | None = None
    memory: int | None = None

    def identity(self) -> Identity:
        """Return an identity that no card has."""
        return Identity(uuid="host")

    def flush(self) -> None:
        """Leave the caches alone."""

    def mark(self) -> Moment:
        """Return the time now."""
        moment = Moment()
        moment.now()
        return moment

    def synchronise(self) -> None:
        """Nothing is queued."""

    def elapsed_ns(self, start: Moment, end: Moment) -> float:
        """Return the difference, and at least what the clock can tell."""
        return float(max(end.ns - start.ns, 1))

    def cache_bytes(self) -> int | None:
        """Return what a test set."""
        return self.cache

    def memory_bytes(self) -> int | None:
        """Return what a test set."""
        return self.memory

    def record(self, launches: Sequence[Launch]) -> Recording:
        """Record the launches: played, they run."""
        marks = [(Moment(), Moment()) for _ in launches]

        def play() -> None:
            for launch, (start, end) in zip(launches, marks, strict=True):
                start.now()
                launch()
                end.now()

        return Recording(play, marks)

    def limits(self) -> Limits:
        """Return one ceiling, and one that is not there."""
        copy = Burst(name="copy", how="made up", work=4000, samples_ns=[5.0, 4.0])
        return Limits(launch_ns=[3.0, 2.0, 4.0], bursts=[copy, Burst(name="tf32", how="no way", work=0, samples_ns=[])])

    def trim(self) -> None:
        """There is nothing to give back."""

    def conditions(self) -> Conditions:
        """There is no card."""
        return read_conditions(Unavailable(reason="the host is no card"))


class CachedDevice(HostDevice):
    """Has a cache in which two sets of the toy of 64 elements fit, so that four are rotated."""

    cache = 512


class RoomyDevice(CachedDevice):
    """Has room for six sets of the toy of 64 elements, each 512 bytes and what the peer returns in two places more, and
    in the recording.
    """

    memory = 4 * (6 * (512 + 3 * 256) + 100)


class UnrecordedDevice(HostDevice):
    """Cannot record."""

    def record(self, launches: Sequence[Launch]) -> Recording:
        """Refuse."""
        raise CaptureError("the host has no graphs")


class InProcess:
    """Answers like a child process, without one: an exception is a fault after which everything prepared is gone."""

    def __init__(self, path: Path, device: type[HostDevice] = HostDevice) -> None:
        self.path, self.device, self.worker, self.requests = path, device, Worker(path, device), list[Answer]()

    def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
        """Answer through JSON, as over the pipe."""
        self.requests.append(request)
        try:
            return dict(json.loads(json.dumps(self.worker.answer(request))))
        except Exception as error:
            self.worker = Worker(self.path, self.device)
            return Fault("exception", f"{type(error).__name__}: {error}", type(error).__name__)


if __name__ == "__main__":
    serve(Worker(Path(sys.argv[1]), HostDevice).answer, last_after_error=True)

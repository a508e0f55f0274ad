"""Stage `gpu`: correctness of one kernel on the device, on the interpreter's inputs, and which binaries ran."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from assay.child import compiling_environment
from assay.correctness import Place, Terms, Tried, contrasts, describe, try_all, worker
from assay.record import Compile, Device, Digest, Environment, Execution, Gate, Gpu, Unavailable, Verdict
from assay.stage import Job, run
from assay.targets import parse_capability

Prediction = Literal["identical", "different", "not-compiled-ahead"]
Key = tuple[str, str]
"""Variant and case."""


def chosen_device(environment: Environment) -> Device | None:
    """Return the device that torch calls cuda:0: the first visible one."""
    devices = [] if isinstance(environment.devices, Unavailable) else environment.devices
    return next((device for device in devices if device.visible), None)


def availability(gate: Gate, device: Device | None) -> Verdict:
    """Say whether kernels may run: the gate is open and a device was captured."""
    if gate.protects.outcome != "passed":
        return gate.protects
    if device is None:
        reason = "the gate found a device that the captured environment does not have; capture it again"
        return Verdict(outcome="untested", cause="gate-disagrees", reason=reason)
    return Verdict(outcome="passed", reason=f"ran on {device.name}, compute capability {device.compute_capability}")


def predictions(compiled: Compile, target: str) -> dict[Key, list[Digest]]:
    """Map variant and case to the digests that the compile stage made for `target`."""
    return {
        (build.variant, build.case): [binary.cubin_sha256 for binary in build.binaries]
        for build in compiled.builds
        if build.target == target and build.binaries
    }


def predicted(executed: Sequence[Digest], expected: Sequence[Digest] | None) -> Prediction:
    """Compare executed digests with those compiled ahead for the same variant and case."""
    if expected is None:
        return "not-compiled-ahead"
    return "identical" if list(executed) == list(expected) else "different"


def executions(tried: Iterable[Tried], expected: Mapping[Key, list[Digest]]) -> list[Execution]:
    """Return what each trial executed; a trial that launched nothing is left out."""
    return [
        Execution(
            variant=t.check.variant,
            case=t.check.case,
            cubin_sha256=list(t.cubins),
            predicted=predicted(t.cubins, expected.get((t.check.variant, t.check.case))),
        )
        for t in tried
        if t.cubins
    ]


def _without_device(verdict: Verdict) -> Gpu:
    return Gpu(availability=verdict, device=None, declaration=None, checks=[], contrasts=[], executions=[])


def check_on_device(job: Job) -> Gpu:
    """Try every variant on every case on the device, or say why none can."""
    assert job.kernel is not None
    environment: Environment = job.read("environment").result
    compiled: Compile = job.read("compile").result
    device = chosen_device(environment)
    verdict = availability(job.read("gate").result, device)
    if verdict.outcome != "passed" or device is None:
        # Known without loading torch: a machine without a device has its answer at once.
        return _without_device(verdict)
    with (
        tempfile.TemporaryDirectory(prefix="assay-gpu-") as cache,
        worker(job.kernel, "cuda", compiling_environment(cache), job.log) as child,
    ):
        subject = describe(child, "gpu")
        if subject.declaration is None:
            return _without_device(subject.loading)
        here = Place(device.name, parse_capability(device.compute_capability))
        terms = Terms(job.settings.seeds, job.settings.gpu.limit_s, here)
        tried = try_all([child], subject, terms, f"gpu {job.name}")
    checks = [t.check for t in tried]
    return Gpu(
        availability=verdict,
        device=device,
        declaration=subject.declaration,
        checks=checks,
        contrasts=contrasts(subject.declaration, checks, gated=True),
        executions=executions(tried, predictions(compiled, device.target)),
    )


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("gpu", argv, check_on_device, needs=("environment", "gate", "compile"))

"""Stage `gpu`: correctness of one kernel on the device, on the interpreter's inputs, and which binaries ran."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence

from assay.admission import availability, chosen_device, without_device
from assay.child import compiling_environment
from assay.correctness import Place, Terms, Tried, canaries, describe, try_all, worker
from assay.judgement import contrasts
from assay.prediction import Key, predicted, predictions
from assay.record import Compile, Digest, Environment, Execution, Gpu
from assay.stage import Job, run
from assay.targets import parse_capability


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


def check_on_device(job: Job) -> Gpu:
    """Try every variant on every case on the device, or say why none can."""
    assert job.kernel is not None
    environment: Environment = job.read("environment").result
    compiled: Compile = job.read("compile").result
    device = chosen_device(environment)
    verdict = availability(job.read("gate").result, device)
    if verdict.outcome != "passed" or device is None:
        # Known without loading torch: a machine without a device has its answer at once.
        return without_device(verdict)
    with (
        tempfile.TemporaryDirectory(prefix="assay-gpu-") as cache,
        worker(job.kernel, "cuda", compiling_environment(cache), job.log, job.settings.loading.limit_s) as child,
    ):
        subject = describe(child, "gpu", job.settings.loading.limit_s)
        if subject.declaration is None:
            return without_device(subject.loading)
        here = Place(device.name, parse_capability(device.compute_capability))
        terms = Terms(job.settings.seeds, job.settings.gpu.limit_s, here)
        tried = try_all([child], subject, terms, f"gpu {job.name}")
    checks = [t.check for t in tried]
    return Gpu(
        availability=verdict,
        device=device,
        declaration=subject.declaration,
        checks=checks,
        canaries=canaries(tried, gated=True),
        contrasts=contrasts(subject.declaration, checks, gated=True),
        executions=executions(tried, predictions(compiled, device.target)),
    )


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("gpu", argv, check_on_device)

"""Stage `gpu`: correctness of one kernel on the device, on the interpreter's inputs, and which binaries ran."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence

from assay.admission import availability, chosen_device, without_device
from assay.cards import Card, Hold, cards_here
from assay.child import Child, compiling_environment
from assay.correctness import Place, Terms, Tried, canaries, describe, launched, try_all, worker
from assay.judgement import contrasts
from assay.precompiling import precompile
from assay.prediction import Key, predicted, predictions
from assay.record import Compile, Declaration, Device, Digest, Environment, Execution, Gpu
from assay.stage import Job, run


def executions(tried: Iterable[Tried], expected: Mapping[Key, list[Digest]]) -> list[Execution]:
    """Return what each trial executed; a trial that launched nothing is left out."""
    return [
        Execution(
            variant=t.check.variant,
            case=t.check.case,
            binary_sha256=list(t.binaries),
            predicted=predicted(t.binaries, expected.get((t.check.variant, t.check.case))),
        )
        for t in tried
        if t.binaries
    ]


def place_of(device: Device) -> Place:
    """Return what trials need to know of a device."""
    return Place(device.name, device.target)


def compile_ahead(job: Job, declaration: Declaration, device: Device, cache: str) -> None:
    """Compile all that the device will be asked for, so that it is not held while one process compiles it all."""
    assert job.kernel is not None
    precompile(
        job.kernel,
        job.log,
        cache,
        launched(declaration, place_of(device)),
        device.target,
        label=f"gpu {job.name}, compiling",
        workers=job.settings.gpu.workers,
        limit_s=job.settings.gpu.limit_s,
        loading_limit_s=job.settings.loading.limit_s,
    )


def _worker(job: Job, cache: str, card: Card, files: Sequence[int]) -> Child:
    assert job.kernel is not None
    environment = {**compiling_environment(cache), **card.variables}
    return worker(job.kernel, "cuda", environment, job.log, job.settings.loading.limit_s, held=files)


def check_on_device(job: Job) -> Gpu:
    """Try every variant on every case on the device, or say why none can."""
    environment: Environment = job.read("environment").result
    compiled: Compile = job.read("compile").result
    device = chosen_device(environment)
    verdict = availability(job.read("gate").result, device)
    if verdict.outcome != "passed" or device is None:
        # Known without loading torch: a machine without a device has its answer at once.
        return without_device(verdict)
    cards, none = cards_here(environment)
    if not cards:
        return without_device(none)
    with tempfile.TemporaryDirectory(prefix="assay-gpu-") as cache, Hold(cards, f"gpu {job.name}") as hold:
        if compiled.declaration is not None:
            compile_ahead(job, compiled.declaration, device, cache)
        card = hold.take()
        with _worker(job, cache, card, hold.files) as child:
            subject = describe(child, "gpu", job.settings.loading.limit_s)
            if subject.declaration is None:
                return without_device(subject.loading)
            terms = Terms(job.settings.seeds, job.settings.gpu.limit_s, place_of(card.device))
            tried = try_all([child], subject, terms, f"gpu {job.name}")
    checks = [t.check for t in tried]
    return Gpu(
        availability=verdict,
        device=card.device,
        declaration=subject.declaration,
        checks=checks,
        canaries=canaries(tried, gated=True),
        contrasts=contrasts(subject.declaration, checks, gated=True),
        executions=executions(tried, predictions(compiled, device.target)),
    )


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("gpu", argv, check_on_device)

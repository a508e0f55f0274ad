"""Stage `timing`: one kernel's variants, and the library's way to the same result, timed side by side on the device.

All entrants of a size are sampled in interleaved rounds (`assay.sampling`) in one child process. A variant that stage
`gpu` did not find right is not timed. This process imports neither torch nor the kernel.
"""

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from assay.admission import refusal, untimed
from assay.cards import Card, Hold, cards_here
from assay.child import Asked, Child, Fault, ask, compiling_environment
from assay.config import Settings
from assay.diagnosis import diagnose_loading
from assay.precompiling import precompile
from assay.progress import Progress
from assay.rates import ceiling
from assay.record import (
    CeilingName,
    Compile,
    Declaration,
    Device,
    Environment,
    Gpu,
    Precompiled,
    Sweep,
    Timing,
    Unavailable,
    Verdict,
)
from assay.sampling import Burst, Identity, Limits, Made, Subject
from assay.speeds import Terms, launch_cost, nothing_timed
from assay.stage import Job, run
from assay.sweep import Bench, sweep

WORKER = "assay.stopwatch"
CEILING_WORKER = "assay.ceiling_kernels"
ELSEWHERE = Verdict(
    outcome="failed",
    cause="declaration",
    reason="the kernel file has its process use another card than the one that is held for it",
)
CEILINGS: tuple[CeilingName, ...] = ("copy", "fp32", "tf32", "bf16")


@dataclass(frozen=True)
class Before:
    """What the earlier stages found, what was compiled since, and the card that is held."""

    environment: Environment
    compiled: Compile
    gpu: Gpu
    settings: Settings
    ahead: Precompiled | None = None
    card: Card | None = None

    def barred(self, declaration: Declaration) -> dict[str, Verdict]:
        """Return the variants that are not timed, each with the reason. A peer never is: nothing is claimed of it."""
        target = "" if self.gpu.device is None else self.gpu.device.target
        checks, builds = self.gpu.checks, self.compiled.builds
        found = {one.id: untimed(one, checks, builds, target) for one in declaration.variants}
        return {name: verdict for name, verdict in found.items() if verdict is not None}


def worker(job: Job, cache: str, files: Sequence[int]) -> Child:
    """Return the child that times the job's kernel; `files` are the locks of the cards that it may use."""
    flush = str(job.settings.timing.flush_mebibytes)
    command = [sys.executable, "-m", WORKER, str(job.kernel), flush]
    return Child(command, compiling_environment(cache), job.log, held=files)


def compile_ceilings(job: Job, target: str, cache: str) -> None:
    """Compile the kernels that take up the card, on no device. A fault is met again, and recorded, by who runs them."""
    environment = {**compiling_environment(cache), "CUDA_VISIBLE_DEVICES": ""}
    with Child([sys.executable, "-m", CEILING_WORKER], environment, job.log.with_name("timing-ceilings.log")) as child:
        child.ask({"do": "compile", "target": target}, job.settings.timing.prepare_limit_s)


def compile_ahead(job: Job, before: Before, cache: str) -> Precompiled | None:
    """Compile what is to be timed, by many processes, so that the device never waits for a compiler."""
    declaration, device, settings = before.gpu.declaration, before.gpu.device, job.settings.timing
    if job.kernel is None or declaration is None or device is None or not declaration.timed:
        return None
    out = before.barred(declaration)
    wanted = {one.id: declaration.timed for one in declaration.variants if one.id not in out}
    with ThreadPoolExecutor(1) as beside:
        beside.submit(compile_ceilings, job, device.target, cache)
        return precompile(
            job.kernel,
            job.log,
            cache,
            wanted,
            device.target,
            label=f"timing {job.name}",
            workers=settings.workers,
            limit_s=settings.prepare_limit_s,
            loading_limit_s=settings.prepare_limit_s,
        )


def make_ready(job: Job, before: Before, cache: str, child: Asked) -> Precompiled | None:
    """Compile everything and have inputs made meanwhile, so that the device waits for neither.

    A fault of the child's is met again, and recorded, once the kernel is to be timed.
    """
    settings = job.settings
    with ThreadPoolExecutor(1) as beside:
        ahead = beside.submit(compile_ahead, job, before, cache)
        # Asked in this thread: a child process ends with the thread that started it.
        ask(child, {"do": "make", "seed": settings.seeds[0]}, Made, settings.timing.prepare_limit_s)
        # The first estimate imports scipy, which takes a second: it is made now, and not while the device waits.
        launch_cost([1.0])
        return ahead.result()


def unloaded(fault: Fault) -> Verdict:
    """Return why the child could not describe the kernel: the file's fault, or a torch without a device."""
    if fault.kind == "NoDeviceError":
        return Verdict(outcome="inapplicable", cause="no-device", reason=fault.reason)
    return diagnose_loading(fault)


def use(child: Child, card: Card, limit_s: float) -> None:
    """Have the child use this card alone, from now on and after it was replaced.

    One that a kernel file made take up another card already is replaced; a fault is met again by who asks next.
    """
    child.change_environment(card.variables)
    answer = ask(child, {"do": "use", "variables": card.variables}, Identity, limit_s)
    if isinstance(answer, Identity) and not card.named(answer.uuid):
        child.stop()


def summary(sweeps: Sequence[Sweep]) -> str:
    """Return the best times, for the terminal."""
    times = [f"{one.entrant} {one.median_ns / 1e6:.4g} ms" for found in sweeps for one in found.best]
    return f"fastest: {', '.join(times)}" if times else "nothing was timed"


def find_limits(child: Asked, limit_s: float) -> Limits:
    """Return what an empty launch takes and the ceilings' samples; where the child fails, none, and why."""
    answer = ask(child, {"do": "ceilings"}, Limits, limit_s)
    if not isinstance(answer, Fault):
        return answer
    missing = [Burst(name=name, how=answer.reason, work=0, samples_ns=[]) for name in CEILINGS]
    return Limits(launch_ns=[], bursts=missing)


def terms_of(before: Before, device: Device | None, limits: Limits, declaration: Declaration) -> Terms:
    """Return what decides what the samples show."""
    return Terms(
        settings=before.settings.timing,
        maximum_sm_clock_mhz=Unavailable(reason="no device") if device is None else device.maximum_sm_clock_mhz,
        launch=launch_cost(limits.launch_ns),
        ceilings=[ceiling(one.name, one.how, one.work, one.samples_ns) for one in limits.bursts],
        runs_into=declaration.ceilings,
        contrasts=declaration.contrasts,
        rivals=declaration.rivals,
    )


def time_subject(child: Asked, subject: Subject, before: Before, terms: Terms, name: str) -> list[Sweep]:
    """Sweep every timed size of a kernel."""
    progress = Progress(f"timing {name}", terms.settings.rounds * len(subject.problems))
    out, seed = before.barred(subject.declaration), before.settings.seeds[0]
    sweeps = [
        sweep(Bench(child, problem, subject.entrants, terms, seed, progress), out) for problem in subject.problems
    ]
    progress.close(summary(sweeps))
    return sweeps


def time_kernel(child: Asked, before: Before, name: str) -> Timing:
    """Ask the child what the kernel declares, and time it if the device can run it."""
    limit_s, card = before.settings.timing.prepare_limit_s, before.card
    device = None if card is None else card.device
    subject = ask(child, {"do": "describe"}, Subject, limit_s)
    if isinstance(subject, Fault):
        return nothing_timed(unloaded(subject), device, before.ahead)
    if card is not None and not card.named(subject.device.uuid):
        return nothing_timed(ELSEWHERE, device, before.ahead)
    if not subject.problems:
        nothing = Verdict(outcome="inapplicable", cause="not-measured", reason="the kernel declares no size to time")
        return nothing_timed(nothing, device, before.ahead)
    limits = find_limits(child, limit_s)
    terms = terms_of(before, device, limits, subject.declaration)
    return Timing(
        availability=Verdict(outcome="passed", reason="a usable device ran the kernel"),
        device=device,
        precompiled=before.ahead,
        launches_ns=limits.launch_ns,
        launch=terms.launch,
        ceilings=list(terms.ceilings),
        sweeps=time_subject(child, subject, before, terms, name),
    )


def find(job: Job) -> Timing:
    """Time the job's kernel, unless the gate is shut or stage `gpu` has nothing to build on."""
    gate, gpu = job.read("gate").result, job.read("gpu").result
    refused = refusal(gate, gpu)
    if refused is not None:
        return nothing_timed(refused)
    before = Before(job.read("environment").result, job.read("compile").result, gpu, job.settings)
    cards, none = cards_here(before.environment)
    if not cards:
        return nothing_timed(none)
    # An empty cache, so that the digests recorded are of what this run compiled.
    with (
        tempfile.TemporaryDirectory(prefix="assay-timing-") as cache,
        Hold(cards, f"timing {job.name}") as hold,
        worker(job, cache, hold.files) as child,
    ):
        ahead = make_ready(job, before, cache, child)
        card = hold.take(gpu.device)
        use(child, card, job.settings.timing.prepare_limit_s)
        return time_kernel(child, replace(before, ahead=ahead, card=card), str(job.name))


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("timing", argv, find)

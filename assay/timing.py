"""Stage `timing`: one kernel's variants, and the library's way to the same result, timed side by side on the device.

All entrants of a size are sampled in interleaved rounds (`assay.sampling`) in one child process. A variant that stage
`gpu` did not find right is not timed. This process imports neither torch nor the kernel.
"""

import sys
import tempfile
from collections.abc import Sequence

from assay.admission import bar, refusal
from assay.child import Asked, Child, Fault, ask, compiling_environment
from assay.config import Settings
from assay.diagnosis import diagnose_loading
from assay.privacy import salted
from assay.progress import Progress
from assay.record import Check, Device, Environment, Gpu, Sweep, Timing, Verdict
from assay.sampling import Entrant, Subject
from assay.stage import Job, run
from assay.sweep import Bench, sweep

WORKER = "assay.stopwatch"


def worker(job: Job, cache: str) -> Child:
    """Return the child that times the job's kernel."""
    flush = str(job.settings.timing.flush_mebibytes)
    command = [sys.executable, "-m", WORKER, str(job.kernel), flush]
    return Child(command, compiling_environment(cache), job.log)


def unloaded(fault: Fault) -> Verdict:
    """Return why the child could not describe the kernel: the file's fault, or a torch without a device."""
    if fault.kind == "NoDeviceError":
        return Verdict(outcome="inapplicable", cause="no-device", reason=fault.reason)
    return diagnose_loading(fault)


def barred(entrants: Sequence[Entrant], checks: Sequence[Check]) -> dict[str, Verdict]:
    """Return the variants that are not timed, each with the reason. A peer never is: nothing is claimed of it."""
    found = {
        entrant.name: bar([check for check in checks if check.variant == entrant.name])
        for entrant in entrants
        if entrant.kind == "variant"
    }
    return {name: verdict for name, verdict in found.items() if verdict is not None}


def device_of(environment: Environment, gpu: Gpu, uuid: str) -> Device | None:
    """Return the captured device of that UUID; where the environment has no UUIDs, the one that stage `gpu` used."""
    devices = environment.devices if isinstance(environment.devices, list) else []
    hashes = [salted(f"{kind}-{uuid}") for kind in ("GPU", "MIG")]
    return next((d for d in devices if isinstance(d.uuid_hash, str) and d.uuid_hash in hashes), gpu.device)


def summary(sweeps: Sequence[Sweep]) -> str:
    """Return the best times, for the terminal."""
    times = [f"{one.entrant} {one.median_ns / 1e6:.4g} ms" for found in sweeps for one in found.best]
    return f"fastest: {', '.join(times)}" if times else "nothing was timed"


def time_subject(child: Asked, subject: Subject, checks: Sequence[Check], settings: Settings, name: str) -> list[Sweep]:
    """Sweep every timed size of a kernel."""
    progress = Progress(f"timing {name}", settings.timing.rounds * len(subject.problems))
    out = barred(subject.entrants, checks)
    sweeps = [
        sweep(
            Bench(child, problem, subject.entrants, settings.timing, settings.seeds[0], progress),
            out,
            subject.declaration.contrasts,
        )
        for problem in subject.problems
    ]
    progress.close(summary(sweeps))
    return sweeps


def time_kernel(child: Asked, environment: Environment, gpu: Gpu, settings: Settings, name: str) -> Timing:
    """Ask the child what the kernel declares, and time it if the device can run it."""
    subject = ask(child, {"do": "describe"}, Subject, settings.timing.prepare_limit_s)
    if isinstance(subject, Fault):
        return Timing(availability=unloaded(subject), device=gpu.device, sweeps=[])
    device = device_of(environment, gpu, subject.device.uuid)
    if not subject.problems:
        nothing = Verdict(outcome="inapplicable", cause="not-measured", reason="the kernel declares no size to time")
        return Timing(availability=nothing, device=device, sweeps=[])
    ran = Verdict(outcome="passed", reason="a usable device ran the kernel")
    sweeps = time_subject(child, subject, gpu.checks, settings, name)
    return Timing(availability=ran, device=device, sweeps=sweeps)


def find(job: Job) -> Timing:
    """Time the job's kernel, unless the gate is shut or stage `gpu` has nothing to build on."""
    gate, gpu = job.read("gate").result, job.read("gpu").result
    refused = refusal(gate, gpu)
    if refused is not None:
        return Timing(availability=refused, device=None, sweeps=[])
    # An empty cache, so that the digests recorded are of what this run compiled.
    with tempfile.TemporaryDirectory(prefix="assay-timing-") as cache, worker(job, cache) as child:
        return time_kernel(child, job.read("environment").result, gpu, job.settings, str(job.name))


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("timing", argv, find)

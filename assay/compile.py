"""Stage `compile`: every variant of one kernel for every target, with no GPU, and what the instructions say.

The kernel's own launch is compiled, so no signature is written by hand and the digests are those of a real run.
"""

import os
import sys
import tempfile
from collections.abc import Sequence

from assay.building import Wanted, make
from assay.child import ONE_THREAD, Child, Fault, ask, compiling_environment
from assay.correctness import DESCRIBE, Described, workers
from assay.diagnosis import diagnose_loading
from assay.findings import findings
from assay.nursery import Nursery
from assay.pool import Pool, worker_count
from assay.privacy import one_line
from assay.progress import Progress, told
from assay.record import Build, Compilations, Compile, Declaration, Unavailable, Verdict
from assay.stage import Compiled, Job, run
from assay.storage import VARIABLE, Storage, open_storage
from assay.targets import multiplies

WORKER = "assay.codegen"


def _nursery(job: Job, cache: str, storage: Storage | Unavailable) -> Nursery:
    environment = {**compiling_environment(cache), **ONE_THREAD}
    if isinstance(storage, Storage):
        environment[VARIABLE] = str(storage.folder)
    return Nursery([sys.executable, "-m", WORKER, str(job.kernel)], environment, job.log)


def _build_all(job: Job, declaration: Declaration, children: Sequence[Child]) -> tuple[list[Build], Compilations]:
    settings, case = job.settings.compile, declaration.cases[0]
    # Longest first, so that no worker is left with one long build at the end: targets without tensor cores unroll
    # every product, and variants are declared from simple to elaborate.
    targets = sorted(job.settings.targets, key=lambda target: multiplies(target, "tf32"))
    wanted = [Wanted(variant, target, case) for target in targets for variant in reversed(declaration.variants)]
    progress = Progress(f"compile {job.name}", len(wanted))
    answers = Pool(wanted, lambda child, item: make(child, item, settings.limit_s), progress).run(children)
    made = {(one.build.variant, one.build.target): one.build for one in answers}
    builds = [made[variant.id, target] for target in job.settings.targets for variant in declaration.variants]
    counts = [one.compilations for one in answers]
    compilations = Compilations(made=sum(c.made for c in counts), reused=sum(c.reused for c in counts))
    progress.close(_summary(builds, compilations), _failures(declaration, builds))
    for note in sorted({note for one in answers for note in one.notes}):
        print(f"compile {job.name}: {one_line(note)}", file=sys.stderr)
    return builds, compilations


def _summary(builds: Sequence[Build], compilations: Compilations) -> str:
    done = f"{sum(build.compiled.outcome == 'passed' for build in builds)} of {len(builds)} compiled"
    total = compilations.made + compilations.reused
    return f"{done}; {compilations.reused} of {total} functions by an earlier run" if compilations.reused else done


def _failures(declaration: Declaration, builds: Sequence[Build]) -> list[str]:
    """Return what did not compile, does not keep its budget or breaks its promise, each with cause and reason."""
    found = [(f"{one.variant} on {one.target}", verdict) for one in builds for verdict in (one.compiled, one.fits)]
    found += [(f"{one.precision} on {one.target}", one.verdict) for one in findings(declaration, builds)]
    return [f"{name}: {told(verdict)}" for name, verdict in found if verdict.outcome == "failed"]


def compile_all(job: Job) -> Compile | Compiled:
    """Load the kernel file, build every variant for every target, and read the instructions."""
    storage = open_storage(os.environ)
    logs = [job.log.with_name(f"compile-{number}.log") for number in range(worker_count(job.settings.compile.workers))]
    with tempfile.TemporaryDirectory(prefix="assay-compile-") as cache, _nursery(job, cache, storage) as nursery:
        children = workers(nursery, logs, job.settings.loading.limit_s)
        with children[0]:
            answer = ask(children[0], DESCRIBE, Described, job.settings.loading.limit_s)
            if isinstance(answer, Fault):
                unloaded = diagnose_loading(answer)
                Progress(f"compile {job.name}", 0).close(unloaded.reason)
                return Compile(loading=unloaded, declaration=None, builds=[], findings=[])
            declaration = answer.declaration
            builds, compilations = _build_all(job, declaration, children)
    loaded = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
    found = Compile(loading=loaded, declaration=declaration, builds=builds, findings=findings(declaration, builds))
    if isinstance(storage, Unavailable):
        return found
    storage.prune()
    return Compiled(found, compilations)


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("compile", argv, compile_all)

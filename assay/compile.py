"""Stage `compile`: every variant of one kernel for every target, with no GPU, and what the instructions say.

The kernel's own launch is compiled, so no signature is written by hand and the digests are those of a real run.
"""

import sys
import tempfile
from collections.abc import Sequence

from assay.building import Wanted, build
from assay.child import Child, Fault, Opening, ask, compiling_environment
from assay.correctness import DESCRIBE, Described
from assay.diagnosis import diagnose_loading
from assay.findings import findings
from assay.pool import Pool, worker_count
from assay.progress import Progress
from assay.record import Build, Compile, Declaration, Verdict
from assay.stage import Job, run
from assay.targets import multiplies

WORKER = "assay.codegen"


def _child(job: Job, cache: str, number: int) -> Child:
    log = job.log.with_name(f"compile-{number}.log")
    opening = Opening(DESCRIBE, job.settings.loading.limit_s)
    return Child([sys.executable, "-m", WORKER, str(job.kernel)], compiling_environment(cache), log, opening)


def _build_all(job: Job, declaration: Declaration, children: Sequence[Child]) -> list[Build]:
    settings, case = job.settings.compile, declaration.cases[0]
    # Longest first, so that no worker is left with one long build at the end: targets without tensor cores unroll
    # every product, and variants are declared from simple to elaborate.
    targets = sorted(job.settings.targets, key=lambda target: multiplies(target, "tf32"))
    wanted = [Wanted(variant, target, case) for target in targets for variant in reversed(declaration.variants)]
    progress = Progress(f"compile {job.name}", len(wanted))
    pool = Pool(wanted, lambda child, item: build(child, item, settings.limit_s), progress)
    made = {(build.variant, build.target): build for build in pool.run(children)}
    builds = [made[variant.id, target] for target in job.settings.targets for variant in declaration.variants]
    progress.close(f"{sum(build.compiled.outcome == 'passed' for build in builds)} of {len(builds)} compiled")
    return builds


def compile_all(job: Job) -> Compile:
    """Load the kernel file, build every variant for every target, and read the instructions."""
    with tempfile.TemporaryDirectory(prefix="assay-compile-") as cache:
        children = [_child(job, cache, number) for number in range(worker_count(job.settings.compile.workers))]
        with children[0]:
            answer = ask(children[0], DESCRIBE, Described, job.settings.loading.limit_s)
            if isinstance(answer, Fault):
                return Compile(loading=diagnose_loading(answer), declaration=None, builds=[], findings=[])
            declaration = answer.declaration
            builds = _build_all(job, declaration, children)
    loaded = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
    return Compile(loading=loaded, declaration=declaration, builds=builds, findings=findings(declaration, builds))


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("compile", argv, compile_all)

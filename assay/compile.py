"""Stage `compile`: every variant of one kernel for every target, with no GPU, and what the instructions say.

The kernel's own launch is compiled, so no signature is written by hand and the digests are those of a real run.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence

from assay.building import Made, Rest, Wanted, make, refused, rest_of
from assay.child import ONE_THREAD, Child, Fault, ask, compiling_environment
from assay.correctness import DESCRIBE, Described, put_notes, workers
from assay.diagnosis import diagnose_loading
from assay.findings import findings, keeping
from assay.nursery import Nursery
from assay.pool import Pool, worker_count
from assay.privacy import one_line
from assay.progress import Progress, told
from assay.record import Build, Compilations, Compile, Declaration, Finding, Unavailable, Verdict
from assay.stage import Compiled, Job, run
from assay.storage import VARIABLE, Storage, open_storage
from assay.targets import multiplies

WORKER = "assay.codegen"


def _nursery(job: Job, cache: str, storage: Storage | Unavailable) -> Nursery:
    environment = {**compiling_environment(cache), **ONE_THREAD}
    if isinstance(storage, Storage):
        environment[VARIABLE] = str(storage.folder)
    return Nursery([sys.executable, "-m", WORKER, str(job.kernel)], environment, job.log)


def _take(child: Child, item: Wanted | Rest, limit_s: float) -> list[Made]:
    if isinstance(item, Wanted):
        return [make(child, item, limit_s)]
    return [Made(build) for build in refused(child, item, limit_s)]


def _in_order(found: Sequence[Build], targets: Sequence[str], declaration: Declaration) -> list[Build]:
    """Return the first case's builds by target, then those of other cases, where the first does not fail already."""
    first = declaration.cases[0]
    made = {(build.variant, build.target): build for build in found if build.case == first}
    compiled = {key for key, build in made.items() if build.compiled.outcome == "passed"}
    others = [build for build in found if build.case != first and (build.variant, build.target) in compiled]
    return [*(made[variant.id, target] for target in targets for variant in declaration.variants), *others]


def _build_all(job: Job, declaration: Declaration, children: Sequence[Child]) -> tuple[list[Build], Compilations]:
    case, limit_s = declaration.cases[0], job.settings.compile.limit_s
    # Longest first, so that no worker is left with one long build at the end: targets without tensor cores unroll
    # every product, and variants are declared from simple to elaborate.
    targets = sorted(job.settings.targets, key=lambda target: multiplies(target, "tf32"))
    wanted = [Wanted(variant, target, case) for target in targets for variant in reversed(declaration.variants)]
    rests = [rest for v in declaration.variants if (rest := rest_of(declaration, v, job.settings.targets)) is not None]
    asked: list[Wanted | Rest] = [*wanted, *rests]
    progress = Progress(f"compile {job.name}", len(asked))
    found = Pool(asked, lambda child, item: _take(child, item, limit_s), progress).run(children)
    answers = [one for each in found for one in each]
    builds = _in_order([one.build for one in answers], job.settings.targets, declaration)
    counts = [one.compilations for one in answers]
    compilations = Compilations(made=sum(c.made for c in counts), reused=sum(c.reused for c in counts))
    progress.close(_summary(builds, compilations), _failures(declaration, builds))
    put_notes(f"compile {job.name}", _notes(declaration, builds))
    for note in sorted({note for one in answers for note in one.notes}):
        print(f"compile {job.name}: {one_line(note)}", file=sys.stderr)
    return builds, compilations


def _summary(builds: Sequence[Build], compilations: Compilations) -> str:
    compiled = [build for build in builds if build.compiled.outcome == "passed"]
    fit = f", {sum(build.fits.outcome == 'passed' for build in compiled)} of {len(compiled)} fit" if compiled else ""
    done = f"{len(compiled)} of {len(builds)} compiled{fit}"
    total = compilations.made + compilations.reused
    return f"{done}; {compilations.reused} of {total} functions by an earlier run" if compilations.reused else done


def _failures(declaration: Declaration, builds: Sequence[Build]) -> list[str]:
    """Return what did not compile, does not keep its budget or breaks its promise, each with cause and reason."""
    failed = [one for one in builds if one.compiled.outcome == "failed"]
    broken = [one for one in findings(declaration, builds) if one.verdict.outcome == "failed"]
    return [
        *(f"{one.variant} on {one.target}: {told(one.compiled)}" for one in failed),
        *(f"{one.precision} on {one.target}: {_advised(one)}" for one in broken),
    ]


def _advised(broken: Finding) -> str:
    """Return why a promise is broken, and how it is kept."""
    how = keeping(broken.precision)
    return told(broken.verdict) if how is None else f"{told(broken.verdict)}; {how}"


def _notes(declaration: Declaration, builds: Sequence[Build]) -> list[str]:
    """Return what is no failure and yet keeps a variant from running: what keeps it from most stands first."""
    of = [[build for build in builds if build.variant == variant.id] for variant in declaration.variants]
    large = sorted((own for own in of if _too_large(own)), key=_fits_somewhere)
    return [*_uncompiled(of), *map(_unfit, large)]


def _uncompiled(of: Iterable[Sequence[Build]]) -> list[str]:
    """Return why nothing of a variant was compiled though nothing failed, each reason once."""
    reasons: dict[str, list[str]] = {}
    for builds in of:
        if all(build.compiled.outcome == "inapplicable" for build in builds):
            reasons.setdefault(told(builds[0].compiled), []).append(builds[0].variant)
    return [
        f"{first}{f' and {len(more)} more' if more else ''}, compiled for no target: {reason}"
        for reason, (first, *more) in reasons.items()
    ]


def _too_large(builds: Sequence[Build]) -> list[Build]:
    return [build for build in builds if build.binaries and build.fits.outcome != "passed"]


def _fits_somewhere(builds: Sequence[Build]) -> bool:
    return any(build.binaries and build.fits.outcome == "passed" for build in builds)


def _unfit(builds: Sequence[Build]) -> str:
    """Return for which targets a variant's code is too large, with the figures of the one that it comes closest to."""
    large = _too_large(builds)
    closest = min(large, key=lambda one: max(b.shared_bytes / b.shared_limit_bytes for b in one.binaries))
    where = f"does not fit {', '.join(build.target for build in large)}"
    if not _fits_somewhere(builds):
        where = f"fits none of the {len(large)} targets that it was compiled for, and can run on none"
    return f"{builds[0].variant} {where}: {closest.fits.reason}"


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

"""Stage `interpreter`: every case of one kernel under Triton's interpreter, with no GPU. Nothing is timed.

The interpreter computes every precision alike: it proves index and mask logic, never precision. It runs programs one
after another; where they touch each other's memory, under other schedules too (`assay.schedules`).
"""

from collections.abc import Sequence

from assay.child import interpreting_environment
from assay.correctness import Terms, canaries, command, describe, try_all, workers
from assay.judgement import contrasts, honoured
from assay.nursery import Nursery
from assay.pool import worker_count
from assay.record import Interpreter
from assay.stage import Job, run

TOO_SLOW = (
    'where the case is too large for the interpreter, `tiers=("gpu",)` leaves it to a GPU; interpreter.limit_s in '
    "config.yaml allows more"
)


def interpret(job: Job) -> Interpreter:
    """Try every variant on every case that is for the interpreter."""
    assert job.kernel is not None
    settings, loading = job.settings.interpreter, job.settings.loading
    logs = [job.log.with_name(f"interpreter-{number}.log") for number in range(worker_count(settings.workers))]
    with Nursery(command(job.kernel, "cpu"), interpreting_environment(), job.log) as nursery:
        children = workers(nursery, logs, loading.limit_s)
        with children[0]:
            subject = describe(children[0], "interpreter", loading.limit_s)
            terms = Terms(job.settings.seeds, settings.limit_s, too_slow=TOO_SLOW)
            tried = try_all(children, subject, terms, f"interpreter {job.name}")
    checks = [t.check for t in tried]
    found = contrasts(subject.declaration, checks, gated=False)
    return Interpreter(
        loading=subject.loading,
        declaration=subject.declaration,
        checks=checks,
        canaries=canaries(tried, gated=False),
        contrasts=found,
        precision_honoured=honoured(found),
    )


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("interpreter", argv, interpret)

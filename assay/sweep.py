"""One sweep of the timing stage, from the asking side: prepare the entrants, sample them in rounds, check, assemble.

Everything that touches the device happens in a child process (`assay.stopwatch`); whatever becomes of it is an answer
or a fault, and a fault is some row's verdict.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.child import Asked, Fault, Message, ask
from assay.config import TimingSettings
from assay.diagnosis import diagnose
from assay.progress import Progress
from assay.record import Digest, Sweep, Verdict
from assay.sampling import Checked, Entrant, Prepared, Problem, Round, schedule
from assay.speeds import best, how, row, speedup


@dataclass(frozen=True)
class Bench:
    """What every step of one sweep needs."""

    child: Asked
    problem: Problem
    entrants: Sequence[Entrant]
    settings: TimingSettings
    seed: int
    progress: Progress

    def ask(self, do: str, kind: type[Message], limit_s: float, **more: Any) -> Message | Fault:
        """Ask about this size. Each request says all that a child started a moment ago must know."""
        return ask(self.child, {"do": do, "size": self.problem.size, "seed": self.seed, **more}, kind, limit_s)

    def show(self, what: str) -> None:
        """Show what runs now."""
        self.progress.running(f"{self.problem.size} {what}")


def _prepare(bench: Bench, entrants: Iterable[Entrant]) -> dict[str, list[Digest] | Verdict]:
    limit_s, warmup = bench.settings.prepare_limit_s, bench.settings.warmup
    found: dict[str, list[Digest] | Verdict] = {}
    for entrant in entrants:
        bench.show(f"preparing {entrant.name}")
        answer = bench.ask("prepare", Prepared, limit_s, entrant=entrant.name, warmup=warmup)
        found[entrant.name] = diagnose(answer, entrant.precision) if isinstance(answer, Fault) else answer.cubin_sha256
    return found


def prepare(bench: Bench, entrants: Sequence[Entrant]) -> tuple[dict[str, list[Digest]], dict[str, Verdict]]:
    """Compile and warm up; return the binaries of those that are ready, and why the others are not.

    A fault ends the child, and with it what was prepared there, so the rest prepare once more (from Triton's cache).
    """
    failed: dict[str, Verdict] = {}
    while True:
        found = _prepare(bench, [entrant for entrant in entrants if entrant.name not in failed])
        fresh = {name: verdict for name, verdict in found.items() if isinstance(verdict, Verdict)}
        if not fresh:
            return {name: digests for name, digests in found.items() if isinstance(digests, list)}, failed
        failed |= fresh


def sample(bench: Bench, names: Sequence[str]) -> tuple[list[Round], Verdict | None]:
    """Take the scheduled rounds, as many as the time limit allows; also return what stopped them, if a fault did."""
    settings, taken = bench.settings, list[Round]()
    deadline = time.monotonic() + settings.limit_s
    for order in schedule(settings.rounds, names, bench.seed) if names else ():
        if time.monotonic() > deadline:
            break
        bench.show("sampling in rounds")
        answer = bench.ask("round", Round, settings.limit_s, order=order, repeats=settings.repeats)
        if not isinstance(answer, Fault) and answer.samples_ns.keys() != set(order):
            answer = Fault("crash", "the answer's entrants are not those that were asked for")
        if isinstance(answer, Fault):
            reason = f"sampling stopped after {len(taken)} of {settings.rounds} rounds: {answer.reason}"
            return taken, Verdict(outcome="cantTell", cause=answer.cause, reason=reason)
        taken.append(answer)
        bench.progress.step()
    return taken, None


def check(bench: Bench, variants: Sequence[str]) -> dict[str, Verdict]:
    """Return, for each variant, the verdict on what its timed launches wrote: a fast wrong result is no result."""
    bench.show("checking what was written")
    answer = bench.ask("check", Checked, bench.settings.prepare_limit_s, variants=list(variants))
    fault = answer if isinstance(answer, Fault) else Fault("crash", "the answer leaves it out")
    verdicts = {} if isinstance(answer, Fault) else answer.verdicts
    reason = f"what it wrote could not be checked after timing: {fault.reason}"
    unknown = Verdict(outcome="cantTell", cause=fault.cause, reason=reason)
    return {name: verdicts.get(name, unknown) for name in variants}


def judge(bench: Bench, names: Sequence[str], taken: Sequence[Round], stopped: Verdict | None) -> dict[str, Verdict]:
    """Return the verdict of each entrant that took part in the rounds."""
    if stopped is not None:
        return dict.fromkeys(names, stopped)
    said = how(bench.settings, [one.conditions for one in taken])
    timed = dict.fromkeys(names, Verdict(outcome="passed", reason=said))
    variants = [entrant.name for entrant in bench.entrants if entrant.kind == "variant" and entrant.name in names]
    # Without a round nothing was written since the warm-up, and `row` says that there are no samples.
    checked = check(bench, variants) if taken else {}
    return timed | {name: verdict for name, verdict in checked.items() if verdict.outcome != "passed"}


def sweep(bench: Bench, barred: Mapping[str, Verdict], contrasts: Sequence[tuple[str, str]]) -> Sweep:
    """Time all entrants of one size side by side, but for those `barred` beforehand, whose verdict is given."""
    ready, failed = prepare(bench, [entrant for entrant in bench.entrants if entrant.name not in barred])
    taken, stopped = sample(bench, list(ready))
    verdicts = {**barred, **failed, **judge(bench, list(ready), taken, stopped)}
    samples = {name: [one.samples_ns[name] for one in taken] for name in ready}
    problem = bench.problem
    rows = [
        row(entrant, verdicts[entrant.name], samples.get(entrant.name, []), problem, ready.get(entrant.name, []))
        for entrant in bench.entrants
    ]
    fastest = best(rows)
    times = {one.precision: one.median_ns for one in fastest}
    return Sweep(
        size=problem.size,
        dimensions=problem.dimensions,
        flops=problem.flops,
        bytes=problem.bytes,
        rows=rows,
        rounds=[one.conditions for one in taken],
        best=fastest,
        speedups=[speedup(reference, lesser, times) for reference, lesser in contrasts],
    )

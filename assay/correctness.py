"""What the interpreter and gpu stages share: every variant on every case in a child process, and errors set apart."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import field, structs

from assay.child import Asked, Child, Fault, Opening, ask
from assay.diagnosis import diagnose, diagnose_loading
from assay.judgement import asked, exempt
from assay.nursery import Nursery
from assay.pool import Pool
from assay.privacy import one_line
from assay.progress import SHOWN_FAILURES, Progress, told
from assay.record import (
    Canary,
    Cause,
    Check,
    Declaration,
    DeclaredVariant,
    Digest,
    Number,
    Operand,
    Record,
    Unavailable,
    Verdict,
)
from assay.rounding import canary
from assay.targets import unsuited

WORKER = "assay.trial"

DESCRIBE = {"do": "describe"}
"""The request that loads the kernel file and returns its declaration: a fresh child's first."""


@dataclass(frozen=True)
class Subject:
    """What a kernel file declares, with the cases of one tier; or why it could not be loaded."""

    loading: Verdict
    declaration: Declaration | None = None
    cases: tuple[str, ...] = ()


class Described(Record, frozen=True, kw_only=True):
    """A child's answer to `describe`; `tiers` names the cases of each tier that the child can serve."""

    declaration: Declaration
    tiers: dict[str, list[str]] = field(default_factory=dict)


class Tried(Record, frozen=True, kw_only=True):
    """A child's answer to `try`: a check, the digests of what it launched (none under the interpreter), and what the
    rounding canary read in each operand (nothing where the kernel declares no product).
    """

    check: Check
    binaries: list[Digest] = field(default_factory=list)
    readings: dict[Operand, list[Number]] = field(default_factory=dict)


def command(kernel: Path, device: str) -> list[str]:
    """Return the command of a child that tries `kernel` on `device`: 'cpu' for the interpreter, or 'cuda'."""
    return [sys.executable, "-m", WORKER, str(kernel), device]


def worker(
    kernel: Path,
    device: str,
    environment: Mapping[str, str],
    log: Path,
    loading_limit_s: float,
    *,
    held: Sequence[int] = (),
) -> Child:
    """Return a child that tries `kernel` on `device`; `held` as in `Child`."""
    return Child(command(kernel, device), environment, log, Opening(DESCRIBE, loading_limit_s), held=held)


def workers(nursery: Nursery, logs: Sequence[Path], loading_limit_s: float) -> list[Child]:
    """Return children that do what the nursery's do, one for each file to print into."""
    opening = Opening(DESCRIBE, loading_limit_s)
    return [Child(nursery.command, nursery.environment, log, opening, starter=nursery) for log in logs]


def describe(child: Child, tier: str, limit_s: float) -> Subject:
    """Ask the child what the kernel file declares."""
    answer = ask(child, DESCRIBE, Described, limit_s)
    if isinstance(answer, Fault):
        return Subject(diagnose_loading(answer))
    loaded = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
    return Subject(loaded, answer.declaration, tuple(answer.tiers.get(tier, ())))


@dataclass(frozen=True)
class Trial:
    """One variant on one case."""

    variant: DeclaredVariant
    case: str

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.case} {self.variant.id}"


@dataclass(frozen=True)
class Place:
    """The device on which trials run."""

    name: str
    target: str


@dataclass(frozen=True)
class Terms:
    """On what terms trials run: the seeds of each, the seconds one may take, the device (None: the CPU), and what to do
    about one that takes longer.
    """

    seeds: list[int]
    limit_s: float
    place: Place | None = None
    too_slow: str = ""


def _untried(trial: Trial, terms: Terms, verdict: Verdict) -> Tried:
    check = Check(
        variant=trial.variant.id,
        case=trial.case,
        seeds=terms.seeds,
        verdict=verdict,
        comparisons=[],
        repeat=Unavailable(reason="not launched to its end"),
    )
    return Tried(check=check)


def _advised(verdict: Verdict, terms: Terms) -> Verdict:
    """Return the verdict on a trial that was not done in time, with what to do about it."""
    return structs.replace(verdict, reason=f"{verdict.reason}; {terms.too_slow}") if terms.too_slow else verdict


def settled(trial: Trial, place: Place | None, declaration: Declaration) -> Verdict | None:
    """Return the verdict of a trial that needs no launch: it does not suit the device, or is not asked; else None."""
    variant = trial.variant
    misfit = place and unsuited(place.name, place.target, variant.minimum_capability, variant.maximum_capability)
    if misfit:
        return Verdict(outcome="inapplicable", cause="capability", reason=misfit)
    return exempt(declaration, trial.case, variant.precision)


def try_one(child: Asked, trial: Trial, terms: Terms, declaration: Declaration) -> Tried:
    """Try one variant on one case; a fault is the verdict of its check."""
    unasked = settled(trial, terms.place, declaration)
    if unasked is not None:
        return _untried(trial, terms, unasked)
    request: dict[str, Any] = {"do": "try", "variant": trial.variant.id, "case": trial.case, "seeds": terms.seeds}
    answer = ask(child, request, Tried, terms.limit_s)
    if isinstance(answer, Fault):
        verdict = diagnose(answer, trial.variant.precision)
        return _untried(trial, terms, _advised(verdict, terms) if answer.cause == "timeout" else verdict)
    return answer


KEPT: frozenset[Cause | None] = frozenset(("wrong-value", "not-finite", "not-written", "undefined-read"))
"""Causes of a failure that can come of what a launch keeps from call to call: a buffer, a counter that is not reset."""


def blamed(child: Child, trial: Trial, terms: Terms, declaration: Declaration, tried: Tried) -> Tried:
    """Return a failure as that of a stale result, where each seed passes in a process of its own."""
    if terms.place is not None or tried.check.verdict.cause not in KEPT:
        return tried
    if any(one.check.verdict.outcome != "passed" for one in _each_alone(child, trial, terms, declaration)):
        return tried
    return _stale(tried, "in a process of its own it is right, so that it depends on an earlier call")


def _each_alone(child: Child, trial: Trial, terms: Terms, declaration: Declaration) -> Iterator[Tried]:
    for seed in terms.seeds:
        # The next request is the first of a new process.
        child.stop()
        yield try_one(child, trial, replace(terms, seeds=[seed]), declaration)


def _stale(tried: Tried, words: str) -> Tried:
    verdict = Verdict(outcome="failed", cause="stale-result", reason=f"{words}: {tried.check.verdict.reason}")
    return structs.replace(tried, check=structs.replace(tried.check, verdict=verdict))


@dataclass(frozen=True)
class Turn:
    """Trials that one process takes one after another: those of one variant, on all cases that are asked of it in the
    order in which they are declared, or one of each variant (`mixed`), in a process that has done nothing else.
    """

    trials: tuple[Trial, ...]
    mixed: bool = False

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.trials[0].case} of all variants" if self.mixed else self.trials[0].variant.id

    def take(self, child: Child, terms: Terms, declaration: Declaration) -> list[Tried]:
        """Try what there is to try."""
        if not self.mixed:
            tried = [(trial, try_one(child, trial, terms, declaration)) for trial in self.trials]
            return [blamed(child, trial, terms, declaration, one) for trial, one in tried]
        child.stop()
        return [try_one(child, trial, replace(terms, seeds=terms.seeds[:1]), declaration) for trial in self.trials]


def turns(declaration: Declaration, cases: Sequence[str]) -> list[Turn]:
    """Return the trials of each variant. One process takes them all, so that what a kernel keeps from case to case,
    such as a cache with too short a key, shows on a machine with any number of cores.
    """
    trials = [Trial(variant, case) for case in cases for variant in asked(declaration, case)]
    of = {variant.id: tuple(t for t in trials if t.variant.id == variant.id) for variant in declaration.variants}
    return [Turn(found) for found in of.values() if found]


def mixture(declaration: Declaration, cases: Sequence[str]) -> list[Turn]:
    """Return the trials of all variants on one case, so that what one keeps and another finds shows too: on the second
    case, where there is one, for the first is mostly one that any block size suits.
    """
    trials = [Trial(variant, case) for case in cases[:2][-1:] for variant in asked(declaration, case)]
    return [Turn(tuple(trials), mixed=True)] if len(trials) > 1 else []


def launched(declaration: Declaration, place: Place) -> dict[str, list[str]]:
    """Return the cases on which each variant is launched there, by its id; a case may be left to another tier yet."""
    trials = [trial for turn in turns(declaration, declaration.cases) for trial in turn.trials]
    wanted: dict[str, list[str]] = {}
    for trial in trials:
        if settled(trial, place, declaration) is None:
            wanted.setdefault(trial.variant.id, []).append(trial.case)
    return wanted


def try_all(children: Sequence[Child], subject: Subject, terms: Terms, label: str) -> list[Tried]:
    """Try every variant on every case. A fault costs one trial; the next one gets a fresh child."""
    declaration = subject.declaration
    if declaration is None:
        Progress(label, 0).close(subject.loading.reason)
        return []

    # On a device one process takes everything as it is.
    mixed = mixture(declaration, subject.cases) if terms.place is None else []
    waiting = turns(declaration, subject.cases) + mixed
    progress = Progress(label, len(waiting))
    pool = Pool(waiting, lambda child, turn: turn.take(child, terms, declaration), progress)
    answers = pool.run(children)
    found = _by_name(answers[: len(answers) - len(mixed)])
    for at, one in _by_name(answers[len(answers) - len(mixed) :]).items():
        if found[at].check.verdict.outcome == "passed" and one.check.verdict.cause in KEPT:
            found[at] = _stale(
                one, "after other variants in one process it is wrong, so that it depends on their calls"
            )
    tried = [found[variant.id, case] for case in subject.cases for variant in asked(declaration, case)]
    progress.close(summary(tried), failures(tried))
    put_notes(label, undecided(tried))
    return tried


def _by_name(turns: Iterable[Iterable[Tried]]) -> dict[tuple[str, str], Tried]:
    return {(one.check.variant, one.check.case): one for of in turns for one in of}


def canaries(tried: Iterable[Tried], gated: bool) -> list[Canary]:
    """Return what the rounding canary showed of each variant that it was sent through."""
    readings: dict[str, dict[Operand, list[Number]]] = {}
    for one in tried:
        if one.readings:
            readings.setdefault(one.check.variant, one.readings)
    return [canary(variant, operand, read, gated) for variant, of in readings.items() for operand, read in of.items()]


def failures(tried: Iterable[Tried]) -> list[str]:
    """Return each check that failed with its cause and reason, for the terminal."""
    checks = [one.check for one in tried if one.check.verdict.outcome == "failed"]
    return [f"{c.case} {c.variant}: {told(c.verdict)}" for c in checks]


def undecided(tried: Iterable[Tried]) -> list[str]:
    """Return why checks neither passed nor failed, the commonest reason first, each with how many checks have it."""
    verdicts = [one.check.verdict for one in tried]
    counts = Counter((v.outcome, told(v)) for v in verdicts if v.outcome not in ("passed", "failed"))
    return [f"{count} {outcome}: {reason}" for (outcome, reason), count in counts.most_common()]


def put_notes(label: str, notes: Sequence[str]) -> None:
    """Print, under a stage's summary, what is no failure: the first few in a line each, as failures are above it."""
    more = len(notes) - SHOWN_FAILURES
    for note in [*notes[:SHOWN_FAILURES], *([f"and {more} more"] if more > 0 else [])]:
        print(one_line(f"{label}: {note}"), file=sys.stderr)


def summary(tried: Iterable[Tried]) -> str:
    """Return counts of outcomes, for the terminal."""
    outcomes = [t.check.verdict.outcome for t in tried]
    return ", ".join(f"{outcomes.count(o)} {o}" for o in sorted(set(outcomes))) or "nothing to try"

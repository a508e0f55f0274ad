"""The asking side of planted faults: one faulty kernel file put before each tier, in a child process."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from assay.artifact import sha256_bytes
from assay.building import Wanted, build
from assay.catching import (
    RAISED,
    UNTRIED,
    Fate,
    Seen,
    continued,
    expose,
    fate,
    has_run,
    is_open,
    is_settled,
    outcome,
)
from assay.child import Child, Fault, ask
from assay.correctness import Terms, Trial, Tried, canaries, try_one
from assay.findings import findings
from assay.forking import Session
from assay.journal import Known
from assay.judgement import contrasts
from assay.mutation import Mutation
from assay.original import LAUNCH, UNCOMPARED, Asked, Original, TierName, build_place, code_of, parts_of
from assay.privacy import scrub
from assay.record import Build, Cause, Digest, Exposure, Mutant, Verdict


@dataclass
class Faulty:
    """One faulty kernel file, written to `path`, and what has been found of it so far.

    `using` names the variants that what was changed may show in; None stands for all.
    """

    mutation: Mutation
    path: Path
    using: frozenset[str] | None = None
    exposures: list[Exposure] = field(default_factory=list)
    baseline: Verdict = UNTRIED
    differs: str | None = None

    def __post_init__(self) -> None:
        """A change in how a kernel is launched is a change, though its code stays as it is."""
        self.differs = LAUNCH if self.mutation.place == "launch" else None

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.mutation.operator} in line {self.mutation.line}"

    @property
    def fate(self) -> Fate:
        """What became of it, by what is known now."""
        return fate(self.exposures, self.differs)

    @property
    def open(self) -> bool:
        """Whether another tier is to look at it."""
        return is_open(self.exposures, self.differs)

    @property
    def settled(self) -> bool:
        """Whether what the last tier saw so far is a fault whatever the rest of it sees."""
        return is_settled(self.exposures[-1], has_run(self.exposures[:-1]))

    def parts(self, asked: Sequence[Asked]) -> list[list[Asked]]:
        """Return those of the trials in which it can show, in parts."""
        return parts_of([one for one in asked if self.using is None or one[0].id in self.using])

    @property
    def sha256(self) -> Digest:
        """The digest of its kernel file."""
        return sha256_bytes(self.mutation.text.encode())

    def known(self, made_of: Digest, phase: str) -> Known:
        """Return what is known of it once a phase has looked."""
        return Known(
            made_of=made_of,
            phase=phase,
            sha256=self.sha256,
            exposures=self.exposures,
            baseline=self.baseline,
            differs=self.differs,
        )

    def recall(self, known: Known) -> None:
        """Take over what an earlier run knew of it."""
        self.exposures, self.baseline, self.differs = list(known.exposures), known.baseline, known.differs

    def record(self, named: bool) -> Mutant:
        """Return the record of it; `named`: the author says that it is no fault."""
        became = outcome(self.fate, self.baseline, named)
        return Mutant(
            operator=self.mutation.operator,
            line=self.mutation.line,
            source=self.mutation.source,
            replacement=self.mutation.replacement,
            sha256=self.sha256,
            outcome=became,
            exposures=self.exposures,
            baseline=self.baseline,
            differs=self.differs if self.fate == "survived" else None,
        )


def _tidy(verdict: Verdict, path: Path) -> Verdict:
    """Return a verdict that names the file as it is named in its project, not where the faulty one was written."""
    folder = scrub(f"{path.parent.parent}/")
    return replace(verdict, reason=verdict.reason.replace(folder, ""))


def _tidied(seen: Iterator[Seen], path: Path) -> Iterator[Seen]:
    return ((place, _tidy(verdict, path)) for place, verdict in seen)


# The correctness tiers


def _aside(original: Original, tried: Sequence[Tried]) -> Iterator[Seen]:
    """Yield what the latest trial on a device shows beside its own verdict: canaries, and precisions set apart."""
    broken = {c.variant for c in original.gpu.canaries if c.verdict.outcome == "failed"}
    for one in canaries(tried[-1:], gated=True):
        if one.variant not in broken and one.verdict.outcome == "failed":
            yield f"{one.variant} canary, {one.operand} operand", one.verdict
    kept = {(c.case, c.configuration) for c in original.gpu.contrasts if c.verdict.outcome == "passed"}
    for pair in contrasts(original.declaration, [t.check for t in tried], gated=True):
        if (pair.case, pair.configuration) in kept and pair.verdict.outcome == "failed":
            yield f"{pair.case} {pair.lesser}/{pair.configuration} against {pair.reference}", pair.verdict


@dataclass(frozen=True)
class Bench:
    """What faulty versions are put before at a tier: the kernel as it is, whose trials they take, and on what terms."""

    kernel: Path
    original: Original
    tier: TierName
    terms: Terms


def _try_in_turn(process: Session, bench: Bench, asked: Sequence[Asked]) -> Iterator[Seen]:
    tried: list[Tried] = []
    for trial in (Trial(variant, case) for variant, case in asked):
        tried.append(_try_patiently(process, bench, trial))
        verdict = tried[-1].check.verdict
        yield str(trial), _unlike(verdict)
        if bench.tier == "gpu":
            yield from _aside(bench.original, tried)
        if bench.tier == "gpu" and verdict.cause in RAISED:
            # One error can spoil the whole context on a device.
            process.close()


_UNLIKE: dict[Cause | None, str] = {"timeout": "ends in time", "unsupported-operation": "does not wait"}


def _unlike(verdict: Verdict) -> Verdict:
    """Return what it shows that a fault does not come to its end: the kernel itself does, which uses the same
    operations and waits for no program that has not begun.
    """
    if verdict.cause not in _UNLIKE:
        return verdict
    reason = f"{verdict.reason}, where the kernel itself {_UNLIKE[verdict.cause]}"
    return Verdict(outcome="failed", cause="timeout", reason=reason)


PATIENCE = 4
"""Times what the kernel itself takes: what a fault is given that was not done in time at first."""


def _try_patiently(process: Session, bench: Bench, trial: Trial) -> Tried:
    """Try a fault, and where that takes too long the kernel itself, here and now, and then the fault again.

    Other trials run at the same time, and all of them import and compile at first, which can hold up a trial that a
    fault does not.
    """
    terms, declaration = bench.terms, bench.original.declaration
    tried, took_s = _timed(process, bench, trial)
    if tried.check.verdict.cause != "timeout" or took_s < terms.limit_s:
        return tried
    with Session(process.child, bench.kernel) as control:
        itself, took_s = _timed(control, bench, trial)
    if itself.check.verdict.outcome == "passed":
        patient = dataclasses.replace(terms, limit_s=max(terms.limit_s, PATIENCE * took_s))
        again = try_one(process, trial, patient, declaration)
        # How long the kernel took here and now is chance, and no part of what is recorded.
        return tried if again.check.verdict.cause == "timeout" else again
    reason = f"the kernel itself does not pass within {terms.limit_s:g} s either"
    untested = Verdict(outcome="untested", cause="not-measured", reason=reason)
    return replace(tried, check=replace(tried.check, verdict=untested))


def _timed(process: Session, bench: Bench, trial: Trial) -> tuple[Tried, float]:
    """Return what a trial shows, and the seconds that it took."""
    started = time.monotonic()
    tried = try_one(process, trial, bench.terms, bench.original.declaration)
    return tried, time.monotonic() - started


def try_faulty(process: Session, faulty: Faulty, bench: Bench, asked: Sequence[Asked]) -> Exposure:
    """Try a faulty kernel on what the kernel itself passed, until something is wrong, and return what was seen."""
    seen = _try_in_turn(process, bench, asked)
    return expose(bench.tier, _tidied(seen, faulty.path), has_run(faulty.exposures))


def compare_plainly(process: Session, faulty: Faulty, bench: Bench) -> None:
    """Look at a faulty kernel in the reference script's way; a crash or an exception would end that script too."""
    case, variants = bench.original.plain(bench.tier)
    request = {"do": "baseline", "case": case, "variants": variants, "seed": bench.terms.seeds[0]}
    answer = ask(process, request, Verdict, bench.terms.limit_s)
    verdict = answer.verdict() if isinstance(answer, Fault) else answer
    faulty.baseline = _tidy(verdict, faulty.path)


@dataclass
class Rest:
    """A part of a tier's trials, of which the first part settled nothing, and what it showed once it is made."""

    faulty: Faulty
    phase: str
    asked: Sequence[Asked]
    before: "Rest | None" = None
    exposure: Exposure | None = None

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.faulty}: {self.asked[0][1]}"

    @property
    def idle(self) -> bool:
        """Whether an earlier part, made meanwhile, showed a fault already."""
        if self.before is None:
            return False
        found = self.before.exposure
        return self.before.idle or (found is not None and is_settled(found, has_run(self.faulty.exposures)))

    def known(self, made_of: Digest) -> Known:
        """Return what is known once this part is made."""
        assert self.exposure is not None
        return replace(self.faulty.known(made_of, self.phase), exposures=[self.exposure])


def try_rest(child: Child, rest: Rest, bench: Bench) -> None:
    """Make one more part of the trials of a faulty kernel, unless that is idle by now."""
    if not rest.idle:
        with Session(child, rest.faulty.path) as process:
            rest.exposure = try_faulty(process, rest.faulty, bench, rest.asked)


def add_up(faulty: Faulty, rests: Iterable[Rest]) -> None:
    """Make one exposure of the first part and of those after it, up to the first that settles what it is."""
    for rest in rests:
        if not faulty.settled and rest.exposure is not None:
            faulty.exposures[-1] = continued(faulty.exposures[-1], rest.exposure)


# The compile tier


def settle(faulty: Faulty) -> None:
    """Leave out of what has the kernel's own code everywhere, once all is compared, what a later tier saw of it."""
    if faulty.fate == "equivalent":
        faulty.exposures = [exposure for exposure in faulty.exposures if exposure.tier != "gpu"]


def _wanted(original: Original, there: Build) -> Wanted:
    return Wanted(original.variants[there.variant], there.target, there.case)


def place_of(wanted: Wanted) -> str:
    """Return how a record names a build."""
    return build_place(wanted.variant.id, wanted.target, wanted.case)


def _build_samples(process: Session, original: Original, made: list[Build], limit_s: float) -> Iterator[Seen]:
    for wanted in (_wanted(original, there) for there in original.samples()):
        made.append(build(process, wanted, limit_s))
        yield place_of(wanted), made[-1].compiled
    for finding in findings(original.declaration, made):
        if (finding.precision, finding.target) in original.kept and finding.verdict.outcome == "failed":
            yield f"{finding.precision} {finding.target}", finding.verdict


def compile_faulty(child: Child, faulty: Faulty, original: Original, limit_s: float) -> None:
    """Compile a faulty kernel in each precision for one target: the instructions must keep what each promises."""
    made: list[Build] = []
    with Session(child, faulty.path) as process:
        seen = _build_samples(process, original, made, limit_s)
        faulty.exposures.append(expose("compile", _tidied(seen, faulty.path), has_run(faulty.exposures)))
    pairs = zip(original.samples(), made, strict=False)
    other = [_wanted(original, there) for there, here in pairs if code_of(there) != code_of(here)]
    if other:
        faulty.differs = place_of(other[0])
    elif faulty.differs is None:
        faulty.differs = UNCOMPARED


@dataclass(frozen=True)
class Rebuild:
    """One build of a faulty kernel to set beside that of the kernel itself."""

    faulty: Faulty
    wanted: Wanted

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.faulty}: {self.wanted}"


def is_other(child: Child, item: Rebuild, original: Original, kernel: Path, limit_s: float) -> bool:
    """Return whether a build of a faulty kernel is other code; False too where one was found to be already."""
    if item.faulty.differs is not None:
        return False
    ahead = {(b.variant, b.target, b.case): code_of(b) for b in original.builds}
    expected = ahead.get((item.wanted.variant.id, item.wanted.target, item.wanted.case))
    if expected is None:
        expected = _code(child, kernel, item.wanted, limit_s)
    if _code(child, item.faulty.path, item.wanted, limit_s) == expected:
        return False
    item.faulty.differs = place_of(item.wanted)
    return True


def _code(child: Child, kernel: Path, wanted: Wanted, limit_s: float) -> list[Digest]:
    with Session(child, kernel) as process:
        return code_of(build(process, wanted, limit_s))

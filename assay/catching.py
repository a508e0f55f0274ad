"""What catches a planted fault, tier by tier, what becomes of it, and the score over all of them. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from assay.mutation import Mutation
from assay.original import TIERS, TierName
from assay.record import Acceptance, Cause, Equivalent, Exposure, Mutant, Teeth, Verdict

RAISED: tuple[Cause, ...] = ("import-error", "declaration", "compile-error", "exception")
"""Causes for which the code did not even run: what does nothing but raise needs nobody to look at its results."""

EVERYWHERE = "*"

UNTRIED = Verdict(outcome="untested", cause="not-measured", reason="no tier could run the reference script's way")

Fate = Literal["caught", "survived", "equivalent", "invalid"]
Outcome = Fate | Literal["accepted"]
Seen = tuple[str, Verdict]
"""A place, and what was seen there."""


def _raised(verdict: Verdict) -> bool:
    return verdict.outcome == "failed" and verdict.cause in RAISED


def expose(tier: TierName, seen: Iterable[Seen], ran: bool = False) -> Exposure:
    """Look on until something is wrong, and say what one tier made of a faulty version.

    What raises is wrong only where something else does not: it is looked past until then, unless the version `ran` at
    an earlier tier. `passed` is 0 for a version that raised wherever it was looked at.
    """
    passed, raised, barred = 0, list[Seen](), list[Seen]()
    for place, verdict in seen:
        if verdict.outcome == "passed":
            passed += 1
        elif _raised(verdict):
            raised.append((place, verdict))
        elif verdict.outcome == "failed":
            return Exposure(tier=tier, place=place, verdict=verdict, passed=passed)
        else:
            barred.append((place, verdict))
        if raised and (passed or ran):
            break
    if raised:
        return Exposure(tier=tier, place=raised[0][0], verdict=raised[0][1], passed=passed)
    if passed or not barred:
        return Exposure(tier=tier, place=EVERYWHERE, verdict=saw_nothing(tier, passed), passed=passed)
    return Exposure(tier=tier, place=barred[0][0], verdict=barred[0][1], passed=0)


def continued(first: Exposure, more: Exposure) -> Exposure:
    """Return one exposure for both halves of a tier: `more` looked where `first` had found nothing wrong, or nothing
    that did not raise.
    """
    passed = first.passed + more.passed
    if first.verdict.outcome == "failed":
        return replace(first, passed=passed)
    if more.verdict.outcome == "failed":
        return replace(more, passed=passed)
    if not passed:
        return first if first.verdict.cause != "not-measured" else more
    return Exposure(tier=first.tier, place=EVERYWHERE, verdict=saw_nothing(first.tier, passed), passed=passed)


def is_settled(exposure: Exposure, ran: bool = False) -> bool:
    """Return whether what a tier saw so far is a fault whatever the rest of it sees; `ran` as in `expose`."""
    undecided = _raised(exposure.verdict) and not exposure.passed and not ran
    return exposure.verdict.outcome == "failed" and not undecided


def has_run(exposures: Iterable[Exposure]) -> bool:
    """Return whether a tier saw a faulty version run, and nothing wrong with it."""
    return any(exposure.verdict.outcome == "passed" for exposure in exposures)


def saw_nothing(tier: TierName, passed: int) -> Verdict:
    """Return the verdict of a tier at which so many checks or builds were as they should be, and none was not."""
    if not passed:
        return Verdict(outcome="untested", cause="not-measured", reason="there was nothing to look at")
    what = "builds have the instructions and the stack that they should" if tier == "compile" else "checks passed"
    return Verdict(outcome="passed", reason=f"{passed} {what}")


def fate(exposures: Sequence[Exposure], differs: str | None) -> Fate:
    """Return what became of a fault: `differs` names a build that is other code than the kernel's, if one was found.

    What only raises, in every tier that looked, is invalid; what raises in one and not in another is caught.
    """
    failed = [exposure for exposure in exposures if exposure.verdict.outcome == "failed"]
    ran = has_run(exposures)
    if failed:
        only_raised = all(_raised(exposure.verdict) and not exposure.passed for exposure in failed)
        return "invalid" if only_raised and not ran else "caught"
    compiled = has_run(exposure for exposure in exposures if exposure.tier == "compile")
    return "equivalent" if compiled and differs is None else "survived"


def is_open(exposures: Sequence[Exposure], differs: str | None) -> bool:
    """Return whether another tier is to look: where none caught a fault, or one alone did by what it raises there."""
    found = fate(exposures, differs)
    looked = sum(exposure.verdict.outcome in ("passed", "failed") for exposure in exposures)
    return found == "survived" or (found == "invalid" and looked == 1)


def looking(tiers: Sequence[TierName], exposures: Sequence[Exposure], differs: str | None) -> list[TierName]:
    """Return which of the tiers look at a fault, given what each made of it."""
    found: list[TierName] = []
    for tier in tiers:
        if is_open(exposures[: len(found)], differs):
            found.append(tier)
    return found


def catcher(mutant: Mutant) -> Exposure | None:
    """Return the exposure that caught a fault; None where none did."""
    failed = (exposure for exposure in mutant.exposures if exposure.verdict.outcome == "failed")
    return next(failed, None) if mutant.outcome == "caught" else None


# The author's word


def acceptances(words: Iterable[Equivalent], planted: Sequence[Mutation]) -> list[Acceptance]:
    """Return which of the planted faults each word of the author's is about: by operator, and by the line they are in,
    whose number would change with every edit above it.
    """
    return [Acceptance(equivalent=word, mutants=list(_meant(word, planted))) for word in words]


def _meant(word: Equivalent, planted: Sequence[Mutation]) -> Iterator[int]:
    for at, mutation in enumerate(planted):
        if mutation.operator in word.operators and mutation.line_text == word.source.strip():
            yield at


def outcome(found: Fate, baseline: Verdict, named: bool) -> Outcome:
    """Return what became of a fault where the author `named` it as none: the word counts only where nothing caught the
    fault, and not even the reference script's way does.
    """
    return "accepted" if named and found == "survived" and baseline.outcome != "failed" else found


def accepted_places(accepted: Iterable[Acceptance]) -> set[int]:
    """Return the places of all faults that the author says are none."""
    return {at for acceptance in accepted for at in acceptance.mutants}


def word_on(found: Teeth, at: int) -> str:
    """Return why the author says that the fault at this place is none; "" where nothing is said of it."""
    return next((one.equivalent.why for one in found.acceptances if at in one.mutants), "")


def wrong_words(found: Teeth) -> list[str]:
    """Say of each word of the author's that is wrong what shows it: the fault is caught, or none like it is planted."""
    return [said for acceptance in found.acceptances for said in _wrong(acceptance, found.mutants)]


def _wrong(acceptance: Acceptance, mutants: Sequence[Mutant]) -> Iterator[str]:
    word = acceptance.equivalent
    meant = [mutants[at] for at in acceptance.mutants if at < len(mutants)]
    for operator in dict.fromkeys(word.operators):
        outcomes = {mutant.outcome for mutant in meant if mutant.operator == operator}
        if not outcomes:
            yield f"the kernel file accepts {operator} in {word.source!r}, where no such fault is planted"
        elif outcomes & {"caught", "survived"}:
            yield f"the kernel file accepts {operator} in {word.source!r} as no fault, and it is caught"


# The score


@dataclass(frozen=True)
class Score:
    """How many changes were planted, and what became of them. `baseline` counts those that the reference script's way
    catches, of those that are faults: which were caught or survived. `accepted` are none by the author's word alone.
    """

    tiers: dict[TierName, int]
    survived: int
    equivalent: int
    accepted: int
    invalid: int
    baseline: int

    def __add__(self, other: "Score") -> "Score":
        """Return the score over the faults of both."""
        return Score(
            tiers={tier: self.tiers[tier] + other.tiers[tier] for tier in TIERS},
            survived=self.survived + other.survived,
            equivalent=self.equivalent + other.equivalent,
            accepted=self.accepted + other.accepted,
            invalid=self.invalid + other.invalid,
            baseline=self.baseline + other.baseline,
        )

    @property
    def caught(self) -> int:
        """How many were caught."""
        return sum(self.tiers.values())

    @property
    def faults(self) -> int:
        """How many there were to catch."""
        return self.caught + self.survived


def score(mutants: Sequence[Mutant]) -> Score:
    """Count what became of planted faults."""
    fates = Counter(mutant.outcome for mutant in mutants)
    catchers = [found.tier for mutant in mutants if (found := catcher(mutant)) is not None]
    faults = [mutant for mutant in mutants if mutant.outcome in ("caught", "survived")]
    return Score(
        tiers={tier: catchers.count(tier) for tier in TIERS},
        survived=fates["survived"],
        equivalent=fates["equivalent"],
        accepted=fates["accepted"],
        invalid=fates["invalid"],
        baseline=sum(mutant.baseline.outcome == "failed" for mutant in faults),
    )


def told(total: Score, tiers: Sequence[TierName]) -> str:
    """Say how many faults were caught, and by which of the tiers that looked, and how many need not be."""
    by = ", ".join(f"{tier} {total.tiers[tier]}" for tier in tiers) or "no tier could look"
    return f"{total.caught} of {total.faults} planted faults caught ({by}){on_word(total)}"


def on_word(total: Score) -> str:
    """Say how many are left out of the faults because the author says so; "" where there are none."""
    return f", {total.accepted} accepted as equivalent on the author's word" if total.accepted else ""


def beside(total: Score) -> str:
    """Say how many of them the reference script's own way catches."""
    return f"the reference's shapes and tolerance alone catch {total.baseline}"


def line(kernel: str, found: Teeth) -> str:
    """Return the score of one kernel in a line, for the terminal."""
    if found.loading.outcome != "passed":
        return f"{kernel}: no fault can be planted: {found.loading.reason}"
    total = score(found.mutants)
    others = f"{total.equivalent} equivalent, {total.invalid} invalid, {total.survived} survived"
    return "; ".join([f"{kernel}: {told(total, found.tiers)}, {others}", beside(total), *wrong_words(found)])

"""What catches a planted fault, tier by tier, what becomes of it, and the score over all of them. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from assay.original import TIERS, TierName
from assay.record import Cause, Exposure, Mutant, Teeth, Verdict

RAISED: tuple[Cause, ...] = ("import-error", "declaration", "compile-error", "exception")
"""Causes for which the code did not even run: what does nothing but raise needs nobody to look at its results."""

EVERYWHERE = "*"

UNTRIED = Verdict(outcome="untested", cause="not-measured", reason="no tier could run the reference script's way")

Fate = Literal["caught", "survived", "equivalent", "invalid"]
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
    return found == "survived" or (found == "invalid" and len(exposures) == 1)


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


# The score


@dataclass(frozen=True)
class Score:
    """How many changes were planted, and what became of them. `baseline` counts those that the reference script's way
    catches, of those that are faults: which were caught or survived.
    """

    tiers: dict[TierName, int]
    survived: int
    equivalent: int
    invalid: int
    baseline: int

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
        invalid=fates["invalid"],
        baseline=sum(mutant.baseline.outcome == "failed" for mutant in faults),
    )


def told(total: Score, tiers: Sequence[TierName]) -> str:
    """Say how many faults were caught, and by which of the tiers that looked."""
    by = ", ".join(f"{tier} {total.tiers[tier]}" for tier in tiers) or "no tier could look"
    return f"{total.caught} of {total.faults} planted faults caught ({by})"


def beside(total: Score) -> str:
    """Say how many of them the reference script's own way catches."""
    return f"the reference's shapes and tolerance alone catch {total.baseline}"


def line(kernel: str, found: Teeth) -> str:
    """Return the score of one kernel in a line, for the terminal."""
    if found.loading.outcome != "passed":
        return f"{kernel}: no fault can be planted: {found.loading.reason}"
    total = score(found.mutants)
    others = f"{total.equivalent} equivalent, {total.invalid} invalid, {total.survived} survived"
    return f"{kernel}: {told(total, found.tiers)}, {others}; {beside(total)}"

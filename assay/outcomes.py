"""What the five outcomes are called in prose, and the sign each is shown by."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from assay.record import Cause, Outcome

NOT_ATTEMPTED: tuple[Cause | None, ...] = (None, "not-measured", "policy")
"""An untested claim with one of these causes could have been tested here and was not; with any other it was blocked."""


@dataclass(frozen=True)
class Mark:
    """An outcome as a reader meets it. `style` names it in the stylesheet; the symbol stands where colour does not."""

    word: str
    symbol: str
    style: str


VERIFIED = Mark("verified", "✓", "verified")
FAILED = Mark("failed", "✗", "failed")
INCONCLUSIVE = Mark("inconclusive", "?", "inconclusive")
BLOCKED = Mark("blocked", "■", "blocked")
NOT_RUN = Mark("not run", "·", "not-run")
INAPPLICABLE = Mark("inapplicable", "–", "inapplicable")
CONFLICT = Mark("conflict", "≠", "conflict")

MARKS = (VERIFIED, FAILED, CONFLICT, INCONCLUSIVE, BLOCKED, NOT_RUN, INAPPLICABLE)
"""In the order in which a reader should meet them."""

_BY_OUTCOME: dict[Outcome, Mark] = {
    "passed": VERIFIED,
    "failed": FAILED,
    "cantTell": INCONCLUSIVE,
    "inapplicable": INAPPLICABLE,
}


def mark_of(outcome: Outcome, cause: Cause | None) -> Mark:
    """Return the mark of an outcome; what is untested is `blocked` where something stood in the way."""
    if outcome == "untested":
        return NOT_RUN if cause in NOT_ATTEMPTED else BLOCKED
    return _BY_OUTCOME[outcome]


def tally(marks: Iterable[Mark]) -> list[tuple[Mark, int]]:
    """Count the marks, in the order of `MARKS`; one that does not occur is left out."""
    counts = Counter(marks)
    return [(mark, counts[mark]) for mark in MARKS if counts[mark]]

"""What became of the faults that were planted in each kernel, as a section of the report. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from assay.catching import Score, on_word, score, word_on, wrong_words
from assay.evidence import Evidence, Records, Told
from assay.outcomes import FAILED, INAPPLICABLE, VERIFIED, Mark
from assay.record import Cause, Exposure, Mutant, Teeth, Verdict

_WORDS: dict[Cause, str] = {
    "poison-read": "poison seen",
    "undefined-read": "undefined value seen",
    "out-of-bounds-write": "sentinel broken",
    "not-written": "output not written",
    "not-finite": "NaN spread",
    "instructions": "instruction gate",
    "over-budget": "stack budget",
    "precision": "precision not used",
    "rounding": "rounding of operands",
    "does-not-fit": "does not fit",
}
"""How a tier saw a fault; of other causes the name says it."""

_REFUSED = {"OutsideRead: ": "read outside refused", "OutsideWrite: ": "write outside refused"}
"""How the interpreter saw an access that it refused before it happened, so that no poison came and no sentinel went:
by the name of what it raised, which the reason gives.
"""

_MARKS = {
    outcome: replace(mark, word=outcome)
    for outcome, mark in {
        "caught": VERIFIED,
        "survived": FAILED,
        "equivalent": INAPPLICABLE,
        "accepted": INAPPLICABLE,
        "invalid": INAPPLICABLE,
    }.items()
}


@dataclass(frozen=True)
class Caught:
    """How many faults one tier caught in one way."""

    tier: str
    how: str
    count: int


@dataclass(frozen=True)
class FaultRow:
    """One planted fault in words. `seen`: what each tier that caught it saw, and where (`ways` is the same in short);
    of one that none caught, what each says. `why` is the author's word that it is none.
    """

    operator: str
    line: int
    source: str
    replacement: str
    mark: Mark
    seen: list[str]
    ways: list[str]
    baseline: str
    why: str
    pointer: str

    @property
    def became(self) -> str:
        """Which tiers caught it and how, or what became of it."""
        return ", ".join(self.ways) if self.mark.word == "caught" else self.mark.word


class Place(NamedTuple):
    """Where faults are planted: a line of the kernel file, and what is changed there."""

    line: int
    source: str


@dataclass(frozen=True)
class Planted:
    """One kernel's section. `obstacle` says why no fault could be planted; `comparison` sets the score beside that of
    the reference script, and `wrong` says where the author's word on a fault is wrong.
    """

    kernel: str
    record: Evidence
    obstacle: Told | None
    score: Score
    sentence: str
    comparison: str
    caught: list[Caught]
    survivors: list[FaultRow]
    accepted: list[FaultRow]
    wrong: list[str]
    equivalents: list[FaultRow]
    rows: list[FaultRow]

    @property
    def places(self) -> list[tuple[Place, list[FaultRow]]]:
        """The rows by what they change, so that it need not be said for each."""
        grouped = groupby(self.rows, lambda row: Place(row.line, row.source))
        return [(place, list(rows)) for place, rows in grouped]


def comparison(total: Score) -> str:
    """Return the score beside that of the reference script, as a sentence."""
    return (
        f"The reference script's own shapes and tolerance catch {total.baseline} of {total.faults} of these faults; "
        f"this pipeline catches {total.caught} of {total.faults}{on_word(total)}."
    )


def how(verdict: Verdict) -> str:
    """Return in words how a fault was seen."""
    refused = next((words for name, words in _REFUSED.items() if name in verdict.reason), None)
    if verdict.cause in ("poison-read", "out-of-bounds-write") and refused:
        return refused
    return _WORDS.get(verdict.cause, verdict.cause.replace("-", " ")) if verdict.cause else "no cause given"


def _seen(exposure: Exposure) -> str:
    verdict = exposure.verdict
    if verdict.outcome == "failed":
        return f"{exposure.tier}, {exposure.place}: {how(verdict)}, {verdict.reason}"
    said = "saw nothing" if verdict.outcome == "passed" else f"could not look ({verdict.reason})"
    return f"{exposure.tier}, {exposure.place}: {said}"


def _row(place: int, mutant: Mutant, why: str) -> FaultRow:
    failed = [exposure for exposure in mutant.exposures if exposure.verdict.outcome == "failed"]
    return FaultRow(
        operator=mutant.operator,
        line=mutant.line,
        source=mutant.source,
        replacement=mutant.replacement,
        mark=_MARKS[mutant.outcome],
        seen=[_seen(exposure) for exposure in failed or mutant.exposures],
        ways=[f"{exposure.tier}: {how(exposure.verdict)}" for exposure in failed],
        baseline=how(mutant.baseline) if mutant.baseline.outcome == "failed" else "",
        why=why if mutant.outcome == "accepted" else "",
        pointer=f"/result/mutants/{place}",
    )


def _sentence(kernel: str, found: Teeth, total: Score) -> str:
    said = f"{total.caught} of {total.faults} faults planted in {kernel} were caught{on_word(total)}"
    said = f"{said}; {total.survived} survived"
    left_out = f"{total.equivalent} further changes compile to the same code, and {total.invalid} cannot run"
    device = "" if found.device is None else f" on {found.device.name}"
    return f"{said}. {left_out}. Tiers that looked: {', '.join(found.tiers) or 'none'}{device}."


def _caught(mutants: Sequence[Mutant]) -> list[Caught]:
    """Count the faults by tier and by what the tier saw; one that several tiers saw counts for each."""
    ways = Counter(
        way
        for mutant in mutants
        if mutant.outcome == "caught"
        for way in {(e.tier, how(e.verdict)) for e in mutant.exposures if e.verdict.outcome == "failed"}
    )
    order: tuple[str, ...] = ("interpreter", "compile", "gpu")
    ordered = sorted(ways.items(), key=lambda pair: (order.index(pair[0][0]), -pair[1], pair[0][1]))
    return [Caught(tier, seen, count) for (tier, seen), count in ordered]


def build_planted(kernel: str, records: Records) -> Planted:
    """Return the section of one kernel from its `teeth` record."""
    evidence = records["teeth"]
    found: Teeth = evidence.artifact.result
    rows = [_row(place, mutant, word_on(found, place)) for place, mutant in enumerate(found.mutants)]
    reached = score(found.mutants)
    return Planted(
        kernel=kernel,
        record=evidence,
        obstacle=None if found.loading.outcome == "passed" else evidence.tell(found.loading, "/result/loading"),
        score=reached,
        sentence=_sentence(kernel, found, reached),
        comparison=comparison(reached),
        caught=_caught(found.mutants),
        survivors=[row for row in rows if row.mark.word == "survived"],
        accepted=[row for row in rows if row.mark.word == "accepted"],
        wrong=[f"{said[0].upper()}{said[1:]}." for said in wrong_words(found)],
        equivalents=[row for row in rows if row.mark.word == "equivalent"],
        rows=rows,
    )


def total(sections: Iterable[Planted]) -> Score:
    """Return the score over all kernels."""
    return sum((section.score for section in sections), score([]))

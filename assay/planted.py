"""What became of the faults that were planted in each kernel, as a section of the report. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from assay.evidence import Evidence, Records, Told
from assay.outcomes import FAILED, INAPPLICABLE, VERIFIED, Mark
from assay.record import Cause, Exposure, Mutant, Teeth

COMMAND = "snakemake --cores 1 teeth"

_WORDS: dict[Cause, str] = {
    "poison-read": "poison seen",
    "undefined-read": "undefined lane seen",
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

_MARKS = {
    outcome: replace(mark, word=outcome)
    for outcome, mark in {
        "caught": VERIFIED,
        "survived": FAILED,
        "equivalent": INAPPLICABLE,
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
    of one that none caught, what each says.
    """

    operator: str
    line: int
    source: str
    replacement: str
    mark: Mark
    seen: list[str]
    ways: list[str]
    baseline: str
    pointer: str


@dataclass(frozen=True)
class Score:
    """How many of the faults that there were to catch were caught: by the pipeline, and by the reference's rules."""

    caught: int
    by_reference: int
    faults: int

    def __add__(self, other: "Score") -> "Score":
        return Score(self.caught + other.caught, self.by_reference + other.by_reference, self.faults + other.faults)

    @property
    def sentence(self) -> str:
        """The score beside that of the reference script."""
        return (
            f"The reference script's own shapes and tolerance catch {self.by_reference} of {self.faults} of these "
            f"faults; this pipeline catches {self.caught} of {self.faults}."
        )


@dataclass(frozen=True)
class Planted:
    """One kernel's section. `obstacle` says why no fault could be planted."""

    kernel: str
    record: Evidence
    obstacle: Told | None
    score: Score
    sentence: str
    caught: list[Caught]
    survivors: list[FaultRow]
    equivalents: list[FaultRow]
    rows: list[FaultRow]


def how(cause: Cause | None) -> str:
    """Return in words how a fault was seen."""
    return _WORDS.get(cause, cause.replace("-", " ")) if cause else "no cause given"


def _seen(exposure: Exposure) -> str:
    verdict = exposure.verdict
    if verdict.outcome == "failed":
        return f"{exposure.tier}, {exposure.place}: {how(verdict.cause)}, {verdict.reason}"
    said = "saw nothing" if verdict.outcome == "passed" else f"could not look ({verdict.reason})"
    return f"{exposure.tier}, {exposure.place}: {said}"


def _row(place: int, mutant: Mutant) -> FaultRow:
    failed = [exposure for exposure in mutant.exposures if exposure.verdict.outcome == "failed"]
    return FaultRow(
        operator=mutant.operator,
        line=mutant.line,
        source=mutant.source,
        replacement=mutant.replacement,
        mark=_MARKS[mutant.outcome],
        seen=[_seen(exposure) for exposure in failed or mutant.exposures],
        ways=[f"{exposure.tier}: {how(exposure.verdict.cause)}" for exposure in failed],
        baseline=how(mutant.baseline.cause) if mutant.baseline.outcome == "failed" else "",
        pointer=f"/result/mutants/{place}",
    )


def score(mutants: Iterable[Mutant]) -> Score:
    """Count the faults that there are to catch: those that run, and compile to other code than the kernel as it is."""
    faults = [mutant for mutant in mutants if mutant.outcome in ("caught", "survived")]
    return Score(
        caught=sum(mutant.outcome == "caught" for mutant in faults),
        by_reference=sum(mutant.baseline.outcome == "failed" for mutant in faults),
        faults=len(faults),
    )


def _sentence(kernel: str, found: Teeth) -> str:
    counts = Counter(mutant.outcome for mutant in found.mutants)
    total = score(found.mutants)
    said = f"{total.caught} of {total.faults} faults planted in {kernel} were caught; {counts['survived']} survived"
    left_out = f"{counts['equivalent']} further changes compile to the same code, and {counts['invalid']} cannot run"
    device = "" if found.device is None else f" on {found.device.name}"
    return f"{said}. {left_out}. Tiers that looked: {', '.join(found.tiers) or 'none'}{device}."


def _caught(mutants: Sequence[Mutant]) -> list[Caught]:
    """Count the faults by tier and by what the tier saw; one that several tiers saw counts for each."""
    ways = Counter(
        way
        for mutant in mutants
        if mutant.outcome == "caught"
        for way in {(e.tier, how(e.verdict.cause)) for e in mutant.exposures if e.verdict.outcome == "failed"}
    )
    order: tuple[str, ...] = ("interpreter", "compile", "gpu")
    ordered = sorted(ways.items(), key=lambda pair: (order.index(pair[0][0]), -pair[1], pair[0][1]))
    return [Caught(tier, seen, count) for (tier, seen), count in ordered]


def build_planted(kernel: str, records: Records) -> Planted:
    """Return the section of one kernel from its `teeth` record."""
    evidence = records["teeth"]
    found: Teeth = evidence.artifact.result
    rows = [_row(place, mutant) for place, mutant in enumerate(found.mutants)]
    return Planted(
        kernel=kernel,
        record=evidence,
        obstacle=None if found.loading.outcome == "passed" else evidence.tell(found.loading, "/result/loading"),
        score=score(found.mutants),
        sentence=_sentence(kernel, found),
        caught=_caught(found.mutants),
        survivors=[row for row in rows if row.mark.word == "survived"],
        equivalents=[row for row in rows if row.mark.word == "equivalent"],
        rows=rows,
    )


def total(sections: Iterable[Planted]) -> Score:
    """Return the score over all kernels."""
    return sum((section.score for section in sections), Score(0, 0, 0))

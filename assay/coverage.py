"""Which cases each tier ran and which it was not asked, and whether a second launch gave the same bits. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.evidence import Evidence, Reference, Told
from assay.formats import distinct
from assay.outcomes import Mark, tally
from assay.outputs import tier_of
from assay.record import Check, Declaration, Unavailable


@dataclass(frozen=True)
class CaseRow:
    """One declared case: its checks by tier, counted (nothing where a tier did not run it), and what it leaves out.

    `once`: only the first configuration of each precision is asked. `exempt`: precisions by the reason that frees them.
    """

    case: str
    tallies: list[list[tuple[Mark, int]]]
    once: bool
    exempt: list[tuple[str, str]]


@dataclass(frozen=True)
class Changing:
    """A check whose second launch gave other bits than its first."""

    variant: str
    case: str
    said: str
    told: Told


@dataclass(frozen=True)
class Repeats:
    """How many checks of one tier gave the same bits on a second launch, of those that were launched again."""

    tier: str
    same: int
    repeated: int
    changing: list[Changing]
    source: Reference


@dataclass(frozen=True)
class Coverage:
    """One kernel's cases, in the order in which it declares them, and the tiers that their tallies stand for."""

    tiers: list[str]
    cases: list[CaseRow]
    repeats: list[Repeats]


def _declared(tiers: Sequence[Evidence]) -> Declaration | None:
    results = [evidence.artifact.result for evidence in tiers]
    found: list[Declaration] = [result.declaration for result in results if result.declaration is not None]
    return found[0] if found else None


def _by_case(evidence: Evidence) -> Mapping[str, list[Told]]:
    """Map each case that was tried to what its checks say."""
    cases: dict[str, list[Told]] = defaultdict(list)
    for place, check in enumerate(evidence.artifact.result.checks):
        cases[check.case].append(evidence.tell(check.verdict, f"/result/checks/{place}"))
    return cases


def _exempt(declaration: Declaration, case: str) -> list[tuple[str, str]]:
    """Return the precisions that a case is not asked of, joined where they have one reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for precision, reason in declaration.exemptions.get(case, {}).items():
        reasons[reason].append(precision)
    return [(", ".join(precisions), reason) for reason, precisions in reasons.items()]


def _cases(declaration: Declaration, tiers: Sequence[Evidence]) -> list[CaseRow]:
    tried = [_by_case(evidence) for evidence in tiers]
    # A record may hold checks of a case that the declaration at hand lacks.
    names = distinct([*declaration.cases, *(case for cases in tried for case in cases)])
    return [
        CaseRow(
            case,
            [tally(told.mark for told in cases.get(case, [])) for cases in tried],
            case in declaration.once,
            _exempt(declaration, case),
        )
        for case in names
    ]


def _said(check: Check) -> str:
    repeat = check.repeat
    assert not isinstance(repeat, Unavailable)
    later = "later launches repeat the second" if repeat.settled else "later launches differ again"
    count = f"{repeat.differing} of {repeat.elements} output elements differ"
    return f"{count}; {later}; {repeat.atomics} atomic instructions in the code"


def repeats_of(evidence: Evidence) -> Repeats | None:
    """Return what the second launches of a record's checks gave; None where nothing was launched again."""
    again = [
        (place, check, check.repeat.differing)
        for place, check in enumerate(evidence.artifact.result.checks)
        if not isinstance(check.repeat, Unavailable)
    ]
    changing = [
        Changing(
            check.variant, check.case, _said(check), evidence.tell(check.verdict, f"/result/checks/{place}/repeat")
        )
        for place, check, differing in again
        if differing
    ]
    if not again:
        return None
    same = len(again) - len(changing)
    return Repeats(tier_of(evidence), same, len(again), changing, evidence.at("/result/checks"))


def build_coverage(tiers: Sequence[Evidence]) -> Coverage:
    """Return which cases the records of stages `interpreter` and `gpu` tried, and which came out alike twice."""
    tried = [evidence for evidence in tiers if evidence.artifact.result.checks]
    declaration = _declared(tried)
    return Coverage(
        tiers=[tier_of(evidence) for evidence in tried],
        cases=[] if declaration is None else _cases(declaration, tried),
        repeats=[found for evidence in tried if (found := repeats_of(evidence)) is not None],
    )

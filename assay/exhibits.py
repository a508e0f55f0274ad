"""What claims rest on, as a reader meets it: the reason, the places in the records, and what stands there. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.evidence import Evidence, Reference
from assay.excerpts import excerpt, find, lines_each
from assay.matrix import mark, what
from assay.outcomes import Mark
from assay.record import Cause, Claim, Link

LIST_DEPTH = 2
"""A pointer this deep, as /result/checks, leads to a list: its excerpt shows none of its parts."""


@dataclass(frozen=True)
class Passage:
    """What stands at a place of a record, in outline. `number` is its own, over the whole page."""

    number: int
    text: str


@dataclass(frozen=True)
class Quotation:
    """A place where it is cited: the passage is printed here where it is `whole`, and else was printed before."""

    source: Reference
    passage: Passage
    whole: bool


@dataclass(frozen=True)
class Exhibit:
    """All claims of one kernel with the same reason and the same evidence. `claims`: their places in the record of
    claims, each with a label.
    """

    number: int
    kernel: str
    mark: Mark
    stale: bool
    cause: Cause | None
    title: str
    reason: str
    claims: list[tuple[int, str]]
    quotations: list[Quotation]


@dataclass(frozen=True)
class Exhibits:
    """All exhibits, by kernel in the order of the claims; `of` maps a claim's place in its record to its exhibit."""

    groups: list[tuple[str, list[Exhibit]]]
    of: Mapping[int, int]


def _label(claim: Claim) -> str:
    variant = "" if claim.variant == "*" else claim.variant
    return " ".join(word for word in (variant, claim.tier, claim.target) if word)


def _alike(claims: Sequence[Claim]) -> list[list[int]]:
    """Group the places of claims of one kernel that say the same for the same reason on the same evidence."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, claim in enumerate(claims):
        links = tuple((link.artifact, link.pointer) for link in claim.links)
        found[claim.kernel, mark(claim), claim.freshness, claim.cause, claim.reason, links].append(place)
    return list(found.values())


class _Library:
    """Passages by their place, each made once and printed where it is first cited."""

    def __init__(self, records: Sequence[Evidence], lines: int) -> None:
        self.records, self.lines = {record.path: record for record in records}, lines
        self.quoted = 0
        self.passages: dict[tuple[str, str], Passage] = {}

    def _passage(self, record: Evidence, pointer: str) -> Passage:
        self.quoted += 1
        return Passage(self.quoted, excerpt(find(record.artifact, pointer), self.lines))

    def quote(self, link: Link) -> list[Quotation]:
        """Return the quotation of a link, or none where its record is not among those shown."""
        record = self.records.get(link.artifact)
        if record is None:
            return []
        earlier = self._earlier(link)
        found = earlier or self._passage(record, link.pointer)
        self.passages[link.artifact, link.pointer] = found
        return [Quotation(record.at(link.pointer), found, earlier is None)]

    def _earlier(self, link: Link) -> Passage | None:
        """Return the passage that has quoted this place already, by itself or with what it is a part of."""
        above = link.pointer.rpartition("/")[0]
        places = [link.pointer, above] if above.count("/") > LIST_DEPTH else [link.pointer]
        return next((self.passages[link.artifact, at] for at in places if (link.artifact, at) in self.passages), None)


def _exhibit(number: int, claims: Sequence[Claim], places: Sequence[int], library: _Library) -> Exhibit:
    of = [claims[place] for place in places]
    first = of[0]
    return Exhibit(
        number=number,
        kernel=first.kernel,
        mark=mark(first),
        stale=first.freshness == "stale",
        cause=first.cause,
        title=first.sentence if len(of) == 1 else what(of),
        reason=first.reason,
        claims=[(place, _label(claims[place])) for place in places],
        quotations=[quoted for link in first.links for quoted in library.quote(link)],
    )


def build_exhibits(claims: Sequence[Claim], records: Sequence[Evidence]) -> Exhibits:
    """Return what every claim rests on. A place that several exhibits cite is quoted at the first."""
    library = _Library(records, lines_each(len(claims)))
    numbered = enumerate(_alike(claims), start=1)
    made = [_exhibit(number, claims, places, library) for number, places in numbered]
    groups: dict[str, list[Exhibit]] = defaultdict(list)
    for exhibit in made:
        groups[exhibit.kernel].append(exhibit)
    return Exhibits(list(groups.items()), {place: one.number for one in made for place, _ in one.claims})

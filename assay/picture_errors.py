"""The picture of the errors of one kernel at one tier: of each case the element nearest to its bound. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite, log10

from assay.formats import distinct, listing, numeral, scientific
from assay.outputs import Found, rank, share_of_bound
from assay.picture import Picture, Table, decades, named, series_of
from assay.picture_lanes import UNIT_PIXELS, Lane, Track, key_and_top, lanes_panel, unit_panel
from assay.record import Comparison, NonFinite, Number, Unavailable, as_float

MOST_TRACKS = 48
"""Marks, each with a line of its own, that a picture has room for."""

MOST_NAMED = 4
COLUMNS = (
    "case",
    "precision",
    "variant",
    "output",
    "bound_rule",
    "error",
    "bound",
    "largest_reference",
    "share_of_bound",
    "verdict",
)


@dataclass(frozen=True)
class Margin:
    """Of one case and precision, the comparison furthest past its bound, or nearest to it."""

    case: str
    precision: str
    variant: str
    verdict: str
    comparison: Comparison

    @property
    def share(self) -> Number:
        """The worst element's error over its bound."""
        return share_of_bound(self.comparison)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The worst element's error and bound over the largest reference, where all are positive and finite."""
        worst, scale = self.comparison.worst, as_float(self.comparison.largest_reference)
        ends = as_float(worst.error) / (scale or 1.0), as_float(worst.bound) / (scale or 1.0)
        return ends if all(isfinite(end) and end > 0 for end in ends) else None

    @property
    def past(self) -> bool:
        """Whether the bound is not kept; NaN does not keep it."""
        return self.comparison.past_bound > 0 or not as_float(self.share) <= 1

    @property
    def severity(self) -> tuple[bool, tuple[bool, float]]:
        """A sort key: what is past its bound stands above all that is not, then the larger share."""
        return self.past, rank(self.share)


def margins(found: Sequence[Found]) -> list[Margin]:
    """Return the margins of all cases and precisions that were compared, in the order of the record."""
    worst: dict[tuple[str, str], Margin] = {}
    for one in found:
        for comparison in one.comparisons:
            key = one.check.case, one.precision
            margin = Margin(*key, one.check.variant, one.told.mark.word, comparison)
            if key not in worst or margin.severity > worst[key].severity:
                worst[key] = margin
    return list(worst.values())


def _of_bound(margin: Margin) -> str:
    """Return how much of its bound a margin takes, in words."""
    share = margin.share
    if isinstance(share, NonFinite):
        return f"{numeral(share)} of its {named(margin.comparison.rule)} bound"
    times = f"{numeral(share)} times" if share > 1 else f"{numeral(100 * share)} % of"
    return f"{times} its {named(margin.comparison.rule)} bound"


def said_of(found: Sequence[Margin]) -> str:
    """Return what the picture shows: the case furthest past its bound, or the one nearest to it."""
    worst = max(found, key=lambda margin: margin.severity)
    cases = len(distinct(margin.case for margin in found))
    past = len(distinct(margin.case for margin in found if margin.past))
    who = f"{named(worst.case)} with {named(worst.variant)}, {_of_bound(worst)}"
    if past:
        return f"Past its bound in {past} of {cases} cases; furthest is {who}."
    if not as_float(worst.share) > 0:
        return f"All {cases} cases are exact."
    return f"All {cases} cases stay within their bounds; nearest to one comes {who}."


def _told(margin: Margin) -> str:
    worst = margin.comparison.worst
    figures = f"{scientific(worst.error)} of {scientific(worst.bound)}"
    return f"{margin.variant}, {margin.comparison.output}: {figures}, {margin.comparison.rule}"


def _note(of_case: Sequence[Margin]) -> str:
    """Return the largest share of a case, short enough to stand at the end of its line."""
    share = max((margin.share for margin in of_case), key=rank)
    if isinstance(share, NonFinite):
        return f"{numeral(share)} of the bound"
    return f"{numeral(share)} × the bound" if share > 1 else f"{numeral(100 * share)} % of the bound"


def _kept(found: Sequence[Margin]) -> list[str]:
    """Return the cases that have a lane: all, or as many of those nearest to their bounds as there is room for."""
    tracks = Counter(margin.case for margin in found)
    worst: dict[str, tuple[bool, tuple[bool, float]]] = {}
    for margin in found:
        worst[margin.case] = max(worst.get(margin.case, margin.severity), margin.severity)
    nearest = sorted(tracks, key=lambda case: worst[case], reverse=True)
    room = accumulate(tracks[case] for case in nearest)
    chosen = {case for case, used in zip(nearest, room, strict=True) if used <= MOST_TRACKS or case == nearest[0]}
    return [case for case in tracks if case in chosen]


def _row(margin: Margin) -> tuple[str | float, ...]:
    compared = margin.comparison
    figures = (compared.worst.error, compared.worst.bound, compared.largest_reference, margin.share)
    written = [numeral(one) if isinstance(one, NonFinite) else one for one in figures]
    return (margin.case, margin.precision, margin.variant, compared.output, compared.rule, *written, margin.verdict)


def _notes(found: Sequence[Margin], kept: Sequence[str]) -> list[str]:
    cases = len(distinct(margin.case for margin in found))
    notes = [f"Of {cases} cases those {len(kept)} that come nearest to their bounds have a line"]
    odd = [margin for margin in found if margin.case in kept and margin.ends is None]
    names = [
        f"{named(one.case)}, {one.precision} (error {scientific(one.comparison.worst.error)}, bound "
        f"{scientific(one.comparison.worst.bound)})"
        for one in odd
    ]
    exact = all(as_float(one.comparison.worst.error) == 0 for one in odd)
    kind = "exact cases" if exact else "cases"
    missing = [f"Without a place on a logarithmic axis: {listing(names, MOST_NAMED, kind)}"] if odd else []
    return [*(notes if cases > len(kept) else []), *missing]


def _lanes(found: Sequence[Margin], kept: Sequence[str]) -> list[Lane]:
    series = series_of([(margin.precision, True) for margin in found], "")
    lanes = []
    for case in kept:
        of_case = [margin for margin in found if margin.case == case]
        tracks = [
            Track(series[one.precision, True], log10(one.ends[0]), log10(one.ends[1]), _told(one), one.past, span=True)
            for one in of_case
            if one.ends is not None
        ]
        lanes.append(Lane(case, _note(of_case), tuple(tracks)))
    return lanes


def errors_picture(name: str, kernel: str, tier: str, found: Sequence[Found]) -> Picture | Unavailable:
    """Return the picture of the checks of one tier, as `name`; Unavailable where none can be drawn."""
    compared = margins(found)
    if not compared:
        return Unavailable(reason=f"nothing of {kernel} was compared on {tier}")
    kept = _kept(compared)
    ends = [end for margin in compared if margin.case in kept for end in margin.ends or ()]
    if not ends:
        reason = f"no error of {kernel} on {tier} has a place on a logarithmic axis: {said_of(compared).rstrip('.')}"
        return Unavailable(reason=reason)
    series = series_of([(margin.precision, True) for margin in compared], "")
    legend, top = key_and_top(list(series.values()))
    panel, bottom = lanes_panel(_lanes(compared, kept), decades(min(ends), max(ends)), top)
    unit = unit_panel("mark: error, stroke: its bound; over the largest |want|", bottom)
    return Picture(
        name=name,
        title=f"Errors of {kernel} on {tier}, each case against its bound",
        said=said_of(compared),
        notes=tuple(_notes(compared, kept)),
        height=bottom + UNIT_PIXELS,
        panels=(legend, panel, unit),
        table=Table(f"{kernel}-errors-{tier}", COLUMNS, tuple(map(_row, compared))),
    )

"""Lays out a picture of lanes: one above another, each with its name, marks on a common axis and their limits. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from assay.picture import LINE_PIXELS, WIDTH, Axis, Line, Marks, Panel, Series, Spot, Tone, Words, key, named

MARGIN = 14
TRACK_PIXELS = 10
FOOT_PIXELS = 22
UNIT_PIXELS = 18


@dataclass(frozen=True)
class Track:
    """One line of a lane: a mark at `at`, and the limit that it is to stay below, where it has one.

    `span`: to draw the way from one to the other, which shows how much is left. `past`: the limit is not kept.
    """

    series: Series
    at: float
    limit: float | None
    told: str
    past: bool = False
    span: bool = False


@dataclass(frozen=True)
class Lane:
    """What it is called, what is said of it at its right end, and its tracks: each in a line of its own, or all in one
    where `flat`.
    """

    name: str
    note: str
    tracks: tuple[Track, ...]
    flat: bool = False

    @property
    def height(self) -> int:
        """Pixels from the top of its name to the end of its last line."""
        return LINE_PIXELS + TRACK_PIXELS * (1 if self.flat else max(1, len(self.tracks))) + 4


Placed = tuple[float, Track]
"""A track, and the height of its line in the panel."""


def _words(tops: Iterable[tuple[float, Lane]], axis: Axis) -> list[Words]:
    """Return all names, then all notes: what looks the same in a row is drawn together."""
    placed = list(tops)
    names = [Words(axis.low, top + 12, named(lane.name, 40)) for top, lane in placed]
    notes = [Words(axis.high, top + 12, lane.note, "end", tone="quiet") for top, lane in placed]
    return [*names, *notes]


def _placed(lane: Lane, top: float) -> Iterator[Placed]:
    for place, track in enumerate(lane.tracks):
        yield top + LINE_PIXELS + TRACK_PIXELS * (0 if lane.flat else place) + 6, track


def _lines(placed: Iterable[Placed]) -> list[Line]:
    """Return the limits, and the ways to them, in as few lines as there are looks."""
    found: dict[tuple[Tone, float], list[tuple[float, float] | None]] = {}
    for y, track in placed:
        if track.limit is not None:
            way: tuple[Tone, float] = ("bad", 3.0) if track.past else ("quiet", 1.0)
            if track.span or track.past:
                found.setdefault(way, []).extend(((track.at, y), (track.limit, y), None))
            stroke: tuple[Tone, float] = ("bad" if track.past else "ink", 2.0)
            found.setdefault(stroke, []).extend(((track.limit, y - 5), (track.limit, y + 5), None))
    return [Line(tuple(places), tone, width) for (tone, width), places in found.items()]


def _marks(placed: Iterable[Placed]) -> list[Marks]:
    found: dict[Series, list[Spot]] = {}
    for y, track in placed:
        found.setdefault(track.series, []).append(Spot(track.at, y, track.told))
    return [Marks(series, tuple(spots)) for series, spots in found.items()]


def lanes_panel(
    lanes: Sequence[Lane], axis: Axis, top: float, left: float = 0.0, width: float = WIDTH
) -> tuple[Panel, float]:
    """Return a panel of lanes on a common axis whose upper edge is at `top`, and where it ends with its labels."""
    tops = list(accumulate((lane.height for lane in lanes), initial=0.0))
    y = tops.pop()
    placed = [found for top, lane in zip(tops, lanes, strict=True) for found in _placed(lane, top)]
    words = _words(zip(tops, lanes, strict=True), axis)
    shown: tuple[Words | Line | Marks, ...] = (*words, *_lines(placed), *_marks(placed))
    panel = Panel(left + MARGIN, top, width - 2 * MARGIN, y, axis, Axis(y, 0), shown)
    return panel, top + y + FOOT_PIXELS


def unit_panel(text: str, top: float, left: float = 0.0, width: float = WIDTH) -> Panel:
    """Return a panel that says, at its right end, what the axis above it counts."""
    across, down = Axis(0, 1), Axis(UNIT_PIXELS, 0)
    return Panel(
        left + MARGIN, top, width - 2 * MARGIN, UNIT_PIXELS, across, down, (Words(1, 10, text, "end", tone="quiet"),)
    )


def key_and_top(entries: Sequence[Series]) -> tuple[Panel, float]:
    """Return the key of a picture, and where its first panel begins."""
    panel = key(entries)
    return panel, panel.height + 8

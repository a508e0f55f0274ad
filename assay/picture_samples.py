"""The picture of how one size was sampled: each entrant's median with its interval, its samples round by round, and the
clock of the card beside them. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from assay.charts import shown_rows, timed_rows
from assay.formats import interval, milliseconds, percent, runs
from assay.picture import (
    WIDTH,
    Axis,
    Bar,
    Line,
    Panel,
    Picture,
    Table,
    Tick,
    Tone,
    Words,
    linear,
    named,
    nice_step,
)
from assay.picture_lanes import FOOT_PIXELS, MARGIN, UNIT_PIXELS, unit_panel
from assay.record import Count, Estimate, Row, Sweep, Unavailable

MOST_ENTRANTS = 12
MOST_BLOCKS = 24
NAME_PIXELS = 17
STRIP_PIXELS = 24
GAP_PIXELS = 5
LANE_PIXELS = NAME_PIXELS + STRIP_PIXELS + GAP_PIXELS
LEFT_PIXELS = 160
LEAST_SPREAD = 0.002
MOST_LISTED = 60
"""Characters that numbers of rounds may take."""


@dataclass(frozen=True)
class Sampled:
    """One entrant: what counts of its samples, in the order taken, and their median with its interval, all in ns."""

    row: Row
    time: Estimate
    samples: list[float]
    best: bool

    @property
    def spread(self) -> float:
        """How far the middle half of the samples reaches from the median, as a fraction of it."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = quantiles(self.samples, n=4)
        return max(high - self.time.median, self.time.median - low) / self.time.median


def sampled(timed: Sequence[tuple[Row, Estimate]], best: Sequence[str]) -> list[Sampled]:
    """Return entrants with those of their samples that count: replays where events measured the host."""
    found = []
    for row, time in timed:
        replays = row.replays_ns
        counts = replays if row.launch_bound is True and not isinstance(replays, Unavailable) else row.samples_ns
        found.append(Sampled(row, time, list(counts), row.entrant in best))
    return found


def blocks(rounds: int, most: int = MOST_BLOCKS) -> list[range]:
    """Return runs of rounds in a row that cover all of them, as even as whole rounds allow, at most `most`."""
    length = max(1, math.ceil(rounds / most))
    return [range(first, min(first + length, rounds)) for first in range(0, rounds, length)]


def _clocks(sweep: Sweep) -> list[Count | Unavailable]:
    return [state.sm_clock_mhz for state in sweep.rounds]


def _within(values: Sequence[float], block: range) -> list[float]:
    return [values[at] for at in block if at < len(values)]


def _ends(clocks: Sequence[Count | Unavailable], block: range) -> tuple[int | None, int | None]:
    known = [clock for clock in clocks[block.start : block.stop] if not isinstance(clock, Unavailable)]
    return (min(known), max(known)) if known else (None, None)


def said_of(found: Sequence[Sampled], sweep: Sweep) -> str:
    """Return what the picture shows: who is fastest, whose samples scatter most, and where the clock was."""
    fastest = min(found, key=lambda one: one.time.median)
    widest = max(found, key=lambda one: one.spread)
    clocks = [clock for clock in _clocks(sweep) if not isinstance(clock, Unavailable)]
    clock = "the clock of the card could not be read"
    if clocks:
        steady = min(clocks) == max(clocks)
        clock = f"the SM clock {f'stayed at {clocks[0]}' if steady else f'lay from {min(clocks)} to {max(clocks)}'} MHz"
    half = f"half of them within {percent(widest.spread, 2)} of its median"
    return (
        f"Fastest is {named(fastest.row.entrant)} with {interval(fastest.time, milliseconds)} ms; the samples of "
        f"{named(widest.row.entrant)} scatter most, {half}; {clock}."
    )


def _notes(everything: int, shown: int, sweep: Sweep, found: Sequence[range]) -> list[str]:
    notes = []
    if everything > shown:
        notes.append(f"{everything - shown} more entrants have a time in the table alone")
    if found and len(found[0]) > 1:
        notes.append(f"Each stroke is {len(found[0])} rounds in a row, from their least sample to their greatest")
    notes.append("A stroke that leaves its strip ends at its edge")
    if sweep.outside:
        listed = runs(sweep.outside)
        where = f": {listed}" if len(listed) <= MOST_LISTED else ""
        notes.append(f"{len(sweep.outside)} rounds outside the clock band are shown and count for nothing{where}")
    return notes


# Panels


def _tone(one: Sampled) -> Tone:
    return "s6" if one.row.kind == "peer" else "s1"


def _medians(found: Sequence[Sampled], height: float) -> Panel:
    """Return the bars of the medians, each with its interval."""
    axis = linear(max(max(one.time.median, one.time.high) for one in found) / 1e6, 3)
    shown: list[Bar | Line] = []
    intervals: list[tuple[float, float] | None] = []
    for place, one in enumerate(found):
        y = place * LANE_PIXELS + NAME_PIXELS + STRIP_PIXELS / 2
        low, high = (max(0.0, end) / 1e6 for end in (one.time.low, one.time.high))
        shown.append(Bar(0.0, one.time.median / 1e6, y, 12, _tone(one), one.row.kind != "peer"))
        intervals += [(low, y), (high, y), None, (low, y - 4), (low, y + 4), None, (high, y - 4), (high, y + 4), None]
    shown.append(Line(tuple(intervals), "ink", 1.5))
    return Panel(MARGIN, 0, LEFT_PIXELS - 2 * MARGIN - 8, height, axis, Axis(height, 0), tuple(shown))


def _strip(values: Sequence[float], found: Sequence[range], scale: float, y: float) -> Line:
    """Return one stroke for each block, from its least value to its greatest; `scale` is half a strip's height."""
    places: list[tuple[float, float] | None] = []
    for block in found:
        inside = _within(values, block)
        if inside:
            x = (block.start + block.stop - 1) / 2
            top, bottom = (max(-1.0, min(1.0, end / scale)) for end in (max(inside), min(inside)))
            half = STRIP_PIXELS / 2
            # A stroke has a length to be seen by, where all its samples are alike.
            places += [(x, y - top * half - 0.7), (x, y - bottom * half + 0.7), None]
    return Line(tuple(places) or (None,), "s1", 1.6)


def _extent(found: Sequence[Sampled]) -> float:
    """Return how far strips reach from the median: what holds 95 of 100 samples of all entrants, by a round step."""
    deviations = sorted(abs(sample / one.time.median - 1) for one in found for sample in one.samples)
    reach = deviations[int(0.95 * (len(deviations) - 1))] if deviations else 0.0
    return nice_step(max(LEAST_SPREAD, reach), 1)


def _samples(found: Sequence[Sampled], sweep: Sweep, groups: Sequence[range], extent: float, height: float) -> Panel:
    """Return the strips of samples, as deviations from the median, and the interval of the median behind them."""
    last = max(1, len(sweep.rounds) - 1)
    shown: list[Bar | Line | Words] = []
    strips: list[Line] = []
    # What looks the same stands in a row, and is drawn together.
    for place, one in enumerate(found):
        y = place * LANE_PIXELS + NAME_PIXELS + STRIP_PIXELS / 2
        deviations = [sample / one.time.median - 1 for sample in one.samples]
        shown.append(Line(((0, y), (last, y)), "faint"))
        strips.append(_strip(deviations, groups, extent, y))
    shown += strips
    shown += [_words(place, one, last) for place, one in enumerate(found)]
    shown += _clock_strip(sweep, groups, len(found) * LANE_PIXELS, last)
    width = WIDTH - LEFT_PIXELS
    return Panel(
        LEFT_PIXELS, 0, width - MARGIN, height, Axis(0, last, _round_ticks(last)), Axis(height, 0), tuple(shown)
    )


def _words(place: int, one: Sampled, last: int) -> Words:
    note = f"{milliseconds(one.time.median)} ms{', best' if one.best else ''}"
    return Words(last, place * LANE_PIXELS + 12, note, "end", tone="quiet", bold=one.best)


def _round_ticks(last: int) -> tuple[Tick, ...]:
    step = max(1, int(nice_step(last, 4)))
    return tuple(Tick(at, str(at)) for at in range(0, last + 1, step))


def _clock_strip(sweep: Sweep, groups: Sequence[range], top: float, last: int) -> list[Line | Words]:
    clocks = _clocks(sweep)
    known = [clock for clock in clocks if not isinstance(clock, Unavailable)]
    if not known:
        return [Words(last, top + 12, "could not be read", "end", tone="quiet")]
    middle, half = (min(known) + max(known)) / 2, max(1.0, (max(known) - min(known)) / 2)
    places: list[tuple[float, float] | None] = []
    y = top + NAME_PIXELS + STRIP_PIXELS / 2
    for block in groups:
        low, high = _ends(clocks, block)
        if low is not None and high is not None:
            x = (block.start + block.stop - 1) / 2
            places += [(x, y - (end - middle) / half * STRIP_PIXELS / 2) for end in (high, low)]
    said = f"{min(known)} to {max(known)} MHz, median {median(known):g}"
    if min(known) == max(known):
        said = f"{min(known)} MHz throughout"
    note = Words(last, top + 12, said, "end", tone="quiet")
    return [Line(tuple(places), "s2", 1.4), note]


def _names(found: Sequence[Sampled], height: float) -> Panel:
    shown = [
        Words(0, place * LANE_PIXELS + 12, named(one.row.entrant, 40), bold=one.best) for place, one in enumerate(found)
    ]
    shown.append(Words(0, len(found) * LANE_PIXELS + 12, "SM clock"))
    return Panel(MARGIN, 0, WIDTH - 2 * MARGIN, height, Axis(0, 1), Axis(height, 0), tuple(shown))


# The figures


def _table(name: str, found: Sequence[Sampled], sweep: Sweep, groups: Sequence[range]) -> Table:
    """Return the medians with their intervals, then what every stroke shows: a column for each entrant, in ns."""
    clocks = _clocks(sweep)
    rows: list[tuple[str | int | float | None, ...]] = [
        ("median", "", *(one.time.median for one in found), None),
        ("interval", "low", *(one.time.low for one in found), None),
        ("interval", "high", *(one.time.high for one in found), None),
    ]
    for block in groups:
        label = runs(block)
        inside = [_within(one.samples, block) for one in found]
        low, high = _ends(clocks, block)
        if len(block) == 1:
            rows.append((label, "", *(values[0] if values else None for values in inside), low))
            continue
        rows.append((label, "least", *(min(values, default=None) for values in inside), low))
        rows.append((label, "greatest", *(max(values, default=None) for values in inside), high))
    return Table(
        name, ("rounds", "which", *(f"{one.row.entrant} (ns)" for one in found), "SM clock (MHz)"), tuple(rows)
    )


def samples_picture(name: str, kernel: str, sweep: Sweep) -> Picture | Unavailable:
    """Return the picture of one size, as `name`; Unavailable where no entrant has a time."""
    best = [fastest.entrant for fastest in sweep.best]
    everything = timed_rows(sweep.rows)
    found = sampled(shown_rows(everything, best, MOST_ENTRANTS), best)
    if not found:
        return Unavailable(reason=f"no entrant of {kernel} has a time at {sweep.size}")
    groups = blocks(len(sweep.rounds) or max(len(one.samples) for one in found))
    height = len(found) * LANE_PIXELS + NAME_PIXELS + STRIP_PIXELS + GAP_PIXELS
    extent = _extent(found)
    bottom = height + FOOT_PIXELS
    unit = f"round; a strip is ±{percent(extent, 2)} of the median high"
    return Picture(
        name=name,
        title=f"Times of {kernel} at {sweep.size}: medians with their intervals, samples round by round, and the clock",
        said=said_of(found, sweep),
        notes=tuple(_notes(len(everything), len(found), sweep, groups)),
        height=bottom + UNIT_PIXELS,
        panels=(
            _medians(found, height),
            _samples(found, sweep, groups, extent, height),
            _names(found, height),
            unit_panel("median, ms", bottom, 0, LEFT_PIXELS - 8),
            unit_panel(unit, bottom, LEFT_PIXELS - MARGIN, WIDTH - LEFT_PIXELS + MARGIN),
        ),
        table=_table(f"{kernel}-{sweep.size}-samples", found, sweep, groups),
    )

"""Charts as text, for terminals and for the Markdown page; `assay.picture` is what the HTML page has. Pure.

Positions are percentages of the width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.formats import distinct, milliseconds, scientific
from assay.picture import Tick, log_axis, nice_step
from assay.privacy import printable
from assay.record import Estimate, NonFinite, Number, Row

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT_COLUMNS = 60
MOST_TICKS = 7
MOST_BARS = 16


@dataclass(frozen=True)
class Lettered:
    """One precision at one tier, and the letter that stands for it."""

    label: str
    letter: str


@dataclass(frozen=True)
class Point:
    """One value to draw: which lane, which precision and tier, how large."""

    lane: str
    precision: str
    tier: str
    value: Number


@dataclass(frozen=True)
class Dot:
    at: float
    series: Lettered


@dataclass(frozen=True)
class Lane:
    """One case: its label, and the dots on its line."""

    label: str
    dots: list[Dot]


@dataclass(frozen=True)
class DotChart:
    """Errors on a logarithmic axis. `left_out` names what such an axis cannot show, with its value."""

    ticks: list[Tick]
    series: list[Lettered]
    lanes: list[Lane]
    left_out: list[str]


@dataclass(frozen=True)
class Bar:
    """One entrant: the bar from 0 to its median."""

    label: str
    note: str
    width: float
    peer: bool


@dataclass(frozen=True)
class BarChart:
    """Times on a linear axis from 0. `left_out` says which entrants have a time and no bar, where any."""

    bars: list[Bar]
    left_out: str


def log_position(value: float, decades: tuple[int, int]) -> float:
    """Return where a positive value stands between the two decades, in percent of the width."""
    first, last = decades
    return round(100 * (math.log10(value) - first) / (last - first), 3)


def _log_ticks(decades: tuple[int, int]) -> list[Tick]:
    first, last = decades
    step = math.ceil((last - first) / MOST_TICKS)
    return [
        Tick(log_position(10.0**power, decades), f"1e{power}" if (power - first) % step == 0 else "")
        for power in range(first, last + 1)
    ]


def _drawable(point: Point) -> bool:
    return not isinstance(point.value, NonFinite) and point.value > 0


def _label(point: Point) -> str:
    return f"{point.precision}, {point.tier}"


def all_series(points: Sequence[Point]) -> list[Lettered]:
    """Return one series for each precision and tier."""
    labels = distinct(map(_label, points))
    return [Lettered(label, LETTERS[place % len(LETTERS)]) for place, label in enumerate(labels)]


def dot_chart(points: Sequence[Point]) -> DotChart | None:
    """Return a chart with one lane for each case, or None where no value is positive and finite."""
    drawn = [point for point in points if _drawable(point)]
    values = [point.value for point in drawn if not isinstance(point.value, NonFinite)]
    if not values:
        return None
    decades = log_axis(min(values), max(values))
    series = {entry.label: entry for entry in all_series(points)}
    lanes = [
        Lane(lane, [_dot(p, series, decades) for p in drawn if p.lane == lane])
        for lane in distinct(point.lane for point in points)
    ]
    left_out = [f"{p.lane}, {_label(p)}: {scientific(p.value)}" for p in points if not _drawable(p)]
    return DotChart(_log_ticks(decades), list(series.values()), lanes, left_out)


def _dot(point: Point, series: dict[str, Lettered], decades: tuple[int, int]) -> Dot:
    assert not isinstance(point.value, NonFinite)
    return Dot(log_position(point.value, decades), series[_label(point)])


def timed_rows(rows: Sequence[Row]) -> list[tuple[Row, Estimate]]:
    """Return the entrants that have a time, with it, in order; the twin is an entrant that stands there already."""
    return [
        (row, row.time_ns)
        for row in rows
        if row.kind != "twin" and isinstance(row.time_ns, Estimate) and row.time_ns.median > 0
    ]


def shown_rows(timed: Sequence[tuple[Row, Estimate]], best: Sequence[str], most: int) -> list[tuple[Row, Estimate]]:
    """Return at most so many entrants, in order: libraries and the best of each precision before the fastest."""
    first = sorted(timed, key=lambda pair: (pair[0].kind != "peer" and pair[0].entrant not in best, pair[1].median))
    kept = {id(row) for row, _ in first[:most]}
    return [pair for pair in timed if id(pair[0]) in kept]


def bar_chart(rows: Sequence[Row], best: Sequence[str]) -> BarChart | None:
    """Return a chart of the entrants that have a time, in order; None where none has. `best` names entrants."""
    everything = timed_rows(rows)
    timed = shown_rows(everything, best, MOST_BARS)
    if not timed:
        return None
    largest = max(max(time.median, time.high) for _, time in timed)
    step = nice_step(largest)
    whole = math.ceil(largest / step - 1e-9) * step
    bars = [_bar(row, time, whole, row.entrant in best) for row, time in timed]
    more = len(everything) - len(timed)
    return BarChart(bars, f"{more} more entrants have a time in the table alone" if more else "")


def _bar(row: Row, time: Estimate, whole: float, best: bool) -> Bar:
    note = f"{milliseconds(time.median)} ms{', best' if best else ''}"
    return Bar(row.entrant, note, round(100 * max(0.0, time.median) / whole, 3), row.kind == "peer")


def _column(at: float) -> int:
    return min(TEXT_COLUMNS - 1, int(at / 100 * TEXT_COLUMNS))


def dots_as_text(chart: DotChart) -> str:
    """Return the chart for a terminal: one line a case, a letter for each series, `*` where two meet."""
    labels = [_flat(lane.label) for lane in chart.lanes]
    width = max(map(len, labels))
    lines = [f"{'':<{width}}  {_axis_text(chart.ticks)}"]
    for label, lane in zip(labels, chart.lanes, strict=True):
        cells = ["."] * TEXT_COLUMNS
        for dot in lane.dots:
            column = _column(dot.at)
            cells[column] = dot.series.letter if cells[column] in (".", dot.series.letter) else "*"
        lines.append(f"{label:<{width}}  {''.join(cells)}")
    legend = [f"{entry.letter}: {_flat(entry.label)}" for entry in chart.series]
    return "\n".join([*lines, "", *legend, "*: more than one"])


def _axis_text(ticks: Sequence[Tick]) -> str:
    line = ""
    for tick in ticks:
        if tick.label and len(line) <= (column := min(_column(tick.at), TEXT_COLUMNS - len(tick.label))):
            line = f"{line:<{column}}{tick.label} "
    return line.rstrip()


def bars_as_text(chart: BarChart) -> str:
    """Return the chart for a terminal: one line an entrant, `#` for the kernel's variants and `=` for a library."""
    width = max(len(_flat(bar.label)) for bar in chart.bars)
    return "\n".join(f"{_flat(bar.label):<{width}}  {_bar_text(bar):<{TEXT_COLUMNS}}  {bar.note}" for bar in chart.bars)


def _flat(label: str) -> str:
    """Return a label on one line, so that whatever it holds it takes one line of the chart."""
    return " ".join(printable(label).split())


def _bar_text(bar: Bar) -> str:
    return ("=" if bar.peer else "#") * max(1, round(bar.width / 100 * TEXT_COLUMNS))

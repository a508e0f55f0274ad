"""Geometry of the report's charts. Pure: figures in, positions out; the templates draw them.

Horizontal positions are percentages of the width, so that a chart fits a phone and a page without scaling its text;
vertical ones are pixels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.formats import distinct, milliseconds, scientific
from assay.privacy import printable
from assay.record import Estimate, NonFinite, Number, Row

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "bar", "wedge", "ring")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LANE_PIXELS = 38
TEXT_COLUMNS = 60
MOST_TICKS = 7
MOST_BARS = 16


@dataclass(frozen=True)
class Tick:
    """A line across the chart; `label` is empty where labels would crowd."""

    at: float
    label: str


@dataclass(frozen=True)
class Series:
    """One precision at one tier. Shape and filling tell series apart where colour does not, and letters in text."""

    label: str
    shape: str
    filled: bool
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
    series: Series
    title: str


@dataclass(frozen=True)
class Lane:
    """One case: its label, the height of its line, and the dots on it."""

    label: str
    top: int
    dots: list[Dot]


@dataclass(frozen=True)
class DotChart:
    """Errors on a logarithmic axis. `left_out` names what such an axis cannot show, with its value."""

    height: int
    ticks: list[Tick]
    series: list[Series]
    lanes: list[Lane]
    left_out: list[str]
    summary: str


@dataclass(frozen=True)
class Bar:
    """One entrant: the bar from 0 to its median, and its interval from `low` to `high`."""

    label: str
    note: str
    top: int
    width: float
    low: float
    high: float
    peer: bool
    best: bool


@dataclass(frozen=True)
class BarChart:
    """Times on a linear axis from 0. `left_out` says which entrants have a time and no bar, where any."""

    height: int
    ticks: list[Tick]
    bars: list[Bar]
    left_out: str
    summary: str


def log_axis(low: float, high: float) -> tuple[int, int]:
    """Return the exponents of the decades that enclose positive `low` to `high`, at least one decade apart."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return first, max(last, first + 1)


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


def all_series(points: Sequence[Point]) -> list[Series]:
    """Return one series for each precision and tier: a shape for the precision, filled where a device ran."""
    precisions = distinct(point.precision for point in points)
    pairs = distinct((point.precision, point.tier) for point in points)
    return [
        Series(
            f"{precision}, {tier}",
            SHAPES[precisions.index(precision) % len(SHAPES)],
            tier != "interpreter",
            LETTERS[place % len(LETTERS)],
        )
        for place, (precision, tier) in enumerate(pairs)
    ]


def dot_chart(points: Sequence[Point]) -> DotChart | None:
    """Return a chart with one lane for each case, or None where no value is positive and finite."""
    drawn = [point for point in points if _drawable(point)]
    values = [point.value for point in drawn if not isinstance(point.value, NonFinite)]
    if not values:
        return None
    decades = log_axis(min(values), max(values))
    series = {entry.label: entry for entry in all_series(points)}
    lanes = [
        Lane(label, place * LANE_PIXELS, [_dot(p, series, decades) for p in drawn if p.lane == label])
        for place, label in enumerate(distinct(point.lane for point in points))
    ]
    left_out = [f"{p.lane}, {p.precision}, {p.tier}: {scientific(p.value)}" for p in points if not _drawable(p)]
    ends = f"from {scientific(min(values))} to {scientific(max(values))}"
    summary = f"Errors of {len(lanes)} cases, {ends}, on a logarithmic axis."
    return DotChart(len(lanes) * LANE_PIXELS, _log_ticks(decades), list(series.values()), lanes, left_out, summary)


def _dot(point: Point, series: dict[str, Series], decades: tuple[int, int]) -> Dot:
    assert not isinstance(point.value, NonFinite)
    label = f"{point.precision}, {point.tier}"
    return Dot(log_position(point.value, decades), series[label], f"{point.lane}, {label}: {scientific(point.value)}")


def nice_step(largest: float) -> float:
    """Return the step of a linear axis from 0 to `largest`: 1, 2 or 5 times a power of ten, at most five steps."""
    raw = largest / 5
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def timed_rows(rows: Sequence[Row]) -> list[tuple[Row, Estimate]]:
    """Return the entrants that have a time, with it, in order; the twin is an entrant that stands there already."""
    return [
        (row, row.time_ns)
        for row in rows
        if row.kind != "twin" and isinstance(row.time_ns, Estimate) and row.time_ns.median > 0
    ]


def _shown(timed: Sequence[tuple[Row, Estimate]], best: Sequence[str]) -> list[tuple[Row, Estimate]]:
    """Return at most `MOST_BARS` entrants, in order: libraries and the best of each precision before the fastest."""
    first = sorted(timed, key=lambda pair: (pair[0].kind != "peer" and pair[0].entrant not in best, pair[1].median))
    kept = {id(row) for row, _ in first[:MOST_BARS]}
    return [pair for pair in timed if id(pair[0]) in kept]


def bar_chart(rows: Sequence[Row], best: Sequence[str]) -> BarChart | None:
    """Return a chart of the entrants that have a time, in order; None where none has. `best` names entrants."""
    everything = timed_rows(rows)
    timed = _shown(everything, best)
    if not timed:
        return None
    largest = max(max(time.median, time.high) for _, time in timed)
    step = nice_step(largest)
    count = math.ceil(largest / step - 1e-9)
    whole = count * step
    ticks = [Tick(_linear(place * step, whole), f"{place * step / 1e6:.4g}") for place in range(count + 1)]
    bars = [_bar(row, time, place, whole, row.entrant in best) for place, (row, time) in enumerate(timed)]
    fastest, least = min(everything, key=lambda pair: pair[1].median)
    summary = f"Median times of {len(bars)} entrants; fastest {fastest.entrant}, {milliseconds(least.median)} ms."
    more = len(everything) - len(timed)
    left_out = f"{more} more entrants have a time in the table alone" if more else ""
    return BarChart(len(bars) * LANE_PIXELS, ticks, bars, left_out, summary)


def _linear(value: float, whole: float) -> float:
    return round(100 * max(0.0, value) / whole, 3)


def _bar(row: Row, time: Estimate, place: int, whole: float, best: bool) -> Bar:
    return Bar(
        label=row.entrant,
        note=f"{milliseconds(time.median)} ms{', best' if best else ''}",
        top=place * LANE_PIXELS,
        width=_linear(time.median, whole),
        low=_linear(time.low, whole),
        high=_linear(time.high, whole),
        peer=row.kind == "peer",
        best=best,
    )


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

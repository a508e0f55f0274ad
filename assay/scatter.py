"""Geometry of the chart that sets accuracy against speed. Pure: rows in, positions and a sentence out.

To the right is the rate, on a linear axis from 0; upwards the error, on a logarithmic one. Horizontal positions are
percentages of the width and vertical ones pixels from the top, as in `assay.charts`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.charts import LETTERS, TEXT_COLUMNS, log_position
from assay.formats import distinct, listing, numeral, rate, scientific
from assay.picture import Series, Tick, log_axis, nice_step, series_of
from assay.privacy import printable
from assay.record import Accuracy, NonFinite, Rate, Row, Unavailable

LEAST_PIXELS = 240
LABEL_PIXELS = 16
ABOVE_PIXELS = 13
"""How far above its spot a label stands: beside it stand other variants of one precision, whose errors are alike."""

TEXT_ROWS = 14
MOST_NAMED = 4


@dataclass(frozen=True)
class Label:
    """What stands near a spot: `shift` pixels below it, towards its left where `before`. `moved`: so far away that a
    line must lead to it.
    """

    text: str
    shift: float
    before: bool
    moved: bool


@dataclass(frozen=True)
class Spot:
    """One entrant: where, as which series, what the pointer shows, and its label where it has one."""

    at: float
    top: float
    series: Series
    title: str
    label: Label | None = None


@dataclass(frozen=True)
class ScatterChart:
    """Rate in `unit` against error. `said` is what there is to see; `left_out` names what such axes cannot show."""

    height: int
    unit: str
    ticks: list[Tick]
    levels: list[Tick]
    series: list[Series]
    spots: list[Spot]
    said: str
    left_out: str


@dataclass(frozen=True)
class Known:
    """An entrant with both figures; `named` is a library, or the fastest variant of its precision."""

    row: Row
    speed: Rate
    error: float
    named: bool


def _known(row: Row, best: Sequence[str]) -> Known | None:
    if not isinstance(row.rate, Rate) or not isinstance(row.accuracy, Accuracy):
        return None
    error = row.accuracy.normwise
    if isinstance(error, NonFinite) or not error > 0 or not row.rate.value > 0:
        return None
    return Known(row, row.rate, error, row.kind == "peer" or row.entrant in best)


def _lack(row: Row) -> str:
    """Return an entrant's name and why it has no place in the chart."""
    if isinstance(row.rate, Unavailable):
        return f"{row.entrant} (no rate)"
    if isinstance(row.accuracy, Unavailable):
        return f"{row.entrant} (no error: {row.accuracy.reason})"
    return f"{row.entrant} (error {scientific(row.accuracy.normwise)})"


def _series_key(row: Row) -> tuple[str, bool]:
    """Return what a row shares a series with: a precision, and whether it is the kernel's own."""
    return row.precision, row.kind != "peer"


def _spread(tops: Sequence[float], height: float) -> list[float]:
    """Return where labels stand for spots at `tops`, in ascending order: above their spots, or else below them, and
    `LABEL_PIXELS` apart within `height`, which has room for all.
    """
    placed: list[float] = []
    for top in tops:
        least = placed[-1] + LABEL_PIXELS if placed else ABOVE_PIXELS
        above = max(ABOVE_PIXELS, top - ABOVE_PIXELS)
        placed.append(above if above >= least else max(least, top + ABOVE_PIXELS))
    limit = height
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], limit)
        limit = placed[place] - LABEL_PIXELS
    return placed


def _labelled(spots: Sequence[Spot], names: Sequence[str | None], height: int) -> list[Spot]:
    order = sorted((at for at, name in enumerate(names) if name is not None), key=lambda at: spots[at].top)
    found = list(spots)
    for at, top in zip(order, _spread([spots[at].top for at in order], height), strict=True):
        shift = round(top - spots[at].top, 1)
        label = Label(str(names[at]), shift, spots[at].at > 45, abs(shift) > 1.5 * ABOVE_PIXELS)
        found[at] = replace(spots[at], label=label)
    return found


def _told(one: Known) -> str:
    return f"{one.row.entrant} ({rate(one.speed)}, error {scientific(one.error)})"


def _beats(one: Known, other: Known, clearance: float) -> bool:
    """Return whether one is faster than another by more than `clearance` and no less accurate."""
    return one.speed.value > (1 + clearance) * other.speed.value and one.error <= other.error


def _gain(library: Known, named: Sequence[Known], clearance: float) -> str | None:
    """Return which variant beats a library in both, and by how much, in words."""
    better = [one for one in named if one.row.kind != "peer" and _beats(one, library, clearance)]
    if not better:
        return None
    best = max(better, key=lambda one: one.speed.value)
    factors = numeral(best.speed.value / library.speed.value), numeral(best.error / library.error)
    return f"{best.row.entrant} is {factors[0]} times as fast as {library.row.entrant} with {factors[1]} of its error"


def said_of(known: Sequence[Known], clearance: float) -> str:
    """Return what the chart shows of the entrants it names: the libraries that one beats in both, and those that none
    does.

    `clearance` is what two rates must differ by to differ at all.
    """
    named = [one for one in known if one.named]
    front = [one for one in named if not any(_beats(other, one, clearance) for other in named)]
    front.sort(key=lambda one: -one.speed.value)
    more = [f"{len(front) - MOST_NAMED} more"] if len(front) > MOST_NAMED else []
    unbeaten = ", ".join([*map(_told, front[:MOST_NAMED]), *more])
    gains = [_gain(one, named, clearance) for one in named if one.row.kind == "peer"]
    if not front:
        return "None of the entrants is a library or the fastest of its precision."
    words = [f"Of those named, none is both faster and at least as accurate as {unbeaten}"]
    return f"{'; '.join([*words, *(gain for gain in gains if gain is not None)])}."


def _rate_axis(largest: float) -> tuple[float, list[Tick], float]:
    """Return the end of the axis, its ticks, and what a tick's value is divided by."""
    scale = 1000.0 if largest >= 1000 else 1.0
    step = nice_step(largest / scale)
    count = math.ceil(largest / scale / step - 1e-9)
    ticks = [Tick(round(100 * place / count, 3), f"{place * step:.4g}") for place in range(count + 1)]
    return count * step * scale, ticks, scale


def _levels(decades: tuple[int, int], height: int) -> list[Tick]:
    first, last = decades
    step = math.ceil((last - first) * 24 / height)
    powers = range(first, last + 1)
    return [
        Tick(_top(10.0**power, decades, height), f"1e{power}" if (power - first) % step == 0 else "")
        for power in powers
    ]


def _top(error: float, decades: tuple[int, int], height: int) -> float:
    return round(height * (1 - log_position(error, decades) / 100), 1)


def _drawable(rows: Sequence[Row], best: Sequence[str]) -> tuple[list[Known], list[str]]:
    """Return the entrants with both figures in one unit, and the names of the others that were meant to have them."""
    entrants = [row for row in rows if row.kind != "twin" and row.verdict.outcome != "inapplicable"]
    found = [(row, _known(row, best)) for row in entrants]
    units = distinct(one.speed.unit for _, one in found if one is not None)
    known = [one for _, one in found if one is not None and one.speed.unit == units[0]]
    drawn = {id(one.row) for one in known}
    return known, [_lack(row) for row in entrants if id(row) not in drawn]


def scatter_chart(rows: Sequence[Row], best: Sequence[str], clearance: float) -> ScatterChart | None:
    """Return the chart of the entrants that have a rate and a positive, finite error; None where none has.

    `best` names the fastest variant of each precision.
    """
    known, lacking = _drawable(rows, best)
    if not known:
        return None
    height = max(LEAST_PIXELS, LABEL_PIXELS * (2 + sum(one.named for one in known)))
    decades = log_axis(min(one.error for one in known), max(one.error for one in known))
    whole, ticks, scale = _rate_axis(max(one.speed.value for one in known))
    series = series_of([_series_key(one.row) for one in known], "library")
    spots = [
        Spot(
            round(100 * one.speed.value / whole, 2),
            _top(one.error, decades, height),
            series[_series_key(one.row)],
            _told(one),
        )
        for one in known
    ]
    return ScatterChart(
        height,
        known[0].speed.unit if scale == 1 else f"T{known[0].speed.unit[1:]}",
        ticks,
        _levels(decades, height),
        list(series.values()),
        _labelled(spots, [one.row.entrant if one.named else None for one in known], height),
        said_of(known, clearance),
        listing(lacking, MOST_NAMED, "entrants"),
    )


def spots_as_text(chart: ScatterChart) -> str:
    """Return the chart for a terminal: a letter for each series, `*` where two meet, errors on the left."""
    cells = [[" "] * TEXT_COLUMNS for _ in range(TEXT_ROWS)]
    letters = {series: LETTERS[place % len(LETTERS)] for place, series in enumerate(chart.series)}
    for spot in chart.spots:
        line, column = _line(spot.top, chart.height), min(TEXT_COLUMNS - 1, int(spot.at / 100 * TEXT_COLUMNS))
        letter = letters[spot.series]
        cells[line][column] = letter if cells[line][column] in (" ", letter) else "*"
    labels = {_line(level.at, chart.height): level.label for level in reversed(chart.levels) if level.label}
    lines = [f"{labels.get(at, ''):>6} |{''.join(row).rstrip()}" for at, row in enumerate(cells)]
    axis = f"{'':>6} +{'-' * TEXT_COLUMNS}"
    ends = f"{'':>6}  0{chart.ticks[-1].label + ' ' + chart.unit:>{TEXT_COLUMNS - 1}}"
    legend = [f"{letter}: {' '.join(printable(entry.label).split())}" for entry, letter in letters.items()]
    return "\n".join([*lines, axis, ends, "", *legend, "*: more than one"])


def _line(top: float, height: int) -> int:
    return max(0, min(TEXT_ROWS - 1, int(top / height * TEXT_ROWS)))

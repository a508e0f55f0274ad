"""What a picture of the report is: plain data in pixels and in the units of its axes. `assay.drawing` draws it. Pure.

Panels are placed in pixels from the upper left corner of a picture that is `WIDTH` wide, so that a phone shows its text
at three quarters of its size and a laptop a little above it.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from assay.formats import distinct
from assay.privacy import printable

WIDTH = 460
TEXT_PIXELS = 12
LINE_PIXELS = 16
CHARACTER_PIXELS = 7
"""What a character of the text takes at most, on average: names are set in whatever font the page has."""

MOST_TICKS = 6
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "bar", "wedge", "ring")

Tone = Literal["ink", "quiet", "faint", "paper", "bad", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"]
"""A colour by what it is for: the page's stylesheet says what it looks like in light and in dark. `s1` to `s8` tell
series apart, beside their shapes.
"""
SERIES: tuple[Tone, ...] = ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8")

Anchor = Literal["start", "middle", "end"]
Cell = str | int | float | None
DIGITS = 9
"""Significant ones of a number in a table: as many as tell any two float32 apart. The record holds it in full."""


@dataclass(frozen=True)
class Tick:
    """A line across a panel; `label` is empty where labels would crowd."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, in whatever unit the panel's positions are; a logarithm is taken beforehand."""

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()


@dataclass(frozen=True)
class Spot:
    """A place, and what the pointer shows there."""

    x: float
    y: float
    told: str = ""


@dataclass(frozen=True)
class Series:
    """What marks have in common. Shape and filling tell series apart where colour does not."""

    label: str
    shape: str
    tone: Tone
    filled: bool = True


@dataclass(frozen=True)
class Marks:
    """The spots of one series."""

    series: Series
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class Line:
    """A line through places; where one is None it is broken. `width` in pixels."""

    places: tuple[tuple[float, float] | None, ...]
    tone: Tone
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Bar:
    """A rectangle of `height`, in units of the axis, around `y`."""

    low: float
    high: float
    y: float
    height: float
    tone: Tone
    filled: bool = True


@dataclass(frozen=True)
class Words:
    """A text at a place, moved by `right` and `up` pixels."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    right: float = 0.0
    up: float = 0.0
    tone: Tone = "ink"
    bold: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes, and what it shows, in the order in which it is drawn."""

    left: float
    top: float
    width: float
    height: float
    x: Axis
    y: Axis
    shown: tuple[Bar | Line | Marks | Words, ...]


@dataclass(frozen=True)
class Table:
    """The figures of a picture. `name` is that of the file they are offered as."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A picture and its words. `name` is its own in the page; `said` tells in a sentence what there is to see, and
    `notes` what the picture leaves out.
    """

    name: str
    title: str
    said: str
    notes: tuple[str, ...]
    height: float
    panels: tuple[Panel, ...]
    table: Table


def named(text: str, most: int = 120) -> str:
    """Return a name on one line without anything invisible, cut at its end to at most `most` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def log_axis(low: float, high: float) -> tuple[int, int]:
    """Return the exponents of the decades that enclose positive `low` to `high`, at least one decade apart."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return first, max(last, first + 1)


def decades(low: float, high: float, most: int = MOST_TICKS) -> Axis:
    """Return a logarithmic axis, in powers of ten, around positive values."""
    first, last = log_axis(low, high)
    step = math.ceil((last - first) / most)
    ticks = [Tick(power, f"1e{power}" if (power - first) % step == 0 else "") for power in range(first, last + 1)]
    return Axis(first, last, tuple(ticks))


def log_span(low: float, high: float) -> Axis:
    """Return a logarithmic axis from `low` to `high`, both positive, its ticks at the powers of ten in between; whole
    decades where fewer than two are.
    """
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    ticks = tuple(Tick(power, _power(power)) for power in range(first, last + 1))
    if len(ticks) in range(2, MOST_TICKS + 2):
        return Axis(math.log10(low), math.log10(high), ticks)
    wide = decades(low, high)
    return Axis(wide.low, wide.high, tuple(Tick(tick.at, tick.label and _power(int(tick.at))) for tick in wide.ticks))


def _power(power: int) -> str:
    return f"{10.0**power:g}" if abs(power) < 5 else f"1e{power}"


def nice_step(largest: float, steps: int = 5) -> float:
    """Return the step of a linear axis from 0 to `largest`: 1, 2 or 5 times a power of ten, at most `steps` of them."""
    raw = largest / steps
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))


def linear(largest: float, steps: int = 5) -> Axis:
    """Return an axis from 0 that ends at a tick, or beyond `largest` by nothing."""
    step = nice_step(largest, steps)
    count = math.ceil(largest / step - 1e-9)
    return Axis(0.0, count * step, tuple(Tick(place * step, f"{place * step:.4g}") for place in range(count + 1)))


def series_of(pairs: Iterable[tuple[str, bool]], hollow: str) -> dict[tuple[str, bool], Series]:
    """Return a series for each precision, and for each that is `hollow`, which its label says."""
    wanted = distinct(pairs)
    precisions = distinct(precision for precision, _ in wanted)
    found = {}
    for precision, filled in wanted:
        place = precisions.index(precision) % len(SHAPES)
        label = precision if filled else f"{precision}, {hollow}"
        found[precision, filled] = Series(label, SHAPES[place], SERIES[place], filled)
    return found


def key(entries: Sequence[Series], top: float = 0.0) -> Panel:
    """Return a panel that says which series is which, in as many lines as their labels need."""
    shown: list[Marks | Words] = []
    x, line = 6.0, 0
    for entry in entries:
        label = named(entry.label, 50)
        room = 14 + CHARACTER_PIXELS * len(label) + 12
        if x > 6 and x + room > WIDTH:
            x, line = 6.0, line + 1
        y = (line + 0.5) * LINE_PIXELS
        shown += [Marks(entry, (Spot(x, y),)), Words(x + 10, y, label, up=-4, tone="quiet")]
        x += room
    height = (line + 1) * LINE_PIXELS
    return Panel(0, top, WIDTH, height, Axis(0, WIDTH), Axis(height, 0), tuple(shown))


def _cell(value: Cell) -> str:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe stands before what would begin one."""
    if not isinstance(value, str):
        return "" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
    text = named(value, 1000)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def csv_text(table: Table) -> str:
    """Return a table as CSV, RFC 4180, its lines ended by a line feed alone."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in (table.columns, *table.rows))
    return stream.getvalue()


def csv_name(table: Table) -> str:
    """Return a name for the table's file that is one everywhere, whatever the names in it hold."""
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '_', table.name).strip('._')[:100] or 'figures'}.csv"


def csv_link(table: Table) -> str:
    """Return an address that holds the table, for a page that may ask nothing of a network."""
    return f"data:text/csv;charset=utf-8,{quote(csv_text(table), safe=',:;/()|=*!$@')}"

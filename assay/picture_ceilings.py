"""The picture of one kernel's speed against what the card gave at most: a roofline, or rates beside the copy's. Pure.

A roofline, after Williams, Waterman and Patterson (https://doi.org/10.1145/1498765.1498785), sets a rate of arithmetic
against the operations that a kernel does for each byte it moves, here those of its declared work. Under the copy's
slope memory limits it, under a level line the arithmetic of that precision does. Work without arithmetic to speak of
has no place there; its rate stands beside the copy's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from assay.formats import distinct, listing, numeral, percent, rate
from assay.picture import (
    CHARACTER_PIXELS,
    WIDTH,
    Axis,
    Line,
    Marks,
    Panel,
    Picture,
    Spot,
    Table,
    Words,
    linear,
    log_span,
    named,
    series_of,
)
from assay.picture_lanes import (
    FOOT_PIXELS,
    MARGIN,
    UNIT_PIXELS,
    Lane,
    Track,
    key_and_top,
    lanes_panel,
    unit_panel,
)
from assay.record import Ceiling, CeilingName, Estimate, Rate, Row, Share, Sweep, Timing, Unavailable

HEIGHT = 250
LEFT_PIXELS = 44
MOST_PLACES = 8
TERA = 1000.0
"""Of a rate in operations a nanosecond, one in operations a picosecond."""

MOST_NAMED = 4
COLUMNS = (
    "size",
    "entrant",
    "kind",
    "precision",
    "operations_per_byte",
    "gflop_per_s",
    "gb_per_s",
    "share",
    "of_ceiling",
)


@dataclass(frozen=True)
class Reached:
    """What one entrant reached at one size. `flops` and `bytes` are rates, in operations and bytes a nanosecond."""

    size: str
    row: Row
    intensity: float
    flops: float
    bytes: float

    @property
    def share(self) -> Share | None:
        """The ceiling it comes nearest to."""
        return max(self.row.shares, key=lambda share: share.fraction, default=None)


def ceilings_of(timing: Timing) -> dict[CeilingName, float]:
    """Return what the card gave at most, in GB/s and GFLOP/s, as far as it was measured."""
    return {one.name: one.rate.value for one in timing.ceilings if isinstance(one.rate, Rate) and one.rate.value > 0}


def _entrants(sweep: Sweep) -> list[tuple[Row, float]]:
    """Return the libraries and the fastest variant of each precision, with their times in ns."""
    best = [fastest.entrant for fastest in sweep.best]
    return [
        (row, row.time_ns.median)
        for row in sweep.rows
        if (row.kind == "peer" or (row.kind == "variant" and row.entrant in best))
        and isinstance(row.time_ns, Estimate)
        and row.time_ns.median > 0
    ]


def all_reached(timing: Timing) -> list[Reached]:
    """Return what the libraries and the best variants reached, size by size, where work is declared."""
    return [
        Reached(sweep.size, row, sweep.flops / sweep.bytes, sweep.flops / time, sweep.bytes / time)
        for sweep in timing.sweeps
        if sweep.bytes > 0
        for row, time in _entrants(sweep)
    ]


def in_roofline(one: Reached) -> bool:
    """Return whether its rate is one of arithmetic, as its record gives it."""
    return isinstance(one.row.rate, Rate) and one.row.rate.unit == "GFLOP/s" and one.flops > 0


def said_of(reached: Sequence[Reached], ceilings: dict[CeilingName, float]) -> str:
    """Return what the picture shows: who comes nearest to a ceiling, and what limits it by its declared work."""
    with_share = [(one, share) for one in reached if (share := one.share) is not None]
    if not with_share:
        return f"No ceiling was measured for what {len(reached)} entrants reached."
    one, share = max(with_share, key=lambda pair: pair[1].fraction)
    what = "the copy's rate" if share.ceiling == "copy" else f"the {share.ceiling} ceiling"
    nearest = f"{named(one.row.entrant)} at {named(one.size)}: {percent(share.fraction)} of {what}"
    if not in_roofline(one):
        cached = "" if share.fraction <= 1 or share.binding else ", more than memory gives, as a cache holds its data"
        return f"Nearest to what the card gives comes {nearest}, {rate(Rate(value=one.bytes, unit='GB/s'))}{cached}."
    ridge = ceilings.get(share.ceiling, 0.0) / ceilings["copy"] if "copy" in ceilings else None
    limit = "" if ridge is None or share.ceiling == "copy" else _limit(one.intensity, ridge)
    return f"Nearest to what the card gives comes {nearest}, {rate(one.row.rate)}{limit}."


def _limit(intensity: float, ridge: float) -> str:
    what = "arithmetic limits it" if intensity >= ridge else "memory limits it"
    return f"; it does {numeral(intensity)} operations a byte, so {what} (from {numeral(ridge)} on arithmetic does)"


def _told(one: Reached) -> str:
    share = "" if one.share is None else f", {percent(one.share.fraction)} of {one.share.ceiling}"
    return f"{one.row.entrant} at {one.size}: {rate(one.row.rate)}{share}"


def _row(one: Reached) -> tuple[str | float | None, ...]:
    share = one.share
    reached = (one.intensity, one.flops, one.bytes)
    of = (None, None) if share is None else (share.fraction, share.ceiling)
    return (one.size, one.row.entrant, one.row.kind, one.row.precision, *reached, *of)


def _table(kernel: str, reached: Sequence[Reached], ceilings: Sequence[Ceiling]) -> Table:
    """Return what entrants reached, then the ceilings themselves."""
    measured = [
        ("", one.name, "ceiling", None, None, *_ceiling(one), None, None)
        for one in ceilings
        if isinstance(one.rate, Rate)
    ]
    return Table(f"{kernel}-ceilings", COLUMNS, (*map(_row, reached), *measured))


def _ceiling(one: Ceiling) -> tuple[float | None, float | None]:
    value = one.rate.value if isinstance(one.rate, Rate) else None
    return (None, value) if one.name == "copy" else (value, None)


# The roofline


def _axes(reached: Sequence[Reached], ceilings: dict[CeilingName, float]) -> tuple[Axis, Axis]:
    levels = [value for name, value in ceilings.items() if name != "copy"]
    ridges = [value / ceilings["copy"] for value in levels] if "copy" in ceilings else []
    xs = [one.intensity for one in reached] + ridges
    ys = [rate / TERA for rate in [*(one.flops for one in reached), *levels]]
    return log_span(min(xs) / 3, max(xs) * 3), log_span(min(ys) / 2, max(ys) * 1.6)


def _roofs(x: Axis, y: Axis, ceilings: dict[CeilingName, float]) -> list[Line | Words]:
    """Return the copy's slope, up to the highest ceiling, and a level line for each arithmetic from where they meet."""
    copy = ceilings.get("copy")
    shown: list[Line | Words] = []
    levels = sorted((value, name) for name, value in ceilings.items() if name != "copy")
    for value, name in levels:
        level = log10(value / TERA)
        start = x.low if copy is None else max(x.low, log10(value / copy))
        shown.append(Line(((start, level), (x.high, level)), "quiet", 1.5))
        shown.append(_roof_name(f"{name} {rate(Rate(value=value, unit='GFLOP/s'))}", start, level, x))
    if copy is not None:
        slope = log10(copy / TERA)
        top = log10(levels[-1][0] / TERA) if levels else y.high
        low, high = max(x.low, y.low - slope), min(x.high, top - slope)
        text = f"copy {rate(Rate(value=copy, unit='GB/s'))}"
        shown.append(Words(low, low + slope, text, right=8, up=2, tone="quiet"))
        shown += [Line(((low, low + slope), (high, high + slope)), "quiet", 1.5)] if high > low else []
    return shown


def _roof_name(text: str, start: float, level: float, x: Axis) -> Words:
    """Return the name of a level line: before it, where nothing can stand above the slope, or else at its beginning."""
    room = (start - x.low) / (x.high - x.low) * (WIDTH - LEFT_PIXELS - MARGIN)
    if room > CHARACTER_PIXELS * len(text):
        return Words(start, level, text, "end", right=-6, up=-4, tone="quiet")
    return Words(start, level, text, right=4, up=4, tone="quiet")


def _size_lines(reached: Sequence[Reached], y: Axis) -> list[Line]:
    """Return a line at the intensity of each size."""
    places = distinct(log10(one.intensity) for one in reached)
    return [Line(((at, y.low), (at, y.high)), "quiet", 1.0, dashed=True) for at in places]


def _size_note(reached: Sequence[Reached]) -> str:
    """Return which dashed line is which size."""
    places = sorted({one.intensity for one in reached})
    sizes = [
        f"{listing((named(one.size) for one in reached if one.intensity == place), MOST_NAMED, 'sizes')} at "
        f"{numeral(place)}"
        for place in places
    ]
    return (
        f"Dashed, in operations a byte: {'; '.join(sizes[:MOST_PLACES])}{'; ...' if len(sizes) > MOST_PLACES else ''}"
    )


def _roofline(reached: Sequence[Reached], ceilings: dict[CeilingName, float], top: float) -> Panel:
    x, y = _axes(reached, ceilings)
    series = series_of([(one.row.precision, one.row.kind != "peer") for one in reached], "library")
    marks = [
        Marks(
            series[one.row.precision, one.row.kind != "peer"],
            (Spot(log10(one.intensity), log10(one.flops / TERA), _told(one)),),
        )
        for one in reached
    ]
    shown = (*_size_lines(reached, y), *_roofs(x, y, ceilings), *marks)
    return Panel(LEFT_PIXELS, top, WIDTH - LEFT_PIXELS - MARGIN, HEIGHT, x, y, shown)


# Rates of memory, beside the copy's


def _lanes(reached: Sequence[Reached], copy: float | None) -> list[Lane]:
    series = series_of([(one.row.precision, one.row.kind != "peer") for one in reached], "library")
    lanes = []
    for size in distinct(one.size for one in reached):
        here = [one for one in reached if one.size == size]
        tracks = tuple(
            Track(
                series[one.row.precision, one.row.kind != "peer"], one.bytes, copy if place == 0 else None, _told(one)
            )
            for place, one in enumerate(here)
        )
        fastest = max(here, key=lambda one: one.bytes)
        of = "" if copy is None else f", {percent(fastest.bytes / copy)} of the copy’s"
        lanes.append(Lane(size, f"{rate(Rate(value=fastest.bytes, unit='GB/s'))}{of}", tracks, flat=True))
    return lanes


def ceilings_picture(name: str, kernel: str, timing: Timing) -> Picture | Unavailable:
    """Return the picture of a kernel's speed, as `name`; Unavailable where nothing has a place in one."""
    if timing.availability.outcome != "passed":
        return Unavailable(reason=f"{kernel} was not timed: {timing.availability.reason}")
    ceilings, everything = ceilings_of(timing), all_reached(timing)
    if not everything:
        return Unavailable(reason=f"no entrant of {kernel} has a time and declared work")
    arithmetic = [one for one in everything if in_roofline(one)]
    drawn = arithmetic or everything
    series = series_of([(one.row.precision, one.row.kind != "peer") for one in drawn], "library")
    legend, top = key_and_top(list(series.values()))
    if arithmetic:
        panels, bottom = (_roofline(drawn, ceilings, top + 6),), top + 6 + HEIGHT + FOOT_PIXELS
        unit, title = "operations a byte; upwards TFLOP/s", "Roofline"
    else:
        copy = ceilings.get("copy")
        most = max([one.bytes for one in drawn] + ([copy] if copy else []))
        panel, bottom = lanes_panel(_lanes(drawn, copy), linear(most), top)
        panels, unit, title = (panel,), "GB/s; the stroke is the copy’s rate", "Rate of memory"
    rest = [one for one in everything if one not in drawn]
    notes = [_size_note(drawn)] if arithmetic else []
    if rest:
        sizes = listing((named(one.size) for one in rest), MOST_NAMED, "sizes")
        notes.append(f"Not in the picture, as memory rather than arithmetic is what they are rated by: {sizes}")
    return Picture(
        name=name,
        title=f"{title} of {kernel}: libraries and the fastest of each precision, under what the card gave at most",
        said=said_of(drawn, ceilings),
        notes=tuple(notes),
        height=bottom + UNIT_PIXELS,
        panels=(legend, *panels, unit_panel(unit, bottom)),
        table=_table(kernel, everything, timing.ceilings),
    )

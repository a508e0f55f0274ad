"""The picture that sets accuracy against speed at one size, the libraries included. Pure."""

from assay.picture import WIDTH, Axis, Line, Marks, Panel, Picture, Spot, Table, Words, named
from assay.picture_lanes import FOOT_PIXELS, MARGIN, UNIT_PIXELS, key_and_top, unit_panel
from assay.record import Accuracy, NonFinite, Number, Rate, Row, Sweep, Unavailable
from assay.scatter import ScatterChart
from assay.scatter import Spot as Placed

COLUMNS = ("entrant", "kind", "precision", "rate", "unit", "normwise_error", "largest_error")
LEFT_PIXELS = 40
SLACK = 8
"""Pixels above and below, so that names at the edges stay clear of the axis."""


def _label(spot: Placed) -> list[Line | Words]:
    """Return the name of a spot, and the line that leads to it where it stands apart."""
    label = spot.label
    if label is None:
        return []
    side = -1 if label.before else 1
    away = 11 if label.moved else 7
    words = Words(
        spot.at,
        spot.top + label.shift,
        named(label.text, 40),
        "end" if label.before else "start",
        right=away * side,
        up=-4,
    )
    # The chart is as wide as its panel, in percent of which a pixel to the side is so much.
    across = 9 * side * 100 / (WIDTH - LEFT_PIXELS - MARGIN)
    lead = Line(((spot.at, spot.top), (spot.at + across, spot.top + label.shift)), "quiet")
    return [lead, words] if label.moved else [words]


def _panel(chart: ScatterChart, top: float) -> Panel:
    shown: list[Line | Marks | Words] = [part for spot in chart.spots for part in _label(spot)]
    shown += [Marks(spot.series, (Spot(spot.at, spot.top, spot.title),)) for spot in chart.spots]
    across, down = Axis(0, 100, tuple(chart.ticks)), Axis(chart.height + SLACK, -SLACK, tuple(chart.levels))
    return Panel(LEFT_PIXELS, top, WIDTH - LEFT_PIXELS - MARGIN, chart.height + 2 * SLACK, across, down, tuple(shown))


def _figure(value: Number) -> float | str:
    return value.nonfinite if isinstance(value, NonFinite) else value


def _row(row: Row) -> tuple[str | float | None, ...]:
    rate = (row.rate.value, row.rate.unit) if isinstance(row.rate, Rate) else (None, None)
    errors = (None, None)
    if isinstance(row.accuracy, Accuracy):
        return (
            row.entrant,
            row.kind,
            row.precision,
            *rate,
            _figure(row.accuracy.normwise),
            _figure(row.accuracy.largest),
        )
    return (row.entrant, row.kind, row.precision, *rate, *errors)


def tradeoff_picture(name: str, kernel: str, sweep: Sweep, chart: ScatterChart | None) -> Picture | Unavailable:
    """Return the picture of a size's chart, as `name`; Unavailable where it has none."""
    if chart is None:
        return Unavailable(reason=f"no entrant of {kernel} at {sweep.size} has both a rate and an error")
    legend, top = key_and_top(chart.series)
    bottom = top + chart.height + 2 * SLACK + FOOT_PIXELS
    rows = tuple(_row(row) for row in sweep.rows if row.kind != "twin" and row.verdict.outcome != "inapplicable")
    return Picture(
        name=name,
        title=f"Accuracy of {kernel} against its speed at {sweep.size}, the libraries included",
        said=chart.said,
        notes=(f"Not in the picture: {chart.left_out}",) if chart.left_out else (),
        height=bottom + UNIT_PIXELS,
        panels=(legend, _panel(chart, top), unit_panel(f"{chart.unit}; upwards the error, Frobenius norm", bottom)),
        table=Table(f"{kernel}-{sweep.size}-tradeoff", COLUMNS, rows),
    )

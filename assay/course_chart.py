"""A series over time as a picture: what stands where is decided first, and drawn by Matplotlib at the end.

Nothing that a bundle says gets into a picture but figures and dates; what it is of stands beside it, in the page.
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.course import Curve
from assay.formats import milliseconds, ratio, scientific

INK = "#010203"
"""Drawn in this, and written as `currentColor`: text and axes take the colour of the page, light or dark."""
COLOURS = {"points": "#2f6fb5", "level": "#c2500a", "regression": "#c8302f"}
WIDTH_INCHES, HEIGHT_INCHES = 7.2, 2.2
MOST_LABELS = 8
# Matplotlib refers to markers and clipping paths, by salted digests, and to no other id; on a page those would repeat.
_UNUSED_ID = re.compile(r' id="(?![mp][0-9a-f]{10}")[^"]*"')


def writer(figure: str) -> tuple[Callable[[float], str], float, str]:
    """Return how a figure is written, what it is divided by for an axis, and the axis' unit."""
    if figure.startswith(("time by", "library time by")):
        return lambda value: f"{milliseconds(value)} ms", 1e6, "ms"
    return (ratio, 1.0, "ratio") if figure.startswith("time over") else (scientific, 1.0, "error")


@dataclass(frozen=True)
class CourseChart:
    """Points in order, in the axis' unit, and the levels of their stretches: first, last and height."""

    unit: str
    days: list[str]
    lows: list[float]
    middles: list[float]
    highs: list[float]
    levels: list[tuple[int, int, float]]
    outliers: list[int]
    regressed: bool
    summary: str


def course_chart(curve: Curve) -> CourseChart | None:
    """Return the picture of a series; None of a point alone."""
    if len(curve.points) < 2:
        return None
    write, divisor, unit = writer(curve.about.figure)
    levels = [(one.first, one.last, one.level.middle / divisor) for one in curve.stretches]
    ends = f"from {write(curve.points[0].middle)} to {write(curve.points[-1].middle)}"
    changes = max(0, len(levels) - 1)
    return CourseChart(
        unit=unit,
        days=[point.occasion.started[:10] for point in curve.points],
        lows=[point.low / divisor for point in curve.points],
        middles=[point.middle / divisor for point in curve.points],
        highs=[point.high / divisor for point in curve.points],
        levels=levels,
        outliers=list(curve.study.outliers),
        regressed=curve.regressed,
        summary=f"{len(curve.points)} points {ends}; {changes} change {'point' if changes == 1 else 'points'}",
    )


def _labels(days: list[str]) -> tuple[list[int], list[str]]:
    """Return at most `MOST_LABELS` places with their days, the last among them."""
    step = -(-len(days) // MOST_LABELS)
    places = sorted(range(len(days) - 1, -1, -step))
    return places, [days[place] for place in places]


def draw(chart: CourseChart, salt: str) -> str:
    """Return the picture as an SVG element, the same for one chart and `salt`, which keeps the ids of a page apart."""
    # Imported where it is used: it takes half a second.
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {"svg.hashsalt": salt, "svg.fonttype": "none", "font.size": 8, "text.parse_math": False}
    with rc_context({**settings, **dict.fromkeys(("text.color", "axes.edgecolor", "xtick.color", "ytick.color"), INK)}):
        figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
        FigureCanvasSVG(figure)
        _plot(figure.add_subplot(), chart)
        figure.patch.set_alpha(0)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    return _UNUSED_ID.sub("", text[text.index("<svg") :].replace(INK, "currentColor")).strip()


def _plot(axes: Any, chart: CourseChart) -> None:
    places = range(len(chart.middles))
    hollow = set(chart.outliers)
    axes.vlines(places, chart.lows, chart.highs, color=COLOURS["points"], linewidth=1.2)
    filled = [at for at in places if at not in hollow]
    axes.plot(filled, [chart.middles[at] for at in filled], "o", markersize=3.5, color=COLOURS["points"])
    axes.plot(chart.outliers, [chart.middles[at] for at in chart.outliers], "o", mfc="none", color=COLOURS["points"])
    for first, last, height in chart.levels:
        axes.hlines(height, first - 0.4, last + 0.4, color=COLOURS["level"], linewidth=1.2)
    for first, _, _ in chart.levels[1:]:
        axes.axvline(first - 0.5, color=COLOURS["level"], linewidth=0.8, linestyle="--")
    if chart.regressed:
        axes.plot(places[-1], chart.middles[-1], "D", markersize=6, color=COLOURS["regression"])
    low, high = min(chart.lows), max(chart.highs)
    # Noise shall not fill the picture where nothing happened.
    room = 0.05 * max(high, high - low)
    axes.set_ylim(low - room, high + room)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_xticks(*_labels(chart.days))
    axes.set_ylabel(chart.unit, color=INK)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)

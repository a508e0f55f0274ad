"""The course of figures as a page and for a terminal: what its templates show, arranged from the record. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markupsafe import Markup

from assay.changepoints import Newest
from assay.course import About, Course, Curve, Statement, beside
from assay.course_chart import course_chart, draw, writer
from assay.formats import ratio
from assay.page import TEMPLATES, render_by
from assay.privacy import one_line
from assay.record import Unavailable

TEMPLATE_NAMES = "history.html.j2", "history.md.j2"
MOST_CHARTS = 40
MOST_LINES = 60
"""Series without a change that a terminal lists."""
MOVED = {"up": "worse", "down": "better", "same": "as before", "inconclusive": "inconclusive"}


@dataclass(frozen=True)
class Shift:
    """One change: when, from what to what, and what else was not the same then."""

    day: str
    what: str
    beside: str
    worse: bool


@dataclass(frozen=True)
class Shown:
    """One series as a row. `chart` is a picture, where there is one."""

    name: str
    place: str
    figure: str
    points: int
    newest: str
    against: str
    verdict: str
    regressed: bool
    shifts: list[Shift]
    outliers: str
    summary: str
    chart: Markup | None


@dataclass(frozen=True)
class CoursePage:
    """All that the templates show: of stated figures and outcomes those that changed. `kept` counts the others."""

    course: Course
    sentence: str
    curves: list[Shown]
    changed: list[Shown]
    kept: int
    undrawn: int


def name_of(about: About) -> str:
    """Return what a series is of, in words."""
    where = f" on {about.target}" if about.target else ""
    size = f", {about.size}" if about.size else ""
    return f"{about.kernel} {about.variant}, {about.tier}{where}{size}"


def _curve_shifts(curve: Curve) -> Iterator[Shift]:
    write, _, _ = writer(curve.about.figure)
    points, stretches = curve.points, curve.stretches
    for before, after in pairwise(stretches):
        at = points[after.first].occasion
        by = ratio(after.level.middle / before.level.middle)
        what = f"{write(before.level.middle)} -> {write(after.level.middle)}, {by} times"
        worse = after.moved == "up" and curve.about.counts
        yield Shift(at.started[:10], what, "; ".join(beside(points[after.first - 1].occasion, at)), worse)


def _against(curve: Curve) -> tuple[str, str]:
    """Return the newest point's ratio to the level before it, in words, and what follows."""
    found = curve.study.newest
    if not isinstance(found, Newest):
        return "–", found.reason
    said = f"{ratio(found.ratio)} ({ratio(found.low)} to {ratio(found.high)}) times the level of {found.count} before"
    return said, MOVED[found.moved]


def _show_curve(curve: Curve, number: int, drawn: bool) -> Shown:
    chart = course_chart(curve) if drawn else None
    against, verdict = _against(curve)
    few = curve.study.stretches.reason if isinstance(curve.study.stretches, Unavailable) else ""
    days = ", ".join(curve.points[at].occasion.started[:10] for at in curve.study.outliers)
    return Shown(
        name=name_of(curve.about),
        place=curve.about.place or "any machine",
        figure=curve.about.figure,
        points=len(curve.points),
        newest=writer(curve.about.figure)[0](curve.points[-1].middle),
        against=against,
        verdict=verdict,
        regressed=curve.regressed,
        shifts=list(_curve_shifts(curve)),
        outliers=days,
        summary=few or (chart.summary if chart else ""),
        # Matplotlib made it from figures and dates alone.
        chart=Markup(draw(chart, f"course-{number}")) if chart else None,  # noqa: S704
    )


def _show_statement(one: Statement) -> Shown:
    shifts = [
        Shift(
            day=one.occasions[change.at].started[:10],
            what=f"{change.before} -> {change.after}" + (f" ({change.reason})" if change.reason else ""),
            beside="; ".join(beside(one.occasions[change.at - 1], one.occasions[change.at])),
            worse=change.worse,
        )
        for change in one.changes
    ]
    return Shown(
        name=name_of(one.about),
        place=one.about.place or "any machine",
        figure=one.about.figure,
        points=len(one.words),
        newest=one.words[-1],
        against="",
        verdict="worse" if one.regressed else "",
        regressed=one.regressed,
        shifts=shifts,
        outliers="",
        summary="",
        chart=None,
    )


def conclusion(course: Course) -> str:
    """Return in one sentence whether the newest points are regressions."""
    found, series = len(course.regressions), len(course.curves) + len(course.statements)
    of = f"{len(course.bundles)} {'bundle' if len(course.bundles) == 1 else 'bundles'}, {series} series"
    if not found:
        return f"No regression at the newest point: {of}."
    return f"{found} {'regression' if found == 1 else 'regressions'} at the newest point: {of}."


def _weight(series: Curve | Statement) -> tuple[bool, bool, bool]:
    shifted = len(series.stretches) > 1 if isinstance(series, Curve) else bool(series.changes)
    return not series.regressed, not shifted, not series.about.counts


def build_page(course: Course, drawn: bool = True) -> CoursePage:
    """Arrange the record for the templates: what got worse first, then what changed."""
    curves = sorted(course.curves, key=_weight)
    changed = sorted((one for one in course.statements if one.changes), key=_weight)
    charted = [number for number, curve in enumerate(curves) if len(curve.points) > 1]
    pictures = set(charted[:MOST_CHARTS]) if drawn else set()
    return CoursePage(
        course=course,
        sentence=conclusion(course),
        curves=[_show_curve(curve, number, number in pictures) for number, curve in enumerate(curves)],
        changed=[_show_statement(one) for one in changed],
        kept=len(course.statements) - len(changed),
        undrawn=max(0, len(charted) - MOST_CHARTS),
    )


def render(course: Course, folder: Path = TEMPLATES) -> tuple[bytes, bytes]:
    """Return the course as HTML and as Markdown."""
    return render_by(TEMPLATE_NAMES, build_page(course), folder)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


HEADINGS = ("  of", "figure", "where", "points", "newest", "newest against the level before")


def _row(shown: Shown) -> list[str]:
    # What got worse is marked as `compare` marks it.
    mark = "!" if shown.regressed else "-"
    told = ": ".join(filter(None, (shown.verdict, shown.against)))
    cells = (f"{mark} {shown.name}", shown.figure, shown.place, str(shown.points), shown.newest, told)
    return [one_line(cell, 120) for cell in cells]


def _shifts(shown: Shown) -> Iterator[str]:
    """Yield a line for each change of a series."""
    for shift in shown.shifts:
        along = f"; beside it {shift.beside}" if shift.beside else ""
        yield one_line(f"{shift.day}: {shown.name}, {shown.figure}: {shift.what}{along}", 1000)


def _calm(shown: Shown) -> bool:
    return not shown.regressed


def text(course: Course) -> str:
    """Return the course for a terminal: what got worse, then what changed, then the newest of all other curves."""
    page = build_page(course, drawn=False)
    changed = sorted([one for one in page.curves if one.shifts] + page.changed, key=_calm)
    notable = sorted([one for one in page.curves if one.shifts or one.regressed] + page.changed, key=_calm)
    quiet = [one for one in page.curves if not (one.shifts or one.regressed)]
    more = len(quiet) - MOST_LINES
    rows = [_row(one) for one in (*notable, *quiet[:MOST_LINES])]
    lines = [
        *_columns([HEADINGS, *rows]),
        *([f"and {more} more series without a change"] if more > 0 else []),
        "",
        *(line for one in changed for line in _shifts(one)),
        f"{page.kept} outcomes and figures of builds are what they always were.",
        page.sentence,
    ]
    return "\n".join(lines)

"""Charts as text: what is drawn stands inside the chart, in order of size, and what cannot be drawn is named."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, device, replaced, row, timing

from assay.charts import (
    MOST_BARS,
    TEXT_COLUMNS,
    Point,
    all_series,
    bar_chart,
    bars_as_text,
    dot_chart,
    dots_as_text,
    log_position,
)
from assay.picture import log_axis, nice_step
from assay.record import Estimate, NonFinite, Row, Unavailable

positive = st.floats(1e-30, 1e30)
names = st.sampled_from(["ieee", "tf32", "bf16x3"])
tiers = st.sampled_from(["interpreter", "sm_90"])
values = positive | st.just(0.0) | st.sampled_from([NonFinite(nonfinite="nan"), NonFinite(nonfinite="inf")])
points = st.lists(st.builds(Point, st.text(max_size=5), names, tiers, values), max_size=12)


def timed(entrant: str, median: float, kind: str = "variant") -> Row:
    time = Estimate(low=median * 0.99, median=median, high=median * 1.01)
    found: Row = replaced(row(entrant, "variant", "ieee", 404000.0), kind=kind, time_ns=time)
    return found


@given(positive, positive)
def test_a_logarithmic_axis_holds_its_values_in_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    decades = log_axis(low, high)
    at = log_position(low, decades), log_position(high, decades)
    assert 0 <= at[0] <= at[1] <= 100


@given(positive)
def test_a_linear_axis_has_at_most_five_round_steps(largest: float) -> None:
    step = nice_step(largest)
    assert 0 < math.ceil(largest / step - 1e-9) <= 5
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


@given(points)
def test_every_value_is_drawn_or_named(given_points: list[Point]) -> None:
    chart = dot_chart(given_points)
    if chart is None:
        assert not any(isinstance(p.value, float) and p.value > 0 for p in given_points)
        return
    dots = [dot for lane in chart.lanes for dot in lane.dots]
    assert len(dots) + len(chart.left_out) == len(given_points)
    assert all(0 <= dot.at <= 100 for dot in dots)
    assert all(0 <= tick.at <= 100 for tick in chart.ticks)


@given(points)
def test_every_series_has_a_letter_of_its_own(given_points: list[Point]) -> None:
    series = all_series(given_points)
    assert len({entry.letter for entry in series}) == len(series)


def test_nan_is_left_out_by_name() -> None:
    good = Point("a", "ieee", "sm_90", 1e-7)
    chart = dot_chart([good, Point("b", "tf32", "sm_90", NonFinite(nonfinite="nan"))])
    assert chart is not None
    assert chart.left_out == ["b, tf32, sm_90: NaN"]


@given(points)
def test_a_text_chart_has_one_line_for_each_case(given_points: list[Point]) -> None:
    chart = dot_chart(given_points)
    if chart is not None:
        lines = dots_as_text(chart).split("\n")
        assert lines[1 + len(chart.lanes)] == ""
        assert len(lines) == 3 + len(chart.lanes) + len(chart.series)


def test_letters_mark_where_one_series_stands_and_a_star_where_two_do() -> None:
    chart = dot_chart([Point("a", "ieee", "sm_90", 1e-7), Point("a", "tf32", "sm_90", 1e-3)])
    both = dot_chart([Point("a", "ieee", "sm_90", 1e-7), Point("a", "tf32", "sm_90", 1e-7)])
    assert chart is not None
    assert both is not None
    assert dots_as_text(chart).split("\n")[1] == f"a  a{'.' * (TEXT_COLUMNS - 2)}b"
    assert dots_as_text(both).split("\n")[1].count("*") == 1


@given(st.lists(st.floats(1, 1e12), min_size=1, max_size=MOST_BARS))
def test_bars_are_as_long_as_their_times(times: list[float]) -> None:
    chart = bar_chart([timed(f"e{place}", time) for place, time in enumerate(times)], [])
    assert chart is not None
    widths = [bar.width for bar in chart.bars]
    assert all(0 <= width <= 100 for width in widths)
    longest = widths[times.index(max(times))]
    assert widths == pytest.approx([longest * time / max(times) for time in times], abs=0.01)


@given(st.lists(st.floats(1, 1e6), min_size=MOST_BARS + 1, max_size=40, unique=True))
def test_of_too_many_the_fastest_have_bars_beside_the_best_and_the_libraries(times: list[float]) -> None:
    rows = [timed(f"e{place}", time) for place, time in enumerate(times)]
    slow = [timed("library", 1e7, "peer"), timed("best of another precision", 1e7)]
    chart = bar_chart([*rows, *slow], [slow[1].entrant])
    assert chart is not None
    fastest = {f"e{times.index(time)}" for time in sorted(times)[: MOST_BARS - 2]}
    assert {bar.label for bar in chart.bars} == fastest | {one.entrant for one in slow}
    assert chart.left_out == f"{len(times) + 2 - MOST_BARS} more entrants have a time in the table alone"


@pytest.mark.parametrize("time", [Unavailable(reason="not timed"), Estimate(low=0.0, median=0.0, high=0.0)])
def test_an_entrant_without_a_time_has_no_bar(time: Estimate | Unavailable) -> None:
    absent = replaced(timed("a", 1.0), time_ns=time)
    assert bar_chart([absent], []) is None
    chart = bar_chart([absent, timed("b", 2.0)], [])
    assert chart is not None
    assert [bar.label for bar in chart.bars] == ["b"]
    assert chart.left_out == ""


def test_an_entrant_under_a_second_name_has_one_bar() -> None:
    chart = bar_chart([timed("a", 2.0), timed("a (again)", 2.0, "twin")], [])
    assert chart is not None
    assert [bar.label for bar in chart.bars] == ["a"]


def test_bars_in_text_tell_libraries_from_variants() -> None:
    rows = [one for one in timing(MATMUL, device()).sweeps[0].rows if one.kind != "twin"]
    chart = bar_chart(rows, ["tf32/64x64x32"])
    assert chart is not None
    lines = bars_as_text(chart).split("\n")
    assert len(lines) == len(rows)
    assert all(("=" if r.kind == "peer" else "#") in line for r, line in zip(rows, lines, strict=True))
    assert [line.endswith(", best") for line in lines] == [r.entrant == "tf32/64x64x32" for r in rows]


def test_a_label_with_a_line_end_takes_one_line() -> None:
    chart = bar_chart([timed("a\n```\nb", 1.0)], [])
    assert chart is not None
    assert bars_as_text(chart).startswith("a ``` b  #")

"""The picture of accuracy against speed: every entrant is drawn or named, labels stay apart, and what is said is so."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import PASSED, replaced, row

from assay.charts import LETTERS
from assay.record import Accuracy, Cause, NonFinite, Number, Outcome, Rate, Row, Unavailable, Verdict
from assay.scatter import LABEL_PIXELS, TEXT_ROWS, scatter_chart, spots_as_text

UNREAD = Unavailable(reason="it writes nothing that can be compared")
positive = st.floats(1e-12, 10.0)
errors = st.one_of(positive, positive, st.just(0.0), st.just(NonFinite(nonfinite="nan")), st.just(UNREAD))
rates = st.one_of(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.just(UNREAD))


def entrant(
    name: str,
    speed: float | Unavailable,
    error: Number | Unavailable,
    kind: str = "variant",
    precision: str = "ieee",
) -> Row:
    accuracy = error if isinstance(error, Unavailable) else Accuracy(normwise=error, largest=error)
    fast = speed if isinstance(speed, Unavailable) else Rate(value=speed, unit="GFLOP/s")
    made = row(name, "variant", precision, 404000.0)
    found: Row = replaced(made, kind=kind, rate=fast, accuracy=accuracy, verdict=PASSED)
    return found


@st.composite
def fields(draw: st.DrawFn) -> list[Row]:
    kinds, precisions = st.sampled_from(["variant", "peer"]), st.sampled_from(["ieee", "tf32", "bf16x6"])
    count = draw(st.integers(1, 20))
    return [entrant(f"e{place}", draw(rates), draw(errors), draw(kinds), draw(precisions)) for place in range(count)]


def has_both(one: Row) -> bool:
    known = isinstance(one.rate, Rate) and isinstance(one.accuracy, Accuracy)
    return known and isinstance(one.accuracy.normwise, float) and one.accuracy.normwise > 0  # type: ignore[union-attr]


@given(fields())
def test_every_entrant_is_drawn_inside_the_chart_or_named_with_its_reason(rows: list[Row]) -> None:
    chart, both = scatter_chart(rows, [], 0.0), [one for one in rows if has_both(one)]
    if chart is None:
        assert both == []
        return
    assert len(chart.spots) == len(both)
    assert all(0 <= spot.at <= 100 and 0 <= spot.top <= chart.height for spot in chart.spots)
    assert all(0 <= tick.at <= 100 for tick in chart.ticks)
    missing = [one.entrant for one in rows if not has_both(one)]
    assert all(name in chart.left_out for name in missing) or chart.left_out == f"{len(missing)} entrants"


@given(fields())
def test_faster_is_further_right_and_more_accurate_further_down(rows: list[Row]) -> None:
    chart, both = scatter_chart(rows, [], 0.0), [one for one in rows if has_both(one)]
    if chart is not None:
        placed = list(zip(both, chart.spots, strict=True))
        by_rate = [spot.at for _, spot in sorted(placed, key=lambda pair: pair[0].rate.value)]  # type: ignore[union-attr]
        by_error = [spot.top for _, spot in sorted(placed, key=lambda pair: -pair[0].accuracy.normwise)]  # type: ignore[union-attr, operator]
        assert by_rate == sorted(by_rate)
        assert by_error == sorted(by_error)


@given(fields())
def test_libraries_and_the_best_are_named_where_no_name_touches_another(rows: list[Row]) -> None:
    chart = scatter_chart(rows, ["e0", "e1"], 0.0)
    if chart is not None:
        labels = [(spot.top + spot.label.shift, spot.label.text) for spot in chart.spots if spot.label]
        named = [one.entrant for one in rows if has_both(one) and (one.kind == "peer" or one.entrant in ("e0", "e1"))]
        assert sorted(text for _, text in labels) == sorted(named)
        heights = sorted(top for top, _ in labels)
        assert all(b - a >= LABEL_PIXELS - 0.2 for a, b in pairwise(heights))
        assert all(0 < top <= chart.height + 0.2 for top in heights)


@given(fields())
def test_series_differ_by_more_than_colour(rows: list[Row]) -> None:
    chart = scatter_chart(rows, [], 0.0)
    if chart is not None:
        assert len({(series.shape, series.filled) for series in chart.series}) == len(chart.series)
        assert len({series.tone for series in chart.series}) == len({series.shape for series in chart.series})


CUBLAS = entrant("cuBLAS fp32", 50000.0, 8.1e-7, "peer")
PLANES = entrant("planes/a", 105000.0, 1.6e-7, precision="planes")
TF32 = entrant("tf32/a", 335100.0, 2.9e-4, precision="tf32")


def test_the_sentence_names_what_none_beats_and_what_is_beaten_in_both() -> None:
    chart = scatter_chart([PLANES, TF32, CUBLAS], ["planes/a", "tf32/a"], 0.001)
    assert chart is not None
    assert chart.unit == "TFLOP/s"
    assert chart.said == (
        "Of those named, none is both faster and at least as accurate as tf32/a (335.1 TFLOP/s, error 2.90e-4), "
        "planes/a (105.0 TFLOP/s, error 1.60e-7); planes/a is 2.1 times as fast as cuBLAS fp32 with 0.198 of its error."
    )


@pytest.mark.parametrize(("speed", "error", "beaten"), [(50600.0, 8.1e-7, True), (50400.0, 8.1e-7, False)])
def test_within_the_noise_none_is_faster(speed: float, error: float, beaten: bool) -> None:
    chart = scatter_chart([entrant("ieee/a", speed, error), CUBLAS], ["ieee/a"], 0.01)
    assert chart is not None
    assert ("times as fast as cuBLAS fp32" in chart.said) == beaten


def test_faster_and_less_accurate_beats_nothing() -> None:
    chart = scatter_chart([TF32, CUBLAS], ["tf32/a"], 0.0)
    assert chart is not None
    assert "times as fast" not in chart.said
    assert "tf32/a (" in chart.said
    assert "cuBLAS fp32 (" in chart.said


@pytest.mark.parametrize(("outcome", "cause"), [("inapplicable", "pruned"), ("inapplicable", "does-not-fit")])
def test_what_a_search_left_out_is_not_missed(outcome: Outcome, cause: Cause) -> None:
    verdict = Verdict(outcome=outcome, cause=cause, reason="it was slow")
    chart = scatter_chart([CUBLAS, replaced(entrant("a", UNREAD, UNREAD), verdict=verdict)], [], 0.0)
    assert chart is not None
    assert chart.left_out == ""


def test_one_entrant_under_two_names_is_drawn_once() -> None:
    chart = scatter_chart([PLANES, entrant("planes/a (again)", 104000.0, 1.6e-7, "twin", "planes")], ["planes/a"], 0.0)
    assert chart is not None
    assert len(chart.spots) == 1


def test_many_that_are_missing_are_counted() -> None:
    chart = scatter_chart([CUBLAS, *(entrant(f"e{n}", 1.0, UNREAD) for n in range(5))], [], 0.0)
    assert chart is not None
    assert chart.left_out == "5 entrants"


def test_an_error_that_is_no_number_or_none_at_all_is_named_with_what_it_is() -> None:
    rows = [CUBLAS, entrant("a", 1.0, NonFinite(nonfinite="nan")), entrant("b", 1.0, 0.0), entrant("c", UNREAD, 1.0)]
    chart = scatter_chart([*rows, entrant("d", 1.0, UNREAD)], [], 0.0)
    assert chart is not None
    assert chart.left_out == f"a (error NaN), b (error 0), c (no rate), d (no error: {UNREAD.reason})"


@given(fields())
def test_in_text_every_line_is_as_wide_and_every_spot_has_its_letter(rows: list[Row]) -> None:
    chart = scatter_chart(rows, [], 0.0)
    if chart is not None:
        lines = spots_as_text(chart).split("\n")
        grid = [line.split("|", 1)[1] for line in lines[:TEXT_ROWS]]
        drawn = set("".join(grid)) - {" "}
        assert drawn <= {"*", *LETTERS[: len(chart.series)]}
        assert drawn
        assert len(lines) == TEXT_ROWS + 4 + len(chart.series)


def test_rates_below_a_thousand_keep_their_unit() -> None:
    chart = scatter_chart([replaced(CUBLAS, rate=Rate(value=900.0, unit="GB/s"))], [], 0.0)
    assert chart is not None
    assert (chart.unit, chart.ticks[-1].label) == ("GB/s", "1000")
    assert math.isclose(chart.spots[0].at, 90.0)

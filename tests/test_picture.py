"""Plain data of pictures: axes hold their values, tables come back from CSV, and no spreadsheet runs a cell."""

import csv
import io
import math
import struct
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.picture import (
    MOST_TICKS,
    SHAPES,
    WIDTH,
    Series,
    Table,
    Words,
    csv_link,
    csv_name,
    csv_text,
    decades,
    key,
    linear,
    log_span,
    named,
    series_of,
)

positive = st.floats(1e-30, 1e30)
cells = st.one_of(st.text(max_size=12), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), st.none())


@given(positive, positive)
def test_logarithmic_axes_hold_their_values_and_have_few_labels(one: float, other: float) -> None:
    low, high = sorted((one, other))
    for axis in (decades(low, high), log_span(low, high)):
        assert axis.low <= math.log10(low) + 1e-9
        assert math.log10(high) - 1e-9 <= axis.high
        assert axis.low < axis.high
        assert 2 <= len([tick for tick in axis.ticks if tick.label]) <= MOST_TICKS + 1
        assert all(axis.low - 1e-9 <= tick.at <= axis.high + 1e-9 for tick in axis.ticks)


@given(positive)
def test_a_linear_axis_begins_at_zero_and_ends_at_a_tick(largest: float) -> None:
    axis = linear(largest)
    assert axis.low == axis.ticks[0].at == 0
    assert axis.high == axis.ticks[-1].at >= largest * (1 - 1e-9)


def test_ticks_of_a_span_say_numbers_as_people_do() -> None:
    assert [tick.label for tick in log_span(0.5, 20000).ticks] == ["1", "10", "100", "1000", "10000"]
    assert [tick.label for tick in log_span(5e5, 5e7).ticks] == ["1e6", "1e7"]


# The figures as CSV


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@given(st.lists(st.lists(cells, min_size=2, max_size=2), max_size=6))
def test_a_table_comes_back_from_its_link(rows: list[list[str | int | float | None]]) -> None:
    table = Table("t", ("a", "b"), tuple(tuple(row) for row in rows))
    link = csv_link(table)
    assert link.isascii()
    assert not set(link) & set(" \"<>\n'#`")
    found = read(unquote(link.removeprefix("data:text/csv;charset=utf-8,")))
    assert found[0] == ["a", "b"]
    for row, written in zip(rows, found[1:], strict=True):
        for value, text in zip(row, written, strict=True):
            if isinstance(value, str):
                assert text.removeprefix("'") == named(value, 1000) or text == named(value, 1000)
            elif isinstance(value, float):
                assert float(text) == pytest.approx(value, rel=5.1e-9, abs=5e-324)
            else:
                assert (None if text == "" else int(text)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_two_numbers_of_32_bits_are_told_apart(value: float) -> None:
    ((text,),) = read(csv_text(Table("t", (), ((value,),))))[1:]
    assert struct.pack("f", float(text)) == struct.pack("f", value)


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\n-", " +", "\x1b[0m="])
def test_no_text_is_a_formula_and_every_number_stays_one(begin: str) -> None:
    text = f'{begin}HYPERLINK("http://example.org","x"),1'
    ((cell, number),) = read(csv_text(Table("t", (), ((text, -1.5e-7),))))[1:]
    assert cell[0] == "'"
    assert float(number) == -1.5e-7


def test_lines_and_quotes_in_a_name_stay_in_its_cell() -> None:
    assert read(csv_text(Table("t", ("a",), (('x"\n,y', 1),))))[1] == ['x" ,y', "1"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("softmax-errors-sm_90", "softmax-errors-sm_90.csv"),
        ("../../etc/passwd", "etc_passwd.csv"),
        ('x" onclick="y', "x_onclick_y.csv"),
        ("\u202e...", "figures.csv"),
        ("x" * 500, f"{'x' * 100}.csv"),
    ],
)
def test_a_file_name_is_one_everywhere(name: str, wanted: str) -> None:
    assert csv_name(Table(name, (), ())) == wanted


# Names and series


@given(st.text(max_size=300))
def test_a_name_takes_one_line_and_no_more_room_than_there_is(text: str) -> None:
    shown = named(text, 20)
    assert len(shown) <= 20
    assert "\n" not in shown
    assert named(shown, 20) == shown


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), min_size=1))
def test_series_differ_by_shape_or_filling(pairs: list[tuple[str, bool]]) -> None:
    found = series_of(pairs, "library")
    assert set(found) == set(pairs)
    assert len({(one.shape, one.filled) for one in found.values()}) == len(found)
    assert all(one.label == (name if filled else f"{name}, library") for (name, filled), one in found.items())


@given(st.lists(st.text(max_size=80), min_size=1, max_size=12))
def test_a_key_has_every_series_and_lies_within_the_picture(labels: list[str]) -> None:
    entries = [Series(label, SHAPES[place % 8], "s1") for place, label in enumerate(labels)]
    panel = key(entries)
    words = [one for one in panel.shown if isinstance(one, Words)]
    assert [one.text for one in words] == [named(label, 50) for label in labels]
    assert all(0 <= one.x < WIDTH and 0 < one.y < panel.height for one in words)

"""Numbers keep their value to the digits shown, and what is absent says so instead of showing 0."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.formats import (
    distinct,
    gibibytes,
    interval,
    listing,
    mebibytes,
    megahertz,
    milliseconds,
    numeral,
    percent,
    rate,
    ratio,
    runs,
    scientific,
    seconds,
    shown,
    spread,
    watts,
)
from assay.record import Estimate, NonFinite, Rate, Unavailable, number

ABSENT = Unavailable(reason="Not Supported")


@given(st.floats(1e-300, 1e300))
def test_three_digits_are_within_half_of_the_last(value: float) -> None:
    assert float(scientific(value)) == pytest.approx(value, rel=5.01e-3)
    assert float(numeral(value)) == pytest.approx(value, rel=5.01e-3)


@pytest.mark.parametrize(
    ("value", "text"), [(1.24e-6, "1.24e-6"), (7.36e-4, "7.36e-4"), (594.0, "5.94e2"), (0.0, "0"), (1e-10, "1.00e-10")]
)
def test_errors_always_show_their_exponent(value: float, text: str) -> None:
    assert scientific(value) == text


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "-infinite")])
def test_numbers_that_are_not_finite_have_names(value: float, text: str) -> None:
    found = number(value)
    assert isinstance(found, NonFinite)
    assert numeral(found) == scientific(found) == text


def test_amounts_have_their_units() -> None:
    assert milliseconds(404000.0) == "0.4040"
    assert gibibytes(150754820096) == "140.4 GiB"
    assert watts(700000) == "700 W"
    assert megahertz(1980) == "1980 MHz"
    assert mebibytes(50331648) == "48 MiB"
    assert mebibytes(268435456) == "256 MiB"
    assert seconds(14_249_000_000) == "14.2 s"
    assert percent(0.98123) == "98.1 %"
    assert percent(0.00093, 2) == "0.093 %"
    assert (shown(True), shown(False)) == ("yes", "no")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.8, "GB/s", "1.800 GB/s"),
        (999.94, "GFLOP/s", "999.9 GFLOP/s"),
        (42523.4, "GFLOP/s", "42.52 TFLOP/s"),
        (4260.0, "GB/s", "4.260 TB/s"),
        (2.5e7, "GFLOP/s", "25000 TFLOP/s"),
    ],
)
def test_rates_are_given_in_the_unit_that_makes_them_short(value: float, unit: Any, text: str) -> None:
    assert rate(Rate(value=value, unit=unit)) == text


def test_an_interval_stands_behind_its_median() -> None:
    assert interval(Estimate(low=0.99955, median=1.0, high=1.00041), ratio) == "1.0000 (0.9996 to 1.0004)"
    assert interval(Estimate(low=8e3, median=8.1e3, high=8.2e3), milliseconds) == "0.008100 (0.008000 to 0.008200)"
    assert ratio(594.26) == "594.3"


@given(st.lists(st.integers(0, 60)))
def test_runs_name_every_number_once(numbers: list[int]) -> None:
    found: list[int] = []
    for run in runs(numbers).split(", ") if numbers else []:
        first, _, last = run.partition(" to ")
        found += range(int(first), int(last or first) + 1)
    assert found == sorted(set(numbers))


def test_neighbours_are_joined() -> None:
    assert runs([7, 3, 8, 9]) == "3, 7 to 9"


@pytest.mark.parametrize("show", [milliseconds, gibibytes, mebibytes, watts, megahertz, shown])
def test_an_absent_value_gives_its_reason(show: Callable[[Unavailable], str]) -> None:
    assert show(ABSENT) == "unavailable (Not Supported)"


def test_a_spread_says_how_many_readings_it_lacks() -> None:
    assert spread([1980, 1830, 1950], "MHz") == "1950 MHz, from 1830 to 1980"
    assert spread([700000, ABSENT], "W", 1000) == "700 W, from 700 to 700; 1 of 2 readings unavailable"
    assert spread([ABSENT, ABSENT], "W") == "unavailable (Not Supported)"
    assert spread([], "W") == "unavailable (nothing was read)"


@given(st.lists(st.text(max_size=3)))
def test_a_listing_names_all_or_counts_them(names: list[str]) -> None:
    different = distinct(names)
    assert set(different) == set(names)
    assert listing(names, 3, "names") == (", ".join(different) if len(different) <= 3 else f"{len(different)} names")

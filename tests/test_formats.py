"""Numbers keep their value to the digits shown, and what is absent says so instead of showing 0."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.formats import (
    distinct,
    gibibytes,
    listing,
    megahertz,
    milliseconds,
    numeral,
    rate,
    scientific,
    shown,
    spread,
    watts,
)
from assay.record import NonFinite, Rate, Unavailable, number

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
    assert rate(Rate(value=42523.4, unit="GFLOP/s")) == "42523 GFLOP/s"
    assert rate(Rate(value=1.8, unit="GB/s")) == "1.800 GB/s"
    assert (shown(True), shown(False)) == ("yes", "no")


@pytest.mark.parametrize("show", [milliseconds, gibibytes, watts, megahertz, shown])
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

"""The rounding canary: what comes out of a product with the identity says how the multiplier treats its operands."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay.record import Number, RoundingMode, number
from assay.rounding import FRACTION_BITS, MODES, PROBES, canary, classify, describe, round_to

modes = st.sampled_from(MODES)
widths = st.integers(1, FRACTION_BITS - 1)
values = st.integers(0, 2**FRACTION_BITS - 1).map(lambda bits: 1 + bits * 2.0**-FRACTION_BITS)


def readings(bits: int, mode: RoundingMode) -> list[float]:
    return [round_to(probe, bits, mode) for probe in PROBES]


@given(widths, modes)
def test_a_rounding_is_told_by_its_readings(bits: int, mode: RoundingMode) -> None:
    found = classify(readings(bits, mode))
    assert (found.fraction_bits, found.mode) == (bits, mode)
    assert 0 < found.largest_error <= 2.0**-bits


def test_no_two_roundings_give_the_same_readings() -> None:
    every = {tuple(readings(bits, mode)) for bits in range(1, FRACTION_BITS) for mode in MODES}
    assert len(every) == (FRACTION_BITS - 1) * len(MODES)
    assert tuple(PROBES) not in every


def test_what_comes_out_as_it_went_in_is_exact() -> None:
    found = classify(PROBES)
    assert (found.mode, found.fraction_bits, found.largest_error) == ("exact", FRACTION_BITS, 0.0)


@given(st.integers(0, len(PROBES) - 1), st.sampled_from([math.nan, math.inf, 0.0, 1.5e300]))
def test_one_reading_that_fits_nowhere_leaves_it_unexplained(spot: int, bad: float) -> None:
    read = readings(10, "truncated")
    read[spot] = bad
    found = classify(read)
    assert (found.mode, found.fraction_bits) == ("unexplained", None)
    assert not found.largest_error <= 0.5


@given(values, widths, modes)
def test_rounding_moves_by_less_than_one_place_and_is_final(value: float, bits: int, mode: RoundingMode) -> None:
    rounded = round_to(value, bits, mode)
    assert abs(rounded - value) < 2.0**-bits
    assert mode == "truncated" or abs(rounded - value) <= 2.0 ** -(bits + 1)
    assert rounded == 2.0 or round_to(rounded, bits, mode) == rounded


def test_the_classic_probes_read_as_the_literature_says() -> None:
    def read(mode: RoundingMode) -> list[float]:
        return [(round_to(probe, 10, mode) - 1) * 2**11 for probe in PROBES[:3]]

    assert [(probe - 1) * 2**11 for probe in PROBES[:3]] == [1, 1.5, 3]
    assert read("truncated") == [0, 0, 2]
    assert read("nearest-away") == [2, 2, 4]
    assert read("nearest-even") == [0, 2, 4]


def lost(error: float) -> list[Number]:
    """Return readings off by a relative error that no rounding explains."""
    return [number(probe * (1 - error)) for probe in PROBES]


def exact() -> list[Number]:
    return list(PROBES)


def two_of_float16() -> list[Number]:
    """Return readings of a multiplier that takes each probe, times 2^14, as the sum of two float16."""
    probes = torch.tensor(PROBES, dtype=torch.float64) * 2.0**14
    first = probes.to(torch.float16)
    second = (probes - first.double()).to(torch.float16)
    return [number(each * 2.0**-14) for each in (first.double() + second.double()).tolist()]


SWAPS = [
    ("ieee", exact(), "passed"),
    ("ieee", list(readings(10, "truncated")), "failed"),
    ("ieee", lost(2.0**-23), "failed"),
    ("tf32", list(readings(10, "truncated")), "passed"),
    ("tf32", list(readings(10, "nearest-away")), "passed"),
    ("tf32", list(readings(10, "nearest-even")), "passed"),
    ("tf32", exact(), "failed"),
    ("tf32", list(readings(7, "truncated")), "failed"),
    ("tf32", lost(2.0**-17), "failed"),
    ("tf32x3", exact(), "passed"),
    ("tf32x3", lost(2.0**-23), "passed"),
    ("tf32x3", list(readings(10, "truncated")), "failed"),
    ("tf32x3", lost(2.0**-17.5), "failed"),
    ("bf16x3", lost(2.0**-17.5), "passed"),
    ("bf16x3", exact(), "failed"),
    ("bf16x3", list(readings(7, "nearest-even")), "failed"),
    ("bf16x6", exact(), "passed"),
    ("bf16x6", lost(2.0**-17.5), "failed"),
    ("bf16x6", [*exact()[:-1], number(math.nan)], "failed"),
    ("fp16x3", two_of_float16(), "passed"),
    ("fp16x3", exact(), "failed"),
    ("fp16x3", list(readings(10, "nearest-even")), "failed"),
    ("fp16x3", list(readings(21, "truncated")), "failed"),
    ("fp16x3", lost(2.0**-17.5), "failed"),
]


@pytest.mark.parametrize(("precision", "read", "outcome"), SWAPS)
def test_each_precision_is_held_to_its_promise(precision: str, read: list[Number], outcome: str) -> None:
    found = canary(f"{precision}/any", "left", read, gated=True)
    assert found.verdict.outcome == outcome
    assert found.verdict.cause == (None if outcome == "passed" else "rounding")
    assert found.readings == read


def test_under_the_interpreter_a_rounding_is_reported_and_not_gated() -> None:
    found = canary("tf32/any", "right", exact(), gated=False)
    assert (found.verdict.outcome, found.verdict.cause) == ("inapplicable", "policy")
    assert found.verdict.reason == "operands are kept exactly; reported here and not gated"


def test_a_mode_of_an_authors_own_promises_nothing_here() -> None:
    assert canary("f32/any", "left", exact(), gated=True).verdict.outcome == "inapplicable"


def test_a_rounding_is_said_in_words() -> None:
    assert describe(classify(readings(10, "truncated"))) == "truncated to 10 fraction bits"
    assert describe(classify(readings(7, "nearest-even"))) == "rounded to nearest, ties to even to 7 fraction bits"
    assert describe(classify(PROBES)) == "kept exactly"

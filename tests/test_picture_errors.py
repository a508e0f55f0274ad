"""The picture of errors: of each case and precision the worst margin, past bounds said first, nothing left unsaid."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, comparison, evidence, interpreter, replaced

from assay.outputs import Found, all_found, share_of_bound
from assay.picture import Line, Marks, Picture
from assay.picture_errors import MOST_TRACKS, errors_picture, margins, said_of
from assay.record import Comparison, NonFinite, Number, Unavailable, as_float

NAN = NonFinite(nonfinite="nan")
numbers = st.one_of(st.floats(0, 1e30), st.sampled_from([0.0, NAN, NonFinite(nonfinite="inf")]))


def made(error: Number, bound: Number = 0.01, reference: Number = 120.5) -> Comparison:
    worst = replaced(comparison().worst, error=error, bound=bound)
    past = 0 if as_float(error) <= as_float(bound) else 1
    found: Comparison = replaced(comparison(), worst=worst, largest_reference=reference, past_bound=past)
    return found


def found_of(*pairs: tuple[str, str, Comparison]) -> list[Found]:
    """Return outputs by case and variant."""
    base = interpreter(MATMUL)
    checks = [replaced(base.checks[0], case=case, variant=variant, comparisons=[c]) for case, variant, c in pairs]
    return all_found(evidence("interpreter", replaced(base, checks=checks), "matmul"))


def picture_of(found: list[Found]) -> Picture:
    picture = errors_picture("errors-1", "matmul", "interpreter", found)
    assert isinstance(picture, Picture)
    return picture


def test_of_each_case_and_precision_the_worst_over_variants_stands_there() -> None:
    found = found_of(
        ("a", "ieee/64x64x32", made(1e-5)),
        ("a", "ieee/128x64x64", made(4e-3)),
        ("a", "tf32/64x64x32", made(2e-3)),
        ("b", "ieee/64x64x32", made(1e-4)),
    )
    picture = picture_of(found)
    assert [(m.case, m.precision, m.variant) for m in margins(found)] == [
        ("a", "ieee", "ieee/128x64x64"),
        ("a", "tf32", "tf32/64x64x32"),
        ("b", "ieee", "ieee/64x64x32"),
    ]
    assert picture.said == (
        "All 2 cases stay within their bounds; nearest to one comes a with ieee/128x64x64, 40 % of its reduction bound."
    )
    assert len(picture.table.rows) == 3
    assert picture.notes == ()


def test_a_bound_that_is_passed_comes_first_and_is_drawn_in_its_colour() -> None:
    found = found_of(("a", "ieee/64x64x32", made(1e-5)), ("ragged", "tf32/64x64x32", made(0.031)))
    picture = picture_of(found)
    assert picture.said == (
        "Past its bound in 1 of 2 cases; furthest is ragged with tf32/64x64x32, 3.1 times its reduction bound."
    )
    assert "bad" in {one.tone for panel in picture.panels for one in panel.shown if isinstance(one, Line)}


@pytest.mark.parametrize(
    ("wrong", "told"), [(made(NAN), "NaN of its reduction bound"), (made(1.0, 0.0), "infinite of its reduction bound")]
)
def test_what_has_no_place_on_the_axis_is_named_and_past_its_bound(wrong: Comparison, told: str) -> None:
    picture = picture_of(found_of(("a", "ieee/64x64x32", made(1e-5)), ("b", "ieee/64x64x32", wrong)))
    assert picture.said.startswith("Past its bound in 1 of 2 cases; furthest is b with ieee/64x64x32, ")
    assert told in picture.said
    assert picture.notes[0].startswith("Without a place on a logarithmic axis: b, ieee (error ")


def test_where_all_is_exact_there_is_no_picture_and_it_says_so() -> None:
    absent = errors_picture("errors-1", "matmul", "sm_90", found_of(("a", "ieee/64x64x32", made(0.0))))
    assert absent == Unavailable(
        reason="no error of matmul on sm_90 has a place on a logarithmic axis: All 1 cases are exact"
    )


def test_without_comparisons_there_is_no_picture() -> None:
    assert errors_picture("errors-1", "matmul", "sm_90", []) == Unavailable(
        reason="nothing of matmul was compared on sm_90"
    )


def test_of_very_many_cases_those_nearest_to_their_bounds_have_a_line() -> None:
    count = MOST_TRACKS + 30
    found = found_of(*((f"case{n}", "ieee/64x64x32", made(1e-5 * (n + 1))) for n in range(count)))
    picture = picture_of(found)
    told = [spot.told for one in picture.panels[1].shown if isinstance(one, Marks) for spot in one.spots]
    assert len(told) == MOST_TRACKS
    assert picture.notes[0] == f"Of {count} cases those {MOST_TRACKS} that come nearest to their bounds have a line"
    assert len(picture.table.rows) == count


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["ieee/x", "tf32/y"]), numbers, numbers), min_size=1))
def test_the_share_that_is_told_is_the_largest_and_nan_is_never_within(given_pairs: list[Any]) -> None:
    found = found_of(*((case, variant, made(error, bound)) for case, variant, error, bound in given_pairs))
    compared = [one for f in found for one in f.comparisons]
    shares = [as_float(share_of_bound(one)) for one in compared]
    said = said_of(margins(found))
    within = all(as_float(one.worst.error) <= as_float(one.worst.bound) for one in compared)
    assert said.startswith("All ") == (within and all(share <= 1 for share in shares))
    if any(math.isnan(share) for share in shares):
        assert "NaN of its" in said

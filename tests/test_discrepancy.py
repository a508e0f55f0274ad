"""Two values that differ are told apart at the innermost place that does, in one line that shows both."""

import pytest
from forge import H200
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from records import MATMUL, interpreter

from assay.discrepancy import LONGEST_VALUE, Spot, shown
from assay.privacy import printable
from assay.record import Unavailable

SPOT = Spot("results/x.json")
trees = st.recursive(
    st.one_of(st.integers(-3, 3), st.text(max_size=3), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=8,
)


@given(trees)
def test_equal_values_do_not_differ(tree: object) -> None:
    assert list(SPOT.differ(tree, tree)) == []


@given(trees, trees)
def test_other_values_differ_once_in_one_line(one: object, other: object) -> None:
    found = list(SPOT.differ(one, other))
    assert len(found) == (one != other)
    assert all(fault.startswith("results/x.json: /result") and printable(fault) == fault for fault in found)


def test_the_innermost_place_is_named() -> None:
    found = interpreter(MATMUL)
    check = replace(found.checks[1], seeds=[20260901, 8])
    other = replace(found, checks=[found.checks[0], check, *found.checks[2:]])
    assert list(SPOT.differ(found, other)) == ["results/x.json: /result/checks/1/seeds/1: expected 7, found 8"]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ([1, 2], [1], "/result: expected 2 items, found 1"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 3}, "/result/a: expected 1, found 3"),
        ({"a": 1}, {"b": 1}, '/result: expected {"a":1}, found {"b":1}'),
        ("9.0", Unavailable(reason="no"), '/result: expected "9.0", found {"kind":"unavailable","reason":"no"}'),
        (None, 0, "/result: expected null, found 0"),
        (1.5, "1.5", '/result: expected 1.5, found "1.5"'),
    ],
)
def test_what_has_no_common_parts_is_shown_whole(one: object, other: object, told: str) -> None:
    assert list(SPOT.differ(one, other)) == [f"results/x.json: {told}"]


@given(st.text(max_size=2000))
def test_what_is_shown_is_printable_and_short(text: str) -> None:
    found = shown([text])
    assert printable(found) == found
    assert len(found) <= LONGEST_VALUE


def test_a_record_is_shown_as_json() -> None:
    assert shown(H200).startswith('{"name":"NVIDIA H200","target":"sm_90"')


def test_places_beneath_are_named_by_pointer() -> None:
    assert SPOT.at("checks", 3, "verdict") == Spot("results/x.json", "/result/checks/3/verdict")
    assert SPOT.at("checks").fault("this", "that") == "results/x.json: /result/checks: expected this, found that"

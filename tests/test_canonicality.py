"""The fast way to tell canonical JSON never says yes where the slow way says no, and says yes to what records hold."""

import json
from typing import Any

import pytest
import rfc8785
import strategies
from hypothesis import given
from hypothesis import strategies as st

from assay.artifact import canonical, parse
from assay.canonicality import canonical_tree, holds_all
from assay.errors import RecordError
from assay.record import ARTIFACTS, Run, StageName, Verdict

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70),
    st.floats(-1e-5, 1e-5),
    st.sampled_from([1e21, 1e22, 1e16, 2.0**60, 123456789012345680.0, 5e-324, 1e-6, 1e-7, -0.0]),
)
strings = st.text(strategies.characters, max_size=8)
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, strings),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(strings, inner, max_size=4)),
    max_leaves=12,
)


def encodings(tree: Any, spaced: bool, escaped: bool) -> list[bytes]:
    """Return a tree in canonical form, if it has one, and as a common library writes it."""
    text = json.dumps(tree, ensure_ascii=escaped, sort_keys=True, separators=None if spaced else (",", ":"))
    try:
        return [text.encode(), rfc8785.dumps(tree)]
    except rfc8785.CanonicalizationError:
        return [text.encode()]


def slow(data: bytes) -> Any | None:
    """Return what is in the bytes if they are canonical, found by parsing and encoding them in Python."""
    try:
        tree = parse(data, "bytes")
    except RecordError:
        return None
    return tree if rfc8785.dumps(tree) == data else None


@given(trees, st.booleans(), st.booleans())
def test_what_it_accepts_is_canonical(tree: Any, spaced: bool, escaped: bool) -> None:
    for data in encodings(tree, spaced, escaped):
        if (found := canonical_tree(data)) is not None:
            assert slow(data) == found


@given(st.data(), st.sampled_from(list(ARTIFACTS)))
def test_changed_bytes_of_a_record_are_never_taken_for_canonical(data: st.DataObject, stage: StageName) -> None:
    written = canonical(data.draw(strategies.sealed(stage)))
    at = data.draw(st.integers(0, len(written) - 1))
    changed = written[:at] + data.draw(st.binary(max_size=2)) + written[at + 1 :]
    if canonical_tree(changed) is not None:
        assert slow(changed) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"[1.0]",
        b"[-0]",
        b"[-0.0]",
        b"[1e5]",
        b"[1e22]",
        b"[9007199254740993]",
        b"[1152921504606846976]",
        b'{"a":1,"a":1}',
        b'{"b":1,"a":1}',
        b"[1 ]",
        b"\xef\xbb\xbf[1]",
        b'["\\u0041"]',
        b'["\\/"]',
        b"[NaN]",
        b"[1e400]",
        b'["\\ud800"]',
        b'["\xff"]',
        '{"\U00010000":1,"\ue000":1}'.encode(),
        b"[" * 100_000,
        b"",
    ],
)
def test_what_is_not_canonical_is_left_to_the_slow_way(data: bytes) -> None:
    assert canonical_tree(data) is None


@pytest.mark.parametrize("value", [404480.01027107239, 404000, 1.24e-6, 5e-8, 0.1, 0.00001, -2.5e-9, 999999999999999])
def test_ordinary_figures_take_the_fast_way(value: float) -> None:
    assert canonical_tree(rfc8785.dumps({"é": [value, "text, 3e5"]})) == {"é": [value, "text, 3e5"]}


def test_a_filled_in_default_is_noticed() -> None:
    verdict = Verdict(outcome="passed", reason="it is")
    assert holds_all(verdict, {"outcome": "passed", "reason": "it is", "cause": None})
    assert not holds_all(verdict, {"outcome": "passed", "reason": "it is"})


def test_a_whole_number_in_a_field_of_floats_is_the_same_number() -> None:
    run = Run(started="2026-11-29T10:00:00Z", duration_ns=1, exit_code=0)
    assert holds_all(run, {"started": "2026-11-29T10:00:00Z", "duration_ns": 1.0, "exit_code": 0})

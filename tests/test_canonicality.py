"""The fast way to decode canonical JSON never says yes where the slow way says no, and takes what records hold."""

import json
from typing import Any

import msgspec
import pytest
import rfc8785
import strategies
from hypothesis import given
from hypothesis import strategies as st

from assay.artifact import canonical, parse
from assay.canonicality import canonical_record
from assay.errors import RecordError
from assay.record import ARTIFACTS, Artifact, Count, NonFinite, Record, StageName


class Holder(Record, frozen=True, kw_only=True):
    """Holds a value of every kind that a record is made of."""

    number: float | NonFinite
    count: Count
    whole: int
    text: str
    texts: dict[str, str]
    numbers: list[float]
    figures: dict[str, float | str]
    absent: str | None = None


strings = st.text(strategies.characters, max_size=8)
floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e-5, 1e-5),
    st.integers(-(2**53), 2**53).map(float),
    st.sampled_from([1e21, 1e22, 1e16, 2.0**60, 123456789012345680.0, 5e-324, 1e-6, 1e-7, -0.0]),
)
tricky = st.sampled_from(["13.0,", ":1.0,", ",2e5,", "[3.0]", "\u007f\u001f", "\u2028/", "\U00010000", "\ue000", "-0,"])
holders = st.builds(
    Holder,
    number=floats,
    count=st.integers(0, 2**53 - 1),
    whole=st.integers(-(2**64), 2**64),
    text=st.one_of(strings, tricky),
    texts=st.dictionaries(st.one_of(strings, tricky), strings, max_size=4),
    numbers=st.lists(floats, max_size=4),
    figures=st.dictionaries(strings, st.one_of(floats, tricky), max_size=3),
    absent=st.none() | strings,
)


def slow(data: bytes, kind: type[Any]) -> Any | None:
    """Return what is in the bytes if they are canonical, found by parsing and encoding them in Python."""
    try:
        tree = parse(data, "bytes")
    except RecordError:
        return None
    if rfc8785.dumps(tree) != data:
        return None
    try:
        found = msgspec.convert(tree, kind, strict=True)
    except msgspec.ValidationError:
        return None
    return found if canonical(found) == data else None


def encodings(tree: Any, spaced: bool, escaped: bool) -> list[bytes]:
    """Return a tree in canonical form, if it has one, and as common libraries write it."""
    text = json.dumps(tree, ensure_ascii=escaped, sort_keys=True, separators=None if spaced else (",", ":"))
    try:
        return [text.encode(), rfc8785.dumps(tree)]
    except rfc8785.CanonicalizationError:
        return [text.encode()]


@given(holders, st.booleans(), st.booleans())
def test_what_it_takes_is_canonical(holder: Holder, spaced: bool, escaped: bool) -> None:
    for data in encodings(msgspec.to_builtins(holder), spaced, escaped):
        if (found := canonical_record(data, Holder)) is not None:
            assert slow(data, Holder) == found


@given(st.data(), st.sampled_from(list(ARTIFACTS)))
def test_changed_bytes_of_a_record_are_never_taken_for_canonical(data: st.DataObject, stage: StageName) -> None:
    kind: type[Artifact[Any]] = ARTIFACTS[stage]
    written = canonical(data.draw(strategies.sealed(stage)))
    at = data.draw(st.integers(0, len(written) - 1))
    changed = written[:at] + data.draw(st.binary(max_size=2)) + written[at + 1 :]
    if (found := canonical_record(changed, kind)) is not None:
        assert slow(changed, kind) == found


class Numbers(Record, frozen=True, kw_only=True):
    """Numbers by name."""

    n: dict[str, float]


def numbers(text: bytes) -> bytes:
    return b'{"n":{"a":' + text + b"}}"


@pytest.mark.parametrize(
    "token", [b"1.5", b"404000", b"0.00000124", b"5e-8", b"1e-7", b"404480.0102710724", b"-2.5e-9"]
)
def test_ordinary_figures_take_the_fast_way(token: bytes) -> None:
    assert canonical_record(numbers(token), Numbers) == Numbers(n={"a": float(token)})


@pytest.mark.parametrize(
    "data",
    [
        *map(
            numbers, (b"1.0", b"-0", b"-0.0", b"1e5", b"1e22", b"1.24e-6", b"9007199254740993", b"NaN", b"1e400", b"01")
        ),
        numbers(b"1152921504606846976"),
        numbers(b'1,"a":1'),
        b'{"n":{"b":1,"a":1}}',
        b'{"n":{"a":1 }}',
        b'\xef\xbb\xbf{"n":{"a":1}}',
        b'{"n":{"\\u0041":1}}',
        b'{"n":{"\\ud800":1}}',
        b'{"n":{"\xff":1}}',
        '{"n":{"\U00010000":1,"\ue000":1}}'.encode(),
        b'{"n":' + b"[" * 100_000,
        b'{"n":{}}x',
        b'{"n":{}',
        b"",
    ],
)
def test_what_is_not_canonical_is_left_to_the_slow_way(data: bytes) -> None:
    assert canonical_record(data, Numbers) is None


def test_a_default_that_is_left_out_is_noticed() -> None:
    holder = Holder(number=1.5, count=1, whole=1, text="", texts={}, numbers=[], figures={})
    data = canonical(holder)
    assert data.startswith(b'{"absent":null,')
    assert canonical_record(data, Holder) == holder
    assert canonical_record(data.replace(b'"absent":null,', b""), Holder) is None

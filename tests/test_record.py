"""What every record type promises: it is immutable, strict, and absence has a reason."""

import inspect
import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from strategies import of

from assay import record
from assay.artifact import canonical, convert, decode
from assay.errors import RecordError
from assay.record import ARTIFACTS, Count, Instant, NonFinite, Record, StageName, Verdict, as_float, number

KINDS = [
    kind
    for _, kind in inspect.getmembers(record, inspect.isclass)
    if issubclass(kind, Record) and kind not in (Record, record.Artifact)
]


class Timestamped(Record, frozen=True, kw_only=True):
    """Carries the types with a pattern or a range."""

    at: Instant = "2026-11-29T10:00:00Z"
    many: Count = 0
    digest: record.Digest = "0" * 64
    pointer: record.Pointer = ""
    capability: record.Capability = "9.0"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=10)
@given(data=st.data())
def test_decoding_what_was_encoded_gives_the_record_back(kind: type[Record], data: st.DataObject) -> None:
    made = data.draw(of(kind))
    written = canonical(made)
    back = decode(written, kind, "x.json")
    assert back == made
    assert canonical(back) == written


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=1, phases=[Phase.generate])
@given(data=st.data())
def test_an_unknown_field_is_refused_by_every_type(kind: type[Record], data: st.DataObject) -> None:
    tree = msgspec.to_builtins(data.draw(of(kind)), str_keys=True)
    with pytest.raises(RecordError, match=r"^x\.json: \$: Object contains unknown field `surplus`$"):
        convert({**tree, "surplus": 1}, kind, "x.json")


@given(of(Verdict))
def test_a_record_cannot_be_changed(verdict: Verdict) -> None:
    with pytest.raises(AttributeError):
        verdict.reason = "another"  # type: ignore[misc]


@given(st.floats())
def test_any_float_survives_json(value: float) -> None:
    back = as_float(convert({"value": msgspec.to_builtins(number(value))}, _Holder, "x").value)
    assert back == value or (math.isnan(back) and math.isnan(value))


class _Holder(Record, frozen=True, kw_only=True):
    value: record.Number


@given(st.floats())
def test_only_floats_that_json_cannot_carry_are_named(value: float) -> None:
    assert isinstance(number(value), NonFinite) == (not math.isfinite(value))


def test_every_stage_has_an_envelope_and_a_result_of_its_own() -> None:
    assert set(ARTIFACTS) == set(get_args(StageName))
    results = [get_args(kind)[0] for kind in ARTIFACTS.values()]
    assert [kind.__name__.lower() for kind in results] == list(ARTIFACTS)


REFUSED: list[tuple[str, Any]] = [
    ("at", "2026-11-29T10:00:00"),
    ("at", "2026-11-29T10:00:00Z\n"),
    ("at", "٢026-11-29T10:00:00Z"),
    ("many", -1),
    ("many", 2**53),
    ("many", 1.5),
    ("many", True),
    ("many", "1"),
    ("digest", "0" * 63),
    ("digest", "A" * 64),
    ("digest", "0" * 64 + "\n"),
    ("pointer", "result"),
    ("pointer", "\n"),
    ("capability", "9"),
    ("capability", "9.0\n"),
    ("capability", "٩.٠"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=[f"{name}-{value!r:.20}" for name, value in REFUSED])
def test_a_value_outside_its_pattern_or_range_is_refused_with_its_path(name: str, value: Any) -> None:
    with pytest.raises(RecordError, match=rf"^x\.json: \$\.{name}: Expected "):
        convert({name: value}, Timestamped, "x.json")

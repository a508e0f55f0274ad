"""Excerpts say what stands at a place, in a few lines, whatever stands there."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, SAME_BITS, device, environment, evidence, evidence_of, gate, replaced

from assay.excerpts import FEWEST_LINES, LONGEST, MANY_CLAIMS, MOST_LINES, excerpt, find, lines_each
from assay.record import Unavailable

trees = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@given(trees)
def test_an_excerpt_of_anything_is_a_few_short_lines(tree: Any) -> None:
    lines = excerpt(tree).split("\n")
    assert len(lines) <= MOST_LINES + 1


@given(st.text(), trees)
def test_a_pointer_finds_what_it_names(key: str, tree: Any) -> None:
    escaped = key.replace("~", "~0").replace("/", "~1")
    assert find({key: [0, tree]}, f"/{escaped}/1") is tree


@given(trees, st.text(max_size=8))
def test_a_pointer_that_leads_nowhere_is_said(tree: Any, name: str) -> None:
    found = find({"a": tree}, f"/b/{name}")
    assert isinstance(found, Unavailable)
    assert excerpt(found) == "unavailable (no such place)"


def test_a_place_outside_a_list_or_a_record_is_no_place() -> None:
    record = environment(device())
    for pointer in ("/devices/1", "/devices/-1", "/devices/x", "/nothing", "/driver/version/0", "/__class__"):
        assert isinstance(find(record, pointer), Unavailable), pointer


def test_every_pointer_into_a_record_leads_to_what_its_json_holds() -> None:
    for one in evidence_of(MATMUL, device()):
        tree = msgspec.to_builtins(one.artifact)

        def walk(value: Any, pointer: str, artifact: Any = one.artifact) -> None:
            assert msgspec.to_builtins(find(artifact, pointer)) == value
            for name, part in value.items() if isinstance(value, dict) else enumerate(value[:2]):
                if isinstance(part, dict | list) and name != "kind":
                    walk(part, f"{pointer}/{name}", artifact)

        walk(tree["result"], "/result")


def test_a_record_is_outlined_by_names_and_values() -> None:
    check = evidence_of(MATMUL, device())[2].artifact.result.checks[0]
    said = excerpt(replaced(check, comparisons=[], repeat=SAME_BITS))
    assert said.split("\n") == [
        "variant: ieee/64x64x32",
        "case: aligned-256x256x1024",
        "seeds: [20260901, 7]",
        "verdict: {outcome: passed, reason: within the bound}",
        "comparisons: []",
        "repeat: {differing: 0, elements: 65536, settled: true, atomics: 0}",
    ]


def test_what_is_left_out_is_said() -> None:
    assert excerpt([1, 2, 3]) == "a list of 3"
    assert "and 6 more" in excerpt({"samples": [{"reason": "x" * 110}] * 10})
    assert excerpt("x" * 200) == "x" * LONGEST + " ..."
    assert excerpt({str(n): "y" * 120 for n in range(40)}).endswith(f"\nand {40 - MOST_LINES} more lines")


def test_an_absent_value_is_shown_with_its_reason() -> None:
    assert "persistence: unavailable (Not Supported)" in excerpt(device())
    assert "driver: unavailable (no NVIDIA driver" in excerpt(environment(None))
    assert "exit_code: 1" in excerpt(evidence("gate", gate(None)).artifact.result)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_more_claims_a_page_has_the_shorter_its_excerpts_are(one: int, other: int) -> None:
    fewer, more = sorted([one, other])
    assert MOST_LINES >= lines_each(fewer) >= lines_each(more) >= FEWEST_LINES
    assert lines_each(MANY_CLAIMS) == MOST_LINES
    # In all they take no more lines than those of a few claims may, until they are as short as they get.
    assert lines_each(more) == FEWEST_LINES or lines_each(more) * more <= MOST_LINES * MANY_CLAIMS


@given(st.integers(FEWEST_LINES, MOST_LINES))
def test_a_long_outline_is_cut_to_as_many_lines_as_asked(most: int) -> None:
    lines = excerpt({str(n): "y" * 120 for n in range(40)}, most).split("\n")
    assert len(lines) == most + 1
    assert lines[-1] == f"and {40 - most} more lines"

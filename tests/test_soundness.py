"""Claims, report and labels say what the records show and nothing else, and a bundle that is sound is passed.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest
from forge import H200, T4, Forge, forge
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from records import MATMUL, SOFTMAX, Subject

from assay import soundness
from assay.artifact import convert, sha256_bytes
from assay.errors import RecordError
from assay.opening import Opened, UnsoundError
from assay.privacy import printable
from assay.record import Claim, Device
from assay.soundness import _claims, _labels, _records, _report, faults, guarded, open_sound

CLAIMS, REPORT, GATE, GPU = "results/claims.json", "results/report.json", "results/gate.json", "results/matmul/gpu.json"
HTML, MARKDOWN = "results/report.html", "results/report.md"
HIDDEN = replace(H200, visible=False)

Spoil = Callable[[Forge], object]


def found_in(spoil: Spoil, device: Device | None = H200) -> list[str]:
    forged = forge(device, [MATMUL])
    spoil(forged)
    return faults(forged.opened())


@pytest.mark.parametrize("device", [None, T4, H200, HIDDEN], ids=["none", "too old", "usable", "hidden"])
@pytest.mark.parametrize("subjects", [[MATMUL], [SOFTMAX, MATMUL]], ids=["one", "two"])
def test_a_sound_bundle_is_passed(device: Device | None, subjects: list[Subject]) -> None:
    assert faults(forge(device, subjects).opened()) == []


def test_claims_and_gate_have_the_same_minimum() -> None:
    forged = forge(H200, [MATMUL])
    forged.put(f"{CLAIMS}/command", lambda words: [w.replace('"8.0"', '"7.5"') for w in words])
    assert f"{CLAIMS}: /command: expected the minimum capability of the gate, 8.0, found 7.5" in faults(forged.opened())


# Claims


def claim(change: Callable[[list[Claim]], list[Claim]]) -> Spoil:
    return lambda forged: forged.put(f"{CLAIMS}/result/claims", change)


def at(tier: str, target: str | None, **changes: Any) -> Spoil:
    """Change the first claim of a tier on a target."""

    def edit(found: list[Claim]) -> list[Claim]:
        place = next(n for n, one in enumerate(found) if (one.tier, one.target) == (tier, target))
        return [*found[:place], replace(found[place], **changes), *found[place + 1 :]]

    return claim(edit)


COUNTS = {"cases_passed": 2.0, "cases": 2.0, "cases_repeatable": 2.0, "cases_repeated": 2.0}
CLAIMED: dict[str, tuple[Spoil, str]] = {
    "untested edited to passed": (
        at("accurate", "sm_80", outcome="passed", cause=None),
        r'/result/claims/\d+/outcome: expected "untested", found "passed"',
    ),
    "a better figure": (
        at("accurate", "sm_90", figures={**COUNTS, "largest_normalised_error": 1e-12}),
        r"/result/claims/\d+/figures/largest_normalised_error: expected \S+, found 1e-12",
    ),
    "another sentence": (
        at("accurate", "sm_90", sentence="matmul is exact on every device"),
        r'/result/claims/\d+/sentence: expected ".*", found "matmul is exact on every device"',
    ),
    "another reason": (
        at("ran", "sm_90", reason="all of it"),
        r"/result/claims/\d+/reason: expected .*, found \"all of it",
    ),
    "stale": (
        at("ran", "sm_90", freshness="stale"),
        r'/result/claims/\d+/freshness: expected "current", found "stale"',
    ),
    "no links": (at("ran", "sm_90", links=[]), r"/result/claims/\d+/links: expected 3 items, found 0"),
    "a failure left out": (claim(lambda found: found[1:]), r"/result/claims: expected \d+ items, found \d+"),
    "a claim too many": (claim(lambda found: [*found, found[-1]]), r"/result/claims: expected \d+ items, found \d+"),
    "none": (claim(lambda found: []), r"/result/claims: expected \d+ items, found 0"),
    "another status": (
        lambda forged: forged.put(f"{CLAIMS}/result/status/overall", "VERIFIED"),
        r'/result/status/overall: expected "PARTIALLY VERIFIED", found "VERIFIED"',
    ),
    "a finer sentence": (
        lambda forged: forged.put(f"{CLAIMS}/result/status/sentence", "VERIFIED on 2026-11-29: everything."),
        r'/result/status/sentence: expected "PARTIALLY VERIFIED on 2026-11-29: .*", found "VERIFIED on 2026-11-29: ',
    ),
    "other counts": (
        lambda forged: forged.put(f"{CLAIMS}/result/status/counts/failed", 1),
        r"/result/status/counts/failed: expected 0, found 1",
    ),
    "other source": (
        lambda forged: forged.put(f"{CLAIMS}/result/source/digest", "0" * 64),
        r'/result/source/digest: expected "[0-9a-f]{64}", found "0{64}"',
    ),
    "other targets": (
        lambda forged: forged.put(f"{CLAIMS}/command", lambda words: [w.replace('"sm_75",', "") for w in words]),
        r"/result/claims: expected \d+ items, found \d+",
    ),
}


@pytest.mark.parametrize("case", CLAIMED)
def test_claims_are_those_that_the_records_call_for(case: str) -> None:
    spoil, told = CLAIMED[case]
    found = found_in(spoil)
    assert any(re.match(f"{CLAIMS}: {told}", fault) for fault in found), found


def test_a_source_that_was_added_later_is_noticed() -> None:
    added = found_in(lambda forged: forged.at_last(lambda files: files.update({"kernels/other.py": b"import os"})))
    assert [fault.partition(", found")[0].partition('expected "')[0] for fault in added] == [
        f"{CLAIMS}: /result/source/digest: "
    ]


# The report


def edited(page: str, change: Callable[[bytes], bytes]) -> Spoil:
    """Change a page, and put its digest in the report's record right."""

    def spoil(forged: Forge) -> None:
        data = change(forged.payload()[page])
        forged.put(f"{REPORT}/result/outputs", lambda found: {**found, page: sha256_bytes(data)})
        forged.at_last(lambda files: files.update({page: data}))

    return spoil


def of_another_run(forged: Forge) -> None:
    other = forge(None, [MATMUL]).payload()
    edited(HTML, lambda _: other[HTML])(forged)


REPORTED: dict[str, tuple[Spoil, str]] = {
    "edited page": (
        lambda forged: forged.at_last(lambda files: files.update({HTML: files[HTML] + b"<!-- -->"})),
        rf"{REPORT}: /result/outputs/{HTML}: expected \"[0-9a-f]+\", found \"[0-9a-f]+\"",
    ),
    "another status in the page": (
        edited(HTML, lambda page: page.replace(b"PARTIALLY ", b"")),
        rf"{HTML}: expected the status \"PARTIALLY VERIFIED .*\", found a page without it",
    ),
    "another status in the text": (
        edited(MARKDOWN, lambda page: page.replace(b"PARTIALLY ", b"")),
        rf"{MARKDOWN}: expected the status \"PARTIALLY VERIFIED .*\", found a page without it",
    ),
    "the page of another run": (of_another_run, rf"{HTML}: expected the status .*, found a page without it"),
    "another status in the record": (
        lambda forged: forged.put(f"{REPORT}/result/status/overall", "VERIFIED"),
        rf'{REPORT}: /result/status/overall: expected "PARTIALLY VERIFIED", found "VERIFIED"',
    ),
    "only one page": (
        lambda forged: forged.put(f"{REPORT}/result/outputs", lambda found: {HTML: found[HTML]}),
        rf"{REPORT}: /result/outputs: expected .*, found",
    ),
}


@pytest.mark.parametrize("case", REPORTED)
def test_the_report_is_about_these_claims(case: str) -> None:
    spoil, told = REPORTED[case]
    found = found_in(spoil)
    assert any(re.match(told, fault) for fault in found), found


# Name and labels


@pytest.mark.parametrize(
    "root",
    [
        "assay-verified-nvidia-h200-2026-11-29-0123456789ab",
        "bundle",
        "assay-partially-verified-nvidia-h200-2026-11-29-",
    ],
)
def test_the_folder_is_called_what_its_content_calls_for(root: str) -> None:
    forged = forge(H200, [MATMUL])
    forged.root = root
    (fault,) = faults(forged.opened())
    assert re.fullmatch(
        f"{root}/: expected the folder to be called assay-partially-verified-nvidia-h200-2026-11-29-[0-9a-f]{{12}}, "
        "found that name",
        fault,
    )


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"Bagging-Date": "2026-11-29", "External-Description": "VERIFIED"}, "/External-Description: expected"),
        ({"Bagging-Date": "2031-01-01"}, ": expected"),
        ({}, ": expected"),
    ],
)
def test_the_bag_says_of_the_bundle_what_its_content_calls_for(info: dict[str, str], told: str) -> None:
    forged = forge(H200, [MATMUL])
    forged.info = info
    (fault,) = faults(forged.opened())
    assert fault.startswith(f"bag-info.txt: {told}")


def test_two_bundles_of_one_name_and_other_bytes_cannot_both_be_sound() -> None:
    first, second = (
        forge(H200, [MATMUL]),
        forge(H200, [MATMUL]).at_last(lambda files: files.update({"LICENSE": b"MIT"})),
    )
    names = [one.opened().name for one in (first, second)]
    assert names[0] != names[1]
    second.root = names[0]
    assert faults(first.opened()) == []
    assert any("expected the folder to be called" in fault for fault in faults(second.opened()))


# What is hostile in the text stays text


HOSTILE = "<script>alert(1)</script> {{ 7*7 }} \x1b[31mred\u202e | `x` [a](javascript:b)"


def test_hostile_names_are_no_fault_and_reach_no_terminal() -> None:
    device = replace(H200, name=HOSTILE)
    forged = forge(device, [MATMUL])
    assert faults(forged.opened()) == []
    forged.put(f"{GPU}/result/device", H200)
    found = faults(forged.opened())
    assert found
    assert all(printable(fault) == fault for fault in found)
    assert any("script" in fault for fault in found)


def test_what_nobody_thought_of_is_refused_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(opened: Opened) -> Any:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(soundness, "files", broken)
    (fault,) = faults(forge(None, [MATMUL]).opened())
    assert re.fullmatch(
        r"\S+/: expected records that can be judged, found that they cannot be \(ZeroDivisionError: division by zero\)",
        fault,
    )


def test_opening_a_sound_bundle(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(forge(H200, [MATMUL]).archive())
    assert open_sound(path).one("gate").result.exit_code == 0
    forged = forge(H200, [MATMUL]).put(f"{CLAIMS}/result/status/overall", "VERIFIED")
    path.write_bytes(forged.archive())
    with pytest.raises(UnsoundError, match=r"a\.tar: results/claims\.json: /result/status/overall: .*\"VERIFIED\"\Z"):
        open_sound(path)
    forged.root = "other"
    path.write_bytes(forged.archive())
    with pytest.raises(UnsoundError, match=r"found \"VERIFIED\" \(and 1 more\)\Z"):
        open_sound(path)


# Whatever a record says, within its type, it is judged


SOUND = forge(H200, [MATMUL]).opened()
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [0, 1, -1, 2**53 - 1, 0.5, 1e300, -1e-300, "", "x", "sm_0", "9.0", True, None, [], {}]
)


def leaves(value: Any, keys: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values in a tree that hold no others."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if not inner:
        return [keys]
    return [leaf for key, one in inner for leaf in leaves(one, (*keys, key))]


PLACES = {path: leaves(msgspec.to_builtins(record.result)) for path, record in SOUND.records.items()}


@given(st.sampled_from(sorted(SOUND.records)), st.data())
def test_any_value_that_a_record_can_hold_is_judged(path: str, data: st.DataObject) -> None:
    record = SOUND.records[path]
    tree = msgspec.to_builtins(record.result)
    *keys, last = data.draw(st.sampled_from(PLACES[path]))
    reduce(lambda inner, key: inner[key], keys, tree)[last] = data.draw(ODD)
    try:
        result = convert(tree, type(record.result), path)
    except RecordError:
        return
    records = {**SOUND.records, path: replace(record, result=result)}
    # Past the digests, which would tell at once.
    changed = Opened(SOUND.name, SOUND.bag, records)
    found = guarded(_records, changed)
    found = found or [fault for question in (_claims, _report, _labels) for fault in guarded(question, changed)]
    assert not [fault for fault in found if "found that they cannot be" in fault]
    assert all(printable(fault) == fault for fault in found)

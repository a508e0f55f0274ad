"""A teeth record holds every fault that can be planted in its kernel, and what its exposures call for.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from typing import Any

import pytest
from forge import H200, Forge, forge
from msgspec.structs import replace
from records import MATMUL

from assay.record import Acceptance, Device, Equivalent, Verdict
from assay.sound_teeth import LARGEST_SOURCE_BYTES
from assay.soundness import faults

TEETH = "results/matmul/teeth.json"
CAUGHT, SURVIVED, EQUIVALENT, INVALID = range(4)
"""The places of the four faults that a forgery has."""

WRONG = Verdict(outcome="failed", cause="wrong-value", reason="an element is past its bound")
BARRED = Verdict(outcome="inapplicable", cause="does-not-fit", reason="it needs too much")


def bundle(found: Device | None = None) -> Forge:
    return forge(found, [MATMUL], bitten=True)


@pytest.mark.parametrize("found", [None, H200], ids=["no device", "H200"])
def test_a_record_with_a_fault_of_each_fate_is_sound(found: Device | None) -> None:
    forged = bundle(found)
    assert faults(forged.opened()) == []
    claims = forged.opened().records["results/claims.json"].result
    (claim,) = [claim for claim in claims.claims if claim.tier == "teeth"]
    assert (claim.outcome, claim.cause) == ("cantTell", "survivors")
    assert "of 2 planted faults 1 are caught" in claims.status.sentence


def test_what_the_device_alone_caught_is_sound() -> None:
    forged = bundle(H200)
    found = forged.opened().records[TEETH].result.mutants[SURVIVED]
    *before, last = found.exposures
    assert (last.tier, len(before)) == ("gpu", 2)
    variant, case = MATMUL.variants[0].id, MATMUL.cases[0]
    seen = replace(last, place=f"{case} {variant}", verdict=WRONG, passed=0)
    caught = replace(found, outcome="caught", exposures=[*before, seen], differs=None)
    assert faults(forged.put(f"{TEETH}/result/mutants/{SURVIVED}", caught).opened()) == []


def test_a_bundle_need_not_hold_one() -> None:
    assert faults(forge(None, [MATMUL]).opened()) == []


def spoilt(place: str, value: Any) -> list[str]:
    return faults(bundle().put(f"{TEETH}/result/{place}", value).opened())


def dropped(exposures: list[Any]) -> list[Any]:
    return exposures[:1]


SPOILT: dict[str, tuple[str, Any, str]] = {
    "a survivor left out": (
        "mutants",
        lambda found: [found[0], *found[2:]],
        r"/result/mutants: expected 4 items, found 3",
    ),
    "a survivor said to be caught": (
        f"mutants/{SURVIVED}/outcome",
        "caught",
        r"/outcome: expected \"survived\", found \"caught\"",
    ),
    "a survivor said to be equivalent, the build that differs left out": (
        f"mutants/{SURVIVED}",
        lambda found: replace(found, outcome="survived", differs=None),
        r"/outcome: expected \"equivalent\", found \"survived\"",
    ),
    "a build that no launch makes": (
        f"mutants/{SURVIVED}/differs",
        "ieee/64x64x32 sm_90 nowhere",
        r"/differs: expected a build of a fault that survived, or none",
    ),
    "a difference of what was caught": (
        f"mutants/{CAUGHT}/differs",
        "ieee/64x64x32 sm_80 aligned-256x256x1024",
        r"/differs: expected a build of a fault that survived, or none",
    ),
    "a tier that did not look": (
        f"mutants/{SURVIVED}/exposures",
        dropped,
        r"/exposures: expected 2 items, found 1",
    ),
    "a line of another place": (f"mutants/{CAUGHT}/line", 3, r"/mutants/0/1: expected 7, found 3"),
    "another operator": (f"mutants/{CAUGHT}/operator", "drop-mask", r"/mutants/0/0: expected"),
    "a case that the kernel has not": (
        f"mutants/{CAUGHT}/exposures/0/place",
        "made-up ieee/64x64x32",
        r"/place: expected a place where the kernel itself passed",
    ),
    "more passed than was tried": (
        f"mutants/{SURVIVED}/exposures/0/passed",
        99,
        r"/passed: expected at most the 8 that the tier looks at, found 99",
    ),
    "nothing seen, in other words": (
        f"mutants/{SURVIVED}/exposures/0/verdict/reason",
        "all is well",
        r"/verdict/reason: expected \"8 checks passed\"",
    ),
    "a tier that could not look after it had": (
        f"mutants/{SURVIVED}/exposures/0/verdict",
        BARRED,
        r"/passed: expected 0 beside the outcome inapplicable, found 8",
    ),
    "a catch without a cause": (
        f"mutants/{CAUGHT}/exposures/0/verdict/cause",
        None,
        r"/cause: expected the cause of the failure, found none",
    ),
    "a baseline that was not run": (
        f"mutants/{CAUGHT}/baseline",
        BARRED,
        r"/baseline/outcome: expected passed or failed, found inapplicable",
    ),
    "a device that is not there": ("device", H200, r"/device: expected null"),
    "a tier that the kernel passes nothing at": (
        "tiers",
        ["interpreter", "compile", "gpu"],
        r"/tiers: expected 2 items, found 3",
    ),
    "another loading": ("loading/reason", "it loads", r"/loading/reason: expected"),
}


@pytest.mark.parametrize(("place", "value", "said"), SPOILT.values(), ids=SPOILT)
def test_what_does_not_follow_is_found(place: str, value: Any, said: str) -> None:
    found = spoilt(place, value)
    assert found
    assert all(fault.startswith(TEETH) for fault in found)
    assert any(re.search(said, fault) for fault in found), found


WORD = Equivalent(operators=["change-other"], source='x = load(x_ptr, other="<b>")', why="nothing is masked")
"""About the survivor."""


def accepting(word: Equivalent = WORD, at: int = SURVIVED, outcome: str = "accepted") -> Forge:
    """Return a bundle whose kernel declares this word, and whose record takes it for the fault at that place."""
    forged = bundle()
    for stage in ("interpreter", "compile"):
        forged.put(f"results/matmul/{stage}.json/result/declaration/equivalents", [word])
    forged.put(f"{TEETH}/result/acceptances", [Acceptance(equivalent=word, mutants=[at])])
    return forged.put(f"{TEETH}/result/mutants/{at}/outcome", outcome)


def test_a_survivor_that_the_author_accepts_is_sound_and_no_survivor_in_the_claim() -> None:
    forged = accepting()
    assert faults(forged.opened()) == []
    claims = forged.opened().records["results/claims.json"].result
    (claim,) = [claim for claim in claims.claims if claim.tier == "teeth"]
    assert (claim.outcome, claim.figures["accepted"], claim.figures["caught"]) == ("passed", 1.0, 1.0)
    assert "1 accepted as equivalent on the author's word" in claim.reason
    assert "1 more are accepted as equivalent on the author's word" in claims.status.sentence


def test_a_word_on_what_is_caught_leaves_it_caught_and_makes_the_claim_doubtful() -> None:
    word = replace(WORD, operators=["drop-other", "change-other"])
    forged = accepting(word)
    both = [Acceptance(equivalent=word, mutants=[CAUGHT, SURVIVED])]
    forged.put(f"{TEETH}/result/acceptances", both)
    assert faults(forged.opened()) == []
    (claim,) = [c for c in forged.opened().records["results/claims.json"].result.claims if c.tier == "teeth"]
    assert (claim.outcome, claim.cause) == ("cantTell", "declaration")
    assert "accepts drop-other" in claim.reason


UNSOUND: dict[str, tuple[Forge, str]] = {
    "accepted without a word": (
        bundle().put(f"{TEETH}/result/mutants/{SURVIVED}/outcome", "accepted"),
        r"/mutants/1/outcome: expected \"survived\", found \"accepted\"",
    ),
    "a word that is not declared": (
        bundle().put(f"{TEETH}/result/acceptances", [Acceptance(equivalent=WORD, mutants=[SURVIVED])]),
        r"/acceptances: expected 0 items, found 1",
    ),
    "a word on another fault": (
        accepting(replace(WORD, source="store(x_ptr, x)")),
        r"/mutants/1/outcome: expected \"survived\", found \"accepted\"",
    ),
    "a word that says why otherwise than declared": (
        accepting().put(f"{TEETH}/result/acceptances/0/equivalent/why", "it is well known"),
        r"/acceptances/0/equivalent/why: expected",
    ),
    "a word declared and not taken": (
        accepting(outcome="survived"),
        r"/mutants/1/outcome: expected \"accepted\", found \"survived\"",
    ),
    "what is caught said to be accepted": (
        accepting(replace(WORD, operators=["drop-other"]), CAUGHT),
        r"/mutants/0/outcome: expected \"caught\", found \"accepted\"",
    ),
    "what the reference's way catches said to be accepted": (
        accepting().put(f"{TEETH}/result/mutants/{SURVIVED}/baseline", WRONG),
        r"/mutants/1/outcome: expected \"survived\", found \"accepted\"",
    ),
}


@pytest.mark.parametrize(("forged", "said"), UNSOUND.values(), ids=UNSOUND)
def test_a_word_is_not_taken_for_more_than_was_declared(forged: Forge, said: str) -> None:
    found = faults(forged.opened())
    assert any(re.search(said, fault) for fault in found), found


def with_source(text: bytes) -> list[str]:
    forged = bundle()
    forged.sources["kernels/matmul.py"] = text
    return faults(forged.opened())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"def f(:", "faults in a kernel file that can be parsed, found SyntaxError"),
        (b"\xff", "faults in a kernel file that can be parsed, found UnicodeDecodeError"),
        (b"#" * (LARGEST_SOURCE_BYTES + 1), f"at most {LARGEST_SOURCE_BYTES} bytes, found one of"),
    ],
    ids=["no Python", "no UTF-8", "too large"],
)
def test_faults_of_a_file_in_which_none_can_be_planted_are_refused(text: bytes, said: str) -> None:
    assert any(said in fault for fault in with_source(text))


def test_of_a_kernel_that_does_not_load_there_are_no_faults() -> None:
    broken = Verdict(outcome="failed", cause="import-error", reason="ModuleNotFoundError")

    def unloaded(result: Any) -> Any:
        return replace(result, loading=broken, declaration=None, checks=[], canaries=[], contrasts=[])

    found = faults(bundle().put("results/matmul/interpreter.json/result", unloaded).opened())
    assert any(fault.startswith(f"{TEETH}: /result/loading") for fault in found), found

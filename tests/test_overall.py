"""The overall status and its sentence: what they may never say, whatever the records hold."""

import re
from typing import Any

import pytest
import records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import claim, replaced
from worlds import World, card, worlds

from assay.artifact import canonical
from assay.overall import COMPILED_TIERS, DEVICE_TIERS, SHOWN_FAILURES, Setting, count, overall, sentence, status_of
from assay.record import Cause, Claim, Outcome, Tier
from assay.tiers import derive

laws = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["passed", "failed", "cantTell", "inapplicable", "untested"])
tiers: st.SearchStrategy[Tier] = st.sampled_from(
    ["interpreted", "compiled", "fits", "gated", "ran", "accurate", "timed", "teeth"]
)
any_claims = st.lists(st.builds(claim, tier=tiers, outcome=outcomes, cause=st.just("crash")), max_size=6)


def claims_of(world: World) -> list[Claim]:
    return derive(world.machine, world.subjects, world.targets, world.minimum)


@given(any_claims)
def test_it_failed_exactly_where_a_claim_failed(claims: list[Claim]) -> None:
    assert (overall(claims) == "FAILED") == any(c.outcome == "failed" for c in claims)


@given(any_claims)
def test_nothing_is_verified_that_has_a_gap(claims: list[Claim]) -> None:
    shown = any(c.outcome == "passed" and c.tier not in ("gated", "teeth") for c in claims)
    assert shown or overall(claims) in ("NOT VERIFIED", "FAILED")
    if overall(claims) == "VERIFIED":
        assert {c.outcome for c in claims} <= {"passed", "inapplicable"}


@given(any_claims)
def test_one_stale_claim_takes_verified_away(claims: list[Claim]) -> None:
    if overall(claims) == "VERIFIED":
        assert overall([replaced(claims[0], freshness="stale"), *claims[1:]]) == "PARTIALLY VERIFIED"


@given(any_claims)
def test_every_outcome_is_counted(claims: list[Claim]) -> None:
    found = count(claims)
    assert len(found) == 5
    assert sum(found.values()) == len(claims)


@laws
@given(worlds())
def test_the_sentence_is_one_and_says_status_and_dates(world: World) -> None:
    status = status_of(claims_of(world), world.setting)
    assert status.sentence.startswith(f"{status.overall} from 2026-11-29 to 2026-12-01: ")
    assert status.sentence.endswith(".")
    assert len(status.sentence.splitlines()) == 1
    assert canonical(status) == canonical(status_of(claims_of(world), world.setting))


def waiting(claims: list[Claim]) -> list[Claim]:
    return [c for c in claims if c.outcome == "untested" and c.tier in DEVICE_TIERS and c.cause != "upstream"]


@laws
@given(worlds())
def test_what_is_untested_for_want_of_a_device_is_named_as_blocked(world: World) -> None:
    claims = claims_of(world)
    said = re.search(
        r"correctness and timing on (.*) remain blocked: (.*)\.$", status_of(claims, world.setting).sentence
    )
    blocked = waiting(claims)
    assert (said is None) == (not blocked)
    if said is not None:
        assert set(re.findall(r"sm_\d+|gfx\w+", said[1])) == {c.target for c in blocked}
        if said[2] == "no such device here":
            assert {c.cause for c in blocked} == {"no-device"}
        else:
            assert any(c.reason.startswith(said[2]) for c in blocked if c.cause != "no-device")


@laws
@given(worlds())
def test_failures_are_counted_and_the_first_are_named(world: World) -> None:
    claims = claims_of(world)
    failed = [c for c in claims if c.outcome == "failed"]
    said = status_of(claims, world.setting).sentence
    assert ("failed, " in said) == bool(failed)
    for c in failed[:SHOWN_FAILURES]:
        assert f"{c.kernel}/{c.variant} {c.tier}{f' on {c.target}' if c.target else ''} ({c.cause})" in said
    if len(failed) > SHOWN_FAILURES:
        assert f"{len(failed)} claims failed" in said
        assert f"and {len(failed) - SHOWN_FAILURES} more" in said


@laws
@given(worlds())
def test_figures_in_the_sentence_are_those_of_the_claims(world: World) -> None:
    claims = claims_of(world)
    said = status_of(claims, world.setting).sentence
    passed = {tier: sum(c.tier == tier and c.outcome == "passed" for c in claims) for tier in COMPILED_TIERS}
    if passed["compiled"]:
        assert re.search(rf"{passed['compiled']} of \d+ builds compiled for .*, of which {passed['fits']} fit", said)
    device = world.device
    for doing, tier in (("were accurate", "accurate"), ("were timed", "timed")):
        shown = re.search(rf"(\d+) of (\d+) variants {doing}", said)
        on = [c for c in claims if c.tier == tier and device is not None and c.target == device.target]
        if shown is not None:
            assert int(shown[1]) == sum(c.outcome == "passed" for c in on)
            assert int(shown[2]) == sum(c.outcome in ("passed", "failed", "cantTell") for c in on)


# whole sentences

NOWHERE = Setting(records.environment(None), records.gate(None), ["2026-11-29", "2026-11-29"])
H200 = Setting(records.environment(records.device()), records.gate(records.device()), ["2026-11-29", "2026-11-30"])
INTERPRETED = [claim(variant=variant, tier="interpreted", target=None) for variant in ("ieee/a", "tf32/a")]
BUILT = [claim(tier=tier, target=target) for tier in COMPILED_TIERS for target in ("sm_100", "sm_90")]


def untested(cause: Cause, reason: str, target: str = "sm_90") -> list[Claim]:
    return [claim(tier=tier, target=target, outcome="untested", cause=cause, reason=reason) for tier in DEVICE_TIERS]


def test_without_a_driver() -> None:
    blocked = untested("no-driver", "no NVIDIA driver: libcuda.so.1 cannot be loaded; see the manual")
    assert status_of([*INTERPRETED, *BUILT, *blocked], NOWHERE).sentence == (
        "PARTIALLY VERIFIED on 2026-11-29: under the Triton 3.6.0 interpreter 2 of 2 variants passed; "
        "2 of 2 builds compiled for sm_90 and sm_100, of which 2 fit; the capability gate exited 1 as designed; "
        "correctness and timing on sm_90 remain blocked: no NVIDIA driver: libcuda.so.1 cannot be loaded."
    )


def test_on_a_device_with_one_failure() -> None:
    on_device = [claim(tier=tier) for tier in DEVICE_TIERS]
    wrong = claim(variant="tf32/a", outcome="failed", cause="wrong-value")
    later = untested("no-device", "no sm_80 device here", "sm_80")
    assert status_of([*on_device, wrong, *later], H200).sentence == (
        "FAILED from 2026-11-29 to 2026-11-30: 1 claim failed, matmul/tf32/a accurate on sm_90 (wrong-value); "
        "the capability gate exited 0 as designed; "
        "on NVIDIA H200 (sm_90, driver 580.159.04) 1 of 1 variants ran, 1 of 2 variants were accurate and "
        "1 of 1 variants were timed; correctness and timing on sm_80 remain blocked: no such device here."
    )


def test_planted_faults_are_counted_over_all_kernels_and_decide_nothing_alone() -> None:
    figures: list[dict[str, Any]] = [
        {"caught": 45.0, "survived": 2.0, "baseline": 13.0},
        {"caught": 19.0, "survived": 0.0, "baseline": 8.0},
    ]
    bitten = [replaced(claim(tier="teeth", variant="*", target=None), figures=of) for of in figures]
    status = status_of(bitten, NOWHERE)
    assert status.sentence == (
        "NOT VERIFIED on 2026-11-29: the capability gate exited 1 as designed; "
        "of 66 planted faults 64 are caught (the reference's shapes and tolerance alone catch 21)."
    )
    assert "planted" not in status_of(INTERPRETED, NOWHERE).sentence


def test_a_gate_that_broke_is_why_the_device_tiers_are_blocked_and_not_a_missing_device() -> None:
    gate = replaced(records.gate(None), verdict=records.NO_DRIVER)
    said = status_of(
        [*INTERPRETED, *untested("timeout", "the gate gave no answer within 300 s")],
        Setting(records.environment(records.device()), gate, ["2026-11-29"]),
    ).sentence
    assert "the capability gate exited 1 against what the captured device calls for" in said
    assert said.endswith("remain blocked: the gate gave no answer within 300 s.")


def test_what_a_failure_left_untested_is_not_said_to_be_blocked() -> None:
    wrong = claim(outcome="failed", cause="wrong-value")
    said = status_of([wrong, *untested("upstream", "not timed: stage 'gpu' did not pass it")], H200).sentence
    assert "blocked" not in said


@pytest.mark.parametrize("hidden", [[], [card("sm_90", visible=False)]])
def test_no_device_is_named_where_none_is_visible(hidden: list[Any]) -> None:
    environment = replaced(records.environment(records.device()), devices=hidden)
    said = sentence("NOT VERIFIED", [], Setting(environment, records.gate(None), ["2026-11-29"]))
    assert said == "NOT VERIFIED on 2026-11-29: the capability gate exited 1 as designed."

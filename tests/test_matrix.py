"""The matrix loses no claim, never hides a conflict, and the gaps account for all that is not verified."""

import re
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from records import claim, replaced

from assay.matrix import (
    GAP_MARKS,
    MOST_FAILURES,
    MOST_REASONS,
    STALE,
    Cell,
    Matrix,
    build_matrix,
    find_gaps,
    fold_gaps,
    mark,
    natural,
)
from assay.outcomes import CONFLICT, FAILED, VERIFIED
from assay.record import Cause, Claim, Outcome, Tier
from assay.remedies import WITHOUT_DEVICE, remedy

claims = st.lists(
    st.builds(
        lambda freshness, **rest: replaced(claim(**rest), freshness=freshness),
        freshness=st.sampled_from(["current", "current", "stale"]),
        kernel=st.sampled_from(["matmul", "softmax"]),
        variant=st.sampled_from(["ieee/a", "tf32/a", "*"]),
        tier=st.sampled_from(get_args(Tier)),
        target=st.none() | st.sampled_from(["sm_80", "sm_90", "gfx942"]),
        outcome=st.sampled_from(get_args(Outcome)),
        cause=st.none() | st.sampled_from(get_args(Cause)),
        reason=st.text("abc", min_size=1, max_size=3),
    ),
    max_size=25,
)


def cells(matrix: Matrix) -> list[Cell]:
    lines = [line for group in matrix.groups for line in group.lines]
    places = [place for line in lines for place in (*line.whole, *(c for cs in line.targets for c in cs))]
    return [place for place in places if place is not None]


@given(claims)
def test_every_claim_stands_in_one_cell_or_in_the_line_of_the_gate(given_claims: list[Claim]) -> None:
    matrix = build_matrix(given_claims)
    told = sum(len([line for line in cell.title.split("\n") if ": " in line]) for cell in cells(matrix))
    assert told + len(matrix.gates) == len(given_claims)
    assert sum(count for _, count in matrix.tally) == len(given_claims)


@given(claims)
def test_a_cell_shows_what_all_of_its_claims_say_or_a_conflict(given_claims: list[Claim]) -> None:
    for cell in cells(build_matrix(given_claims)):
        words = {re.split(r" \(|\.|,", line.split(": ", 1)[1])[0] for line in cell.title.split("\n")}
        assert words == {cell.mark.word} if cell.mark != CONFLICT else len(words) > 1


@given(claims)
def test_gaps_count_every_claim_that_is_not_verified_or_is_stale(given_claims: list[Claim]) -> None:
    gaps = find_gaps(given_claims)
    missing = [c for c in given_claims if mark(c) != VERIFIED or c.freshness == "stale"]
    assert sum(gap.count for gap in gaps) == len(missing)
    assert [GAP_MARKS.index(gap.mark) for gap in gaps] == sorted(GAP_MARKS.index(gap.mark) for gap in gaps)
    for gap in gaps:
        assert sum(count for _, count in gap.reasons) <= gap.count


@given(claims)
def test_each_gap_names_what_would_settle_all_of_its_claims(given_claims: list[Claim]) -> None:
    found = [gap.remedy for gap in find_gaps(given_claims)]
    assert {remedy(c) for c in given_claims if mark(c) != VERIFIED or c.freshness == "stale"} == set(found)


@given(claims)
def test_folded_gaps_lose_no_claim_and_join_only_what_needs_another_device(given_claims: list[Claim]) -> None:
    gaps, folded = find_gaps(given_claims), fold_gaps(given_claims)
    assert sum(gap.count for gap in folded) == sum(gap.count for gap in gaps)
    assert [GAP_MARKS.index(gap.mark) for gap in folded] == sorted(GAP_MARKS.index(gap.mark) for gap in folded)
    kept = [gap for gap in gaps if gap.cause not in WITHOUT_DEVICE]
    assert [gap for gap in folded if gap.cause not in WITHOUT_DEVICE] == kept
    told = [(gap.cause, gap.remedy and gap.remedy.command, frozenset(gap.reasons)) for gap in folded]
    assert {(cause, command) for cause, command, _ in told} == {
        (gap.cause, gap.remedy and gap.remedy.command) for gap in gaps
    }


def test_what_is_verified_but_stale_is_not_shown_yet() -> None:
    (gap,) = find_gaps([claim(), replaced(claim(), freshness="stale")])
    assert (gap.mark, gap.count) == (STALE, 1)
    assert gap.remedy is not None


def test_evidence_that_disagrees_is_shown_as_a_conflict() -> None:
    matrix = build_matrix([claim(outcome="passed"), claim(outcome="failed", cause="wrong-value")])
    (cell,) = cells(matrix)
    assert cell.mark == CONFLICT
    assert "verified" in cell.title
    assert "failed (wrong-value)" in cell.title


def test_a_cell_tells_its_reason_and_its_age() -> None:
    (cell,) = cells(build_matrix([replaced(claim(), freshness="stale")]))
    assert cell.stale
    assert cell.title == "accurate on sm_90: verified, stale. 9 of 9 cases passed"


@given(claims)
def test_every_claim_leads_to_the_cell_that_shows_it(given_claims: list[Claim]) -> None:
    matrix = build_matrix(given_claims)
    told = {cell.claim: cell.title for cell in cells(matrix)}
    gates = {number for number, _ in matrix.gates}
    assert set(matrix.shown_at) == set(range(len(given_claims)))
    for number, one in enumerate(given_claims):
        place = matrix.shown_at[number]
        assert place in gates if one.tier == "gated" else one.reason in told[place]


def test_targets_stand_in_the_order_of_their_numbers() -> None:
    given_claims = [claim(target=target) for target in ("sm_100", "sm_90", "gfx942", "sm_120", "sm_75")]
    assert build_matrix(given_claims).targets == ["gfx942", "sm_75", "sm_90", "sm_100", "sm_120"]


@given(st.lists(st.text(max_size=6)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural)) == sorted(names)


def test_hundreds_of_reasons_become_a_few_and_failures_are_told_at_length() -> None:
    blocked = [claim(outcome="untested", cause="no-device", reason=f"reason {n}") for n in range(300)]
    failed = [claim(outcome="failed", cause="wrong-value", reason=f"reason {n}") for n in range(MOST_FAILURES)]
    first, second = find_gaps([*blocked, *failed])
    assert (first.mark, len(first.reasons), first.more) == (FAILED, MOST_FAILURES, 0)
    assert (len(second.reasons), second.more) == (MOST_REASONS, 300 - MOST_REASONS)


def test_a_gap_says_what_it_is_about() -> None:
    absent = [
        claim(tier=tier, target=target, outcome="untested", cause="no-device", reason="none here")
        for tier in ("timed", "ran")
        for target in ("sm_100", "sm_80")
    ]
    first, second = find_gaps(absent)
    assert first.what == "ran, timed of matmul: ieee/64x64x32 on sm_80"
    assert second.what == "ran, timed of matmul: ieee/64x64x32 on sm_100"
    assert second.reasons == [("none here", 2)]

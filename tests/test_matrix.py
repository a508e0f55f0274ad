"""The matrix loses no claim, never hides a conflict, and the gaps account for all that is not verified."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from records import claim, replaced

from assay.matrix import MOST_FAILURES, MOST_REASONS, Cell, Matrix, build_matrix, find_gaps, mark, natural
from assay.outcomes import CONFLICT, FAILED, MARKS, VERIFIED
from assay.record import Cause, Claim, Link, Outcome, Tier

claims = st.lists(
    st.builds(
        claim,
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
        words = {line.split(": ", 1)[1].split(" (")[0].split(".")[0] for line in cell.title.split("\n")}
        assert words == {cell.mark.word} if cell.mark != CONFLICT else len(words) > 1


@given(claims)
def test_gaps_count_every_claim_that_is_not_verified(given_claims: list[Claim]) -> None:
    gaps = find_gaps(given_claims)
    assert sum(gap.count for gap in gaps) == sum(mark(c) != VERIFIED for c in given_claims)
    assert [MARKS.index(gap.mark) for gap in gaps] == sorted(MARKS.index(gap.mark) for gap in gaps)
    for gap in gaps:
        assert sum(count for _, count in gap.reasons) <= gap.count


def test_evidence_that_disagrees_is_shown_as_a_conflict() -> None:
    matrix = build_matrix([claim(outcome="passed"), claim(outcome="failed", cause="wrong-value")])
    (cell,) = cells(matrix)
    assert cell.mark == CONFLICT
    assert "verified" in cell.title
    assert "failed (wrong-value)" in cell.title


def test_a_cell_names_its_evidence_and_its_age() -> None:
    link = Link(artifact="results/matmul/gpu.json", sha256="0" * 64, pointer="/result/checks/3")
    (cell,) = cells(build_matrix([replaced(claim(links=[link]), freshness="stale")]))
    assert cell.stale
    assert cell.title == (
        "accurate on sm_90: verified, stale. 9 of 9 cases passed\nevidence: results/matmul/gpu.json /result/checks/3"
    )


def test_a_record_that_a_claim_rests_on_twice_is_named_once() -> None:
    links = [
        Link(artifact=f"results/matmul/{stage}.json", sha256="0" * 64, pointer=pointer)
        for stage, pointer in (("gpu", "/result/checks/3"), ("gpu", "/result/checks"), ("compile", "/result/builds/0"))
    ]
    (cell,) = cells(build_matrix([claim(links=links)]))
    assert cell.title.split("\n")[1:] == [
        "evidence: results/matmul/gpu.json /result/checks/3, /result/checks",
        "evidence: results/matmul/compile.json /result/builds/0",
    ]


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
    (gap,) = find_gaps(absent)
    assert gap.what == "ran, timed of matmul: ieee/64x64x32 on sm_80, sm_100"
    assert gap.reasons == [("none here", 4)]

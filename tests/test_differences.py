"""What changed between two sets of records: nothing between equal ones, and what got worse is never missed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, checks, claim, claims_of, comparison, device, environment, replaced

from assay.differences import claim_changes, environment_changes, error_changes
from assay.record import Cause, Claim, Outcome, Unavailable

OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "cantTell", "inapplicable", "untested")
CAUSES: tuple[Cause | None, ...] = (None, "no-device", "policy", "timeout")


def states() -> st.SearchStrategy[Claim | None]:
    """Return a claim about one thing, or its absence."""
    made = st.builds(
        lambda outcome, cause: claim(outcome=outcome, cause=cause), *map(st.sampled_from, (OUTCOMES, CAUSES))
    )
    return st.none() | made


def listed(one: Claim | None) -> list[Claim]:
    return [] if one is None else [one]


def passed(one: Claim | None) -> bool:
    return one is not None and one.outcome == "passed"


def failed(one: Claim | None) -> bool:
    return one is not None and one.outcome == "failed"


@given(states(), states())
def test_a_claim_is_lost_gained_or_changed(a: Claim | None, b: Claim | None) -> None:
    changes = claim_changes(listed(a), listed(b))
    worse = (passed(a) and not passed(b)) or (failed(b) and not failed(a))
    assert [change.worse for change in changes if change.worse] == [True] * worse
    kinds = {change.change for change in changes}
    assert ("lost" in kinds) == (passed(a) and not passed(b))
    assert ("gained" in kinds) == (passed(b) and not passed(a))


@given(states(), states())
def test_there_is_a_way_back(a: Claim | None, b: Claim | None) -> None:
    forth, back = claim_changes(listed(a), listed(b)), claim_changes(listed(b), listed(a))
    assert [(change.a, change.b) for change in forth] == [(change.b, change.a) for change in back]


@given(states())
def test_nothing_changed_between_equals(a: Claim | None) -> None:
    assert claim_changes(listed(a), listed(a)) == []


def test_claims_are_matched_by_what_they_are_about_and_not_by_their_place() -> None:
    claims = claims_of(MATMUL, ["sm_80", "sm_90"], device())
    assert claim_changes(claims, claims[::-1]) == []
    changed = claim_changes(claims, [c for c in claims if c.target != "sm_80"])
    assert {(change.target, change.b) for change in changed} == {("sm_80", "absent")}


def test_environments_are_compared_value_by_value() -> None:
    before = environment(device())
    after = replaced(
        before,
        distributions={"torch": "2.13.0", "triton": "3.6.0", "numpy": "2.4.6", "wheel": "0.45.1"},
        torch_cuda=Unavailable(reason="torch is built without CUDA"),
        torch_rocm=Unavailable(reason="torch is built without ROCm"),
    )
    assert [(change.field, change.a, change.b) for change in environment_changes(before, after)] == [
        ("distributions.Jinja2", "3.1.6", "absent"),
        ("distributions.numpy", "absent", "2.4.6"),
        ("distributions.torch", "2.11.0", "2.13.0"),
        ("torch_cuda", "13.0", "unavailable (torch is built without CUDA)"),
    ]
    assert environment_changes(before, before) == []


def one_check(**changes: Any) -> Any:
    found = checks(MATMUL, {})[0]
    return replaced(found, comparisons=[replaced(comparison(1e-6), **changes)])


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({}, []),
        ({"normalised_error": 2e-6}, [(1e-6, 2e-6, False)]),
        ({"normalised_error": 2e-6, "past_bound": 1}, [(1e-6, 2e-6, True)]),
        ({"past_bound": 1}, [(1e-6, 1e-6, True)]),
    ],
)
def test_an_error_is_worse_only_past_its_bound(after: dict[str, Any], found: list[Any]) -> None:
    changes = error_changes("matmul", "gpu", [one_check()], [one_check(**after)])
    assert [(change.a, change.b, change.worse) for change in changes] == found


def test_an_error_that_was_past_its_bound_already_is_not_worse() -> None:
    changes = error_changes("matmul", "gpu", [one_check(past_bound=1)], [one_check(past_bound=2, normalised_error=1.0)])
    assert [change.worse for change in changes] == [False]


def test_a_case_on_one_side_alone_is_left_to_the_claims() -> None:
    assert error_changes("matmul", "gpu", [one_check()], []) == error_changes("matmul", "gpu", [], [one_check()]) == []

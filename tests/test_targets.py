"""Targets and compute capabilities."""

import pytest

from assay.targets import TARGETS, capability_of, capability_text, parse_capability, target_of, unsuited


@pytest.mark.parametrize(
    ("found", "needed", "refused"),
    [("8.0", None, False), ("8.0", "8.0", False), ("8.6", "9.0", True), ("12.0", "9.0", False), ("9.0", "10.0", True)],
)
def test_capabilities_are_compared_as_numbers(found: str, needed: str | None, refused: bool) -> None:
    reason = unsuited("a card", parse_capability(found), needed)
    assert (reason is not None) == refused
    if reason is not None:
        assert reason == f"a card is {found}; {needed} or newer is needed"


@pytest.mark.parametrize(
    ("found", "newest", "refused"),
    [
        ("9.0", None, False),
        ("9.0", "9.0", False),
        ("10.0", "9.0", True),
        ("8.0", "10.0", False),
        ("12.0", "10.0", True),
    ],
)
def test_code_of_one_architecture_is_refused_by_a_newer_one(found: str, newest: str | None, refused: bool) -> None:
    reason = unsuited("a card", parse_capability(found), None, newest)
    assert (reason is not None) == refused
    if reason is not None:
        assert reason == f"a card is {found}; {newest} or older is needed"


@pytest.mark.parametrize("name", list(TARGETS))
def test_a_target_and_its_capability_name_each_other(name: str) -> None:
    capability = capability_of(name)
    assert target_of(capability) == name
    assert TARGETS[name].capability == capability
    assert parse_capability(capability_text(capability)) == capability


def test_architecture_specific_names_have_the_plain_capability() -> None:
    assert capability_of("sm_90a") == (9, 0)
    assert capability_of("sm_120f") == (12, 0)

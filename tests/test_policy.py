"""Requirements: two forms and no third, and a requirement is met exactly where what it names was shown."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import SOURCE, claim, replaced, status

from assay.errors import UsageError
from assay.policy import ClaimsRequired, StatusRequired, read_requirement, unmet
from assay.record import Claim, Claims, Outcome, Overall, Tier

TIERS: tuple[Tier, ...] = get_args(Tier)
STATUSES: tuple[Overall, ...] = get_args(Overall)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

words = st.from_regex(r"[A-Za-z0-9_.*?][A-Za-z0-9_.*?+!-]{0,6}", fullmatch=True).filter(lambda word: word != "status")
tiers = st.sampled_from(TIERS)


def claims_of(*claims: Claim) -> Claims:
    return Claims(status=status(claims), claims=list(claims), source=SOURCE)


def met(text: str, *claims: Claim) -> bool:
    return unmet(read_requirement(text), claims_of(*claims)) is None


# Reading


@given(words, st.lists(words, max_size=2), tiers, st.none() | words, st.sampled_from([" ", "  ", "\t"]))
def test_a_requirement_on_claims_is_read_part_by_part(
    kernel: str, variant: list[str], tier: Tier, target: str | None, space: str
) -> None:
    text = space.join(["/".join([kernel, *variant]), tier, *([target] if target else [])])
    precision, configuration = [*variant, "*", "*"][:2]
    assert read_requirement(text) == ClaimsRequired((kernel, precision, configuration, tier, target or "*"))
    assert read_requirement(f" {text}\n") == read_requirement(text)


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=4), st.sampled_from(["|", " | "]))
def test_a_requirement_on_the_status_is_read(statuses: list[Overall], between: str) -> None:
    text = "status " + between.join(f'"{status}"' for status in statuses)
    assert read_requirement(text) == StatusRequired(tuple(statuses))


def test_a_status_of_one_word_needs_no_quotes() -> None:
    assert read_requirement('status VERIFIED|"PARTIALLY VERIFIED"') == StatusRequired(
        ("VERIFIED", "PARTIALLY VERIFIED")
    )


@given(st.text(max_size=30))
def test_any_text_is_a_requirement_or_refused_in_one_line(text: str) -> None:
    try:
        read_requirement(text)
    except UsageError as refusal:
        said = str(refusal)
        assert said.startswith("--require: expected ")
        assert said.isprintable()


FORM = "expected <kernel>"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", FORM),
        ("   ", FORM),
        ("matmul", FORM),
        ("matmul accurate sm_90 sm_80", FORM),
        (
            "matmul verified",
            "expected one of the tiers interpreted, compiled, fits, gated, ran, accurate, timed, teeth, found",
        ),
        ("matmul/tf32 acurate sm_90", "expected one of the tiers"),
        ("matmul x* sm_90", "expected one of the tiers"),
        ("matmul/ accurate", "expected names and patterns of letters"),
        ("/tf32 accurate", "expected names and patterns of letters"),
        ("matmul/tf32/a/b accurate", "expected names and patterns of letters"),
        ("mat;mul accurate", "expected names and patterns of letters"),
        ("matmul accurate sm_90|sm_80", "expected names and patterns of letters"),
        ("m\u00e4tmul accurate", "expected names and patterns of letters"),
        ("status", "behind 'status'"),
        ("status ", "behind 'status'"),
        ("status verified", "behind 'status'"),
        ("status PARTIALLY VERIFIED", "behind 'status'"),
        ('status "VERIFIED', "behind 'status'"),
        ("status VERIFIED|", "behind 'status'"),
        ("status VERIFIED FAILED", "behind 'status'"),
        ('status ""', "behind 'status'"),
    ],
)
def test_a_malformed_requirement_says_what_is_expected(text: str, told: str) -> None:
    with pytest.raises(UsageError) as refusal:
        read_requirement(text)
    assert told in str(refusal.value)
    assert refusal.value.exit_code == 2


def test_a_refusal_shows_no_escapes() -> None:
    with pytest.raises(UsageError) as refusal:
        read_requirement("\x1b[31mred\x1b[0m\u202e")
    assert str(refusal.value).isprintable()


# Matching

TF32 = [claim("matmul", f"tf32/{c}", "accurate", "sm_90") for c in ("64x64x32", "128x64x64")]
IEEE = claim("matmul", "ieee/64x64x32", "accurate", "sm_90", "failed", "wrong-value", "2 of 9 elements are past")
OTHERS = [
    claim("softmax", "f32/warps8", "timed", "sm_90"),
    claim("softmax", "f32/warps8", "interpreted", None),
    claim("*", "*", "gated", None),
    claim("matmul", "tf32/64x64x32", "accurate", "sm_75", "inapplicable", "capability"),
    claim("matmul", "tf32/64x64x32", "accurate", "sm_80", "untested", "no-device", "no sm_80 device here"),
]
ALL = [*TF32, IEEE, *OTHERS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("matmul/tf32 accurate sm_90", True),
        ("matmul/tf32/64x64x32 accurate sm_90", True),
        ("matmul/tf32/*x64* accurate sm_90", True),
        ("mat*/tf?2 acc* sm_9[0-5]", True),
        ("matmul/tf32/[!6]* accurate sm_90", True),
        ("matmul accurate sm_90", False),
        ("matmul/ieee accurate sm_90", False),
        ("matmul/tf32 accurate", False),
        ("matmul/tf32 accurate sm_80", False),
        ("matmul/tf32 accurate sm_75", False),
        ("matmul/tf32 accurate sm_[79]*", True),
        ("matmul/tf32 timed sm_90", False),
        ("MATMUL/tf32 accurate sm_90", False),
        ("softmax timed sm_90", True),
        ("softmax interpreted", True),
        ("softmax * ", True),
        ("softmax interpreted sm_90", False),
        ("* gated", True),
        ("tf32 accurate sm_90", False),
        ("status FAILED", True),
        ("status VERIFIED", False),
        ('status VERIFIED|"PARTIALLY VERIFIED"', False),
    ],
)
def test_what_a_requirement_asks_for(text: str, expected: bool) -> None:
    assert met(text, *ALL) is expected


def test_what_falls_short_is_named_with_its_reason() -> None:
    said = unmet(read_requirement("matmul accurate sm_90"), claims_of(*ALL))
    assert said == "matmul/ieee/64x64x32 accurate sm_90 is failed (wrong-value): 2 of 9 elements are past"
    assert unmet(read_requirement("conv accurate"), claims_of(*ALL)) == "no claim matches"
    assert unmet(read_requirement("status VERIFIED"), claims_of(*ALL)) == "the status is FAILED"


def test_of_many_that_fall_short_a_few_are_named() -> None:
    many = [claim("matmul", f"tf32/c{at}", "timed", "sm_90", "untested", "no-device", "no device") for at in range(5)]
    said = unmet(read_requirement("matmul timed"), claims_of(*many))
    assert said is not None
    assert said.count("is untested (no-device)") == 3
    assert said.endswith("; and 2 more")


def test_where_nothing_applies_nothing_is_shown() -> None:
    said = unmet(read_requirement("matmul/tf32 accurate sm_75"), claims_of(*ALL))
    assert said is not None
    assert "is inapplicable (capability)" in said


def test_a_stale_claim_does_not_do() -> None:
    stale = replaced(TF32[0], freshness="stale")
    assert unmet(read_requirement("matmul accurate"), claims_of(stale)) == (
        "matmul/tf32/64x64x32 accurate sm_90 is stale: 9 of 9 cases passed"
    )


# Laws

some_claims = st.lists(
    st.builds(
        lambda variant, tier, target, outcome, fresh: replaced(
            claim("k", f"{variant}/c", tier, target, outcome), freshness=fresh
        ),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["accurate", "timed"]),
        st.sampled_from(["sm_80", "sm_90"]),
        st.sampled_from(OUTCOMES),
        st.sampled_from(["current", "stale"]),
    ),
    max_size=6,
)
requirements = st.sampled_from(["k accurate", "k/a accurate", "k * sm_90", "k/b timed sm_80", "* *"])


@given(requirements, some_claims)
def test_it_is_met_exactly_where_some_match_passed_and_none_that_applies_fell_short(
    text: str, claims: list[Claim]
) -> None:
    requirement = read_requirement(text)
    assert isinstance(requirement, ClaimsRequired)
    asked = [one for one in claims if requirement.matches(one) and one.outcome != "inapplicable"]
    good = [one for one in asked if one.outcome == "passed" and one.freshness == "current"]
    assert met(text, *claims) == (bool(asked) and len(good) == len(asked))


@given(requirements, some_claims, st.data())
def test_taking_away_what_passed_meets_nothing_new(text: str, claims: list[Claim], data: st.DataObject) -> None:
    passed = [at for at, one in enumerate(claims) if one.outcome == "passed" and one.freshness == "current"]
    if passed and not met(text, *claims):
        at = data.draw(st.sampled_from(passed))
        assert not met(text, *claims[:at], *claims[at + 1 :])

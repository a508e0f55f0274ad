"""What catches a planted fault and what becomes of it: laws over whatever tiers can have seen."""

from typing import Any, get_args

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import acceptance, exposure, mutant, replaced

from assay.catching import (
    EVERYWHERE,
    RAISED,
    acceptances,
    accepted_places,
    continued,
    expose,
    fate,
    has_run,
    is_open,
    is_settled,
    line,
    looking,
    outcome,
    score,
    word_on,
    wrong_words,
)
from assay.mutation import mutants as planted_in
from assay.original import TIERS
from assay.record import Cause, Equivalent, Exposure, Mutant, Teeth, Verdict

PASSED = Verdict(outcome="passed", reason="as it should be")
BARRED = Verdict(outcome="inapplicable", cause="does-not-fit", reason="it does not fit")
LOOKED: tuple[Cause, ...] = ("wrong-value", "crash", "timeout", "poison-read", "instructions", "race")


def failed(cause: Cause) -> Verdict:
    return Verdict(outcome="failed", cause=cause, reason=f"it was {cause}")


raises = st.sampled_from(RAISED).map(failed)
faults = st.sampled_from(LOOKED).map(failed)
verdicts = st.one_of(st.just(PASSED), st.just(BARRED), raises, faults)
sights = st.lists(verdicts, max_size=8).map(lambda found: [(f"place {at}", v) for at, v in enumerate(found)])
tiers = st.sampled_from(TIERS)


@given(tiers, sights, st.booleans())
def test_a_fault_that_something_looked_at_is_caught_where_it_was_first_seen(tier: Any, seen: Any, ran: bool) -> None:
    found = expose(tier, seen, ran)
    wrong = [(place, verdict) for place, verdict in seen if verdict.outcome == "failed"]
    if not wrong:
        assert found.verdict.outcome != "failed"
    else:
        assert (found.place, found.verdict) in wrong
    if wrong and wrong[0][1].cause not in RAISED:
        assert (found.place, found.verdict) == wrong[0]


@given(tiers, sights, st.integers(0, 8), st.booleans())
def test_a_tier_in_two_parts_sees_what_it_would_have_seen_in_one(tier: Any, seen: Any, at: int, ran: bool) -> None:
    first = expose(tier, seen[:at], ran)
    whole = expose(tier, seen, ran)
    if is_settled(first, ran):
        assert first == whole
        return
    both = continued(first, expose(tier, seen[at:], ran or has_run([first])))
    assert (both.verdict.outcome, bool(both.passed)) == (whole.verdict.outcome, bool(whole.passed))
    assert both == whole or both.verdict.outcome == "failed" or not both.passed


@given(tiers, sights)
def test_what_passes_counts_what_it_passed(tier: Any, seen: Any) -> None:
    found = expose(tier, seen)
    if found.verdict.outcome == "passed":
        assert found.place == EVERYWHERE
        assert found.passed == sum(verdict == PASSED for _, verdict in seen) > 0
        assert str(found.passed) in found.verdict.reason


@given(tiers, st.lists(raises, min_size=1, max_size=5), st.lists(st.just(BARRED), max_size=3))
def test_what_only_raises_passed_nothing_and_is_named_first(tier: Any, raised: Any, barred: Any) -> None:
    seen = [(f"place {at}", verdict) for at, verdict in enumerate([*barred, *raised])]
    found = expose(tier, seen)
    assert (found.place, found.verdict, found.passed) == (f"place {len(barred)}", raised[0], 0)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_what_raises_in_one_place_and_passes_in_another_is_caught(order: list[int]) -> None:
    seen = [("raises", failed("exception")), ("passes", PASSED)]
    found = expose("interpreter", [seen[at] for at in order])
    assert (found.place, found.passed) == ("raises", 1)
    assert fate([found], None) == "caught"


def test_nothing_more_is_looked_at_once_it_is_caught() -> None:
    def seen() -> Any:
        yield "first", PASSED
        yield "second", failed("wrong-value")
        raise AssertionError("looked on")

    assert expose("interpreter", seen()).place == "second"


def test_what_ran_before_and_raises_now_is_looked_at_no_further() -> None:
    def seen() -> Any:
        yield "first", failed("exception")
        raise AssertionError("looked on")

    assert expose("gpu", seen(), ran=True).verdict.cause == "exception"


def test_what_cannot_be_looked_at_says_why() -> None:
    assert expose("gpu", [("somewhere", BARRED)]).verdict == BARRED
    assert expose("gpu", []).verdict.outcome == "untested"


# What becomes of it


@st.composite
def exposures(draw: Any) -> list[Exposure]:
    return [expose(tier, draw(sights)) for tier in TIERS[: draw(st.integers(0, 3))]]


places = st.none() | st.just("ieee/64x64x32 sm_90 aligned")


@given(exposures(), places)
def test_only_a_tier_catches_and_only_the_compiler_proves_equivalence(seen: list[Exposure], differs: Any) -> None:
    found = fate(seen, differs)
    outcomes = {exposure.verdict.outcome for exposure in seen}
    assert (found in ("caught", "invalid")) == ("failed" in outcomes)
    if found == "equivalent":
        assert differs is None
        assert has_run(exposure for exposure in seen if exposure.tier == "compile")
    if found == "invalid":
        assert all(e.verdict.cause in RAISED and not e.passed for e in seen if e.verdict.outcome == "failed")
        assert not has_run(seen)


@given(exposures(), places)
def test_a_tier_looks_exactly_where_those_before_left_it_open(seen: list[Exposure], differs: Any) -> None:
    looked = looking(TIERS, seen, differs)
    assert looked == list(TIERS)[: len(looked)]
    if seen:
        assert looked
    for at in range(1, len(looked)):
        assert is_open(seen[:at], differs)


def test_what_raises_in_two_tiers_is_not_looked_at_by_a_third() -> None:
    raised = [expose(tier, [("everywhere", failed("compile-error"))]) for tier in ("interpreter", "compile")]
    assert looking(TIERS, raised, None) == ["interpreter", "compile"]
    assert fate(raised, None) == "invalid"


def test_a_tier_with_nothing_to_look_at_counts_as_none() -> None:
    seen = [expose("interpreter", []), expose("compile", [("everywhere", failed("compile-error"))])]
    assert looking(TIERS, seen, None) == list(TIERS)
    assert fate(seen, None) == "invalid"


def test_what_raises_in_one_tier_and_runs_in_another_is_caught() -> None:
    one, two = expose("interpreter", [("x", failed("exception"))]), expose("compile", [("y", PASSED)])
    assert fate([one], None) == "invalid"
    assert fate([one, two], None) == "caught"
    assert looking(TIERS, [one, two], None) == ["interpreter", "compile"]


# The author's word

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, n):
    total = tl.zeros((4,), tl.float32)  # starts at 0
    total = tl.zeros((4,), tl.float32)
    x = tl.load(
        x_ptr,
        mask=x_ptr < n,
        other=0.0,
    )
"""


def word(source: str, *operators: str) -> Equivalent:
    return Equivalent(operators=list(operators), source=source, why="it is scaled by 0")


def lines_of(source: str, *operators: str) -> list[int]:
    planted = planted_in(SOURCE)
    (found,) = acceptances([word(source, *operators)], planted)
    return [planted[at].line for at in found.mutants]


def test_a_word_is_about_the_faults_of_its_operators_in_its_line_wherever_that_stands() -> None:
    assert lines_of("total = tl.zeros((4,), tl.float32)", "change-initial") == [9]
    assert lines_of("  total = tl.zeros((4,), tl.float32)  # starts at 0", "change-initial") == [8]
    assert lines_of("total = tl.zeros((4,), tl.float32)", "drop-mask", "sum-to-max") == []
    assert lines_of("tl.zeros((4,), tl.float32)", "change-initial") == []
    # A fault in a statement of several lines is in the line where what changes begins.
    assert lines_of("mask=x_ptr < n,", "shift-comparison", "change-other") == [12]
    assert lines_of("other=0.0,", "shift-comparison", "change-other") == [13]


@given(exposures(), places, st.sampled_from([PASSED, failed("wrong-value"), BARRED]), st.booleans())
def test_a_word_is_taken_only_for_what_nothing_caught(seen: Any, differs: Any, baseline: Verdict, named: bool) -> None:
    found = fate(seen, differs)
    became = outcome(found, baseline, named)
    accepts = named and found == "survived" and baseline.outcome != "failed"
    assert became == ("accepted" if accepts else found)


def judged(*outcomes: str, operators: tuple[str, ...] = ("change-initial",)) -> Teeth:
    """Return faults of these fates, all of them accepted by one word on these operators."""
    made = [mutant("change-initial", of, [exposure("interpreter", None)]) for of in outcomes]  # type: ignore[arg-type]
    one = replaced(acceptance("change-initial", *range(len(made))), equivalent=word("total = 0", *operators))
    return replaced(records.teeth(), mutants=made, acceptances=[one])  # type: ignore[no-any-return]


@pytest.mark.parametrize("outcomes", [["accepted"], ["accepted", "equivalent"], ["invalid"], ["equivalent"]])
def test_a_word_that_nothing_contradicts_is_not_wrong(outcomes: list[str]) -> None:
    assert wrong_words(judged(*outcomes)) == []


@pytest.mark.parametrize("outcomes", [["caught"], ["accepted", "caught"], ["survived"]])
def test_a_word_on_what_is_caught_is_wrong(outcomes: list[str]) -> None:
    (said,) = wrong_words(judged(*outcomes))
    assert said == "the kernel file accepts change-initial in 'total = 0' as no fault, and it is caught"


def test_a_word_on_what_is_not_planted_is_wrong_operator_by_operator() -> None:
    nowhere = "the kernel file accepts {} in 'total = 0', where no such fault is planted"
    assert wrong_words(judged()) == [nowhere.format("change-initial")]
    both = judged("accepted", operators=("change-initial", "swap-branches", "swap-branches"))
    assert wrong_words(both) == [nowhere.format("swap-branches")]


def test_a_word_on_places_that_are_not_there_raises_nothing() -> None:
    strange = replaced(records.teeth(), acceptances=[acceptance("change-initial", 99)])
    assert len(wrong_words(strange)) == 1


def test_each_fault_has_the_word_that_is_on_it() -> None:
    found = replaced(records.teeth(), acceptances=[acceptance("a", 1, 3), acceptance("b", 2, 3, why="another reason")])
    assert [word_on(found, at) for at in range(4)] == ["", "it is scaled by 0", "another reason", "it is scaled by 0"]
    assert accepted_places(found.acceptances) == {1, 2, 3}


# The score


@given(st.lists(st.sampled_from(records.teeth().mutants), max_size=12))
def test_every_change_is_counted_once(mutants: list[Mutant]) -> None:
    total = score(mutants)
    assert total.faults == total.caught + total.survived
    assert total.faults + total.equivalent + total.accepted + total.invalid == len(mutants)
    assert 0 <= total.baseline <= total.faults


@given(*[st.lists(st.sampled_from(records.teeth().mutants), max_size=12)] * 2)
def test_the_score_of_two_kernels_is_that_of_all_their_faults(one: list[Mutant], other: list[Mutant]) -> None:
    assert score(one) + score(other) == score([*one, *other])


def test_the_line_says_what_became_of_all() -> None:
    found = replaced(records.teeth(), tiers=["interpreter", "compile"])
    assert line("matmul", found) == (
        "matmul: 5 of 6 planted faults caught (interpreter 4, compile 1), 1 accepted as equivalent on the author's "
        "word, 1 equivalent, 1 invalid, 1 survived; the reference's shapes and tolerance alone catch 1"
    )
    contradicted = replaced(found, acceptances=[acceptance("drop-mask", 0)])
    assert line("matmul", contradicted).endswith(
        "; the kernel file accepts drop-mask in 'x = load(x_ptr, drop-mask=1)' as no fault, and it is caught"
    )
    broken = replaced(found, loading=failed("import-error"), tiers=[], mutants=[])
    assert line("matmul", broken) == "matmul: no fault can be planted: it was import-error"


def test_every_cause_of_what_only_raises_is_one_of_running() -> None:
    assert set(RAISED) <= set(get_args(Cause))

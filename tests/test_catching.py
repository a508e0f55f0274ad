"""What catches a planted fault and what becomes of it: laws over whatever tiers can have seen."""

from typing import Any, get_args

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import replaced

from assay.catching import EVERYWHERE, RAISED, expose, fate, has_run, is_open, line, looking, score
from assay.original import TIERS
from assay.record import Cause, Exposure, Mutant, Verdict

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


def test_what_raises_in_one_tier_and_runs_in_another_is_caught() -> None:
    one, two = expose("interpreter", [("x", failed("exception"))]), expose("compile", [("y", PASSED)])
    assert fate([one], None) == "invalid"
    assert fate([one, two], None) == "caught"
    assert looking(TIERS, [one, two], None) == ["interpreter", "compile"]


# The score


@given(st.lists(st.sampled_from(records.teeth().mutants), max_size=12))
def test_every_change_is_counted_once(mutants: list[Mutant]) -> None:
    total = score(mutants)
    assert total.faults == total.caught + total.survived
    assert total.faults + total.equivalent + total.invalid == len(mutants)
    assert 0 <= total.baseline <= total.faults


def test_the_line_says_what_became_of_all() -> None:
    found = replaced(records.teeth(), tiers=["interpreter", "compile"])
    assert line("matmul", found) == (
        "matmul: 5 of 6 planted faults caught (interpreter 4, compile 1), 1 equivalent, 1 invalid, 1 survived; "
        "the reference's shapes and tolerance alone catch 1"
    )
    broken = replaced(found, loading=failed("import-error"), tiers=[], mutants=[])
    assert line("matmul", broken) == "matmul: no fault can be planted: it was import-error"


def test_every_cause_of_what_only_raises_is_one_of_running() -> None:
    assert set(RAISED) <= set(get_args(Cause))

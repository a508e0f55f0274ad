"""What became of the planted faults: each is counted once for the score, and named where nothing caught it."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import NO_DRIVER, PASSED, acceptance, device, evidence, exposure, mutant, replaced, teeth

from assay.catching import score
from assay.child import Fault
from assay.diagnosis import diagnose
from assay.outcomes import BLOCKED
from assay.planted import Planted, build_planted, how, total
from assay.record import Cause, Mutant, Verdict

WRONG = Verdict(outcome="failed", cause="wrong-value", reason="it was wrong-value")
mutants = st.builds(
    mutant,
    operator=st.just("drop-mask"),
    outcome=st.sampled_from(["caught", "survived", "equivalent", "accepted", "invalid"]),
    exposures=st.lists(st.builds(exposure, st.just("gpu"), st.none() | st.just("race")), max_size=2),
    baseline=st.sampled_from([PASSED, WRONG]),
)


def section(result: object = None) -> Planted:
    return build_planted("matmul", {"teeth": evidence("teeth", result or teeth(), "matmul")})  # type: ignore[arg-type]


@given(st.lists(st.lists(mutants), max_size=3))
def test_the_score_of_all_kernels_is_that_of_all_their_faults(kernels: list[list[Mutant]]) -> None:
    sections = [section(replaced(teeth(), mutants=found)) for found in kernels]
    assert total(sections) == score([one for found in kernels for one in found])


def test_the_sentences_give_the_score_and_that_of_the_reference() -> None:
    found = section()
    assert found.sentence == (
        "5 of 6 faults planted in matmul were caught, 1 accepted as equivalent on the author's word; 1 survived. "
        "1 further changes compile to the same code, and 1 cannot run. Tiers that looked: compile, interpreter."
    )
    assert found.comparison == (
        "The reference script's own shapes and tolerance catch 1 of 6 of these faults; this pipeline catches 5 of 6, "
        "1 accepted as equivalent on the author's word."
    )


def test_where_nothing_is_accepted_nothing_is_said_of_it() -> None:
    found = section(replaced(teeth(), mutants=teeth().mutants[:2], acceptances=[]))
    assert "accepted" not in found.sentence + found.comparison
    assert (found.accepted, found.wrong) == ([], [])


def test_what_is_accepted_is_named_with_the_authors_word_and_not_as_caught() -> None:
    found = section()
    (accepted,) = found.accepted
    assert (accepted.operator, accepted.why, accepted.mark.word) == ("change-initial", "it is scaled by 0", "accepted")
    assert [row.why for row in found.rows if row != accepted] == [""] * 8
    assert accepted not in [*found.survivors, *found.equivalents]


def test_a_word_that_is_wrong_is_named() -> None:
    found = section(replaced(teeth(), acceptances=[acceptance("drop-mask", 0)]))
    assert found.wrong == [
        "The kernel file accepts drop-mask in 'x = load(x_ptr, drop-mask=1)' as no fault, and it is caught."
    ]
    assert found.rows[0].why == ""


def test_a_device_that_looked_is_named() -> None:
    assert section(teeth(device())).sentence.endswith("compile, interpreter, gpu on NVIDIA H200.")


def test_faults_are_counted_by_tier_and_by_what_it_saw() -> None:
    assert [(row.tier, row.how, row.count) for row in section().caught] == [
        ("interpreter", "poison seen", 1),
        ("interpreter", "sentinel broken", 1),
        ("interpreter", "undefined value seen", 1),
        ("interpreter", "wrong value", 1),
        ("compile", "instruction gate", 1),
    ]


def test_a_fault_that_two_tiers_saw_counts_for_each_but_once_in_the_score() -> None:
    both = [exposure("interpreter", "wrong-value"), exposure("gpu", "wrong-value"), exposure("gpu", "wrong-value")]
    found = section(replaced(teeth(), mutants=[mutant("wrong-axis", "caught", both)]))
    assert [(row.tier, row.count) for row in found.caught] == [("interpreter", 1), ("gpu", 1)]
    assert found.score.caught == 1


def test_survivors_and_equivalents_are_named_with_their_line_and_change() -> None:
    found = section(teeth(device()))
    (survivor,), (equivalent,) = found.survivors, found.equivalents
    assert (survivor.line, survivor.source, survivor.replacement) == (
        11,
        "x = load(x_ptr, int64-to-int32=1)",
        "x = load(x_ptr, int64-to-int32=2)",
    )
    assert [said.split(",")[0] for said in survivor.seen] == ["interpreter", "gpu"]
    assert all(said.endswith("saw nothing") for said in survivor.seen)
    assert (equivalent.line, equivalent.operator, equivalent.mark.word) == (12, "constant", "equivalent")
    assert found.rows[5] == survivor
    assert survivor.pointer == "/result/mutants/5"


def test_a_caught_fault_says_which_tier_caught_it_where_and_why() -> None:
    found = section().rows
    assert found[0].seen == ["interpreter, ieee/64x64x32 ragged-197x131x77: poison seen, it was poison-read"]
    assert found[0].ways == ["interpreter: poison seen"]
    assert (found[0].baseline, found[2].baseline) == ("", "wrong value")


def test_every_change_stands_under_what_it_changes_once_and_in_order() -> None:
    found = section(teeth(device()))
    assert [row for _, rows in found.places for row in rows] == found.rows
    assert all((row.line, row.source) == place for place, rows in found.places for row in rows)
    assert all(one != other for (one, _), (other, _) in pairwise(found.places))


def test_a_change_says_in_short_who_caught_it_or_what_became_of_it() -> None:
    found = section(teeth(device()))
    assert found.rows[0].became == "interpreter: poison seen"
    assert (found.survivors[0].became, found.equivalents[0].became) == ("survived", "equivalent")


def test_a_tier_that_could_not_look_says_why() -> None:
    absent = replaced(exposure("gpu", None), verdict=NO_DRIVER)
    (row,) = section(replaced(teeth(), mutants=[mutant("race", "survived", [absent])])).survivors
    assert row.seen[0].endswith(f"could not look ({NO_DRIVER.reason})")


def test_a_kernel_that_does_not_load_says_why() -> None:
    found = section(replaced(teeth(), loading=NO_DRIVER, mutants=[]))
    assert found.obstacle is not None
    assert (found.obstacle.mark, found.obstacle.source.pointer) == (BLOCKED, "/result/loading")


@pytest.mark.parametrize("cause", [None, *get_args(Cause)])
def test_every_cause_has_words(cause: Cause | None) -> None:
    said = how(Verdict(outcome="failed", cause=cause, reason="it was so"))
    assert said
    assert "-" not in said


@pytest.mark.parametrize(
    ("kind", "refused", "seen"),
    [
        ("OutsideRead", "read outside refused", "poison seen"),
        ("OutsideWrite", "write outside refused", "sentinel broken"),
    ],
)
def test_an_access_that_was_refused_is_told_from_one_that_left_a_trace(kind: str, refused: str, seen: str) -> None:
    verdict = diagnose(Fault("exception", f"kernels/x.py:5: {kind}: load of element 100", kind), "f32")
    assert how(verdict) == refused
    assert how(replaced(verdict, reason="3 elements hold what lies outside an input")) == seen

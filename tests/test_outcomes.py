"""Every outcome has a mark of its own, told apart by word, symbol and style."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.outcomes import BLOCKED, INAPPLICABLE, MARKS, NOT_RUN, Mark, mark_of, tally
from assay.record import Cause, Outcome


def test_no_two_marks_share_word_symbol_or_style() -> None:
    for values in ({m.word for m in MARKS}, {m.symbol for m in MARKS}, {m.style for m in MARKS}):
        assert len(values) == len(MARKS)


@given(st.sampled_from(get_args(Outcome)), st.none() | st.sampled_from(get_args(Cause)))
def test_every_outcome_has_a_mark(outcome: Outcome, cause: Cause | None) -> None:
    assert mark_of(outcome, cause) in MARKS


@pytest.mark.parametrize("cause", ["no-driver", "no-device", "upstream", "capability"])
def test_untested_for_an_obstacle_is_blocked(cause: Cause) -> None:
    assert mark_of("untested", cause) == BLOCKED


@pytest.mark.parametrize("cause", [None, "not-measured", "policy"])
def test_untested_without_an_obstacle_is_not_run(cause: Cause | None) -> None:
    assert mark_of("untested", cause) == NOT_RUN


@given(st.lists(st.sampled_from(MARKS)))
def test_a_tally_counts_each_mark_once_in_order(marks: list[Mark]) -> None:
    counted = tally(marks)
    assert dict(counted) == {mark: marks.count(mark) for mark in set(marks)}
    assert [mark for mark, _ in counted] == [mark for mark in MARKS if mark in marks]


def test_what_cannot_apply_is_not_called_blocked() -> None:
    assert mark_of("inapplicable", "does-not-fit") == INAPPLICABLE

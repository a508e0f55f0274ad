"""What a wrong result depends on: named where bits change with one thing alone, and left open everywhere else."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trials import DOUBLE, Bench, bench, changed, written

from assay.dependence import COINCIDENCE, LOOKS, Left, Look, chance, explained, kept
from assay.record import Check, Comparison, Verdict, Worst
from assay.undefined import DECIDED

WRONG = Verdict(outcome="failed", cause="wrong-value", reason="3 of 4 elements of 'y' are past the bound")
RIGHT: Left = {"y": torch.arange(4.0), "z": torch.arange(3, dtype=torch.int8)}
LAUNCH = '    x, y = inputs["x"], outputs["y"]\n'


def other(left: Left) -> Left:
    return {**left, "y": left["y"] + torch.tensor([0.0, 1.0, 0.0, 1.0])}


@given(st.sampled_from(LOOKS))
def test_what_alone_changes_the_bits_is_named_and_the_numbers_stay(cause: Look) -> None:
    verdict = explained(WRONG, RIGHT, lambda look: other(RIGHT) if look is cause else RIGHT)
    assert (verdict.outcome, verdict.cause) == ("failed", cause.cause)
    assert verdict.reason == f"{cause.says.format('2 of 7 elements of the outputs')}: {WRONG.reason}"


def test_bits_are_compared_so_that_the_same_nan_is_no_change_and_another_is() -> None:
    nans = {"y": torch.full((4,), float("nan"))}
    assert explained(WRONG, nans, lambda look: nans) is WRONG
    negative = {"y": -nans["y"]}
    assert explained(WRONG, nans, lambda look: negative).cause == "stale-result"


def test_what_changes_by_itself_is_blamed_on_nothing_else() -> None:
    asked: list[Look] = []

    def again(look: Look) -> Left:
        asked.append(look)
        return other(RIGHT)

    assert explained(WRONG, RIGHT, again).cause == "stale-result"
    assert asked == [LOOKS[0]]


@given(st.sampled_from(range(len(LOOKS))))
def test_where_a_launch_cannot_tell_the_verdict_stays(at: int) -> None:
    answers = iter([*[RIGHT] * at, None])
    assert explained(WRONG, RIGHT, lambda look: next(answers)) is WRONG


def test_every_look_is_named_by_a_cause_of_its_own_that_is_not_looked_into_again() -> None:
    causes = [look.cause for look in LOOKS]
    assert len(set(causes)) == len(causes)
    assert not set(causes) & set(DECIDED)


def compared(past: int) -> list[Comparison]:
    worst = Worst(index=[0], got=1.0, want=0.0, error=1.0, bound=0.0)
    return [
        Comparison(
            output="y",
            dtype="float32",
            shape=[100],
            rule="ulp",
            bound="0 ulp",
            elements=100,
            past_bound=past,
            largest_error=1.0,
            largest_reference=1.0,
            normalised_error=1.0,
            worst=worst,
        )
    ]


@given(st.integers(0, 100), st.dictionaries(st.integers(1, 9), st.integers(0, 1)))
def test_a_result_is_an_earlier_seeds_where_it_is_right_for_that_one_and_no_coincidence(
    past: int, earlier: dict[int, int]
) -> None:
    verdict = kept(WRONG, compared(past), {seed: compared(count) for seed, count in earlier.items()})
    if past >= COINCIDENCE and 0 in earlier.values():
        assert verdict.cause == "stale-result"
        assert re.fullmatch(
            rf"the result is that of seed \d, tried before: an .* left it: {WRONG.reason}", verdict.reason
        )
    else:
        assert verdict is WRONG


@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(1), lambda: np.random.rand(1), lambda: __import__("random").random()]
)
def test_drawing_a_random_number_shows(draw: Callable[[], object]) -> None:
    before = chance()
    assert chance() == before
    draw()
    assert chance() != before


# In the real child


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("dependence") / "child.log")
    with made.child:
        yield made


def verdict_of(tried: Bench, folder: Path, *changes: tuple[str, str], seeds: tuple[int, ...] = (1, 2)) -> Verdict:
    check = tried.check(written(folder, "double", changed(DOUBLE, *changes)), "f32/block64", "ragged", seeds)
    assert isinstance(check, Check), check
    return check.verdict


PAST = (
    r"\d+ of 100 elements of 'y' are past the reduction bound: at \(\d+,\) got \S+, want \S+; an error of at most \S+"
)


def test_a_result_that_adds_up_from_call_to_call_is_stale(tried: Bench, tmp_path: Path) -> None:
    keeping = (LAUNCH, LAUNCH + "    KEPT.append(x.clone())\n    x = sum(KEPT)\n")
    verdict = verdict_of(tried, tmp_path, ("def launch", "KEPT = []\n\n\ndef launch"), keeping)
    assert verdict.cause == "stale-result"
    assert re.match(
        rf"100 of 100 elements of the outputs change in another launch on the same inputs: .* left: {PAST}",
        verdict.reason,
    )


def test_a_random_result_is_wrong_and_not_said_to_be_kept(tried: Bench, tmp_path: Path) -> None:
    for draw in ("torch.randn(100)", "sum([__import__('random').random()]) * x"):
        verdict = verdict_of(tried, tmp_path, (LAUNCH, LAUNCH + f"    x = {draw}\n"))
        assert verdict.cause == "wrong-value", verdict


def test_a_second_launch_that_fails_takes_nothing_from_the_first(tried: Bench, tmp_path: Path) -> None:
    once = (LAUNCH, LAUNCH + "    assert not KEPT\n    KEPT.append(1)\n    x = 3 * x\n")
    verdict = verdict_of(tried, tmp_path, ("def launch", "KEPT = []\n\n\ndef launch"), once, seeds=(1,))
    assert verdict.cause == "wrong-value"
    assert re.match(PAST, verdict.reason)


def test_what_passes_is_launched_once_for_each_seed(tried: Bench, tmp_path: Path) -> None:
    limited = (LAUNCH, LAUNCH + "    KEPT.append(1)\n    assert len(KEPT) <= 3\n")
    verdict = verdict_of(tried, tmp_path, ("def launch", "KEPT = []\n\n\ndef launch"), limited, seeds=(1, 2, 3))
    assert verdict.outcome == "passed"

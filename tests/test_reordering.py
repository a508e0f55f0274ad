"""What launches under other schedules show: with launches that do what each schedule would make of a kernel."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from assay.buffers import guard_output
from assay.dependence import Left
from assay.record import Verdict
from assay.reordering import Reordered
from assay.schedules import LANE_BY_LANE, EndlessError, Schedule, StuckError, Watch, current_watch

PASSED = Verdict(outcome="passed", reason="within the bound")
Values = dict[Schedule, float | Exception]


@dataclass
class Scripted:
    """A launch that writes, or raises, what stands beside the schedule it runs under."""

    values: Values
    schedules: list[Schedule] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output = guard_output((4,), torch.float32, "contiguous", "cpu")
        self.output.tensor.fill_(1.0)

    def launch(self) -> None:
        watch = current_watch()
        assert watch is not None
        self.schedules.append(watch.schedule)
        value = self.values.get(watch.schedule, 1.0)
        if isinstance(value, Exception):
            raise RuntimeError("as the interpreter wraps it") from value
        self.output.tensor.fill_(value)

    def reordered(self, judge: Callable[[Left], Verdict] = lambda _: PASSED) -> Reordered:
        return Reordered({}, {"y": self.output}, self.launch, judge)


def watch(**seen: object) -> Watch:
    return Watch("in order", (), **seen)  # type: ignore[arg-type]


def only_ones(left: Left) -> Verdict:
    good = bool((left["y"] == 1).all())
    return PASSED if good else Verdict(outcome="failed", cause="wrong-value", reason="4 of 4 elements are wrong")


def test_without_a_reason_to_ask_nothing_is_launched() -> None:
    scripted = Scripted({})
    assert scripted.reordered().raced(watch()) is None
    assert scripted.reordered().strays(watch()) is None
    assert scripted.schedules == []


@pytest.mark.parametrize(
    ("waits", "schedule", "words"),
    [
        (False, "at once", "programs run at once"),
        (False, "reversed", "programs and lanes run in reversed order"),
        (True, "late", "what one program stores comes after what another does"),
    ],
)
def test_a_result_that_differs_is_a_race_and_outputs_are_put_back(waits: bool, schedule: Schedule, words: str) -> None:
    scripted = Scripted({schedule: 2.0})
    found = scripted.reordered().raced(watch(conflict="programs 0 and 1 store", waits=waits))
    assert found is not None
    assert (found.cause, found.reason) == (
        "race",
        f"4 of 4 output elements differ where {words}: programs 0 and 1 store",
    )
    assert bool((scripted.output.tensor == 1).all())


@pytest.mark.parametrize(("schedule", "which"), [("first lane first", "first"), ("last lane first", "last")])
def test_lanes_in_conflict_are_tried_lane_by_lane(schedule: Schedule, which: str) -> None:
    scripted = Scripted({schedule: 2.0})
    found = scripted.reordered().raced(watch(unfenced="lanes store"))
    assert found is not None
    assert found.reason == (
        f"4 of 4 output elements differ where a program's lanes run one after another, the {which} one first: "
        "lanes store"
    )
    assert set(scripted.schedules) <= {"in order", *LANE_BY_LANE}


def test_each_schedule_is_tried_for_its_own_conflict() -> None:
    assert watch(conflict="programs", unfenced="lanes", waits=True).alternatives == {
        "at once": "programs",
        "late": "programs",
        "first lane first": "lanes",
        "last lane first": "lanes",
    }


def test_what_changes_by_itself_shows_nothing_about_order() -> None:
    scripted = Scripted({"in order": 3.0, "at once": 2.0, "reversed": 2.0})
    assert scripted.reordered().raced(watch(conflict="one")) is None
    assert scripted.reordered(only_ones).strays(watch(draws="")) is None
    assert set(scripted.schedules) == {"in order"}


def test_a_launch_that_raises_where_programs_run_otherwise_is_a_race() -> None:
    found = Scripted({"at once": ValueError("not today")}).reordered().raced(watch(conflict="one"))
    assert found is not None
    assert found.reason == "the launch raises RuntimeError where programs run at once: one"


@pytest.mark.parametrize("kind", [StuckError, EndlessError])
def test_a_program_that_waits_for_ever_shows_nothing(kind: type[Exception]) -> None:
    values: Values = dict.fromkeys(("at once", "late", "reversed"), kind("for ever"))
    assert Scripted(values).reordered().raced(watch(conflict="one", waits=True)) is None
    assert Scripted(values).reordered(only_ones).strays(watch(draws="kernels/k.py:7")) is None


def test_what_atomic_operations_draw_is_held_to_the_bounds_and_not_to_the_bits() -> None:
    within = Scripted({"reversed": 1.5}).reordered()
    assert within.strays(watch(draws="")) is None
    found = Scripted({"reversed": 1.5}).reordered(only_ones).strays(watch(draws="kernels/k.py:7"))
    assert found is not None
    assert found.cause == "race"
    assert found.reason == (
        "where programs and lanes come to an atomic operation in reversed order (kernels/k.py:7), "
        "4 of 4 elements are wrong"
    )


def test_what_is_combined_otherwise_keeps_the_cause_of_its_bound() -> None:
    found = Scripted({"grouped": 2.0}).reordered(only_ones).strays(watch(combines=True))
    assert found is not None
    assert found.cause == "wrong-value"
    assert found.reason.startswith(
        "where what is reduced, scanned or concatenated comes as the threads of a GPU have it"
    )

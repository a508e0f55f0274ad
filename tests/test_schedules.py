"""What launches under the interpreter say of order, and what the other schedules make of them."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from project import PYTHON_PATH

from assay.child import interpreting_environment
from assay.conflicts import Access, Conflict
from assay.schedules import RELEASES_WAIT, described

SCRIPT = """
import json

import torch
import triton
import triton.language as tl

from assay.interpreting import mend_interpreter
from assay.schedules import watching

mend_interpreter()


@triton.jit
def add(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(y_ptr) + tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def add_twice(x_ptr, y_ptr):
    for _ in range(2):
        tl.store(y_ptr, tl.load(y_ptr) + tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def add_atomically(x_ptr, y_ptr):
    tl.atomic_add(y_ptr, tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def add_locked(x_ptr, y_ptr, lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + tl.load(x_ptr + tl.program_id(0)))
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def add_before_the_lock(x_ptr, y_ptr, lock_ptr):
    tl.store(y_ptr, tl.load(y_ptr) + tl.load(x_ptr + tl.program_id(0)))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def pass_on(x_ptr, y_ptr, flag_ptr):
    program = tl.program_id(0)
    if program > 0:
        while tl.load(flag_ptr + program - 1, volatile=True) == 0:
            pass
        tl.store(y_ptr, tl.load(y_ptr) + tl.load(x_ptr + program))
    tl.store(flag_ptr + program, 1)


@triton.jit
def pass_on_early(x_ptr, y_ptr, flag_ptr, sum_ptr):
    program = tl.program_id(0)
    before = 0.0
    if program > 0:
        while tl.load(flag_ptr + program - 1, volatile=True) == 0:
            pass
        before = tl.load(sum_ptr + program - 1, volatile=True)
    tl.store(flag_ptr + program, 1)
    total = before + tl.load(x_ptr + program)
    tl.store(sum_ptr + program, total)
    tl.store(y_ptr + program, total)


@triton.jit
def count(x_ptr, y_ptr, part_ptr, count_ptr, LEFT: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), tl.load(x_ptr + tl.program_id(0)))
    if tl.atomic_add(count_ptr, 1, sem=SEM, scope=SCOPE) >= tl.num_programs(0) - LEFT:
        tl.store(y_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, 4))))


@triton.jit
def add_wide(x_ptr, y_ptr, lock_ptr, FENCED: tl.constexpr):
    lane = tl.arange(0, 4)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr + lane, tl.load(y_ptr + lane) + tl.load(x_ptr + tl.program_id(0)))
    if FENCED:
        tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def wake(x_ptr, y_ptr, flag_ptr, LANES: tl.constexpr, WIDE: tl.constexpr):
    # Program 0 wakes up all others, or waits for all of them.
    program, lanes = tl.program_id(0), tl.arange(0, LANES)
    if WIDE and program == 0:
        tl.store(y_ptr, tl.load(x_ptr + 7))
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr + lanes, 1, sem="release")
    elif WIDE:
        while tl.atomic_add(flag_ptr + program, 0, sem="acquire") == 0:
            pass
        tl.store(y_ptr + program, tl.load(y_ptr))
    elif program < tl.num_programs(0) - 1:
        tl.store(y_ptr + program, tl.load(x_ptr + 7))
        tl.atomic_xchg(flag_ptr + program, 1, sem="release")
    else:
        ready = lanes >= program
        while tl.sum((ready | (tl.atomic_add(flag_ptr + lanes, 0, sem="acquire") == 1)).to(tl.int32)) < LANES:
            pass
        tl.store(y_ptr + program, tl.sum(tl.load(y_ptr + lanes, mask=lanes < program, other=0.0)))


@triton.jit
def load_for_long(x_ptr, y_ptr, flag_ptr):
    total = 0.0
    for _ in range(3000):
        total += tl.load(flag_ptr)
    tl.store(y_ptr, total)


@triton.jit
def hand_on(x_ptr, y_ptr, flag_ptr, LAST: tl.constexpr):
    # The second releases what the first released too, without acquiring it.
    program = tl.program_id(0)
    if program < LAST:
        tl.store(y_ptr + program, tl.load(x_ptr + program))
        tl.atomic_add(flag_ptr, 1, sem="release")
    else:
        tl.atomic_add(flag_ptr, 0, sem="acquire")
        tl.store(y_ptr + program, tl.sum(tl.load(y_ptr + tl.arange(0, 2))))


@triton.jit
def meet(y_ptr, count_ptr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < tl.num_programs(0):
        pass
    tl.store(y_ptr, 1.0)


@triton.jit
def look_often(y_ptr, count_ptr):
    # Each program takes a free lock 1500 times, and polls a flag as often with a store after each.
    for _ in range(1500):
        while tl.atomic_cas(count_ptr, 0, 1) == 1:
            pass
        tl.store(y_ptr, tl.load(y_ptr, volatile=True) + 1)
        tl.atomic_xchg(count_ptr, 0)


@triton.jit
def draw(y_ptr, count_ptr):
    tl.store(y_ptr + tl.program_id(0), tl.atomic_add(count_ptr, 1))


@triton.jit
def claim(y_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.atomic_cas(y_ptr + lane // BLOCK, tl.zeros((BLOCK,), tl.float32), (lane + 1).to(tl.float32))


@triton.jit
def place(y_ptr):
    tl.store(y_ptr + tl.program_id(2), tl.program_id(0) * 100.0 + tl.program_id(1) * 10 + tl.program_id(2))


@triton.jit
def number(y_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(y_ptr + lane // BLOCK, lane.to(tl.float32))


@triton.jit
def put_together(x_ptr, y_ptr):
    lane = tl.arange(0, 4)
    both = tl.cat(tl.load(x_ptr + lane), tl.load(x_ptr + 4 + lane), can_reorder=True)
    tl.store(y_ptr + tl.arange(0, 8), both)


@triton.jit
def left(a, b):
    return a


@triton.jit
def minus(a, b):
    return a - b


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def fold(x_ptr, y_ptr, combine: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(y_ptr, tl.reduce(x, 0, combine))
    tl.store(y_ptr + 1 + tl.arange(0, N), tl.associative_scan(x, 0, combine))


@triton.jit
def fold_rows(x_ptr, y_ptr, combine: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :])
    kept = tl.reduce(x, 1, combine, keep_dims=True)
    tl.store(y_ptr + tl.arange(0, 2)[:, None], kept)


SEEN = "conflict", "alternatives", "combines", "draws"


def ran(kernel, grid, *options, schedule="in order", n=1, **named):
    x, y = torch.arange(1.0, 9.0), torch.zeros(n)
    with watching([x], schedule) as watch:
        kernel[grid](*((x, y) if "x_ptr" in kernel.arg_names else (y,)), *options, **named)
    return {"y": y.tolist(), **{name: getattr(watch, name) for name in SEEN}}


def grouped(kernel, n, **named):
    return {schedule: ran(kernel, (1,), schedule=schedule, n=n, **named) for schedule in ("in order", "grouped")}


def under_all(kernel, grid, *options, n=1, schedules=("in order", "at once", "reversed"), **named):
    return {
        schedule: ran(kernel, grid, *(option() for option in options), schedule=schedule, n=n, **named)
        for schedule in schedules
    }


def flags():
    return torch.zeros(4, dtype=torch.int32)


def many():
    return torch.zeros(64, dtype=torch.int32)


def parts():
    return torch.full((4,), -9.0)


WAITING = "in order", "at once", "late"


def counted(left, sem, scope="gpu"):
    return under_all(count, (4,), parts, flags, schedules=WAITING, LEFT=left, SEM=sem, SCOPE=scope)


def raised(kernel, grid, *options, **named):
    try:
        ran(kernel, grid, *options, **named)
    except Exception as error:
        return f"{type(error.__cause__).__name__}: {error.__cause__}"


print(json.dumps({
    "add": under_all(add, (4,)),
    "add twice": under_all(add_twice, (4,)),
    "add atomically": under_all(add_atomically, (4,)),
    "add locked": under_all(add_locked, (4,), flags),
    "add before the lock": under_all(add_before_the_lock, (4,), flags),
    "pass on": under_all(pass_on, (4,), flags, schedules=WAITING),
    "pass on early": under_all(pass_on_early, (4,), flags, parts, n=4, schedules=WAITING),
    "count": counted(1, "acq_rel"),
    "count relaxed": counted(1, "relaxed"),
    "count released": counted(1, "release"),
    "count in a block": counted(1, "acq_rel", "cta"),
    "count two": counted(2, "acq_rel"),
    "add wide": under_all(add_wide, (3,), flags, n=4, FENCED=False),
    "add wide fenced": under_all(add_wide, (3,), flags, n=4, FENCED=True),
    "wake all": under_all(wake, (40,), many, n=40, schedules=WAITING, LANES=64, WIDE=True),
    "wait for all": under_all(wake, (40,), many, n=40, schedules=WAITING, LANES=64, WIDE=False),
    "load for long": ran(load_for_long, (1,), torch.ones(1)),
    "hand on": under_all(hand_on, (3,), flags, n=3, schedules=WAITING, LAST=2),
    "draw": under_all(draw, (4,), flags, n=4),
    "claim": under_all(claim, (1,), n=1, BLOCK=8),
    "stuck": {
        "reversed": raised(pass_on, (4,), flags(), schedule="reversed"),
        "barrier": raised(meet, (2,), flags()),
        "endless": raised(meet, (1,), flags() - 1),
    },
    "often": ran(look_often, (2,), flags()),
    "place": under_all(place, (2, 2, 2), n=2),
    "number": under_all(number, (1,), BLOCK=8),
    "minus": grouped(fold, 9, combine=minus, N=8),
    "product": grouped(fold, 9, combine=product, N=8),
    "left": grouped(fold, 9, combine=left, N=8),
    "put together": grouped(put_together, 8),
    "two": grouped(fold, 3, combine=minus, N=2),
    "rows": grouped(fold_rows, 2, combine=minus),
    "sum": ran(place, (1, 1, 1), n=1),
}))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("script") / "script.py"
    path.write_text(SCRIPT, "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def results(found: dict[str, Any]) -> list[list[float]]:
    return [one["y"] for one in found.values()]


def test_additions_without_atomics_are_lost_where_programs_run_at_once(ran: dict[str, Any]) -> None:
    assert list(ran["add"]["in order"]["alternatives"]) == ["at once", "reversed"]
    assert ran["add"]["in order"]["conflict"] == "programs (0, 0, 0) and (1, 0, 0) store to one address"
    # Each finds 0, and the last to store stays.
    assert results(ran["add"]) == [[10.0], [4.0], [10.0]]


def test_a_program_finds_what_it_has_stored_itself(ran: dict[str, Any]) -> None:
    assert ran["add twice"]["at once"]["y"] == [8.0]


def test_atomics_are_in_no_conflict(ran: dict[str, Any]) -> None:
    found = ran["add atomically"]
    assert (found["in order"]["conflict"], results(found)) == (None, [[10.0], [10.0], [10.0]])


def test_a_lock_puts_programs_in_order(ran: dict[str, Any]) -> None:
    found = ran["add locked"]
    assert (found["in order"]["conflict"], results(found)[:2]) == (None, [[10.0], [10.0]])


def test_what_several_lanes_store_a_release_covers_behind_a_barrier(ran: dict[str, Any]) -> None:
    """One thread releases, and Triton's compiler makes it wait from 3.9 on: tests/test_barriers.py."""
    said, fenced = ran["add wide"]["in order"]["conflict"], ran["add wide fenced"]
    words = "programs (0, 0, 0) and (1, 0, 0) store to one address, with no tl.debug_barrier() before the release"
    assert said == (None if RELEASES_WAIT else words)
    assert fenced["in order"]["conflict"] is None
    assert fenced["at once"]["y"] == [6.0] * 4
    assert ran["add wide"]["at once"]["y"] == [6.0 if RELEASES_WAIT else 3.0] * 4


def test_flags_of_many_lanes_put_programs_in_order(ran: dict[str, Any]) -> None:
    for name, last in (("wake all", 8.0), ("wait for all", 39 * 8.0)):
        found = ran[name]
        assert found["in order"]["conflict"] is None, name
        assert results(found) == [[*[8.0] * 39, last]] * 3, name


def test_a_loop_that_loads_the_same_again_and_again_waits_for_nothing(ran: dict[str, Any]) -> None:
    assert ran["load for long"]["y"] == [3000.0]


def test_a_lock_taken_too_late_does_not(ran: dict[str, Any]) -> None:
    found = ran["add before the lock"]
    assert found["in order"]["conflict"] == "programs (0, 0, 0) and (1, 0, 0) store to one address"
    # Reversed, a program might wait for one that has not started.
    assert list(found["in order"]["alternatives"]) == ["at once", "late"]
    assert found["at once"]["y"] == [4.0]


def test_a_flag_that_is_polled_puts_programs_in_order(ran: dict[str, Any]) -> None:
    found = ran["pass on"]
    # To poll is a conflict with who raises the flag, under which nothing changes.
    assert found["in order"]["conflict"] == "program (1, 0, 0) loads what program (0, 0, 0) stores in the same launch"
    assert results(found) == [[9.0]] * 3


def test_a_flag_that_is_raised_too_early_does_not(ran: dict[str, Any]) -> None:
    found = ran["pass on early"]
    assert found["in order"]["y"] == [1.0, 3.0, 6.0, 10.0]
    # Each but the first finds no sum of the one before.
    assert found["at once"]["y"] == [1.0, -7.0, -6.0, -5.0]


@pytest.mark.parametrize(
    ("how", "conflict", "wanted"),
    [
        ("count", False, [[10.0], [10.0], [10.0]]),
        # The last program finds its own part and none of the others'.
        ("count relaxed", True, [[10.0], [-23.0], [10.0]]),
        ("count released", True, [[10.0], [-23.0], [10.0]]),
        ("count in a block", True, [[10.0], [-23.0], [10.0]]),
        # The third stores the sum of three parts, and one that is not there, after the fourth has stored its own.
        ("count two", True, [[10.0], [10.0], [-3.0]]),
    ],
)
def test_a_counter_orders_what_it_says_it_does(
    ran: dict[str, Any], how: str, conflict: bool, wanted: list[list[float]]
) -> None:
    assert (ran[how]["in order"]["conflict"] is not None) == conflict
    assert results(ran[how]) == wanted


def test_what_several_released_at_one_address_can_be_acquired_there(ran: dict[str, Any]) -> None:
    assert ran["hand on"]["in order"]["conflict"] is None
    assert results(ran["hand on"]) == [[1.0, 2.0, 3.0]] * 3


def test_what_is_drawn_from_a_counter_depends_on_who_comes_first(ran: dict[str, Any]) -> None:
    found = ran["draw"]
    assert (found["in order"]["draws"], found["in order"]["conflict"]) == ("", None)
    assert results(found)[::2] == [[0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0]]
    assert ran["place"]["in order"]["draws"] is None


def test_reversed_the_last_lane_comes_first_to_an_atomic_operation(ran: dict[str, Any]) -> None:
    found = ran["claim"]
    assert found["in order"]["draws"] == ""
    assert results(found)[::2] == [[1.0], [8.0]]


def test_a_program_that_waits_for_one_that_comes_later_is_stuck(ran: dict[str, Any]) -> None:
    assert ran["stuck"]["reversed"] == (
        "StuckError: program (3, 0, 0) polls one address for ever: it waits for one that has not begun, and the "
        "interpreter runs one after another; a GPU can run it"
    )
    assert ran["stuck"]["barrier"] == ran["stuck"]["reversed"].replace("(3, 0, 0)", "(0, 0, 0)")
    assert ran["stuck"]["endless"] == (
        "EndlessError: program (0, 0, 0) polls one address for ever, and no other program is left that could change it"
    )


def test_to_look_often_is_not_to_wait(ran: dict[str, Any]) -> None:
    assert ran["often"]["y"] == [3000.0]


def test_reversed_the_first_program_comes_last_on_every_axis(ran: dict[str, Any]) -> None:
    assert ran["place"]["in order"]["y"] == [110.0, 111.0]
    assert ran["place"]["reversed"]["y"] == [0.0, 1.0]


def test_reversed_the_first_lane_of_a_store_comes_last(ran: dict[str, Any]) -> None:
    found = ran["number"]
    assert found["in order"]["conflict"] == "several lanes of one store of program (0, 0, 0) write to one address"
    assert results(found) == [[7.0], [7.0], [0.0]]


def test_a_function_that_is_not_associative_gives_another_result_in_groups(ran: dict[str, Any]) -> None:
    found = ran["minus"]
    assert found["in order"]["combines"] is True
    assert found["in order"]["y"] == [-34.0, 1.0, -1.0, -4.0, -8.0, -13.0, -19.0, -26.0, -34.0]
    # (2 - 4 - 6 - 8) less (1 - 3 - 5 - 7); (1 - 2 - 3 - 4) less 5, 5 - 6, 5 - 6 - 7 and 5 - 6 - 7 - 8.
    assert found["grouped"]["y"] == [-2.0, 1.0, -1.0, -4.0, -8.0, -13.0, -7.0, 0.0, 8.0]
    # Rows of 1 to 4 and 5 to 8: (2 - 4) - (1 - 3) and (6 - 8) - (5 - 7).
    assert results(ran["rows"]) == [[-8.0, -16.0], [0.0, 0.0]]


def test_a_scan_keeps_the_order_and_a_concatenation_does_not(ran: dict[str, Any]) -> None:
    # By a function that keeps the left one of two; the reduction comes first.
    assert results(ran["left"]) == [[1.0] * 9, [2.0] + [1.0] * 8]
    assert results(ran["put together"]) == [[1.0, 2, 3, 4, 5, 6, 7, 8], [1.0, 3, 5, 7, 2, 4, 6, 8]]


def test_one_that_is_gives_the_same(ran: dict[str, Any]) -> None:
    found = ran["product"]
    assert found["in order"]["combines"] is True
    assert found["in order"]["y"] == found["grouped"]["y"] == [40320.0, 1, 2, 6, 24, 120, 720, 5040, 40320]


def test_two_elements_make_no_groups_and_nothing_is_combined_without_a_function(ran: dict[str, Any]) -> None:
    assert ran["two"]["in order"]["combines"] is False
    assert results(ran["two"]) == [[-1.0, 1.0, -1.0]] * 2
    assert ran["sum"]["combines"] is False


def test_every_kind_of_conflict_has_its_words_and_its_lines() -> None:
    places = [(0, 0, 0), (0, 1, 0)]
    one, other = (Access(program, np.zeros(1, np.uint64), line=f"kernels/k.py:{program}") for program in (1, 0))
    assert [described(Conflict(kind, one, other), places) for kind in ("lanes", "store", "load")] == [
        f"{words} (kernels/k.py:1 and kernels/k.py:0)"
        for words in (
            "several lanes of one store of program (0, 1, 0) write to one address",
            "programs (0, 1, 0) and (0, 0, 0) store to one address",
            "program (0, 1, 0) loads what program (0, 0, 0) stores in the same launch",
        )
    ]
    assert described(Conflict("lanes", one, one), places).endswith(" (kernels/k.py:1)")

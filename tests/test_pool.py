"""Many questions, any number of children: the answers keep the order of the questions, and no exception is lost."""

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH

from assay.child import Answer, Child, Fault
from assay.pool import Pool, worker_count
from assay.progress import Progress

ECHO = "import os; from assay.child import serve; serve(lambda request: {**request, 'pid': os.getpid()})"


def children(folder: Path, count: int) -> list[Child]:
    """Return children that were never asked: no process has started."""
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    return [Child([sys.executable, "-c", ECHO], environ, folder / f"{number}.log") for number in range(count)]


def progress(total: int) -> Progress:
    return Progress("pool", total, io.StringIO())


@given(st.lists(st.integers()), st.integers(1, 8))
def test_the_answers_come_in_the_order_of_the_items(
    tmp_path_factory: pytest.TempPathFactory, items: list[int], count: int
) -> None:
    shown = progress(len(items))
    pool = Pool(items, lambda _, item: -item, shown)
    assert pool.run(children(tmp_path_factory.getbasetemp(), count)) == [-item for item in items]
    assert shown.done == len(items)


def test_every_item_is_asked_once_though_the_first_ends_last(tmp_path: Path) -> None:
    asked: list[int] = []
    others_done = threading.Event()

    def ask(_: Child, item: int) -> int:
        asked.append(item)
        if item == 0:
            assert others_done.wait(30)
        if len(asked) == 5:
            others_done.set()
        return item * item

    assert Pool(range(5), ask, progress(5)).run(children(tmp_path, 2)) == [0, 1, 4, 9, 16]
    assert sorted(asked) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [1, 3])
def test_an_exception_in_a_thread_is_raised_in_the_caller_and_ends_the_rest(tmp_path: Path, count: int) -> None:
    asked: list[int] = []

    def ask(_: Child, item: int) -> int:
        asked.append(item)
        if item == 2:
            raise FileNotFoundError("no such program")
        return item

    with pytest.raises(FileNotFoundError, match="no such program"):
        Pool(range(1000), ask, progress(1000)).run(children(tmp_path, count))
    assert len(asked) < 1000


def ended_soon() -> list[threading.Thread]:
    """Return the threads that are there a moment later: one that has done all may be on its way out."""
    time.sleep(0.1)
    return threading.enumerate()


WAIT = "import time; from assay.child import serve; serve(lambda request: time.sleep(request['s']) or {'woke': True})"


def test_a_run_that_is_interrupted_ends_its_children_and_keeps_nothing_of_what_they_were_at(tmp_path: Path) -> None:
    """A child that was killed looks crashed: kept, that would be found of the kernel in the next run."""
    kept, answers = list[int](), dict[int, Answer | Fault]()
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    made = [Child([sys.executable, "-c", WAIT], environ, tmp_path / f"{name}.log") for name in "ab"]

    def ask(child: Child, item: int) -> None:
        if item == 4:
            os.kill(os.getpid(), signal.SIGINT)
        answers[item] = child.ask({"s": 0 if item < 4 else 600}, 900)
        if item == 4:
            # Once more while the run is ended, as an impatient user does.
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    with pytest.raises(KeyboardInterrupt):
        Pool(range(50), ask, progress(50), kept.append).run(made)
    faults = {item for item, answer in answers.items() if isinstance(answer, Fault)}
    assert max(answers) >= 4
    assert faults >= answers.keys() - {0, 1, 2, 3}
    assert set(kept) <= answers.keys() - faults
    assert len(answers) <= 6
    assert not any(thread.name.endswith("(_own)") and thread.is_alive() for thread in ended_soon())


def test_what_has_its_answer_is_kept_once(tmp_path: Path) -> None:
    kept = list[int]()
    Pool(range(20), lambda _, item: -item, progress(20), kept.append).run(children(tmp_path, 3))
    assert sorted(kept) == list(range(20))


def test_real_children_share_the_items_and_are_ended(tmp_path: Path) -> None:
    both_asked = threading.Barrier(2)

    def ask(child: Child, item: int) -> Answer | Fault:
        if item < 2:
            both_asked.wait(30)
        return child.ask({"item": item}, 60)

    answers = Pool(range(6), ask, progress(6)).run(children(tmp_path, 3)[:2])
    found = [answer for answer in answers if isinstance(answer, dict)]
    assert [answer["item"] for answer in found] == list(range(6))
    pids = {answer["pid"] for answer in found}
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_no_more_children_start_than_there_are_items(tmp_path: Path) -> None:
    given_out: list[Child] = []

    def ask(child: Child, _: int) -> None:
        given_out.append(child)

    made: Sequence[Child] = children(tmp_path, 4)
    Pool(range(2), ask, progress(2)).run(made)
    assert set(given_out) <= set(made[:2])
    assert not (tmp_path / "2.log").exists()


def test_zero_workers_are_one_for_each_usable_core() -> None:
    assert worker_count(3) == 3
    assert worker_count(0) == len(os.sched_getaffinity(0))

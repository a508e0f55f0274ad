"""Progress: one rewritten line on a terminal, few lines in a log."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.progress import QUIET_SECONDS, SHOWN_FAILURES, WIDEST_LINE, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.lists(st.text(st.characters(), max_size=200), max_size=30))
def test_a_terminal_sees_one_line_that_ends_as_the_summary(names: list[str]) -> None:
    terminal = Terminal()
    shown = Progress("compile matmul", len(names), terminal)
    for name in names:
        shown.running(name)
        shown.step()
    shown.close("2 of 2 compiled")
    lines = terminal.getvalue().split("\n")
    assert len(lines) == 2
    assert lines[1] == ""
    assert lines[0].endswith("\rcompile matmul: 2 of 2 compiled")
    assert all(len(part) <= WIDEST_LINE for part in lines[0].split("\r"))


def test_a_terminal_line_says_what_is_done_and_what_runs_and_leaves_nothing_of_a_longer_one() -> None:
    terminal = Terminal()
    shown = Progress("gpu matmul", 3, terminal)
    shown.running("a-long-case tf32")
    shown.step()
    shown.running("b")
    first, second = terminal.getvalue().split("\r")[1:]
    assert first == "gpu matmul: 0/3 a-long-case tf32"
    assert second.rstrip() == "gpu matmul: 1/3 b"
    assert len(second) == len(first)


def test_a_log_gets_a_line_now_and_then_and_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr("assay.progress.time.monotonic", lambda: clock[0])
    shown = Progress("gpu matmul", 1000, log, said=0.0)
    for _ in range(1000):
        clock[0] += QUIET_SECONDS / 256
        shown.running("case")
        shown.step()
    shown.close("1000 passed")
    lines = log.getvalue().splitlines()
    assert lines[0] == "gpu matmul: 255/1000 case"
    assert len(lines) <= 5
    assert lines[-1] == "gpu matmul: 1000 passed"


@given(st.lists(st.text(st.characters(), max_size=600), max_size=8))
def test_what_failed_stands_above_the_summary_the_first_few_in_a_line_each(reasons: list[str]) -> None:
    log = io.StringIO()
    Progress("gpu matmul", 9, log).close("9 failed", reasons)
    *told, last = log.getvalue().split("\n")[:-1]
    assert last == "gpu matmul: 9 failed"
    assert len(told) == min(len(reasons), SHOWN_FAILURES) + (len(reasons) > SHOWN_FAILURES)
    assert all(line == f"gpu matmul: and {len(reasons) - SHOWN_FAILURES} more" for line in told[SHOWN_FAILURES:])
    assert all(line.startswith("gpu matmul:") and len(line) <= 400 for line in told)
    assert all(unicodedata.category(letter) not in ("Cc", "Cf", "Cs") for line in told for letter in line)


def test_on_a_terminal_what_failed_leaves_nothing_of_what_ran() -> None:
    terminal = Terminal()
    shown = Progress("gpu matmul", 1, terminal)
    shown.running("a case whose name is long")
    shown.close("1 failed", ["a: wrong-value, 1 of 1"])
    assert terminal.getvalue().split("\r")[-1] == "gpu matmul: a: wrong-value, 1 of 1\ngpu matmul: 1 failed\n"

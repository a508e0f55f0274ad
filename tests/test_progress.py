"""Progress: one rewritten line on a terminal, few lines in a log."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.progress import QUIET_SECONDS, WIDEST_LINE, Progress


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

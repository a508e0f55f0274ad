"""A child that forks: each kernel file has a process of its own, and whatever becomes of it the child goes on."""

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import PYTHON_PATH

from assay.child import Child, Fault, adopt_orphans
from assay.forking import Session, opening

LIMIT_S = 60.0
PR_SET_CHILD_SUBREAPER = 36

SERVER = """
import os, signal, sys, time
from assay.forking import serve_forked

def handler_of(path):
    seen = []

    def handler(request):
        do = request["do"]
        seen.append(do)
        if do == "raise":
            raise ValueError(f"no {path.name}")
        if do == "exit":
            print("last words", flush=True)
            os._exit(0)
        if do == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if do == "hang":
            time.sleep(600)
        return {"pid": os.getpid(), "parent": os.getppid(), "path": str(path), "seen": list(seen)}

    return handler

serve_forked(handler_of)
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-c", SERVER]
    with Child(command, environment, tmp_path / "log", opening(LIMIT_S)) as started:
        yield started


def answer(session: Session, do: str = "tell") -> dict[str, object]:
    found = session.ask({"do": do}, LIMIT_S)
    assert not isinstance(found, Fault), found
    return found


def alive(process: int) -> bool:
    """Return whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while alive(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt orphans for the length of a test."""
    adopt_orphans()
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)


def test_what_hangs_has_ended_and_holds_nothing_more_once_its_time_is_up(child: Child, adopting: None) -> None:
    with Session(child, Path("kernels/deadlock.py")) as session:
        hanging = answer(session)["pid"]
        found = session.ask({"do": "hang"}, 0.2)
        assert isinstance(found, Fault)
        assert found.cause == "timeout"
        # Not even as a process that waits to be collected: what it held is free for the next.
        assert not Path(f"/proc/{hanging}").exists()
        assert answer(session)["pid"] != hanging


def test_a_session_is_one_process_and_the_next_another_of_the_same_parent(child: Child) -> None:
    with Session(child, Path("kernels/one.py")) as session:
        first, second = answer(session), answer(session)
    with Session(child, Path("kernels/two.py")) as session:
        third = answer(session)
    assert first["pid"] == second["pid"] != third["pid"]
    assert first["parent"] == third["parent"]
    assert second["seen"] == ["tell", "tell"]
    assert (third["path"], third["seen"]) == ("kernels/two.py", ["tell"])


def test_what_raises_goes_on_in_its_process(child: Child) -> None:
    with Session(child, Path("kernels/one.py")) as session:
        before = answer(session)
        assert session.ask({"do": "raise"}, LIMIT_S) == Fault("exception", "ValueError: no one.py", "ValueError")
        assert answer(session)["pid"] == before["pid"]


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("segfault", "the process was killed by SIGSEGV"),
        ("exit", "the process ended with exit code 0; it last printed: last words"),
    ],
)
def test_what_ends_its_process_is_a_crash_and_leaves_the_child(child: Child, do: str, said: str) -> None:
    with Session(child, Path("kernels/one.py")) as session:
        before = answer(session)
        assert session.ask({"do": do}, LIMIT_S) == Fault("crash", said)
        after = answer(session)
    assert (after["parent"], after["seen"]) == (before["parent"], ["tell"])
    assert after["pid"] != before["pid"]


def test_what_hangs_is_ended_at_its_limit_and_a_fresh_child_goes_on(child: Child) -> None:
    with Session(child, Path("kernels/one.py")) as session:
        before = answer(session)
        found = session.ask({"do": "hang"}, 0.5)
        assert isinstance(found, Fault)
        assert found.cause == "timeout"
        assert answer(session)["parent"] != before["parent"]
    wait_until_gone(int(str(before["pid"])))


def test_a_session_that_was_never_asked_needs_no_end(child: Child) -> None:
    with Session(child, Path("kernels/one.py")):
        pass
    with Session(child, Path("kernels/one.py")) as session:
        assert answer(session)["seen"] == ["tell"]
        session.close()
        session.close()
        assert answer(session)["seen"] == ["tell"]

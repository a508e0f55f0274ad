"""Children forked by a real nursery: whose they are, what they start from, and what happens where none can be forked.

That a child answers, raises, crashes, hangs and lies alike however it was started, `test_child` shows.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import PYTHON_PATH

from assay.child import Child, Fault
from assay.nursery import Adopted, Nursery

LIMIT_S = 60.0

SERVER = """
import os, sys, time
from assay.child import serve
from assay.nursery import serve_or_fork

prepared, asked = [], []

def handler(request):
    if request["do"] == "die":
        os._exit(7)
    asked.append(1)
    return {
        "pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "prepared": prepared, "asked": len(asked),
        "files": sorted(os.listdir("/proc/self/fd")),
    }

serve_or_fork(lambda: serve(handler), prepare=lambda: prepared.append(os.getpid()))
"""

STAGE = """
import os, sys, time
from pathlib import Path
from assay.child import Child
from assay.nursery import Nursery

with Nursery([sys.executable, "-c", sys.argv[1]], dict(os.environ), Path(sys.argv[2])) as nursery:
    with Child(nursery.command, nursery.environment, Path(sys.argv[2]), starter=nursery) as child:
        answer = child.ask({"do": "tell"}, 60.0)
        print(answer["pid"], answer["prepared"][0], flush=True)
        time.sleep(600)
"""


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    with Nursery([sys.executable, "-c", SERVER], environ, tmp_path / "logs" / "nursery.log") as found:
        yield found


def child(nursery: Nursery, folder: Path, number: int = 0) -> Child:
    return Child(nursery.command, nursery.environment, folder / f"{number}.log", starter=nursery)


def told(one: Child) -> dict[str, object]:
    answer = one.ask({"do": "tell"}, LIMIT_S)
    assert isinstance(answer, dict), answer
    return answer


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_children_are_the_stages_own_each_in_a_session_of_its_own_and_prepared_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    with child(nursery, tmp_path, 0) as one, child(nursery, tmp_path, 1) as other:
        first, second = told(one), told(other)
    assert first["parent"] == second["parent"] == os.getpid()
    assert (first["session"], second["session"]) == (first["pid"], second["pid"])
    assert first["pid"] != second["pid"]
    assert first["prepared"] == second["prepared"] != [first["pid"]]
    assert len(first["prepared"]) == 1  # type: ignore[arg-type]
    # Input, output, answers, and the folder that is listed: nothing through which the nursery could be told anything.
    assert len(first["files"]) == len(second["files"]) == 5  # type: ignore[arg-type]


def test_after_a_crash_the_next_child_starts_from_the_same_state(nursery: Nursery, tmp_path: Path) -> None:
    with child(nursery, tmp_path) as one:
        before = [told(one), told(one)]
        assert one.ask({"do": "die"}, LIMIT_S) == Fault("crash", "the process ended with exit code 7")
        after = told(one)
    assert [found["asked"] for found in (*before, after)] == [1, 2, 1]
    assert after["pid"] != before[0]["pid"]
    assert after["prepared"] == before[0]["prepared"]


def test_without_a_nursery_that_forks_a_child_is_a_program_of_its_own(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    with Nursery([sys.executable, "-c", "import absent"], environ, tmp_path / "nursery.log") as broken:
        with Child([sys.executable, "-c", SERVER], environ, tmp_path / "log", starter=broken) as one:
            assert told(one)["prepared"] == []
        with child(broken, tmp_path) as other:
            fault = other.ask({"do": "tell"}, LIMIT_S)
    words = "the process ended with exit code 1; it last printed: ModuleNotFoundError: No module named 'absent'"
    assert fault == Fault("crash", words)


def test_a_nursery_that_is_not_ready_in_time_is_a_timeout(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with Nursery(command, dict(os.environ), tmp_path / "log") as slow, child(slow, tmp_path) as one:
        assert one.ask({"do": "tell"}, 0.2) == Fault("timeout", "no answer within the limit of 0.2 s")


def test_a_stage_that_is_killed_takes_the_nursery_and_its_children_along(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-c", STAGE, SERVER, str(tmp_path / "log")]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as stage:
        assert stage.stdout is not None
        pids = list(map(int, stage.stdout.readline().split()))
        assert len(pids) == 2
        assert all(map(alive, pids))
        stage.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, "they outlived the stage by 30 s"
        time.sleep(0.01)


def test_waiting_for_a_child_ends_in_time(nursery: Nursery, tmp_path: Path) -> None:
    taken, given = os.pipe()
    try:
        with (tmp_path / "log").open("wb") as log:
            found = nursery.start(given, log.fileno(), time.monotonic() + LIMIT_S)
        assert isinstance(found, Adopted)
        with pytest.raises(subprocess.TimeoutExpired):
            found.wait(timeout=0.05)
        found.stdin.close()
        # Its input has ended, and so does it.
        assert found.wait(timeout=LIMIT_S) == found.wait() == 0
    finally:
        os.close(taken)
        os.close(given)

"""Children that answer, raise, crash, hang and lie, as real processes; and what the parent makes of each."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from project import PYTHON_PATH

from assay.child import (
    LARGEST_REPLY_BYTES,
    PARENT_VARIABLE,
    REPLY_VARIABLE,
    Child,
    Fault,
    Opening,
    ask,
    compiling_environment,
    interpreting_environment,
)
from assay.nursery import Nursery
from assay.record import Record, Verdict

LIMIT_S = 60.0
"""Never reached: a child that answers does so at once."""

SERVER = """
import os, signal, subprocess, sys, time
from assay.child import LARGEST_REPLY_BYTES, REPLY_VARIABLE, serve
from assay.nursery import serve_or_fork

opened = []

class OutOfResources(Exception):
    pass

def write_reply(text):
    os.write(int(os.environ[REPLY_VARIABLE]), text.encode())

def handler(request):
    do = request["do"]
    if do == "echo":
        return {"said": request["say"], "pid": os.getpid()}
    if do == "raise":
        raise OutOfResources("needs 147456 B\\nof shared memory")
    if do == "raise from":
        try:
            raise OutOfResources("the cause")
        except OutOfResources as error:
            raise RuntimeError("a consequence") from error
    if do == "write":
        raise OSError(request["errno"], os.strerror(request["errno"]))
    if do == "compile":
        print("module {", flush=True)
        for line in request["printed"]:
            os.write(2, line.encode() + b"\\n")
        raise RuntimeError("PassManager::run failed")
    if do == "exit":
        sys.exit(3)
    if do == "interrupt":
        raise KeyboardInterrupt
    if do == "vanish":
        print("last words", flush=True)
        os._exit(7)
    if do == "vanish without a trace":
        os.unlink(os.readlink("/proc/self/fd/1"))
        os._exit(7)
    if do == "abort":
        os.abort()
    if do == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if do == "hang":
        print("thinking", flush=True)
        time.sleep(600)
    if do == "close the pipe":
        os.close(int(os.environ[REPLY_VARIABLE]))
        time.sleep(600)
    if do == "grandchild":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return {"pid": child.pid}
    if do == "print":
        print('{"answer": {"said": "printed"}}')
        os.system("echo '{\\"answer\\": {\\"said\\": \\"by a grandchild\\"}}'")
        return {"said": "answered"}
    if do == "no record can hold this":
        return {"value": {"nan": float("nan"), "surrogate": "\\ud800", "integer": 2**60}[request["which"]]}
    if do == "open":
        if "broken" in sys.argv:
            raise ValueError("not loaded")
        time.sleep(float(request["seconds"]))
        opened.append(1)
        return {"pid": os.getpid()}
    if do == "opened":
        return {"times": len(opened), "pid": os.getpid()}
    if do == "reply":
        write_reply(request["text"])
        time.sleep(600)
    if do == "flood":
        while True:
            write_reply("x" * 65536)
    return {}

serve_or_fork(lambda: serve(handler, last_after_error="last" in sys.argv))
"""


@pytest.fixture(params=["started", "forked"])
def start(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Child]]:
    """Return a function that makes a child: a program of its own, or a fork of one that has imported everything."""
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    started: list[Child] = []
    nurseries = ExitStack()

    def make(*arguments: str, code: str = SERVER, opening: Opening | None = None) -> Child:
        log = tmp_path / f"child-{len(started)}.log"
        command, environ = [sys.executable, "-c", code, *arguments], dict(os.environ)
        nursery = Nursery(command, environ, tmp_path / "nursery.log") if request.param == "forked" else None
        starter = nursery and nurseries.enter_context(nursery)
        child = Child(command, environ, log, opening, starter=starter)
        started.append(child.__enter__())
        return child

    yield make
    for child in started:
        child.stop()
    nurseries.close()


def pid_of(child: Child) -> int:
    answer = child.ask({"do": "echo", "say": ""}, LIMIT_S)
    assert isinstance(answer, dict)
    return int(answer["pid"])


def alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.005)


def test_one_child_answers_every_question(start: Callable[..., Child]) -> None:
    child = start()
    for say in ("a", "ä\n\x00\U0001f600", "x" * 200_000):
        answer = child.ask({"do": "echo", "say": say}, LIMIT_S)
        assert isinstance(answer, dict)
        assert answer["said"] == say
    assert pid_of(child) == pid_of(child)


def test_no_process_starts_before_the_first_question(tmp_path: Path) -> None:
    with Child(["/nonexistent/python"], {}, tmp_path / "logs" / "child.log"):
        assert (tmp_path / "logs" / "child.log").read_bytes() == b""


FAULTS: list[tuple[str, Fault]] = [
    ("raise", Fault("exception", "OutOfResources: needs 147456 B of shared memory", "OutOfResources")),
    ("raise from", Fault("exception", "OutOfResources: the cause", "OutOfResources")),
    ("exit", Fault("exception", "SystemExit: 3", "SystemExit")),
    ("vanish", Fault("crash", "the process ended with exit code 7; it last printed: last words")),
    ("vanish without a trace", Fault("crash", "the process ended with exit code 7")),
    ("abort", Fault("crash", "the process was killed by SIGABRT")),
    ("segfault", Fault("crash", "the process was killed by SIGSEGV")),
]


@pytest.mark.parametrize(("do", "fault"), FAULTS, ids=[do for do, _ in FAULTS])
def test_each_fault_has_its_reason_and_the_next_question_its_answer(
    start: Callable[..., Child], do: str, fault: Fault
) -> None:
    child = start()
    before = pid_of(child)
    assert child.ask({"do": do}, LIMIT_S) == fault
    assert (pid_of(child) == before) == (fault.cause == "exception")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_result_of_the_kernel(start: Callable[..., Child], number: int) -> None:
    child = start()
    with pytest.raises(OSError, match="or Triton's cache") as refusal:
        child.ask({"do": "write", "errno": number}, LIMIT_S)
    assert refusal.value.errno == number
    assert child.ask({"do": "echo", "say": "again"}, LIMIT_S)["said"] == "again"  # type: ignore[index]


def test_what_else_the_system_refuses_a_kernel_is_its_fault(start: Callable[..., Child]) -> None:
    fault = start().ask({"do": "write", "errno": errno.ENOENT}, LIMIT_S)
    assert fault == Fault("exception", "FileNotFoundError: [Errno 2] No such file or directory", "FileNotFoundError")


def test_a_reason_shows_nothing_that_was_printed_for_an_earlier_question(start: Callable[..., Child]) -> None:
    child = start()
    assert "OutOfResources" in str(child.ask({"do": "raise"}, LIMIT_S))
    assert child.ask({"do": "abort"}, LIMIT_S) == Fault("crash", "the process was killed by SIGABRT")


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            ["x.py:3:7: error: op needs a float", "module {", "<unknown>:0: error: there were failures"],
            "op needs a float",
        ),
        (["error: " + "x" * 500], "x" * 77 + " ... " + "x" * 77),
        (["a warning"], ""),
        ([], ""),
    ],
)
def test_what_the_compiler_printed_first_of_its_failure_is_told(
    start: Callable[..., Child], printed: list[str], told: str
) -> None:
    child = start()
    child.ask({"do": "compile", "printed": ["error: of another question"]}, LIMIT_S)
    fault = child.ask({"do": "compile", "printed": printed}, LIMIT_S)
    reason = "RuntimeError: PassManager::run failed"
    assert fault == Fault("exception", f"{reason}: {told}" if told else reason, "RuntimeError")


def test_an_interrupted_child_is_a_crash_that_shows_the_last_line(start: Callable[..., Child]) -> None:
    fault = start().ask({"do": "interrupt"}, LIMIT_S)
    assert fault == Fault("crash", "the process was killed by SIGINT; it last printed: KeyboardInterrupt")


def test_a_child_that_closes_its_pipe_and_lives_on_is_a_crash(
    start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start()
    monkeypatch.setattr("assay.child.ENDING_S", 0.2)
    assert child.ask({"do": "close the pipe"}, LIMIT_S) == Fault("crash", "the process closed its answer pipe")
    assert pid_of(child)


def test_a_hanging_child_is_ended_at_the_limit(start: Callable[..., Child]) -> None:
    child = start()
    before = pid_of(child)
    fault = child.ask({"do": "hang"}, 1.0)
    assert fault == Fault("timeout", "no answer within the limit of 1 s; it last printed: thinking")
    assert not alive(before)
    assert pid_of(child) != before


def test_a_child_that_never_serves_is_a_crash(start: Callable[..., Child]) -> None:
    child = start(code="raise ImportError('no such module')")
    fault = child.ask({"do": "echo", "say": ""}, LIMIT_S)
    assert fault == Fault("crash", "the process ended with exit code 1; it last printed: ImportError: no such module")


def test_a_program_that_does_not_exist_is_a_broken_pipeline(tmp_path: Path) -> None:
    with Child(["/nonexistent/python"], {}, tmp_path / "log") as child, pytest.raises(FileNotFoundError):
        child.ask({}, LIMIT_S)


@pytest.mark.parametrize(
    "text", ["nonsense\n", "[]\n", "7\n", '{"kind": "x"}\n', '{"answer": 3}\n', '{"answer": {"a": 1}} {}\n', "\xff\n"]
)
def test_a_reply_that_is_no_answer_is_a_crash(start: Callable[..., Child], text: str) -> None:
    child = start()
    before = pid_of(child)
    fault = child.ask({"do": "reply", "text": text}, LIMIT_S)
    assert fault == Fault("crash", "the child process answered with something that is not an answer")
    assert pid_of(child) != before


@pytest.mark.parametrize("which", ["nan", "surrogate", "integer"])
def test_a_reply_that_no_record_can_hold_is_a_crash(start: Callable[..., Child], which: str) -> None:
    fault = start().ask({"do": "no record can hold this", "which": which}, LIMIT_S)
    assert fault == Fault("crash", "the child process answered with something that is not an answer")


class Said(Record, frozen=True, kw_only=True):
    said: str
    pid: int


def test_an_answer_is_asked_for_as_a_record(start: Callable[..., Child]) -> None:
    child = start()
    answer = ask(child, {"do": "echo", "say": "a"}, Said, LIMIT_S)
    assert isinstance(answer, Said)
    assert answer.said == "a"
    assert ask(child, {"do": "echo", "say": 7}, Said, LIMIT_S) == Fault(
        "declaration", "the answer to 'echo': $.said: Expected `str`, got `int`"
    )
    assert ask(child, {"do": "abort"}, Said, LIMIT_S) == Fault("crash", "the process was killed by SIGABRT")


def test_opening_a_child_has_a_limit_of_its_own(start: Callable[..., Child]) -> None:
    child = start(opening=Opening({"do": "open", "seconds": 2.0}, LIMIT_S))
    assert isinstance(child.ask({"do": "opened"}, 1.9), dict)


def test_every_fresh_child_is_opened_first_and_once(start: Callable[..., Child]) -> None:
    request = {"do": "open", "seconds": 0}
    child = start(opening=Opening(request, LIMIT_S))
    answer = child.ask({"do": "opened"}, LIMIT_S)
    assert isinstance(answer, dict)
    assert answer["times"] == 1
    assert child.ask({"do": "abort"}, LIMIT_S) == Fault("crash", "the process was killed by SIGABRT")
    # The opening itself, asked of a fresh child, is not asked twice.
    opened = child.ask(request, LIMIT_S)
    again = child.ask({"do": "opened"}, LIMIT_S)
    assert isinstance(opened, dict)
    assert again == {"times": 1, "pid": opened["pid"]}
    assert opened["pid"] != answer["pid"]


def test_a_child_that_cannot_be_opened_answers_with_that_fault(start: Callable[..., Child]) -> None:
    child = start("broken", opening=Opening({"do": "open", "seconds": 0}, LIMIT_S))
    assert child.ask({"do": "opened"}, LIMIT_S) == Fault("exception", "ValueError: not loaded", "ValueError")


def test_an_opening_that_takes_too_long_is_a_timeout(start: Callable[..., Child]) -> None:
    child = start(opening=Opening({"do": "open", "seconds": 600}, 0.3))
    assert child.ask({"do": "opened"}, LIMIT_S) == Fault("timeout", "no answer within the limit of 0.3 s")


def test_a_reply_without_end_is_a_crash(start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.child.LARGEST_REPLY_BYTES", 2**20)
    child = start()
    before = pid_of(child)
    fault = child.ask({"do": "flood"}, LIMIT_S)
    assert fault == Fault("crash", "the child process answered with something that is not an answer")
    assert not alive(before)


def test_nothing_that_is_printed_is_an_answer(start: Callable[..., Child], tmp_path: Path) -> None:
    assert start().ask({"do": "print"}, LIMIT_S) == {"said": "answered"}
    log = (tmp_path / "child-0.log").read_text()
    assert "by a grandchild" in log
    # Flushed before the answer, or it would be taken for what a later question made the child print.
    assert "printed" in log


def test_what_a_child_started_ends_with_it(start: Callable[..., Child]) -> None:
    child = start()
    answer = child.ask({"do": "grandchild"}, LIMIT_S)
    assert isinstance(answer, dict)
    assert alive(answer["pid"])
    child.stop()
    wait_for(lambda: not alive(answer["pid"]))


def test_a_child_that_raised_is_replaced_where_one_error_can_spoil_the_next(start: Callable[..., Child]) -> None:
    child = start("last")
    before = pid_of(child)
    assert child.ask({"do": "raise"}, LIMIT_S) == FAULTS[0][1]
    wait_for(lambda: not alive(before))
    assert pid_of(child) != before


def test_leaving_ends_the_child_even_after_an_exception(start: Callable[..., Child]) -> None:
    child = start()
    pid = pid_of(child)
    with pytest.raises(ZeroDivisionError), child:
        raise ZeroDivisionError
    assert not alive(pid)
    child.stop()


PARENT = """
import os, sys
from pathlib import Path
from assay.child import Child
code = sys.argv[1]
child = Child([sys.executable, "-c", code], dict(os.environ), Path(sys.argv[2]))
with child:
    print(child.ask({"do": "echo", "say": ""}, 60)["pid"], flush=True)
    child.ask({"do": "hang"}, 600)
"""


def test_a_child_that_was_ended_is_not_started_again(start: Callable[..., Child]) -> None:
    child = start()
    first = child.ask({"do": "echo", "say": "x"}, LIMIT_S)
    assert isinstance(first, dict)
    child.end()
    for _ in range(2):
        assert isinstance(answer := child.ask({"do": "echo", "say": "y"}, LIMIT_S), Fault)
        assert answer.cause == "crash"


def test_a_child_that_was_ended_before_it_was_asked_never_starts(start: Callable[..., Child]) -> None:
    child = start()
    child.end()
    assert child.ask({"do": "echo", "say": "x"}, LIMIT_S) == Fault("crash", "the child was ended")


def test_a_child_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, SERVER, str(tmp_path / "log")]
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not alive(pid))


def test_a_child_whose_parent_is_another_process_does_not_serve() -> None:
    # So it is where the parent was killed while the child started.
    reply, write = os.pipe()
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH, REPLY_VARIABLE: str(write), PARENT_VARIABLE: "1"}
    question = json.dumps({"do": "echo", "say": ""}).encode()
    done = subprocess.run([sys.executable, "-c", SERVER], input=question, env=environ, pass_fds=(write,), check=False)
    os.close(write)
    assert done.returncode == 1
    assert os.read(reply, 100) == b""
    os.close(reply)


def test_a_reply_may_be_large(start: Callable[..., Child]) -> None:
    answer = start().ask({"do": "echo", "say": "x" * (LARGEST_REPLY_BYTES // 4)}, LIMIT_S)
    assert isinstance(answer, dict)
    assert len(answer["said"]) == LARGEST_REPLY_BYTES // 4


def test_a_fault_is_a_failed_verdict() -> None:
    assert Fault("crash", "why").verdict() == Verdict(outcome="failed", cause="crash", reason="why")


def test_the_interpreter_has_one_thread_and_the_compiler_no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreting: dict[str, Any] = interpreting_environment()
    compiling: dict[str, Any] = compiling_environment("/cache")
    assert interpreting["OMP_NUM_THREADS"] == "1"
    assert interpreting["TRITON_INTERPRET"] == "1"
    assert "TRITON_INTERPRET" not in compiling
    assert compiling["TRITON_CACHE_DIR"] == "/cache"
    assert compiling["TRITON_DISABLE_LINE_INFO"] == "1"

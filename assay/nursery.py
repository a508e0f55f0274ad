"""Starts child processes by forking one that has imported torch and Triton, which takes seconds for each otherwise.

The nursery loads no kernel file, so that every child starts from the same state, also after another has died. A child
is forked twice: its nearer parent ends at once, and it becomes a child of the stage, which gathers orphans
(`assay.child.adopt_orphans`), sees how it ends and can wait for it.
"""

import array
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from assay.child import PARENT_VARIABLE, REPLY_VARIABLE, adopt_orphans, die_with_parent

NURSERY_VARIABLE = "ASSAY_NURSERY_FD"
READY, STARTED = b"ready", b"started"
POLL_S = 0.01
_LONGEST_MESSAGE = 32


# In the nursery and its children


def serve_or_fork(work: Callable[[], None], prepare: Callable[[], object] = lambda: None) -> None:
    """Do the work of a child process, or, where a `Nursery` started this process, have each child forked do it.

    `prepare` is done once before any is forked. Nothing may have started threads, or CUDA, by then.
    """
    handle = os.environ.pop(NURSERY_VARIABLE, None)
    if handle is None:
        work()
        return
    die_with_parent()
    prepare()
    # What was imported stays, and stays shared: a collection would write to all of it.
    gc.freeze()
    with socket.socket(fileno=int(handle)) as line:
        line.send(READY)
        while True:
            message, files, _, _ = socket.recv_fds(line, _LONGEST_MESSAGE, 3)
            if not message:
                return
            _fork(work, line, files)
            line.send(STARTED)


def _fork(work: Callable[[], None], line: socket.socket, files: list[int]) -> None:
    """Fork a child for the work with these as input, answers and output, and give it away; tell its process id."""
    sys.stdout.flush()
    middle = os.fork()
    if middle == 0:
        middle = os.getpid()
        try:
            child = os.fork()
            if child == 0:
                _be_child(work, line, files, middle)
            line.send(str(child).encode())
        finally:
            os._exit(0)
    os.waitpid(middle, 0)
    for file in files:
        os.close(file)


def _be_child(work: Callable[[], None], line: socket.socket, files: list[int], middle: int) -> None:
    code = 1
    try:
        line.close()
        os.setsid()
        for file, number in zip((files[0], files[2], files[2]), (0, 1, 2), strict=True):
            os.dup2(file, number)
        os.close(files[0])
        os.close(files[2])
        os.environ[REPLY_VARIABLE] = str(files[1])
        # Else the end of the process between would be taken for the end of the stage.
        while os.getppid() == middle:
            time.sleep(0.001)
        work()
        code = 0
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):
            # As Python ends by itself after one.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # No clean-up: all that this process has was its nursery's.
        os._exit(code)


# In the stage


class Adopted:
    """A child that a nursery forked, as far as a `subprocess.Popen` is used."""

    def __init__(self, pid: int, stdin: BinaryIO) -> None:
        self.pid, self.stdin = pid, stdin
        self._ended: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal; subprocess.TimeoutExpired where it has not ended by then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._ended is None:
            pid, status = os.waitpid(self.pid, 0 if deadline is None else os.WNOHANG)
            if pid:
                self._ended = os.waitstatus_to_exitcode(status)
            elif deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired([], timeout or 0.0)
            else:
                time.sleep(POLL_S)
        return self._ended


class Nursery:
    """The stage's end: one process, started when first asked for a child. Several threads may ask."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.command, self.environment, self._log = command, dict(environment), log
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._broken = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        adopt_orphans()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self, reply: int, output: int, deadline: float) -> Adopted | None:
        """Return a new child that answers into `reply` and prints into `output`, or None where forking fails.

        TimeoutError where the nursery has not imported everything by then. After either no child comes from here.
        """
        with self._lock:
            if self._broken:
                return None
            try:
                return self._start(reply, output, deadline)
            except TimeoutError:
                self._break()
                raise
            except (OSError, ValueError):
                self._break()
                return None

    def _start(self, reply: int, output: int, deadline: float) -> Adopted:
        line = self._line or self._open(deadline)
        line.settimeout(max(0.001, deadline - time.monotonic()))
        taken, given = os.pipe()
        try:
            files = array.array("i", [taken, reply, output])
            line.sendmsg([b"start"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            pid = int(line.recv(_LONGEST_MESSAGE))
            if line.recv(_LONGEST_MESSAGE) != STARTED:
                raise ValueError("no word that the child has started")
        except BaseException:
            os.close(given)
            raise
        finally:
            os.close(taken)
        return Adopted(pid, os.fdopen(given, "wb"))

    def _open(self, deadline: float) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        extra = {NURSERY_VARIABLE: str(theirs.fileno()), PARENT_VARIABLE: str(os.getpid())}
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                env={**self.environment, **extra},
                start_new_session=True,
            )
        self._line = ours
        ours.settimeout(max(0.001, deadline - time.monotonic()))
        if ours.recv(_LONGEST_MESSAGE) != READY:
            raise ValueError("the nursery ended before it was ready")
        return ours

    def _break(self) -> None:
        self._broken = True
        self._end()

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

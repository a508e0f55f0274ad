"""Child processes that run a kernel file's code: asked one thing at a time, with a limit, and replaced when they die.

A kernel may raise, hang, write wildly and take its process along. The parent imports no kernel and no torch; it asks a
child over a pipe and turns whatever happens into an answer or a `Fault`.
"""

import ctypes
import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self, TextIO, TypeVar

from assay.artifact import convert, parse
from assay.errors import RecordError
from assay.origin import chained, reason_of
from assay.privacy import one_line
from assay.record import Cause, Record, Verdict

REPLY_VARIABLE = "ASSAY_REPLY_FD"
PARENT_VARIABLE = "ASSAY_PARENT_PID"
LARGEST_REPLY_BYTES = 32 * 2**20
REPORTED = "PassManager::run failed"
"""What Triton's compiler raises where it has printed what is wrong as an `error:`, among other things."""
LARGEST_REPORT_BYTES = 2**20
ENDING_S = 5.0
"""How long a child that closed its answer pipe may take to end; its exit code is the best reason there is."""
RELEASING_S = 30.0
"""How long what a child had started may take to end once it was killed: a device ends the kernel that runs first."""
# <sys/prctl.h>
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def threads(count: int) -> dict[str, str]:
    """Return variables that keep a process's libraries to so many threads."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(count))


ONE_THREAD = threads(1)
"""Variables that keep a process's libraries to its one thread; a process that forks may have no other."""
_NOT_AFRESH = ("TRITON_INTERPRET", "TRITON_CACHE_MANAGER", "ASSAY_CACHE")
"""Variables under which nothing would be compiled, or not by this run."""


FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of what the system refuses a child, that which is the disk's state and no fault of the kernel's."""

Answer = dict[str, Any]


@dataclass(frozen=True)
class Opening:
    """What every fresh child is asked first, with a limit of its own.

    Loading torch and a kernel file takes seconds, minutes from a cold disk; no trial shall run out of time over it.
    """

    request: Answer
    limit_s: float


def interpreting_environment() -> dict[str, str]:
    """Return an environment in which `@triton.jit` chooses the interpreter, which it does when it decorates.

    One thread for each child: products split over threads round otherwise, and results would depend on the core count.
    """
    return {**os.environ, **ONE_THREAD, "TRITON_INTERPRET": "1"}


def compiling_environment(cache: str) -> dict[str, str]:
    """Return an environment that compiles afresh, and without line information, which would hold this checkout's path.

    Both decide the binary's digest, so every stage that compares digests must use this one.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_AFRESH}
    return {**kept, "TRITON_CACHE_DIR": cache, "TRITON_DISABLE_LINE_INFO": "1"}


@dataclass(frozen=True)
class Fault:
    """Why there is no answer: the child raised (`kind` is the exception's type), crashed or ran out of time."""

    cause: Cause
    reason: str
    kind: str = ""

    def verdict(self) -> Verdict:
        """Return this fault as a failed verdict."""
        return Verdict(outcome="failed", cause=self.cause, reason=self.reason)


Handler = Callable[[Answer], Answer]
Message = TypeVar("Message", bound=Record)


class Asked(Protocol):
    """A child process, as far as asking goes."""

    def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
        """Return the answer, or the fault after which a fresh child serves the next request."""


def ask(child: Asked, request: Answer, kind: type[Message], limit_s: float) -> Message | Fault:
    """Send a request and return its answer as a `kind`; an answer that is none is a fault of the kernel file."""
    answer = child.ask(request, limit_s)
    if isinstance(answer, Fault):
        return answer
    try:
        return convert(answer, kind, f"the answer to '{request['do']}'")
    except RecordError as error:
        return Fault("declaration", str(error))


class Process(Protocol):
    """What is used of a `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Where requests go."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal; subprocess.TimeoutExpired where it has not ended by then."""


class Starter(Protocol):
    """Something that has processes ready (`assay.nursery`)."""

    def start(self, reply: int, output: int, deadline: float) -> Process | None:
        """Return one that answers into `reply` and prints into `output`, or None; TimeoutError after `deadline`."""


class Child:
    """One child process, started when first asked and again after it died.

    `command` must end in a call of `serve`. `log` receives what the kernel prints; nothing it prints is an answer.
    `starter` is asked first for a process that runs the command. `held`: open files whose locks last as long as the
    child, should it outlive this process; a starter is not asked to hold any.
    """

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        log: Path,
        opening: Opening | None = None,
        *,
        held: Sequence[int] = (),
        starter: Starter | None = None,
    ) -> None:
        self._command, self._environment, self._log = command, dict(environment), log
        self._opening, self._held, self._starter = opening, tuple(held), starter
        self._process: Process | None = None
        self._reply = -1
        self._pending = b""
        self._log_start = 0
        self._over = False

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.write_bytes(b"")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def change_environment(self, variables: Mapping[str, str]) -> None:
        """Set variables for every process that is started from now on."""
        self._environment |= variables

    def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
        """Send a request and return the answer, or the fault after which a fresh child serves the next request.

        OSError where the child found the disk full, which is no result.
        """
        if self._process is None and self._opening is not None:
            opened = self._exchange(self._opening.request, self._opening.limit_s)
            if isinstance(opened, Fault) or request == self._opening.request:
                return opened
        return self._exchange(request, limit_s)

    def end(self) -> None:
        """End the child for good, from a thread other than the one that asks it, which finds that it crashed."""
        self._over = True
        process = self._process
        if process is not None:
            _kill_group(process.pid)

    def _exchange(self, request: Answer, limit_s: float) -> Answer | Fault:
        if self._over:
            return Fault("crash", "the child was ended")
        deadline = time.monotonic() + limit_s
        # What the child printed for an earlier request is no reason for what becomes of this one.
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        try:
            process = self._running(deadline)
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(deadline)
        except BrokenPipeError:
            line = b""
        except TimeoutError:
            self.stop()
            return Fault("timeout", f"no answer within the limit of {limit_s:g} s{self._last_printed()}")
        return self._answer(line) if line else self._crashed()

    def stop(self) -> None:
        """End the child, and whatever it started, at once."""
        if self._process is None:
            return
        _kill_group(self._process.pid)
        self._process.wait()
        _await_adopted(self._process.pid)
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        os.close(self._reply)
        self._process, self._pending = None, b""

    def _running(self, deadline: float) -> Process:
        if self._process is None:
            reply, write = os.pipe()
            try:
                with self._log.open("ab") as log:
                    ready = self._starter and self._starter.start(write, log.fileno(), deadline)
                    self._process = ready or self._started(write, log)
            except BaseException:
                os.close(reply)
                raise
            finally:
                os.close(write)
            self._reply = reply
        return self._process

    def _started(self, write: int, log: IO[bytes]) -> Process:
        extra = {REPLY_VARIABLE: str(write), PARENT_VARIABLE: str(os.getpid())}
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(write, *self._held),
            env={**self._environment, **extra},
            start_new_session=True,
        )

    def _line(self, deadline: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._reply, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                chunk = os.read(self._reply, 1 << 16)
                self._pending += chunk
                if not chunk:
                    return b""
                if len(self._pending) > LARGEST_REPLY_BYTES:
                    break
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _last_printed(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - 4096))
                lines = log.read(4096).decode("utf-8", "replace").strip().splitlines()
        except OSError:
            # A kernel can delete the file that it prints into.
            return ""
        return f"; it last printed: {one_line(lines[-1], 160)}" if lines else ""

    def _first_error(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(self._log_start)
                printed = log.read(LARGEST_REPORT_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""
        found = next((line for line in printed.splitlines() if "error: " in line), "").partition("error: ")[2]
        return f": {one_line(found, 160)}" if found else ""

    def _answer(self, line: bytes) -> Answer | Fault:
        try:
            # As strict as for a record: what no record can hold would only fail when the stage writes its own.
            reply = parse(line, "the child's answer")
            if "answer" in reply:
                return dict(reply["answer"])
            if "ended" in reply:
                return Fault("crash", f"the process {one_line(reply['ended'], 80)}{self._last_printed()}")
            kind, reason, full = str(reply["kind"]), str(reply["reason"]), reply["full"]
        except (RecordError, ValueError, KeyError, TypeError):
            self.stop()
            return Fault("crash", "the child process answered with something that is not an answer")
        if full in FULL:
            # The next trial would meet it too, and none of them would say anything about the kernel.
            self.stop()
            raise OSError(full, os.strerror(full), f"{tempfile.gettempdir()} or Triton's cache")
        if reply.get("last"):
            self.stop()
        return Fault("exception", reason + (self._first_error() if REPORTED in reason else ""), kind)

    def _crashed(self) -> Fault:
        assert self._process is not None
        try:
            how = ending(self._process.wait(timeout=ENDING_S))
        except subprocess.TimeoutExpired:
            how = "closed its answer pipe"
        self.stop()
        return Fault("crash", f"the process {how}{self._last_printed()}")


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def ending(code: int) -> str:
    """Say how a process ended, by its exit code: negative for a signal."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def die_with_parent() -> None:
    """End this process when its parent ends, or has ended already."""
    # Else a hanging kernel would outlive a run that was killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if str(os.getppid()) != os.environ.get(PARENT_VARIABLE):
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of what a child had started and outlives it, so that `Child.stop` can wait for that too.

    A process that was killed while its kernel hangs holds the device, and memory there, until the driver has ended it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _await_adopted(group: int) -> None:
    """Wait until the processes of a group that are children of this one have ended."""
    deadline = time.monotonic() + RELEASING_S
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-group, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.02)


def _describe(error: BaseException) -> Answer:
    """Say where in the kernel file, and what; the whole traceback goes to the log."""
    traceback.print_exception(error)
    chain = chained(error)
    root = chain[-1]
    # Triton's compiler wraps too, what it refuses in a kernel's code: no assertion of the launch's own is one of those.
    kinds = [name for name in (type(link).__name__ for link in chain) if name == "CompilationError"]
    full = root.errno if isinstance(root, OSError) and root.errno in FULL else None
    return {"kind": [*kinds, type(root).__name__][0], "reason": reason_of(error), "full": full}


def open_reply() -> TextIO:
    """Return the pipe that answers go into. Called in the child."""
    return os.fdopen(int(os.environ[REPLY_VARIABLE]), "w", encoding="utf-8")


def answered(handler: Handler, request: Answer) -> Answer:
    """Return the message that answers a request, or says what the handler raised."""
    try:
        return {"answer": handler(request)}
    except (Exception, SystemExit) as error:
        return _describe(error)


def send(reply: TextIO, message: Answer) -> None:
    """Send a message to the parent, after all that was printed before it."""
    sys.stdout.flush()
    reply.write(json.dumps(message) + "\n")
    reply.flush()


def serve(handler: Handler, last_after_error: bool = False) -> None:
    """Answer requests from standard input until it closes. Called in the child.

    `last_after_error`: a child that raised is replaced, because on a GPU one error can spoil the whole context.
    """
    die_with_parent()
    reply = open_reply()
    for line in sys.stdin:
        message = answered(handler, json.loads(line))
        send(reply, message if "answer" in message else {**message, "last": last_after_error})

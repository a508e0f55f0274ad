"""Gives each kernel file a process of its own without importing torch and Triton anew: a child that forks.

`serve_forked` runs in the child, `Session` is what its parent asks.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from assay.child import (
    PARENT_VARIABLE,
    Answer,
    Child,
    Fault,
    Handler,
    Opening,
    answered,
    die_with_parent,
    ending,
    open_reply,
    send,
)

READY: Answer = {"do": "ready"}
CLOSE: Answer = {"do": "close"}
CLOSING_S = 30.0


def opening(limit_s: float) -> Opening:
    """Return what a fresh child is asked first: answered once everything is imported."""
    return Opening(READY, limit_s)


# In the child


def serve_forked(handler_of: Callable[[Path], Handler]) -> None:
    """Answer requests from standard input until it closes, each kernel file's in a process forked for it.

    The first request that names a `kernel` forks; that process answers it and all that follow until `close`. However it
    ends, this one says so and forks again for the next. Nothing may have started CUDA, or threads, before.
    """
    die_with_parent()
    reply = open_reply()
    for line in sys.stdin:
        request = json.loads(line)
        if request == READY:
            send(reply, {"answer": {}})
        else:
            send(reply, {"ended": _fork(handler_of, request, reply)})


def _fork(handler_of: Callable[[Path], Handler], request: Answer, reply: TextIO) -> str:
    """Have a process of its own answer from this request on; return how it ended."""
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            die_with_parent()
            _answer(handler_of(Path(request.get("kernel", ""))), request, reply)
            code = 0
        finally:
            # No clean-up: all that this process has is its parent's.
            os._exit(code)
    _, status = os.waitpid(process, 0)
    return ending(os.waitstatus_to_exitcode(status))


def _answer(handler: Handler, request: Answer, reply: TextIO) -> None:
    while request != CLOSE:
        send(reply, answered(handler, request))
        # The parent asks one thing at a time, so nothing it asked is lost in a buffer of either process.
        request = json.loads(sys.stdin.readline() or json.dumps(CLOSE))


# In its parent


class Session:
    """One kernel file's own process in a child that forks; started when first asked, and again after it ended."""

    def __init__(self, child: Child, kernel: Path) -> None:
        self.child, self._kernel = child, kernel
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
        """Send a request and return the answer, or the fault: after a crash the next request starts a new process."""
        answer = self.child.ask({**request, "kernel": str(self._kernel)}, limit_s)
        self._open = not isinstance(answer, Fault) or answer.cause == "exception"
        return answer

    def close(self) -> None:
        """End the process, if there is one."""
        if self._open:
            self.child.ask(CLOSE, CLOSING_S)
        self._open = False

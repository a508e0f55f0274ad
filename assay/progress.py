"""Progress of a long stage on the terminal: done, total, and what is running."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from assay.privacy import one_line
from assay.record import Verdict

QUIET_SECONDS = 5.0
"""Where the output is no terminal, at most one line in this time: a log of a long stage stays short."""
WIDEST_LINE = 110
SHOWN_FAILURES = 3
"""Failures that are told one by one: the record has them all."""


@dataclass
class Progress:
    """Counts steps of one stage. On a terminal one line is rewritten; elsewhere a line is printed now and then."""

    label: str
    total: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    done: int = 0
    said: float = field(default_factory=time.monotonic)
    width: int = 0

    def running(self, what: str) -> None:
        """Show that `what` runs now."""
        # A case's name comes from a kernel file, and may hold anything.
        line = one_line(f"{self.label}: {self.done}/{self.total} {what}", WIDEST_LINE)
        if self.stream.isatty():
            self.stream.write(f"\r{line:<{self.width}}")
            self.width = len(line)
        elif time.monotonic() - self.said >= QUIET_SECONDS:
            self.said = time.monotonic()
            self.stream.write(f"{line}\n")
        self.stream.flush()

    def step(self) -> None:
        """Count one more step as done."""
        self.done += 1

    def close(self, summary: str, failures: Sequence[str] = ()) -> None:
        """End with what failed, the first few in a line each, and one line of summary."""
        start = f"\r{'':<{self.width}}\r" if self.stream.isatty() else ""
        told = [one_line(f"{self.label}: {failure}") for failure in failures[:SHOWN_FAILURES]]
        more = len(failures) - SHOWN_FAILURES
        told += [f"{self.label}: and {more} more"] if more > 0 else []
        self.stream.write(start + "".join(f"{line}\n" for line in (*told, f"{self.label}: {summary}")))
        self.stream.flush()


def told(verdict: Verdict) -> str:
    """Return a verdict's cause and reason."""
    return f"{verdict.cause or 'no cause given'}, {verdict.reason}"

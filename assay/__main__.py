"""The command line: `python -m assay <command> ...`."""

import importlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

from assay.commands import COMMANDS, after_help, usage
from assay.errors import AssayError, refused_by_system

INTERRUPTED = 128 + signal.SIGINT


class Output(io.FileIO):
    """A standard stream whose reader may go, as `head` does: what is printed from then on is dropped.

    That stops no command and changes no exit code, since a stage has its record to write, and a check its answer to
    give. A pipe that breaks elsewhere, such as a child's, is no business of this stream.
    """

    def write(self, data: Any) -> int:
        """Write, or drop what nobody reads. Another error, of a full disk say, is raised once; then that drops too."""
        try:
            return super().write(data)
        except OSError as error:
            self._drop()
            if isinstance(error, BrokenPipeError):
                return len(data)
            error.filename = "standard output" if self.fileno() == 1 else "standard error"
            raise

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def outliving(stream: TextIO | None) -> TextIO:
    """Return what to print to instead of a standard stream, which is None where the process was started without."""
    if not isinstance(stream, io.TextIOWrapper):
        return Path(os.devnull).open("w", encoding="utf-8")
    written = io.BufferedWriter(Output(stream.fileno(), "w", closefd=False))
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(written, stream.encoding, stream.errors, line_buffering=by_line)


def run(command: str, arguments: list[str]) -> int:
    """Run a command; its --help, which ends the process, is followed by exit codes and an example."""
    # NVML counts cards by bus, CUDA by speed unless told otherwise: an index shall mean one card in every stage.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        # Imported only now: some stages decide how Triton behaves before it is loaded.
        return int(importlib.import_module(f"assay.{command}").main(arguments))
    except SystemExit as end:
        if not end.code:
            print(after_help(command), flush=True)
        raise


def answer(argv: list[str]) -> int:
    """Run one command, or say which there are."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"assay: expected one of {known}, found {argv[0]!r}; --help says what each does", file=sys.stderr)
        return 2
    return run(argv[0], argv[1:])


def main(argv: list[str]) -> int:
    """Run one command and return its exit code: 2 for a refusal, with one sentence on standard error; 130 where the
    user interrupted it, as shells do.
    """
    who = " ".join(["assay", *(name for name in argv[:1] if name in COMMANDS)])
    try:
        code = answer(argv)
        # What is printed to a full disk is refused here and not at the interpreter's end, where nobody can say so.
        sys.stdout.flush()
        return code
    except AssayError as error:
        print(f"{who}: {error.sentence}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{who}: interrupted before its end; run it again", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if (sentence := refused_by_system(error)) is None:
            raise
        print(f"{who}: {sentence}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout, sys.stderr = outliving(sys.stdout), outliving(sys.stderr)
    sys.exit(main(sys.argv[1:]))

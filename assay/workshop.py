"""A temporary folder with a bundle's sources, in which its stages run as child processes.

The sources are untrusted: what they print is shown cleaned, what they write is read strictly, and a stage that outlives
its limit is ended. Nothing else confines them.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.artifact import LARGEST_RECORD_BYTES, read
from assay.errors import RecordError, UsageError
from assay.opening import UnsoundError
from assay.privacy import one_line
from assay.progress import Progress
from assay.record import Artifact
from assay.sources import workflow_names
from assay.steps import Task
from assay.storage import VARIABLE

POLL_S = 0.2
# Else a stage, and the kernels that it runs, would outlive a command that was killed. Not in `preexec_fn`: forking a
# process that has threads is warned of. 1: PR_SET_PDEATHSIG (sys/prctl.h).
_LAUNCH = """
import ctypes, os, runpy, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv.pop(1)):
    sys.exit("the command that started this stage has ended")
sys.path[0] = os.getcwd()
runpy.run_module("assay", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class NoRecord:
    """Why a stage left no record."""

    reason: str


@dataclass(frozen=True)
class Workshop:
    """The folder: the sources in `project`, and beside it all that they would keep elsewhere on this machine.

    `python`: the one that runs them.
    """

    folder: Path
    python: str = sys.executable

    @property
    def project(self) -> Path:
        """Where the sources are, and the stages run."""
        return self.folder / "project"

    def variables(self) -> dict[str, str]:
        """Return the variables of this process, with every place to keep things moved into the folder."""
        # Under PYTHONSAFEPATH the package would be looked for outside the folder it is to come from.
        own = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        places = {"TMPDIR": "tmp", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "TRITON_CACHE_DIR": "triton"}
        # What a stage took from an earlier run, it would not have made again.
        return {**own, **{name: str(self.folder / place) for name, place in places.items()}, VARIABLE: ""}

    def write(self, payload: Mapping[str, bytes]) -> None:
        """Write the sources; UnsoundError where a name leads out of the folder."""
        root = self.project.resolve()
        for name in sources(payload):
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise UnsoundError(f"{name!a}: expected a file inside the bundle, found a path that leads out of it")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(payload[name])

    def run(self, task: Task, progress: Progress) -> Artifact[Any] | NoRecord:
        """Run one stage to its end and read its record strictly."""
        log, path = self.folder / "log", self.project / task.out
        reason = self._run(task, log, progress)
        if reason is None and not path.is_file():
            reason = f"it left no file {task.out}"
        elif reason is None and path.stat().st_size > LARGEST_RECORD_BYTES:
            reason = f"its record is larger than {LARGEST_RECORD_BYTES} bytes"
        if reason is not None:
            said = _last_line(log)
            return NoRecord(f"{reason}; it last printed: {said}" if said else reason)
        try:
            return read(path, task.stage)
        except RecordError as error:
            return NoRecord(one_line(str(error).replace(f"{self.project}/", "")))

    def _run(self, task: Task, log: Path, progress: Progress) -> str | None:
        command = [self.python, "-c", _LAUNCH, str(os.getpid()), task.stage, *task.options]
        try:
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    command,
                    cwd=self.project,
                    env=self.variables(),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            return f"{self.python} cannot be run ({error.strerror})"
        try:
            return _wait(process, task, log, progress)
        finally:
            _end(process)


def sources(payload: Mapping[str, bytes]) -> list[str]:
    """Return what is written: the workflow's files. Another, such as a torch.py, could pass for an installed module."""
    return workflow_names(payload)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a stage; its own children have asked to end with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _wait(process: "subprocess.Popen[bytes]", task: Task, log: Path, progress: Progress) -> str | None:
    """Wait for the end and show what the stage says of itself; return why it has no record, or None."""
    deadline = time.monotonic() + task.limit_s
    while (code := process.poll()) is None:
        if time.monotonic() > deadline:
            return f"it was ended at its limit of {task.limit_s:g} s"
        said = _last_line(log)
        progress.running(f"{task.name}: {said}" if said else task.name)
        time.sleep(POLL_S)
    return f"it ended with exit code {code}" if code else None


def _last_line(log: Path) -> str:
    """Return the last line that a stage printed, cleaned; it may have printed anything."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4096))
        lines = stream.read().decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1], 200) if lines else ""


@contextmanager
def _tidy_end() -> Iterator[None]:
    """Let SIGTERM unwind, so that the temporary folder goes and the stage that runs is ended."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def workshop(
    payload: Mapping[str, bytes], command: str = "reproduce", python: str = sys.executable
) -> Iterator[Workshop]:
    """Write sources into a fresh folder, which is removed at the end; UsageError where there is no room.

    `command`: the one that asks for it, which names the folder and speaks of it.
    """
    with _tidy_end(), tempfile.TemporaryDirectory(prefix=f"assay-{command}-", ignore_cleanup_errors=True) as folder:
        made = Workshop(Path(folder), python)
        try:
            for name in ("project", "tmp", "state", "cache", "triton"):
                (made.folder / name).mkdir()
            made.write(payload)
        except OSError as error:
            raise UsageError(f"{folder}: the sources cannot be written ({error.strerror}); set TMPDIR") from None
        yield made
    if made.folder.exists():
        print(f"assay {command}: {folder}: something still writes here; remove it by hand", file=sys.stderr)

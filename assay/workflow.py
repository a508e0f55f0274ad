"""What the Snakefile asks before any stage runs: what there is to make, and whether another run makes it already.

Refusals leave here as Snakemake's own error, which prints a sentence and no traceback.
"""

import fcntl
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from snakemake.exceptions import WorkflowError

from assay.config import Settings, kernel_files, parse_settings
from assay.errors import AssayError
from assay.record import StageName
from assay.sources import modules
from assay.stage import record_path

WHOLE: tuple[StageName, ...] = ("environment", "gate")
PER_KERNEL: tuple[StageName, ...] = ("interpreter", "compile", "gpu", "timing")
RUN_LOCK = Path(".snakemake/assay.lock")


class Plan(NamedTuple):
    """The settings, the kernel files by name, and the path of every record that claims are derived from."""

    settings: Settings
    kernels: dict[str, str]
    evidence: list[str]


def plan(config: dict[str, Any]) -> Plan:
    """Turn what Snakemake read from config.yaml and `--config` into a plan; WorkflowError where it makes no sense."""
    try:
        modules("claims")  # refuses any folder but the project's, where nothing below would make sense
        settings = parse_settings(config, "config.yaml")
        kernels = kernel_files(settings, Path("kernels"))
    except AssayError as error:
        raise WorkflowError(str(error)) from None
    records = [record_path(stage, None) for stage in WHOLE]
    records += [record_path(stage, kernel) for kernel in kernels for stage in PER_KERNEL]
    return Plan(settings, {name: str(path) for name, path in kernels.items()}, [str(path) for path in records])


def only_run(lock: Path = RUN_LOCK) -> TextIO:
    """Return a file that holds this folder for one run as long as it is open; WorkflowError where another holds it.

    Snakemake's own lock is a file that a killed run leaves behind. This one belongs to the process: the system frees
    it however the process ends.
    """
    stream = lock.open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise WorkflowError("another run is at work in this folder: wait for its end, then run this again") from None
    return stream

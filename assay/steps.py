"""What of a bundle can run again: its stages with the options, settings and limits that they are given.

Pure. Of the commands that a bundle records only the settings are used, decoded strictly and encoded again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from assay.admission import architecture_of, chosen_device
from assay.chain import settings_of
from assay.config import KERNEL_NAME, READS, Settings, stage_settings
from assay.errors import ConfigError
from assay.machines import missing, place
from assay.opening import Opened, UnsoundError
from assay.privacy import one_line
from assay.record import Artifact, Environment, StageName
from assay.sources import PACKAGE
from assay.stage import NEEDS, PER_KERNEL, record_path

OF_THE_MACHINE: tuple[StageName, ...] = ("environment", "gate")
AGAIN = (*OF_THE_MACHINE, *PER_KERNEL)
"""What can run again, in this order."""

ON_A_DEVICE: tuple[StageName, ...] = ("gpu", "timing")
SETUP_S = 600.0
"""Beside what the settings limit: reading the sources, the gate's own limit, and a slow disk."""


@dataclass(frozen=True)
class Task:
    """One stage to run: its options, where its record will stand, and the seconds that it may take."""

    stage: StageName
    name: str
    options: Sequence[str]
    out: Path
    limit_s: float


def task_of(stage: StageName, kernel: str | None, settings: Settings, limit_s: float) -> Task:
    """Return one stage as a task: every record in its own place under results/."""
    of = [] if kernel is None else ["--kernel", f"kernels/{kernel}.py"]
    records = [word for need in NEEDS[stage] for word in (f"--{need}", str(record_path(need, kernel)))]
    out = record_path(stage, kernel)
    settled = ["--settings", stage_settings(settings, stage), "--out", str(out)]
    return Task(stage, f"{stage} {kernel}" if kernel else stage, [*of, *records, *settled], out, limit_s)


@dataclass(frozen=True)
class Step:
    """One record of the bundle, and the settings that it was made with."""

    there: Artifact[Any]
    settings: Settings

    @property
    def stage(self) -> StageName:
        """The stage to run again."""
        return self.there.stage

    @property
    def kernel(self) -> str | None:
        """The kernel to run it for, or None."""
        return self.there.kernel

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.stage} {self.kernel}" if self.kernel else self.stage

    def task(self) -> Task:
        """Return what to run."""
        return task_of(self.stage, self.kernel, self.settings, self.limit_s())

    def limit_s(self) -> float:
        """Return how long the stage may take: each thing in its record as long as the settings allow it."""
        settings, result = self.settings, self.there.result
        loading = SETUP_S + settings.loading.limit_s
        match self.stage:
            case "interpreter":
                return loading + settings.interpreter.limit_s * len(result.checks)
            case "compile":
                return loading + settings.compile.limit_s * len(result.builds)
            case "gpu":
                return loading + settings.gpu.limit_s * len(result.checks)
            case "timing":
                limits, entrants = settings.timing, sum(len(sweep.rows) for sweep in result.sweeps)
                return SETUP_S + limits.prepare_limit_s * (1 + entrants) + limits.limit_s * len(result.sweeps)
            case _:
                return SETUP_S


def recorded_settings(path: str, record: Artifact[Any]) -> Settings:
    """Return the settings in a record's command, with as many workers as this machine has cores."""
    if not READS[record.stage]:
        return Settings()
    try:
        found = settings_of(record)
    except ConfigError as error:
        raise UnsoundError(f"{path}: {one_line(str(error))}") from None
    replace = msgspec.structs.replace
    # How many work at a time decides no result, and belongs to the machine.
    own = {"interpreter": replace(found.interpreter, workers=0), "compile": replace(found.compile, workers=0)}
    return replace(found, **own)


def _step(opened: Opened, path: str, record: Artifact[Any]) -> Step:
    kernel = record.kernel
    whole = record.stage in OF_THE_MACHINE
    if path != str(record_path(record.stage, kernel)) or whole != (kernel is None):
        raise UnsoundError(f"{path}: expected the record that its path names, found one of kernel {kernel!a}")
    if kernel is not None and not (re.fullmatch(KERNEL_NAME, kernel) and f"kernels/{kernel}.py" in opened.payload):
        raise UnsoundError(f"{path}: expected the source of its kernel, found no file kernels/{one_line(kernel)}.py")
    return Step(record, recorded_settings(path, record))


def _ran(record: Artifact[Any]) -> bool:
    return record.stage not in ON_A_DEVICE or record.result.availability.outcome == "passed"


def plan(opened: Opened) -> list[Step]:
    """Return what to run again: the machine's records first, then kernel by kernel; UnsoundError where it cannot be.

    What no device showed there is left out: there is nothing to reproduce.
    """
    for name in ("__init__", "__main__"):
        # Else Python would look for the package elsewhere, and find this one.
        if f"{PACKAGE}/{name}.py" not in opened.payload:
            raise UnsoundError(f"{PACKAGE}/{name}.py: expected the package that made the records, found no such file")
    for stage in OF_THE_MACHINE:
        opened.one(stage)
    found = [(path, record) for stage in AGAIN for path, record in opened.of_stage(stage).items() if _ran(record)]
    return sorted((_step(opened, *one) for one in found), key=lambda step: step.kernel or "")


def bar(step: Step, there: Environment, here: Environment) -> str | None:
    """Return why a stage cannot run again on this machine, or None."""
    lacking = missing(step.stage, here, there)
    if lacking is not None or step.stage not in ON_A_DEVICE:
        return lacking
    found, wanted = chosen_device(here), step.there.result.device
    theirs = place(there) if wanted is None else f"{wanted.name} ({architecture_of(wanted)})"
    words = f"{place(here)} here, {theirs} there"
    if found is None or wanted is None or architecture_of(found) != architecture_of(wanted):
        return words
    if step.stage == "timing" and found.name != wanted.name:
        return f"{words}; times are those of one model"
    return None

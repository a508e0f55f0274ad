"""What a kernel lacks of which nothing is claimed yet, and the command that makes that and nothing else."""

import re
from pathlib import Path

from assay.config import KERNEL_NAME
from assay.record import StageName
from assay.stage import PER_KERNEL, RESULTS_FOLDER, record_path

WHOLE: tuple[StageName, ...] = ("environment", "gate")
"""Stages of the machine, whose records claims need beside a kernel's."""


def needed(kernel: str) -> list[Path]:
    """Return the records that claims about a kernel are derived from."""
    return [record_path(stage, None) for stage in WHOLE] + [record_path(stage, kernel) for stage in PER_KERNEL]


def found(kernel: str) -> str | None:
    """Say what there is of a kernel in this folder; None where there is no such kernel."""
    if not re.fullmatch(KERNEL_NAME, kernel) or not Path("kernels", f"{kernel}.py").is_file():
        return None
    there = [stage for stage in PER_KERNEL if record_path(stage, kernel).is_file()]
    records = f"records of {', '.join(there)}" if there else "no records"
    return f"{records} and no claims"


def command(kernel: str) -> str:
    """Return the command that makes the claims, and before them what is missing of their records, or out of date."""
    # All are named: what one that is made again puts out of date is made again only where it is asked for.
    records = [path.as_posix() for path in needed(kernel)]
    return f"snakemake --cores 1 {' '.join(records)} && python -m assay claims{_named(kernel)}"


def _named(kernel: str) -> str:
    """Name the kernel's records one by one where another kernel has not all of its own: claims need them whole."""
    others = {path.parent.name for stage in PER_KERNEL for path in RESULTS_FOLDER.glob(f"[!.]*/{stage}.json")}
    if all(_whole(other) for other in others - {kernel}):
        return ""
    return "".join(f" --record {path.as_posix()}" for path in needed(kernel))


def _whole(kernel: str) -> bool:
    return all(record_path(stage, kernel).is_file() for stage in PER_KERNEL)

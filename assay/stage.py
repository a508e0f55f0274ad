"""What every stage does around its own work: options, settings, earlier records, the lock, and writing the artifact."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.artifact import exclusive, open_session, read
from assay.config import Settings, decode_stage_settings, load_settings, stage_settings
from assay.errors import UsageError
from assay.privacy import scrub
from assay.record import Artifact, Record, StageName
from assay.sources import modules

RESULTS_FOLDER = Path("results")


@dataclass(frozen=True)
class Job:
    """One call of a stage: what it reads, with which settings, and where it writes."""

    stage: StageName
    kernel: Path | None
    settings: Settings
    records: dict[StageName, Path]
    out: Path
    command: list[str]

    @property
    def name(self) -> str | None:
        """The kernel's name, which is its file's."""
        return None if self.kernel is None else self.kernel.stem

    @property
    def log(self) -> Path:
        """Where child processes of this job print."""
        return self.out.parent / "logs" / f"{self.stage}.log"

    def read(self, stage: StageName) -> Artifact[Any]:
        """Read the record of an earlier stage."""
        return read(self.records[stage], stage)

    def materials(self) -> list[Path]:
        """Every file whose content decides the result."""
        kernel = [] if self.kernel is None else [self.kernel]
        return [*modules(self.stage), *kernel, *self.records.values()]


def parser(stage: StageName, needs: Sequence[StageName], per_kernel: bool) -> argparse.ArgumentParser:
    """Return the options that every stage has, one for each earlier record that it needs."""
    options = argparse.ArgumentParser(prog=f"python -m assay {stage}", description=f"Run the stage '{stage}' alone.")
    if per_kernel:
        options.add_argument("--kernel", type=Path, required=True, help="the kernel file, such as kernels/matmul.py")
    for need in needs:
        options.add_argument(f"--{need}", type=Path, help=f"the record of stage '{need}' (default: under results/)")
    options.add_argument(
        "--config", type=Path, default=Path("config.yaml"), help="the configuration (default: %(default)s)"
    )
    options.add_argument("--settings", help="the stage's configuration as JSON, instead of --config")
    options.add_argument("--out", type=Path, help="where to write the record (default: under results/)")
    return options


def record_path(stage: StageName, kernel: str | None) -> Path:
    """Return where the pipeline keeps a record: `results/<stage>.json` or `results/<kernel>/<stage>.json`."""
    whole = stage in ("environment", "gate", "claims", "report")
    return RESULTS_FOLDER / f"{stage}.json" if whole or kernel is None else RESULTS_FOLDER / kernel / f"{stage}.json"


def read_settings(chosen: argparse.Namespace) -> Settings:
    """Return the settings given on the command line, or those of the configuration file."""
    return load_settings(chosen.config) if chosen.settings is None else decode_stage_settings(chosen.settings)


def job_of(stage: StageName, needs: Sequence[StageName], chosen: argparse.Namespace) -> Job:
    """Turn parsed options into a job; UsageError where the kernel file does not exist."""
    kernel: Path | None = getattr(chosen, "kernel", None)
    if kernel is not None and not kernel.is_file():
        raise UsageError(f"--kernel: expected a kernel file such as kernels/matmul.py, found no file {kernel}")
    name = None if kernel is None else kernel.stem
    settings = read_settings(chosen)
    records = {need: getattr(chosen, need) or record_path(need, name) for need in needs}
    out = chosen.out or record_path(stage, name)
    given = [("--kernel", kernel), *((f"--{need}", path) for need, path in records.items())]
    options = [word for option, value in given if value is not None for word in (option, scrub(str(value)))]
    settled = ["--settings", stage_settings(settings, stage), "--out", scrub(str(out))]
    return Job(stage, kernel, settings, records, out, ["python", "-m", "assay", stage, *options, *settled])


def run(
    stage: StageName,
    argv: Sequence[str],
    find: Callable[[Job], Record],
    needs: Sequence[StageName] = (),
    per_kernel: bool = True,
) -> int:
    """Parse the options, find the result and write its artifact. Returns the exit code 0."""
    job = job_of(stage, needs, parser(stage, needs, per_kernel).parse_args(argv))
    with exclusive(job.out):
        session = open_session(stage, job.name, job.materials(), job.command)
        session.write(job.out, find(job))
    return 0

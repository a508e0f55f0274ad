"""What every stage does around its own work: options, settings, earlier records, the lock, and writing the artifact."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.artifact import again, digests_now, exclusive, open_session, read
from assay.config import READS, Settings, decode_stage_settings, load_settings, stage_settings
from assay.errors import UsageError
from assay.privacy import scrub
from assay.record import ARTIFACTS, Artifact, Compilations, Record, StageName
from assay.sources import modules

RESULTS_FOLDER = Path("results")

PER_KERNEL: tuple[StageName, ...] = ("interpreter", "compile", "gpu", "timing")
"""Stages of which every kernel has a record; of the others there is one for the whole machine."""

OPTIONAL: tuple[StageName, ...] = ("teeth",)
"""Stages of which a kernel may have a record: they take long, so `report` shows what is there and runs none of them."""

NEEDS: dict[StageName, tuple[StageName, ...]] = {
    "environment": (),
    "interpreter": ("environment",),
    "compile": ("environment",),
    "gate": ("environment",),
    "gpu": ("environment", "gate", "compile"),
    "timing": ("environment", "gate", "compile", "gpu"),
    "teeth": ("environment", "gate", "interpreter", "compile", "gpu"),
    "claims": (),
    "report": ("claims",),
    "bundle": ("claims", "report"),
}
"""The earlier records that each stage reads by name; claims, report and bundle read all evidence besides."""


@dataclass(frozen=True)
class Job:
    """One call of a stage: what it reads, with which settings, and where it writes."""

    stage: StageName
    kernel: Path | None
    settings: Settings
    records: dict[StageName, Path]
    out: Path
    command: list[str]
    evidence: tuple[Path, ...] = ()

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
        return [*modules(self.stage), *kernel, *self.records.values(), *self.evidence]


def parser(stage: StageName, per_kernel: bool, all_evidence: bool = False) -> argparse.ArgumentParser:
    """Return the options that every stage has, one for each earlier record that it needs.

    `all_evidence` adds `--record`, for a stage that reads the records of every kernel.
    """
    options = argparse.ArgumentParser(prog=f"python -m assay {stage}", description=f"Run the stage '{stage}' alone.")
    if per_kernel:
        options.add_argument("--kernel", type=Path, required=True, help="the kernel file, such as kernels/matmul.py")
    if all_evidence:
        options.add_argument(
            "--record",
            type=Path,
            action="append",
            metavar="PATH",
            help="a record, in a file named after its stage; once for each (default: every one under results/)",
        )
    for need in NEEDS[stage]:
        options.add_argument(f"--{need}", type=Path, help=f"the record of stage '{need}' (default: under results/)")
    options.add_argument(
        "--config", type=Path, default=Path("config.yaml"), help="the configuration (default: %(default)s)"
    )
    options.add_argument("--settings", help="the stage's configuration as JSON, instead of --config")
    options.add_argument("--out", type=Path, help="where to write the record (default: under results/)")
    return options


def record_path(stage: StageName, kernel: str | None) -> Path:
    """Return where the pipeline keeps a record: `results/<stage>.json` or `results/<kernel>/<stage>.json`."""
    own = kernel is not None and stage in (*PER_KERNEL, *OPTIONAL)
    folder = RESULTS_FOLDER / str(kernel) if own else RESULTS_FOLDER
    return folder / f"{stage}.json"


def stage_of(path: Path) -> StageName:
    """Return the stage that a record's file is named after; UsageError where there is none of that name."""
    for stage in ARTIFACTS:
        if path.name == f"{stage}.json":
            return stage
    raise UsageError(
        f"--record: expected a file named after its stage, such as results/gate.json, found {path}; rename it"
    )


def evidence_files() -> list[Path]:
    """Return the evidence under results/: every record but the claims and the report, which are derived from it."""
    stages = [stage for stage in ARTIFACTS if stage not in ("claims", "report", "bundle")]
    patterns = [pattern for stage in stages for pattern in (f"{stage}.json", f"[!.]*/{stage}.json")]
    return sorted(path for pattern in patterns for path in RESULTS_FOLDER.glob(pattern))


def is_left_out(path: Path) -> bool:
    """Return whether a record that need not be there was made from other files than those at hand, and say so."""
    stage = stage_of(path)
    if stage not in OPTIONAL:
        return False
    found = read(path, stage)
    now = digests_now([found])
    changed = next((name for name, digest in found.materials.items() if now.get(name) != digest), None)
    if changed is not None:
        print(f"{path}: left out, since {changed} has changed; {again(stage)}", file=sys.stderr)
    return changed is not None


def read_settings(chosen: argparse.Namespace) -> Settings:
    """Return the settings given on the command line, or those of the configuration file."""
    return load_settings(chosen.config) if chosen.settings is None else decode_stage_settings(chosen.settings)


def job_of(stage: StageName, chosen: argparse.Namespace) -> Job:
    """Turn parsed options into a job; UsageError where the kernel file does not exist."""
    kernel: Path | None = getattr(chosen, "kernel", None)
    if kernel is not None and not kernel.is_file():
        raise UsageError(
            f"--kernel: expected a kernel file such as kernels/matmul.py, found no file {kernel}; name one that "
            "is there, or write one with `python -m assay new NAME`"
        )
    name = None if kernel is None else kernel.stem
    # A stage that reads no settings runs without a configuration file.
    settings = read_settings(chosen) if READS[stage] else Settings()
    records = {need: getattr(chosen, need) or record_path(need, name) for need in NEEDS[stage]}
    out = chosen.out or record_path(stage, name)
    given = (chosen.record or evidence_files()) if "record" in chosen else ()
    evidence = tuple(path for path in given if not is_left_out(path))
    named = [
        ("--kernel", kernel),
        *(("--record", path) for path in evidence),
        *((f"--{need}", path) for need, path in records.items()),
    ]
    options = [word for option, value in named if value is not None for word in (option, scrub(str(value)))]
    settled = ["--settings", stage_settings(settings, stage), "--out", scrub(str(out))]
    command = ["python", "-m", "assay", stage, *options, *settled]
    return Job(stage, kernel, settings, records, out, command, evidence)


@dataclass(frozen=True)
class Compiled:
    """A result for which functions were compiled, and how many: the number is of the run, not of what it found."""

    result: Record
    compilations: Compilations


def run(
    stage: StageName,
    argv: Sequence[str],
    find: Callable[[Job], Record | Compiled],
    *,
    per_kernel: bool = True,
    all_evidence: bool = False,
) -> int:
    """Parse the options, find the result and write its artifact. Returns the exit code 0."""
    job = job_of(stage, parser(stage, per_kernel, all_evidence).parse_args(argv))
    with exclusive(job.out):
        session = open_session(stage, job.name, job.materials(), job.command)
        found = find(job)
        if isinstance(found, Compiled):
            session.write(job.out, found.result, found.compilations)
        else:
            session.write(job.out, found)
    return 0

"""Compiles launches by many processes at once before a device is touched, so that it never waits for a compiler.

What the processes make lies in Triton's cache, where the process that uses the device finds it: an entry's key is made
of the source, the arguments' types and alignments, the options and the target, and all of these are the same there.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.child import Child, Fault, Opening, ask, compiling_environment
from assay.correctness import DESCRIBE
from assay.pool import Pool, worker_count
from assay.progress import Progress
from assay.record import Count, Precompiled, Record

WORKER = "assay.codegen"


class Launched(Record, frozen=True, kw_only=True):
    """A child's answer to `precompile`: how many launches it compiled."""

    launches: Count


@dataclass(frozen=True)
class Lot:
    """One variant with all of its cases. One process compiles them, so that no two compile the same."""

    variant: str
    cases: tuple[str, ...]

    def __str__(self) -> str:
        """Name it for the terminal."""
        return self.variant


def lots(wanted: Mapping[str, Sequence[str]]) -> list[Lot]:
    """Return what to compile, longest first, so that no process is left with one long lot at the end.

    Long is what has many cases; among equals what is declared last, since variants go from simple to elaborate.
    """
    found = [Lot(variant, tuple(cases)) for variant, cases in wanted.items() if cases]
    return sorted(found, key=lambda lot: len(lot.cases))[::-1]


def _environment(cache: str) -> dict[str, str]:
    # No process may take up the device: a dozen contexts would share it with whatever is timed there.
    return {**compiling_environment(cache), "CUDA_VISIBLE_DEVICES": ""}


def _children(kernel: Path, log: Path, cache: str, number: int, loading_limit_s: float) -> list[Child]:
    command, opening = [sys.executable, "-m", WORKER, str(kernel)], Opening(DESCRIBE, loading_limit_s)
    logs = [log.with_name(f"{log.stem}-compile-{one}.log") for one in range(number)]
    return [Child(command, _environment(cache), log, opening) for log in logs]


def precompile(
    kernel: Path,
    log: Path,
    cache: str,
    wanted: Mapping[str, Sequence[str]],
    target: str,
    *,
    label: str,
    workers: int,
    limit_s: float,
    loading_limit_s: float,
) -> Precompiled:
    """Compile a kernel file's launches for `target`, such as sm_90, into the folder `cache`.

    `wanted`: the names of the cases and timed sizes of each variant, by its id; a case that no device runs is left out.
    `log`: the stage's; each process prints into a file of its own beside it. `label` leads the lines on the terminal.
    `workers`: processes, 0 for one on each usable core. `limit_s`: seconds that one launch may take to compile, and
    `loading_limit_s` that loading the kernel file may take. A fault is nothing but a launch fewer: the process that
    uses the device meets it again and records it.
    """
    start, waiting = time.monotonic_ns(), lots(wanted)
    number = min(worker_count(workers), len(waiting))

    def take(child: Child, lot: Lot) -> int | Fault:
        request = {"do": "precompile", "variant": lot.variant, "cases": list(lot.cases), "target": target}
        answer = ask(child, request, Launched, limit_s * len(lot.cases))
        return answer if isinstance(answer, Fault) else answer.launches

    progress = Progress(label, len(waiting))
    found = Pool(waiting, take, progress).run(_children(kernel, log, cache, number, loading_limit_s))
    launches = sum(one for one in found if isinstance(one, int))
    duration_ns = time.monotonic_ns() - start
    broken = sum(isinstance(one, Fault) for one in found)
    failed = f"; of {broken} variants something could not be" if broken else ""
    progress.close(f"{launches} launches compiled by {number} processes in {duration_ns / 1e9:.1f} s{failed}")
    return Precompiled(launches=launches, workers=number, duration_ns=duration_ns)

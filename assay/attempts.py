"""What a kernel's claims are under one Triton, one configuration and one version of its file: the stages run for it.

A point is run in a temporary folder with the package at hand; the user's checkout is neither read beyond that nor
written. What came out is kept under results/.bisect/, so that a point is run once.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from assay import tiers
from assay.artifact import canonical, decode, sha256_bytes, write_bytes
from assay.config import Settings, stage_settings
from assay.course import RECORDED
from assay.errors import RecordError
from assay.formats import distinct
from assay.progress import Progress
from assay.record import Artifact, Claim, Digest, Environment, Record, StageName, Tier, Unavailable
from assay.sources import PACKAGE
from assay.stage import NEEDS, PER_KERNEL, RESULTS_FOLDER, record_path
from assay.steps import task_of
from assay.tiers import ALL, Held, Subject
from assay.workshop import NoRecord, Workshop, workshop

MEMORY = RESULTS_FOLDER / ".bisect"
"""Hidden, so that no kernel has a folder of that name."""


@dataclass(frozen=True)
class Point:
    """One thing to try: what it is called, the Python that runs it, the kernel's file and the settings.

    `triton`: the version that must be installed there, where one was asked for. A file or settings that there are not
    cannot be judged.
    """

    name: str
    content: bytes | Unavailable
    settings: Settings | Unavailable
    python: str | Unavailable = sys.executable
    triton: str | None = None


class Remembered(Record, frozen=True, kw_only=True):
    """The claims of one tier at one point."""

    claims: list[Claim]


def stages_of(tier: Tier) -> list[StageName]:
    """Return the stages that a claim of this tier rests on, in order."""
    stage = RECORDED[tier]
    return distinct([one for need in NEEDS[stage] for one in (*_before(need), need)] + [stage])


def _before(stage: StageName) -> list[StageName]:
    return [one for need in NEEDS[stage] for one in (*_before(need), need)]


def _held(kernel: str, records: Mapping[StageName, Artifact[Any]]) -> Subject:
    held = {
        stage: Held(record_path(stage, kernel).as_posix(), record.content_sha256, record.result, "current")
        for stage, record in records.items()
    }
    return Subject(kernel, held)


def derive_tier(
    kernel: str, tier: Tier, records: Mapping[StageName, Artifact[Any]], settings: Settings
) -> Iterator[Claim]:
    """Yield the claims of one tier, as the stage `claims` derives them."""
    subject, stage = _held(kernel, records), RECORDED[tier]
    # What was timed is what the stage before it ran.
    declared = records["gpu" if stage == "timing" else stage].result.declaration
    variants = [ALL] if declared is None else [variant.id for variant in declared.variants]
    if tier == "interpreted":
        yield from (tiers.interpreted(subject, variant) for variant in variants)
        return
    of_target = {f.__name__: f for f in (tiers.compiled, tiers.fits, tiers.ran, tiers.accurate, tiers.timed)}[tier]
    device = records[stage].result.device if stage in ("gpu", "timing") else None
    targets: Sequence[str] = settings.targets if device is None else [device.target]
    yield from (of_target(subject, variant, target) for variant in variants for target in targets)


def _program() -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in sorted(PACKAGE.glob("*.py"))}


def _own(environment: Environment, room: Workshop) -> Environment:
    """Return an environment without what is new in every temporary folder: its paths, and hashes by its own salt."""
    replace, hidden = msgspec.structs.replace, Unavailable(reason="hashed anew in each folder")
    devices = environment.devices
    if not isinstance(devices, Unavailable):
        devices = [replace(device, uuid_hash=hidden) for device in devices]
    moved = room.variables()
    kept = {n: v for n, v in environment.variables.items() if moved.get(n) == os.environ.get(n)}
    system = replace(environment.system, host_hash=hidden)
    return replace(environment, devices=devices, system=system, variables=kept)


def _key(point: Point, tier: Tier, environment: Environment, program: Mapping[str, bytes]) -> Digest:
    """Return what a result depends on: machine and software, program, the kernel's file, and the settings."""
    assert isinstance(point.content, bytes)
    assert isinstance(point.settings, Settings)
    settled = {stage: stage_settings(point.settings, stage) for stage in stages_of(tier)}
    files = {name: sha256_bytes(data) for name, data in program.items()}
    of = [tier, sha256_bytes(point.content), settled, files, sha256_bytes(canonical(environment))]
    return sha256_bytes(canonical(of))


def recall(path: Path) -> list[Claim] | None:
    """Return what was found before; None where nothing was, or where it cannot be read any more."""
    try:
        return decode(path.read_bytes(), Remembered, path.as_posix()).claims
    except (OSError, RecordError):
        return None


@dataclass(frozen=True)
class Judge:
    """Finds the claims of one tier of one kernel at any point. `limit_s`: seconds that one stage may take."""

    kernel: str
    tier: Tier
    limit_s: float
    progress: Progress

    def claims(self, point: Point) -> list[Claim] | Unavailable:
        """Return the claims at a point, or why there are none to be had."""
        for part in (point.python, point.content, point.settings):
            if isinstance(part, Unavailable):
                return part
        assert isinstance(point.content, bytes)
        assert isinstance(point.python, str)
        program = _program()
        payload = {**program, f"kernels/{self.kernel}.py": point.content}
        with workshop(payload, "bisect", point.python) as room:
            return self._claims(point, room, program)

    def _claims(self, point: Point, room: Workshop, program: Mapping[str, bytes]) -> list[Claim] | Unavailable:
        first, *others = stages_of(self.tier)
        environment = self._run(room, first, point)
        if isinstance(environment, NoRecord):
            return Unavailable(reason=f"stage '{first}' left no record: {environment.reason}")
        installed = environment.result.distributions.get("triton", "none")
        if point.triton is not None and installed != point.triton:
            return Unavailable(reason=f"expected Triton {point.triton} there, found {installed}")
        place = MEMORY / f"{_key(point, self.tier, _own(environment.result, room), program)}.json"
        found = recall(place)
        if found is not None:
            return found
        made = self._made(room, {first: environment}, others, point)
        if isinstance(made, list):
            write_bytes(place, canonical(Remembered(claims=made)))
        return made

    def _made(
        self, room: Workshop, records: dict[StageName, Artifact[Any]], stages: Sequence[StageName], point: Point
    ) -> list[Claim] | Unavailable:
        assert isinstance(point.settings, Settings)
        for stage in stages:
            record = self._run(room, stage, point)
            if isinstance(record, NoRecord):
                return Unavailable(reason=f"stage '{stage}' left no record: {record.reason}")
            if stage == "gate" and record.result.protects.outcome != "passed":
                return Unavailable(reason=record.result.protects.reason)
            records[stage] = record
        return list(derive_tier(self.kernel, self.tier, records, point.settings))

    def _run(self, room: Workshop, stage: StageName, point: Point) -> Artifact[Any] | NoRecord:
        assert isinstance(point.settings, Settings)
        kernel = self.kernel if stage in PER_KERNEL else None
        task = task_of(stage, kernel, point.settings, self.limit_s)
        self.progress.running(f"{point.name}: {task.name}")
        return room.run(task, self.progress)

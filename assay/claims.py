"""Stage `claims`: derive what the records show, and what they do not, with the overall status and its sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.artifact import digests_now, read, sha256_file
from assay.errors import RecordError
from assay.overall import Setting, status_of
from assay.record import Artifact, Claims, Digest, StageName
from assay.sources import read_source
from assay.stage import Job, run, stage_of
from assay.tiers import Held, Machine, Subject, derive

PER_KERNEL: tuple[StageName, ...] = ("interpreter", "compile", "gpu", "timing")
"""Stages of which every kernel has a record."""

Records = Mapping[tuple[str | None, StageName], Held]
"""Records by kernel (None for those of the machine) and stage."""


def hold(path: str, sha256: Digest, artifact: Artifact[Any], now: Mapping[str, Digest]) -> Held:
    """Return a record with its freshness: stale where a material is no longer what it was made from."""
    changed = next((name for name, digest in artifact.materials.items() if now.get(name) != digest), "")
    return Held(path, sha256, artifact.result, "stale" if changed else "current", changed)


def subjects(records: Records) -> list[Subject]:
    """Group the records of kernels; RecordError where a kernel lacks one."""
    found = []
    for kernel in dict.fromkeys(kernel for kernel, _ in records if kernel is not None):
        own: dict[StageName, Held] = {stage: held for (name, stage), held in records.items() if name == kernel}
        for stage in PER_KERNEL:
            if stage not in own:
                raise RecordError(
                    f"claims: expected a record of stage '{stage}' of kernel {kernel}; add --record for it"
                )
        found.append(Subject(kernel, own))
    return sorted(found, key=lambda subject: subject.name)


def machine(records: Records) -> Machine:
    """Return the environment and gate records; RecordError where one is missing."""
    for stage in ("environment", "gate"):
        if (None, stage) not in records:
            raise RecordError(f"claims: expected a record of stage '{stage}'; add --record results/{stage}.json")
    return Machine(records[None, "environment"], records[None, "gate"])


def claim_all(job: Job) -> Claims:
    """Read every record, derive the claims from them, and say the overall status."""
    artifacts = {path: read(path, stage_of(path)) for path in job.evidence}
    now = digests_now(artifacts.values())
    records: Records = {
        (artifact.kernel, artifact.stage): hold(path.as_posix(), sha256_file(path), artifact, now)
        for path, artifact in artifacts.items()
    }
    found = machine(records)
    claims = derive(found, subjects(records), job.settings.targets, job.settings.gate.minimum_capability)
    days = [artifact.run.started[:10] for artifact in artifacts.values()]
    setting = Setting(found.environment.result, found.gate.result, days)
    return Claims(status=status_of(claims, setting), claims=claims, source=read_source())


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("claims", argv, claim_all, per_kernel=False, all_evidence=True)

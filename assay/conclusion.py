"""What a set of records shows: the claims and the overall status, for who writes them and who works them out again."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import RecordError
from assay.overall import Setting, status_of
from assay.record import Artifact, Claim, Digest, StageName, Status
from assay.stage import PER_KERNEL
from assay.tiers import Held, Machine, Subject, derive

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


def conclude(
    artifacts: Mapping[str, Artifact[Any]], now: Mapping[str, Digest], targets: Sequence[str], minimum: str
) -> tuple[Status, list[Claim]]:
    """Return status and claims of the evidence records, by path.

    `now` maps records and their materials to the sha256 that they have; one that is gone is left out. RecordError where
    a record is missing, or two are of the same thing.
    """
    records: dict[tuple[str | None, StageName], Held] = {}
    for path, artifact in artifacts.items():
        place = (artifact.kernel, artifact.stage)
        if place in records:
            of = f" of kernel {artifact.kernel}" if artifact.kernel else ""
            raise RecordError(
                f"claims: {records[place].path} and {path} are both of stage '{artifact.stage}'{of}; name one of them"
            )
        records[place] = hold(path, now[path], artifact, now)
    found = machine(records)
    claims = derive(found, subjects(records), targets, minimum)
    days = [artifact.run.started[:10] for artifact in artifacts.values()]
    return status_of(claims, Setting(found.environment.result, found.gate.result, days)), claims

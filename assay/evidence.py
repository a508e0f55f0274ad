"""Records read again before they are shown: strictly, against the digests the claims hold, and against their sources.

A hand-edited, missing or stale record is refused by name, with the stage that makes it anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.artifact import again, canonical, digests_now, read, sha256_bytes, sha256_file
from assay.errors import RecordError
from assay.outcomes import Mark, mark_of
from assay.record import ARTIFACTS, Artifact, Digest, StageName, Verdict


@dataclass(frozen=True)
class Reference:
    """Where a figure comes from: the record, by its number in the report's list, and a JSON pointer into it."""

    number: int
    path: str
    sha256: Digest
    pointer: str


@dataclass(frozen=True)
class Told:
    """A verdict as a reader meets it, with the place it comes from."""

    mark: Mark
    reason: str
    source: Reference


@dataclass(frozen=True)
class Evidence:
    """A record as it was found on disk."""

    number: int
    path: str
    sha256: Digest
    artifact: Artifact[Any]

    def at(self, pointer: str) -> Reference:
        """Return a reference to one place in this record."""
        return Reference(self.number, self.path, self.sha256, pointer)

    def tell(self, verdict: Verdict, pointer: str) -> Told:
        """Return a verdict that stands at `pointer`, or beneath it, in this record."""
        return Told(mark_of(verdict.outcome, verdict.cause), verdict.reason, self.at(pointer))


Records = Mapping[StageName, Evidence]
"""One kernel's records by stage."""


def load(path: Path, stage: StageName, number: int) -> Evidence:
    """Read a record and hash it; RecordError where it is missing, edited or changes meanwhile."""
    artifact = read(path, stage)
    digest = sha256_file(path)
    if digest != sha256_bytes(canonical(artifact)):
        raise RecordError(f"{path}: expected the bytes that its content encodes to, found others; {again(stage)}")
    return Evidence(number, path.as_posix(), digest, artifact)


def present(records: Sequence[Evidence]) -> dict[str, Digest]:
    """Map the records and all their materials to the sha256 each has on disk now; one that is gone is left out."""
    own = {record.path: sha256_file(Path(record.path)) for record in records if Path(record.path).is_file()}
    return {**digests_now(record.artifact for record in records), **own}


def _against_claims(record: Evidence, claims: Evidence) -> None:
    derived_from = claims.artifact.materials.get(record.path)
    if derived_from is None:
        raise RecordError(f"{record.path}: {claims.path} was not derived from it; {again('claims')}")
    if derived_from != record.sha256:
        raise RecordError(
            f"{record.path}: its sha256 is {record.sha256[:12]}, where {claims.path} was derived from "
            f"{derived_from[:12]}; {again(record.artifact.stage)}"
        )


def _against_sources(record: Evidence, now: Mapping[str, Digest]) -> None:
    for path, then in {**record.artifact.materials, record.path: record.sha256}.items():
        if path not in now:
            raise RecordError(f"{record.path}: stale, {path} is gone; {again(record.artifact.stage)}")
        if now[path] != then:
            raise RecordError(
                f"{record.path}: stale, {path} has changed since (sha256 {then[:12]} then, {now[path][:12]} now); "
                f"{again(record.artifact.stage)}"
            )


def _against_omission(records: Sequence[Evidence], claims: Evidence) -> None:
    given = {record.path: record.sha256 for record in records}
    names = {f"{stage}.json" for stage in ARTIFACTS}
    for path in claims.artifact.materials:
        if Path(path).name in names and path not in given:
            raise RecordError(f"{claims.path}: derived from {path}, which was not given; add --record {path}")
    for claim in claims.artifact.result.claims:
        for link in claim.links:
            if given.get(link.artifact) != link.sha256:
                raise RecordError(
                    f"{claims.path}: cites {link.artifact} with sha256 {link.sha256[:12]}, which is none of its "
                    f"records; {again('claims')}"
                )


def check(records: Sequence[Evidence], claims: Evidence, now: Mapping[str, Digest]) -> None:
    """Refuse the first record that the claims were not derived from, or that its sources have moved on from.

    `now` maps records and materials to their sha256 on disk, and lacks those that are gone. A record whose own bytes
    changed is named before the records that were derived from it.
    """
    for record in records:
        _against_claims(record, claims)
    _against_omission(records, claims)
    for record in (*records, claims):
        _against_sources(record, now)


def check_report(records: Sequence[Evidence], report: Evidence, now: Mapping[str, Digest]) -> None:
    """Refuse a report that was made from other records than these, or whose pages are not those it vouches for.

    `records` are all that the report shows, the claims among them; `now` holds the pages too.
    """
    _against_sources(report, now)
    for record in records:
        if record.path not in report.artifact.materials:
            raise RecordError(f"{report.path}: made without {record.path}; {again('report')}")
    for page, then in report.artifact.result.outputs.items():
        if now.get(page) != then:
            found = f"sha256 {now[page][:12]}" if page in now else "no such file"
            raise RecordError(
                f"{page}: expected sha256 {then[:12]}, as {report.path} says, found {found}; {again('report')}"
            )

"""Stage `claims`: derive what the records show, and what they do not, with the overall status and its sentence."""

from collections.abc import Sequence

from assay.artifact import digests_now, read, sha256_file
from assay.conclusion import conclude
from assay.record import Claims
from assay.sources import read_source
from assay.stage import Job, run, stage_of


def claim_all(job: Job) -> Claims:
    """Read every record, derive the claims from them, and say the overall status."""
    artifacts = {path.as_posix(): read(path, stage_of(path)) for path in job.evidence}
    now = digests_now(artifacts.values()) | {path.as_posix(): sha256_file(path) for path in job.evidence}
    settings = job.settings
    status, claims = conclude(artifacts, now, settings.targets, settings.gate.minimum_capability)
    return Claims(status=status, claims=claims, source=read_source())


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    return run("claims", argv, claim_all, per_kernel=False, all_evidence=True)

"""Stage `bundle`: the evidence of one run, with the sources that made it, as one archive.

Every record is read again first, as for the report: one that was edited, is missing or was made from other sources
than those at hand is refused by name, and nothing is packed. The same results give the same bytes: dates come from the
records, and nothing random goes in.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bagit
from msgspec import Struct

from assay import crate, schemas
from assay.artifact import exclusive, open_session, sha256_bytes, write_bytes
from assay.bag import MANIFEST, make_bag
from assay.errors import AssayError, RecordError, UsageError
from assay.evidence import Evidence, check, check_report, load
from assay.naming import bag_info, bundle_name, device_of
from assay.opening import RESULTS, open_bundle, open_bytes, record_stage
from assay.page import arranged
from assay.privacy import one_line, scrub
from assay.record import Artifact, Bundle, Claims, Verdict
from assay.sources import workflow_files
from assay.stage import Job, job_of, parser, stage_of
from assay.ustar import ArchiveError, check_names, pack, unpack

LICENCE = Path("LICENSE")
"""Goes wherever the sources go, as it asks to."""
LARGEST_LOG_BYTES = 2**20

_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


@dataclass(frozen=True)
class Collected:
    """The records of one run: those that the claims were derived from, the claims, and the report on both."""

    records: list[Evidence]
    claims: Evidence
    report: Evidence

    @property
    def shown(self) -> list[Evidence]:
        """All that the report shows."""
        return [*self.records, self.claims]

    @property
    def artifacts(self) -> dict[str, Artifact[Any]]:
        """Every record by path."""
        return {record.path: record.artifact for record in (*self.shown, self.report)}


def collect(job: Job) -> Collected:
    """Read every record; UsageError where one stands elsewhere than the reader of a bundle looks for it."""
    claims, report = job.records["claims"], job.records["report"]
    given = arranged(job.evidence)
    for path, stage in [*((path, stage_of(path)) for path in given), (claims, "claims"), (report, "report")]:
        if record_stage(path.as_posix()) != stage:
            raise UsageError(
                f"{path}: expected a record under {RESULTS}, where the reader of a bundle looks for it; "
                "run its stage without --out"
            )
    records = [load(path, stage_of(path), number) for number, path in enumerate(given, 1)]
    return Collected(records, load(claims, "claims", len(records) + 1), load(report, "report", len(records) + 2))


def packed_files(collected: Collected) -> list[Path]:
    """Return what is packed as it stands: records, pages, and every source; what is gone is left out."""
    artifacts = collected.artifacts
    materials = {name for artifact in artifacts.values() for name in artifact.materials}
    pages = collected.report.artifact.result.outputs
    named = {Path(name) for name in {*artifacts, *materials, *pages}}
    return sorted(path for path in {*workflow_files(), *named, LICENCE} if path.is_file())


def _verdicts(value: Any) -> Iterator[Verdict]:
    if isinstance(value, Verdict):
        yield value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _verdicts(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _verdicts(item)


def failed_logs(records: Sequence[Evidence]) -> list[Path]:
    """Return the logs of each kernel of which a record holds a failed verdict; empty ones are left out.

    Verdicts on planted faults fail as they should, and are of no kernel.
    """
    failed = {
        Path(record.path).parent
        for record in records
        if record.artifact.kernel
        and record.artifact.stage != "teeth"
        and any(v.outcome == "failed" for v in _verdicts(record.artifact.result))
    }
    logs = [path for folder in failed for path in folder.glob("logs/[!.]*.log") if path.is_file()]
    return sorted(path for path in logs if path.stat().st_size and not path.name.startswith("teeth"))


def publishable(log: bytes) -> bytes:
    """Return a log fit to publish: scrubbed, and of a very long one the last lines, where the failure stands."""
    if len(log) <= LARGEST_LOG_BYTES:
        return scrub(log.decode("utf-8", "replace")).encode()
    # From the next line on: half a path would not be recognised as one.
    kept = log[-LARGEST_LOG_BYTES:].partition(b"\n")[2]
    return f"[the first {len(log) - len(kept)} bytes are left out]\n{scrub(kept.decode('utf-8', 'replace'))}".encode()


def check_files(files: Mapping[str, bytes]) -> None:
    """Refuse files whose names are not plain and distinct on every system, and one that holds a private key."""
    if crate.WORKFLOW not in files:
        raise UsageError(f"{crate.WORKFLOW}: expected the workflow in this folder; run in the folder of the Snakefile")
    try:
        check_names(sorted(files))
    except ArchiveError as error:
        raise RecordError(f"{error}; rename it, and run the workflow again") from None
    for name, data in files.items():
        if _PRIVATE_KEY.search(data):
            raise RecordError(f"{name}: expected nothing secret in what is packed, found a private key; take it away")


def assemble(files: Mapping[str, bytes], records: Mapping[str, Artifact[Any]]) -> dict[str, bytes]:
    """Return the members of the archive: a bag of these files, their schemas and their description.

    `records` maps the paths of all records among the files to what they hold.
    """
    of = {record.stage: record for record in records.values()}
    claims: Claims = of["claims"].result
    day = of["claims"].run.started[:10]
    payload = {**files, **{f"{schemas.FOLDER}/{name}": data for name, data in schemas.schema_files().items()}}
    payload[crate.METADATA] = crate.describe(payload, records)
    bag = make_bag(payload, bag_info(claims.status, day))
    name = bundle_name(claims.status.overall, device_of(of["environment"].result), day, sha256_bytes(bag[MANIFEST]))
    return {f"{name}/{path}": data for path, data in bag.items()}


def validate(archive: bytes, name: str) -> None:
    """Open the archive as its readers will, and have the `bagit` library check it; AssayError where one refuses it."""
    open_bytes(archive, name)
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        for member, data in unpack(archive).items():
            path = Path(folder, member)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            bagit.Bag(f"{folder}/{name}").validate()
        except bagit.BagError as error:
            raise RecordError(
                f"{name}: expected a bag as BagIt has it, found that its library refuses it ({one_line(str(error))}); "
                "report this, with the records"
            ) from None


def put(path: Path, archive: bytes) -> None:
    """Write the bundle, or leave it where it stands already, signed or not; RecordError where another stands there."""
    if not path.exists():
        write_bytes(path, archive)
        return
    ours = open_bytes(archive, path.name)
    try:
        there = open_bundle(path)
    except AssayError as error:
        raise RecordError(f"{path}: expected no other file of this name, found one ({error}); move it away") from None
    if (there.name, there.payload, there.bag.tags) != (ours.name, ours.payload, ours.bag.tags):
        raise RecordError(f"{path}: expected no other bundle of this name, found one of other bytes; move it away")


def write_bundle(job: Job, folder: Path) -> Bundle:
    """Read and check all evidence, pack it, check the archive, and put it and its record in place."""
    collected = collect(job)
    packed, logs = packed_files(collected), failed_logs(collected.records)
    command = [*job.command, "--folder", scrub(str(folder))]
    session = open_session("bundle", None, {*job.materials(), *packed, *logs}, command)
    now = {path.as_posix(): digest for path, digest in session.materials.items()}
    check(collected.records, collected.claims, now)
    check_report(collected.shown, collected.report, now)
    files = {path.as_posix(): path.read_bytes() for path in packed}
    files |= {path.as_posix(): publishable(path.read_bytes()) for path in logs}
    check_files(files)
    members = assemble(files, collected.artifacts)
    name, archive = next(iter(members)).split("/")[0], pack(members)
    validate(archive, name)
    session.confirm()
    path = folder / f"{name}.tar"
    put(path, archive)
    made = Bundle(
        path=scrub(path.as_posix()), sha256=sha256_bytes(archive), size_bytes=len(archive), members=len(members)
    )
    session.write(job.out, made)
    return made


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    options = parser("bundle", per_kernel=False, all_evidence=True)
    options.add_argument("--folder", type=Path, default=Path("bundles"), help="(default: %(default)s)")
    chosen = options.parse_args(argv)
    job = job_of("bundle", chosen)
    with exclusive(job.out):
        made = write_bundle(job, chosen.folder)
    print(f"{made.path}: {made.members} files, {made.size_bytes} bytes, sha256 {made.sha256}")
    return 0

"""Opens an evidence bundle: in memory, never extracted, nothing in it run, every record decoded strictly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.artifact import decode_artifact
from assay.bag import Bag, BagError, read_bag
from assay.errors import AssayError, RecordError
from assay.record import ARTIFACTS, Artifact, StageName
from assay.ustar import CAPS, ArchiveError, Caps, unpack

RESULTS = "results/"


class UnreadableError(AssayError):
    """No bundle can be read: the file is missing, too large, or no canonical archive."""

    exit_code = 2


class UnsoundError(AssayError):
    """A bundle that can be read and is not intact."""

    exit_code = 1


@dataclass(frozen=True)
class Opened:
    """A bundle whose archive, bag and records are in order. What they say is not yet judged.

    `records` maps a record's path in the project, such as results/matmul/gpu.json, to the decoded artifact.
    """

    name: str
    bag: Bag
    records: Mapping[str, Artifact[Any]]

    @property
    def payload(self) -> Mapping[str, bytes]:
        """The project's files by the path that they had there."""
        return self.bag.payload

    def of_stage(self, stage: StageName) -> dict[str, Artifact[Any]]:
        """Return the records of one stage by path."""
        return {path: record for path, record in self.records.items() if record.stage == stage}

    def one(self, stage: StageName) -> Artifact[Any]:
        """Return the only record of a stage that has one for the whole machine."""
        found = self.of_stage(stage)
        if len(found) != 1:
            raise UnsoundError(f"results/{stage}.json: expected one record of stage '{stage}', found {len(found)}")
        return next(iter(found.values()))


def record_stage(path: str) -> StageName | None:
    """Return the stage of a record by its place in the project, or None for another file."""
    parts = path.split("/")
    stem, _, ending = parts[-1].rpartition(".")
    if not path.startswith(RESULTS) or len(parts) > 3 or ending != "json":
        return None
    return next((stage for stage in ARTIFACTS if stage == stem), None)


def _rooted(members: Mapping[str, bytes]) -> tuple[str, dict[str, bytes]]:
    roots = {name.split("/")[0] for name in members}
    if len(roots) != 1 or any("/" not in name for name in members):
        raise UnsoundError(f"archive: expected one folder that holds everything, found {', '.join(sorted(roots)[:5])}")
    root = roots.pop()
    return root, {name.removeprefix(f"{root}/"): data for name, data in members.items()}


def _records(payload: Mapping[str, bytes]) -> dict[str, Artifact[Any]]:
    found = {}
    for path, data in payload.items():
        stage = record_stage(path)
        if stage is not None:
            found[path] = decode_artifact(data, stage, path)
    return found


def open_bytes(data: bytes, where: str, caps: Caps = CAPS) -> Opened:
    """Open a bundle from its bytes; UnreadableError or UnsoundError names file, expectation and finding."""
    if len(data) > caps.total_bytes:
        raise UnreadableError(f"{where}: larger than {caps.total_bytes} bytes, the most that is read")
    if data[257:262] != b"ustar":
        raise UnreadableError(f"{where}: expected a bundle, which is a USTAR archive, found something else")
    try:
        root, files = _rooted(unpack(data, caps))
        bag = read_bag(files)
        return Opened(root, bag, _records(bag.payload))
    except (ArchiveError, BagError, RecordError, UnsoundError) as error:
        raise UnsoundError(f"{where}: {error}") from None


def open_bundle(path: Path, caps: Caps = CAPS) -> Opened:
    """Open a bundle file. No more is read than the caps allow, whatever the file's size."""
    try:
        with path.open("rb") as stream:
            data = stream.read(caps.total_bytes + 1)
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read ({error.strerror})") from None
    return open_bytes(data, str(path), caps)

"""Opens an evidence bundle: in memory, never extracted, nothing in it run, every record decoded strictly."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

from assay.artifact import decode_artifact
from assay.bag import Bag, BagError, read_bag
from assay.errors import AssayError, RecordError
from assay.record import ARTIFACTS, Artifact, StageName
from assay.ustar import BLOCK, CAPS, ArchiveError, Caps, read_archive

RESULTS = "results/"
NAME_ONE = "name a file that `snakemake --cores 1 bundle` wrote"


class UnreadableError(AssayError):
    """No bundle can be read: the file is missing, too large, or no canonical archive."""

    exit_code = 2


class UnsoundError(AssayError):
    """A bundle that can be read and is not intact."""

    exit_code = 1
    remedy = "rely on nothing in it: fetch it again, or ask who made it for another"


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


def _open(stream: BinaryIO, where: str, caps: Caps) -> Opened:
    if stream.read(BLOCK)[257:262] != b"ustar":
        raise UnreadableError(f"{where}: expected a bundle, which is a USTAR archive, found something else; {NAME_ONE}")
    size = stream.seek(0, SEEK_END)
    if size > caps.total_bytes:
        raise UnreadableError(f"{where}: expected at most {caps.total_bytes} bytes, found {size}; {NAME_ONE}")
    stream.seek(0)
    try:
        root, files = _rooted(read_archive(stream, caps))
        bag = read_bag(files)
        return Opened(root, bag, _records(bag.payload))
    except (ArchiveError, BagError, RecordError, UnsoundError) as error:
        raise UnsoundError(f"{where}: {error}") from None


def open_bytes(data: bytes, where: str, caps: Caps = CAPS) -> Opened:
    """Open a bundle from its bytes; UnreadableError or UnsoundError names file, expectation and finding."""
    return _open(BytesIO(data), where, caps)


def open_bundle(path: Path, caps: Caps = CAPS) -> Opened:
    """Open a bundle file. No more is read than the caps allow, whatever the file's size."""
    try:
        # A FIFO would be waited for, and a device has no end.
        if not S_ISREG(path.stat().st_mode):
            raise UnreadableError(
                f"{path}: expected a bundle, which is a regular file, found something else; {NAME_ONE}"
            )
        with path.open("rb") as stream:
            return _open(stream, str(path), caps)
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read ({error.strerror}); {NAME_ONE}") from None

"""What is known of planted faults so far, kept beside the record to come, so that a run that was ended goes on.

One line a fault and phase, appended as it is found. A line counts only in a run that is made of the very same things.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from assay.artifact import canonical, decode, sha256_bytes, write_bytes
from assay.errors import RecordError
from assay.record import Digest, Exposure, Record, Verdict

Key = tuple[str, Digest]


class Known(Record, frozen=True, kw_only=True):
    """What is known of a fault, by the digest of its kernel file, once a phase has looked at it."""

    made_of: Digest
    phase: str
    sha256: Digest
    exposures: list[Exposure]
    baseline: Verdict
    differs: str | None


class Journal(NamedTuple):
    """The file, what the run is made of as one digest, and what earlier runs of the same found."""

    path: Path
    made_of: Digest
    found: Mapping[Key, Known]

    def of(self, phase: str, sha256: Digest) -> Known | None:
        """Return what an earlier run knew of a fault after this phase."""
        return self.found.get((phase, sha256))

    def add(self, known: Known) -> None:
        """Keep one more. One write a line, so that lines of several threads stay whole."""
        with self.path.open("ab", buffering=0) as stream:
            stream.write(canonical(known) + b"\n")


def _line(data: bytes, where: str) -> Known | None:
    try:
        return decode(data, Known, where)
    except RecordError:
        # The last line of a run that was ended while it wrote.
        return None


def open_journal(path: Path, made_of: Any) -> Journal:
    """Read what is left of an earlier run; what is of another source, of other settings, or damaged is left out.

    `made_of`: plain values that decide every result, such as the materials' digests and the settings.
    """
    digest = sha256_bytes(canonical(made_of))
    lines = path.read_bytes().splitlines() if path.exists() else []
    known = [found for line in lines if (found := _line(line, str(path))) is not None and found.made_of == digest]
    write_bytes(path, b"".join(canonical(found) + b"\n" for found in known))
    return Journal(path, digest, {(found.phase, found.sha256): found for found in known})

"""What was compiled, kept from run to run in a folder of this user's. An entry is one file, used if its digest holds.

An entry is looked up by a key that stands for all that decided its content. It is no evidence: whoever may write the
folder can write a true digest too, so the stages that run on a device compile anew, and so does `reproduce`.
"""

import contextlib
import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay.artifact import sha256_bytes
from assay.errors import AssayError
from assay.record import Digest, Record, Unavailable

VARIABLE = "ASSAY_CACHE"
FORMAT = "1"
LARGEST_ENTRY_BYTES = 64 * 2**20
LARGEST_FOLDER_BYTES = 2 * 2**30
ABANDONED_S = 3600.0
"""After which a file that a writer left unfinished is nobody's."""
_NAME = re.compile(r"[^/\0.][^/\0]*")
_KEY = re.compile(r"[0-9a-f]{64}")


class EntryError(AssayError):
    """An entry is damaged, or another than it is named after."""


class Entry(Record, frozen=True, kw_only=True):
    """The body of a file: its key once more, so that it cannot stand in for another, and what is kept, by file name."""

    key: Digest
    files: dict[str, bytes]


def pack(key: Digest, files: Mapping[str, bytes]) -> bytes:
    """Return the bytes of an entry: the sha256 of its body, a line feed, the body."""
    body = msgspec.json.encode(Entry(key=key, files=dict(files)))
    return sha256_bytes(body).encode() + b"\n" + body


def unpack(data: bytes, key: Digest) -> dict[str, bytes]:
    """Return what an entry keeps; EntryError where it is not whole, or not that of `key`."""
    digest, _, body = data.partition(b"\n")
    if sha256_bytes(body).encode() != digest:
        raise EntryError("its digest is not that of its content")
    try:
        entry = msgspec.json.decode(body, type=Entry, strict=True)
    except msgspec.DecodeError as error:
        raise EntryError(f"it is no entry ({error})") from None
    if entry.key != key:
        raise EntryError(f"it is that of {entry.key[:16]}")
    # Names become those of files in a folder.
    if not all(_NAME.fullmatch(name) for name in entry.files):
        raise EntryError("it names a file that leads out of its folder")
    return entry.files


@dataclass(frozen=True)
class Storage:
    """The folder. Many processes may read and write it at once: an entry is renamed into place when it is whole."""

    folder: Path

    @property
    def entries(self) -> Path:
        """Where entries of this format lie."""
        return self.folder / FORMAT

    def path(self, key: Digest) -> Path:
        """Return where the entry of a key lies."""
        return self.entries / key[:2] / key

    def get(self, key: Digest) -> dict[str, bytes] | None:
        """Return what is kept under a key, or None; EntryError where there is something else."""
        path = self.path(key)
        try:
            files = unpack(_read(path), key)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EntryError(f"{path}: it cannot be read ({error.strerror})") from None
        except EntryError as error:
            raise EntryError(f"{path}: {error}") from None
        with contextlib.suppress(OSError):
            # What was used last is removed last.
            os.utime(path)
        return files

    def put(self, key: Digest, files: Mapping[str, bytes]) -> None:
        """Keep files under a key; OSError where that cannot be. What is too large is not kept."""
        data, path = pack(key, files), self.path(key)
        if len(data) > LARGEST_ENTRY_BYTES:
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            # Not synced to the disk: what a power failure tears is no longer what its digest says.
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    def found(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield every entry with its status, in the order of their names."""
        for path in sorted(self.entries.glob("[0-9a-f][0-9a-f]/[0-9a-f]*")):
            with contextlib.suppress(OSError):
                if _KEY.fullmatch(path.name) and stat.S_ISREG((status := path.lstat()).st_mode):
                    yield path, status

    def prune(self, limit_bytes: int = LARGEST_FOLDER_BYTES) -> int:
        """Remove entries until the others have at most `limit_bytes`, those used last staying; return how many."""
        self._sweep()
        left, removed = limit_bytes, 0
        for path, status in sorted(self.found(), key=lambda one: one[1].st_mtime_ns, reverse=True):
            left -= status.st_size
            if left < 0:
                removed += _removed(path)
        return removed

    def _sweep(self) -> None:
        """Remove what writers that were killed left behind."""
        for path in self.entries.glob("[0-9a-f][0-9a-f]/.*"):
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime > ABANDONED_S:
                    path.unlink()


def _removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.unlink()
        return True
    return False


def _read(path: Path) -> bytes:
    # Whatever lies there is not followed, and not waited for.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no plain file")
        if status.st_size > LARGEST_ENTRY_BYTES:
            raise OSError(errno.EFBIG, f"larger than {LARGEST_ENTRY_BYTES} bytes")
        return stream.read(LARGEST_ENTRY_BYTES + 1)


def place(environment: Mapping[str, str]) -> Path | Unavailable:
    """Return where the folder is to be: ASSAY_CACHE, or `assay` where the XDG Base Directory Specification puts caches.

    An empty ASSAY_CACHE says that nothing is to be kept.
    """
    named = environment.get(VARIABLE)
    if named is not None:
        return Path(named).absolute() if named else Unavailable(reason=f"{VARIABLE} is empty")
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "assay"
    home = Path(environment.get("HOME", ""))
    if home.is_absolute():
        return home / ".cache" / "assay"
    return Unavailable(reason=f"the user has no home; set {VARIABLE}")


def open_storage(environment: Mapping[str, str]) -> Storage | Unavailable:
    """Return the folder, made if need be; or why there is none. One that other users may write is not used."""
    folder = place(environment)
    if isinstance(folder, Unavailable):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as error:
        return Unavailable(reason=f"{folder}: cannot be made ({error.strerror})")
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Unavailable(reason=f"{folder}: other users may write it")
    return Storage(folder)

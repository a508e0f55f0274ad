"""Canonical USTAR archives: one byte sequence for one set of files, read in memory and never extracted.

A header is accepted only if it equals the header that `pack` would write for that name and size. So links, devices,
sparse files, PAX records, odd numbers, owners, times and checksums need no rules of their own: they are not canonical.
"""

import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import BinaryIO

from assay.errors import AssayError

BLOCK = 512
RECORD = 20 * BLOCK
"""An archive's length is a multiple of this (POSIX.1-1988, ustar: 20 blocks a record)."""

# What a part of a name may not be, each with the reason; the last one leaves only what means one thing everywhere.
_UNFIT = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"", "an empty part, as in an absolute path or behind a doubled '/'"),
        (r"\.\.?", "'.' or '..', where only names inside the bundle may stand"),
        (r"~.*", "a part that begins with '~', which a shell takes for a home"),
        (r".*\\.*", "a backslash, which some systems take for '/'"),
        (r".*:.*", "a ':', as in a drive letter"),
        (r".*[\x00-\x1f\x7f].*", "a control character"),
        (r".*[^\x00-\x7f].*", "a character beyond ASCII"),
        (r".*[. ]", "a part that ends with a dot or a space, which Windows drops"),
        # learn.microsoft.com, "Naming Files, Paths, and Namespaces": devices, whatever the extension.
        (r"(?i:(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?)", "a name that Windows gives to a device"),
        (r"(?!\.?[A-Za-z0-9_][A-Za-z0-9._+-]*\Z).*", "something beside ASCII letters, digits, '.', '_', '+' and '-'"),
    )
)

_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "a folder",
    b"6": "a FIFO",
    b"7": "a contiguous file",
    b"g": "a PAX global header",
    b"x": "a PAX header",
    b"L": "a GNU long name",
    b"K": "a GNU long link",
    b"S": "a sparse file",
}


class ArchiveError(AssayError):
    """Bytes that are no canonical archive, or files that none can hold."""


@dataclass(frozen=True)
class Caps:
    """The most that is read: bytes in all, members, bytes in one, and folders deep."""

    total_bytes: int = 256 * 2**20
    members: int = 20_000
    member_bytes: int = 64 * 2**20
    depth: int = 12


CAPS = Caps()


@lru_cache(maxsize=4096)
def _unfit(part: str) -> str | None:
    """Return why a part of a name is not plain, or None. Remembered, because folders come again and again."""
    return next((words for pattern, words in _UNFIT if pattern.fullmatch(part)), None)


def check_name(name: str, caps: Caps = CAPS) -> None:
    """Refuse a member name that is not plain on every file system; ArchiveError says which rule it breaks."""
    parts = name.split("/")
    shown = ascii(name[:120])
    if len(parts) > caps.depth:
        raise ArchiveError(f"member {shown}: {len(parts)} levels deep, where at most {caps.depth} are read")
    for part in parts:
        if words := _unfit(part):
            raise ArchiveError(f"member {shown}: expected a plain relative path, found {words}")


def check_names(names: Sequence[str], caps: Caps = CAPS) -> None:
    """Refuse names that meet on some file system, a file that is also a folder, and any order but the sorted one."""
    met: dict[str, tuple[str, bool]] = {}
    for name in names:
        check_name(name, caps)
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            place, is_file = "/".join(parts[:depth]), depth == len(parts)
            other, was_file = met.setdefault(place.lower(), (place, False))
            if other != place:
                raise ArchiveError(f"member {name!r}: differs from {other!r} by case alone")
            if was_file:
                how = "stands more than once" if is_file else f"{place!r} is both a file and a folder"
                raise ArchiveError(f"member {name!r}: {how}")
            met[place.lower()] = (place, is_file)
    if list(names) != sorted(names):
        raise ArchiveError("members: expected in sorted order, found another; pack the bundle again")


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
    except (ValueError, UnicodeEncodeError) as error:
        raise ArchiveError(f"member {name[:120]!a}: does not fit a USTAR header ({error})") from None


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return the one canonical archive of these files: sorted, mode 0644, no owner, no time."""
    names = sorted(members)
    check_names(names)
    parts = []
    for name in names:
        data = members[name]
        parts += [_header(name, len(data)), data, bytes(-len(data) % BLOCK)]
    length = sum(map(len, parts)) + 2 * BLOCK
    return b"".join([*parts, bytes(2 * BLOCK + -length % RECORD)])


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("latin-1")


def _name(block: bytes) -> str:
    prefix = _text(block[345:500])
    return f"{prefix}/{_text(block[:100])}" if prefix else _text(block[:100])


def _size(block: bytes, name: str, caps: Caps) -> int:
    field = block[124:136]
    if not re.fullmatch(rb"[0-7]{11}\0", field):
        raise ArchiveError(f"member {name[:120]!a}: expected a size of 11 octal digits, found {field!a}")
    size = int(field[:11], 8)
    if size > caps.member_bytes:
        raise ArchiveError(f"member {name[:120]!a}: {size} bytes, where at most {caps.member_bytes} are read")
    return size


def _take(stream: BinaryIO, size: int, what: str) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ArchiveError(f"{what}: expected {size} bytes, found {len(data)}; the archive is cut off")
    return data


def _announced(block: bytes, caps: Caps) -> tuple[str, int]:
    """Return the name and the size that a header announces; ArchiveError where it is not the canonical one of both."""
    name, kind = _name(block), block[156:157]
    if kind in _KINDS:
        raise ArchiveError(f"member {name[:120]!a}: expected a regular file, found {_KINDS[kind]}")
    check_name(name, caps)
    size = _size(block, name, caps)
    if block != _header(name, size):
        raise ArchiveError(f"member {name!r}: its header is not canonical; another tool packed it, or it was edited")
    return name, size


def _content(stream: BinaryIO, name: str, size: int) -> bytes:
    content = _take(stream, size, f"member {name!r}")
    if _take(stream, -size % BLOCK, f"padding behind {name!r}").strip(b"\0"):
        raise ArchiveError(f"member {name!r}: expected zeros in the padding behind it, found other data")
    return content


def _check_end(stream: BinaryIO, at: int) -> None:
    """Refuse anything but the rest of the end mark: zeros up to a whole record, and nothing behind them.

    `at`: bytes read so far, the first block of the mark included.
    """
    left = BLOCK + -(at + BLOCK) % RECORD
    found = stream.read(left + 1)
    if len(found) < left:
        raise ArchiveError(f"archive: expected {left} more zeros at the end, found {len(found)} bytes; it is cut off")
    if found.strip(b"\0") or len(found) > left:
        raise ArchiveError(f"archive: expected nothing after byte {at + left} but zeros before it, found other data")


def read_archive(stream: BinaryIO, caps: Caps = CAPS) -> dict[str, bytes]:
    """Return the files of a canonical archive; ArchiveError, naming the member, where it is anything else.

    It is read member by member, so that no more than the files themselves is held in memory.
    """
    members: list[tuple[str, bytes]] = []
    at = BLOCK
    while (block := _take(stream, BLOCK, "next header, or end mark")).strip(b"\0"):
        if len(members) == caps.members:
            raise ArchiveError(f"archive: more than {caps.members} members, the most that are read")
        name, size = _announced(block, caps)
        at += size + -size % BLOCK + BLOCK
        if at > caps.total_bytes:
            raise ArchiveError(f"archive: more than {caps.total_bytes} bytes, the most that are read")
        members.append((name, _content(stream, name, size)))
    _check_end(stream, at)
    check_names([name for name, _ in members], caps)
    if not members:
        raise ArchiveError("archive: it holds no file")
    return dict(members)


def unpack(data: bytes, caps: Caps = CAPS) -> dict[str, bytes]:
    """Return the files of a canonical archive, as `read_archive` does, from its bytes."""
    return read_archive(BytesIO(data), caps)

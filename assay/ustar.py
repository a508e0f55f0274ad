"""Canonical USTAR archives: one byte sequence for one set of files, read in memory and never extracted.

A header is accepted only if it equals the header that `pack` would write for that name and size. So links, devices,
sparse files, PAX records, odd numbers, owners, times and checksums need no rules of their own: they are not canonical.
"""

import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from assay.errors import AssayError

BLOCK = 512
RECORD = 20 * BLOCK
"""An archive's length is a multiple of this (POSIX.1-1988, ustar: 20 blocks a record)."""

_COMPONENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*|\.[A-Za-z0-9_][A-Za-z0-9._+-]*")
# Names that Windows gives to devices, whatever the extension (learn.microsoft.com, "Naming Files, Paths").
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)

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


def check_name(name: str, caps: Caps = CAPS) -> None:
    """Refuse a member name that is not plain on every file system; ArchiveError says which rule it breaks."""
    parts = name.split("/")
    shown = ascii(name[:120])
    if len(parts) > caps.depth:
        raise ArchiveError(f"member {shown}: {len(parts)} levels deep, where at most {caps.depth} are read")
    for part in parts:
        if part in (".", ".."):
            raise ArchiveError(f"member {shown}: a '{part}' in the path, where only names inside the bundle may stand")
        if not _COMPONENT.fullmatch(part):
            raise ArchiveError(
                f"member {shown}: expected names of ASCII letters, digits, '.', '_', '+' and '-' with '/' between them"
            )
        if part.endswith(".") or _RESERVED.fullmatch(part):
            raise ArchiveError(f"member {shown}: {part!r} is not a file name on every system")


def check_names(names: list[str], caps: Caps = CAPS) -> None:
    """Refuse duplicate names, names differing by case alone, a file that is also a folder, and any other order."""
    folded: dict[str, str] = {}
    for name in names:
        check_name(name, caps)
        other = folded.get(name.lower())
        if other is not None:
            how = "stands more than once" if other == name else f"differs from {other!r} by case alone"
            raise ArchiveError(f"member {name!r}: {how}")
        folded[name.lower()] = name
    for name in names:
        parents = name.lower().split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            if "/".join(parents[:depth]) in folded:
                raise ArchiveError(f"member {name!r}: {'/'.join(parents[:depth])!r} is both a file and a folder")
    if names != sorted(names):
        raise ArchiveError("members: expected in sorted order, found another; pack the bundle again")


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
    except (ValueError, UnicodeEncodeError) as error:
        raise ArchiveError(f"member {name[:120]!a}: does not fit a USTAR header ({error})") from None


def _padding(size: int, unit: int) -> bytes:
    return b"\0" * (-size % unit)


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return the one canonical archive of these files: sorted, mode 0644, no owner, no time."""
    names = sorted(members)
    check_names(names)
    parts = []
    for name in names:
        data = members[name]
        parts += [_header(name, len(data)), data, _padding(len(data), BLOCK)]
    body = b"".join([*parts, b"\0" * (2 * BLOCK)])
    return body + _padding(len(body), RECORD)


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


def _member(data: bytes, at: int, caps: Caps) -> tuple[str, bytes, int]:
    """Return name, content and where the next header stands."""
    block = data[at : at + BLOCK]
    name = _name(block)
    kind = block[156:157]
    if kind in _KINDS:
        raise ArchiveError(f"member {name[:120]!a}: expected a regular file, found {_KINDS[kind]}")
    check_name(name, caps)
    size = _size(block, name, caps)
    start, end = at + BLOCK, at + BLOCK + size
    if end > len(data):
        raise ArchiveError(f"member {name!r}: {size} bytes announced, {max(0, len(data) - start)} found; it is cut off")
    if block != _header(name, size):
        raise ArchiveError(f"member {name!r}: its header is not canonical; the archive was packed by another tool")
    after = end + -size % BLOCK
    if data[end:after] != _padding(size, BLOCK):
        raise ArchiveError(f"member {name!r}: data hidden in the padding behind it")
    return name, data[start:end], after


def unpack(data: bytes, caps: Caps = CAPS) -> dict[str, bytes]:
    """Return the files of a canonical archive; ArchiveError, naming the member, where it is anything else."""
    members: list[tuple[str, bytes]] = []
    at = 0
    while data[at : at + BLOCK].strip(b"\0"):
        if len(members) == caps.members:
            raise ArchiveError(f"archive: more than {caps.members} members")
        name, content, at = _member(data, at, caps)
        members.append((name, content))
    length = at + 2 * BLOCK
    if data[at:] != b"\0" * (length + -length % RECORD - at):
        raise ArchiveError(
            f"archive: expected only its end mark after byte {at}, found other data, or too little of it"
        )
    check_names([name for name, _ in members], caps)
    if not members:
        raise ArchiveError("archive: it holds no file")
    return dict(members)

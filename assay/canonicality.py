"""Decodes canonical JSON (RFC 8785) at the speed of a C decoder, where that is possible: evidence comes in 50 MiB too.

What msgspec decodes and writes again with sorted keys is canonical, but for the spelling of some numbers, which is put
right here, and for a few things that are looked for beforehand: integers that float64 rounds, a minus before 0, and
keys beyond the Basic Multilingual Plane, which sort by UTF-16 code units. Where one of them stands in the way, the
answer is None, and the slow way decides and says why.
"""

import re
from typing import TypeVar

import msgspec
import rfc8785

S = TypeVar("S", bound=msgspec.Struct)

# A number follows one of `:,[` and ends before one of `,]}`. In a string such a place only costs the slow way's time.
_LARGE = re.compile(rb"[:,\[]-?[0-9]{16}")
_MINUS_ZERO = re.compile(rb"-0[,\]}]")
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
# Patterns that begin with a character are searched for faster than those that begin with a class of them.
_POINT_ZERO = re.compile(rb"\.0(?=[,\]}])")
_EXPONENT = re.compile(rb"e(?<=[0-9]e)[-+]?[0-9]+[,\]}]")
_SCIENTIFIC = re.compile(rb"(?<=[:,\[])-?[0-9.]+e[-+]?[0-9]+(?=[,\]}])")
_INTEGER_BEFORE = re.compile(rb"[:,\[]-?[0-9]+\Z")
_LONGEST_INTEGER = 24


def _odd(data: bytes) -> bool:
    """Return whether something may stand in `data` that msgspec writes as it reads it, and RFC 8785 otherwise."""
    astral = not data.isascii() and _ASTRAL.search(data) is not None
    return astral or _MINUS_ZERO.search(data) is not None or _LARGE.search(data) is not None


def _respelled(text: bytes) -> list[tuple[int, int, bytes]]:
    """Return where RFC 8785 writes a number otherwise than msgspec wrote it: start, end, and how; in order."""
    found = [
        (zero.start(), zero.end(), b"")
        for zero in _POINT_ZERO.finditer(text)
        if _INTEGER_BEFORE.search(text[max(0, zero.start() - _LONGEST_INTEGER) : zero.start()])
    ]
    if _EXPONENT.search(text):
        found += [(*one.span(), rfc8785.dumps(float(one[0]))) for one in _SCIENTIFIC.finditer(text)]
    return sorted(found)


def _writes_as(record: msgspec.Struct, data: bytes) -> bool:
    """Return whether a record's JSON with sorted keys, its numbers as RFC 8785 writes them, is `data`."""
    text = msgspec.json.encode(record, order="sorted")
    # Compared piece by piece: a second text of this size would cost more memory than anything else here.
    ours, theirs = memoryview(text), memoryview(data)
    read = at = 0
    for start, end, spelling in [*_respelled(text), (len(text), len(text), b"")]:
        size = start - read
        if ours[read:start] != theirs[at : at + size] or theirs[at + size : at + size + len(spelling)] != spelling:
            return False
        read, at = end, at + size + len(spelling)
    return at == len(data)


def canonical_record(data: bytes, kind: type[S]) -> S | None:
    """Return the record of `kind` in `data` if that is certainly its canonical form; None where it may not be."""
    if _odd(data):
        return None
    try:
        record = msgspec.json.decode(data, type=kind, strict=True)
    except (msgspec.DecodeError, RecursionError):
        return None
    return record if _writes_as(record, data) else None

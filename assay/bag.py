"""BagIt 1.0 (RFC 8493) in memory: the tag files of a bag, and a strict reading of one.

The `bagit` library writes version 0.97 only and passes an added tag file, so the few lines of a bag are written and
read here; every bundle that is made is also validated with that library.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from assay.artifact import sha256_bytes
from assay.errors import AssayError
from assay.record import Digest

DECLARATION = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
MANIFEST = "manifest-sha256.txt"
TAG_MANIFEST = "tagmanifest-sha256.txt"
PAYLOAD = "data/"
SIGNATURES = "signatures/"
"""Where signatures lie. The tag manifest leaves them out and lists all else, so signing changes no listed byte."""

_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
_INFO_LINE = re.compile(r"([A-Za-z][A-Za-z0-9-]*): ([^\x00-\x1f\x7f]*)")


class BagError(AssayError):
    """Files that are no sound bag."""

    exit_code = 1


@dataclass(frozen=True)
class Bag:
    """The files of a bag by their path inside it. `payload` leaves out the leading `data/`."""

    payload: Mapping[str, bytes]
    info: Mapping[str, str]
    tags: Mapping[str, bytes]
    signatures: Mapping[str, bytes]

    @property
    def manifest_sha256(self) -> Digest:
        """The digest of the payload as a whole: that of the manifest, which lists every payload file."""
        return sha256_bytes(self.tags[MANIFEST])


def _lines(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{sha256_bytes(data)}  {name}\n" for name, data in sorted(files.items())).encode()


def make_bag(payload: Mapping[str, bytes], info: Mapping[str, str]) -> dict[str, bytes]:
    """Return all files of a bag with this payload. `info` fills bag-info.txt; Payload-Oxum is added."""
    files = {f"{PAYLOAD}{name}": data for name, data in payload.items()}
    oxum = f"{sum(map(len, payload.values()))}.{len(payload)}"
    words = {**info, "Payload-Oxum": oxum}
    tags = {
        "bagit.txt": DECLARATION,
        "bag-info.txt": "".join(f"{name}: {value}\n" for name, value in sorted(words.items())).encode(),
        MANIFEST: _lines(files),
    }
    return {**files, **tags, TAG_MANIFEST: _lines(tags)}


def _listed(text: bytes, manifest: str) -> dict[str, Digest]:
    listed: dict[str, Digest] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").split("\n")[:-1], 1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise BagError(f"{manifest}: line {number}: expected '<sha256>  <path>', found {line[:100]!a}")
        if found[2] in listed:
            raise BagError(f"{manifest}: line {number}: {found[2]!r} is listed twice")
        listed[found[2]] = found[1]
    canonical = "".join(f"{digest}  {name}\n" for name, digest in sorted(listed.items())).encode()
    if text != canonical:
        raise BagError(f"{manifest}: expected its lines in sorted order, each ended by a newline, found another form")
    return listed


def _compare(files: Mapping[str, bytes], listed: Mapping[str, Digest], manifest: str) -> None:
    for name in sorted(set(listed) - set(files)):
        raise BagError(f"{name}: {manifest} lists it, and it is missing")
    for name in sorted(set(files) - set(listed)):
        raise BagError(f"{name}: {manifest} does not list it")
    for name, digest in sorted(listed.items()):
        found = sha256_bytes(files[name])
        if found != digest:
            raise BagError(f"{name}: expected sha256 {digest}, as {manifest} says, found {found}")


def _read_info(text: bytes) -> dict[str, str]:
    info: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").split("\n")[:-1]:
        found = _INFO_LINE.fullmatch(line)
        if found is None or found[1] in info:
            raise BagError(f"bag-info.txt: expected 'Label: value' once for each label, found {line[:100]!a}")
        info[found[1]] = found[2]
    return info


def read_bag(files: Mapping[str, bytes]) -> Bag:
    """Return the parts of a bag; BagError names the file that is missing, unlisted or not as listed."""
    payload = {name: data for name, data in files.items() if name.startswith(PAYLOAD)}
    signatures = {name: data for name, data in files.items() if name.startswith(SIGNATURES)}
    tags = {name: data for name, data in files.items() if name not in payload and name not in signatures}
    for name in ("bagit.txt", "bag-info.txt", MANIFEST, TAG_MANIFEST):
        if name not in tags:
            raise BagError(f"{name}: missing; it is part of every bag")
    if tags["bagit.txt"] != DECLARATION:
        raise BagError(f"bagit.txt: expected {DECLARATION.decode()!r}, found {tags['bagit.txt'][:100]!r}")
    listed_tags = {name: data for name, data in tags.items() if name != TAG_MANIFEST}
    _compare(listed_tags, _listed(tags[TAG_MANIFEST], TAG_MANIFEST), TAG_MANIFEST)
    _compare(payload, _listed(tags[MANIFEST], MANIFEST), MANIFEST)
    info = _read_info(tags["bag-info.txt"])
    oxum = f"{sum(map(len, payload.values()))}.{len(payload)}"
    if info.get("Payload-Oxum") != oxum:
        raise BagError(f"bag-info.txt: expected Payload-Oxum {oxum}, found {info.get('Payload-Oxum')}")
    bare = {name.removeprefix(PAYLOAD): data for name, data in payload.items()}
    return Bag(bare, info, tags, signatures)

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
INFO = "bag-info.txt"
MANIFEST = "manifest-sha256.txt"
TAG_MANIFEST = "tagmanifest-sha256.txt"
TAGS = ("bagit.txt", INFO, MANIFEST, TAG_MANIFEST)
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
    """The files of a bag by their path inside it. `payload` and its `digests` leave out the leading `data/`."""

    payload: Mapping[str, bytes]
    digests: Mapping[str, Digest]
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
    tags = {
        "bagit.txt": DECLARATION,
        INFO: _info_lines({**info, "Payload-Oxum": _oxum(payload)}),
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


def _info_lines(info: Mapping[str, str]) -> bytes:
    return "".join(f"{label}: {value}\n" for label, value in sorted(info.items())).encode()


def _read_info(text: bytes) -> dict[str, str]:
    info: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").split("\n")[:-1]:
        found = _INFO_LINE.fullmatch(line)
        if found is None or found[1] in info:
            raise BagError(f"{INFO}: expected 'Label: value' once for each label, found {line[:100]!a}")
        info[found[1]] = found[2]
    if text != _info_lines(info):
        raise BagError(f"{INFO}: expected its labels in sorted order, each line ended by a newline, found another form")
    return info


def _oxum(files: Mapping[str, bytes]) -> str:
    """Return size in bytes and number of files, as RFC 8493, section 2.2.2, writes them."""
    return f"{sum(map(len, files.values()))}.{len(files)}"


def _check_tags(tags: Mapping[str, bytes]) -> None:
    for name in TAGS:
        if name not in tags:
            raise BagError(f"{name}: missing; it is part of every bag")
    for name in sorted(set(tags) - set(TAGS)):
        raise BagError(f"{name}: expected only {', '.join(TAGS)}, {SIGNATURES} and {PAYLOAD} here, found another file")
    if tags["bagit.txt"] != DECLARATION:
        raise BagError(f"bagit.txt: expected {DECLARATION.decode()!r}, found {tags['bagit.txt'][:100]!r}")


def read_bag(files: Mapping[str, bytes]) -> Bag:
    """Return the parts of a bag; BagError names the file that is missing, unlisted or not as listed."""
    payload = {name: data for name, data in files.items() if name.startswith(PAYLOAD)}
    signatures = {name: data for name, data in files.items() if name.startswith(SIGNATURES)}
    tags = {name: data for name, data in files.items() if name not in payload and name not in signatures}
    _check_tags(tags)
    listed_tags = {name: data for name, data in tags.items() if name != TAG_MANIFEST}
    _compare(listed_tags, _listed(tags[TAG_MANIFEST], TAG_MANIFEST), TAG_MANIFEST)
    listed = _listed(tags[MANIFEST], MANIFEST)
    _compare(payload, listed, MANIFEST)
    info = _read_info(tags[INFO])
    if info.get("Payload-Oxum") != _oxum(payload):
        raise BagError(f"{INFO}: expected Payload-Oxum {_oxum(payload)}, found {info.get('Payload-Oxum')}")
    bare = {name.removeprefix(PAYLOAD): data for name, data in payload.items()}
    digests = {name.removeprefix(PAYLOAD): digest for name, digest in listed.items()}
    return Bag(bare, digests, info, tags, signatures)

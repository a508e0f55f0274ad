"""Artifacts on disk: canonical JSON (RFC 8785) in one envelope, read strictly, written beside and then renamed."""

import fcntl
import hashlib
import json
import math
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import rfc8785
from msgspec import UNSET, UnsetType

from assay.canonicality import canonical_record
from assay.errors import RecordError
from assay.privacy import one_line, scrub
from assay.record import ARTIFACTS, SCHEMA_VERSION, Artifact, Compilations, Digest, Record, Run, StageName

LARGEST_RECORD_BYTES = 64 * 2**20
LARGEST_PARSED_BYTES = 4 * 2**20
"""More is only parsed into plain values, to say exactly what is wrong, where it is a record of its type."""
DEEPEST_RECORD = 64

_PLACE = re.compile(r" - at (?:`key` in )?`(\$[^`]*)`\Z")
"""How msgspec ends a message: with the path, where the fault is not in the outermost value."""

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True)
class _Refused:
    """Stands in the parsed tree for a value that JSON parsers accept and a record may not hold."""

    why: str


def sha256_bytes(data: bytes) -> Digest:
    """Return the lower-case hexadecimal sha256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> Digest:
    """Return the sha256 of a file's bytes; a missing file is a RecordError that names it."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); make it again, or restore it") from None


def canonical(value: Any) -> bytes:
    """Encode a record, or plain JSON values, as RFC 8785 bytes."""
    return rfc8785.dumps(msgspec.to_builtins(value, str_keys=True))


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        times = Counter(key for key, _ in pairs)
        tree |= {key: _Refused(f"key {key!r} stands twice") for key in tree if times[key] > 1}
    return tree


def _float(text: str) -> Any:
    value = float(text)
    return value if math.isfinite(value) else _Refused(f"{text} is beyond float64")


def _integer(text: str) -> Any:
    if len(text) <= 17 and abs(int(text)) <= 2**53 - 1:
        return int(text)
    # RFC 8785 writes a float below 1e21 without an exponent, so one that reads back exactly is a float.
    if len(text) <= 22 and rfc8785.dumps(float(text)) == text.encode():
        return float(text)
    return _Refused("an integer beyond 2^53-1, which JSON readers round")


def _constant(text: str) -> Any:
    return _Refused(f"{text} is not JSON")


def _surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _faults(tree: Any, path: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST_RECORD:
        yield f"{path}: expected at most {DEEPEST_RECORD} levels, found more"
    elif isinstance(tree, _Refused):
        yield f"{path}: {tree.why}"
    elif isinstance(tree, str) and _surrogate(tree):
        yield f"{path}: a lone surrogate, which UTF-8 cannot carry"
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if _surrogate(key):
                yield f"{path}: a key with a lone surrogate"
            yield from _faults(value, f"{path}.{key}", depth + 1)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _faults(value, f"{path}[{index}]", depth + 1)


def parse(data: bytes, where: str) -> Any:
    """Parse JSON strictly: no BOM, duplicate key, NaN, infinity, big integer, lone surrogate or deep nesting.

    Raises RecordError naming `where` and the path to the first fault.
    """
    if len(data) > LARGEST_RECORD_BYTES:
        raise RecordError(f"{where}: expected at most {LARGEST_RECORD_BYTES} bytes, found {len(data)}")
    try:
        tree = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_pairs,
            parse_float=_float,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except RecursionError:
        raise RecordError(f"{where}: $: expected at most {DEEPEST_RECORD} levels, found more") from None
    except ValueError as error:
        raise RecordError(f"{where}: $: expected JSON in UTF-8, found something else ({error})") from None
    for fault in _faults(tree, "$", 0):
        raise RecordError(f"{where}: {one_line(fault)}")
    return tree


def convert(tree: Any, kind: type[S], where: str) -> S:
    """Turn plain JSON values into a record of `kind`, strictly; RecordError names the path to the fault."""
    try:
        return msgspec.convert(tree, kind, strict=True)
    except msgspec.ValidationError as error:
        raise RecordError(f"{where}: {_placed(error)}") from None


def _placed(error: msgspec.DecodeError) -> str:
    """Return what msgspec says, with the path to the fault first."""
    found = _PLACE.search(str(error))
    message, path = (str(error)[: found.start()], found[1]) if found else (str(error), "$")
    return f"{path}: {one_line(message)}"


def _check_large(data: bytes, kind: type[S], where: str) -> None:
    """Refuse much that is no record of `kind` before a tree of it is built, which can take 30 times its size."""
    try:
        msgspec.json.decode(data, type=kind, strict=True)
    except msgspec.DecodeError as error:
        raise RecordError(f"{where}: {_placed(error)}") from None
    except RecursionError:
        raise RecordError(f"{where}: $: expected at most {DEEPEST_RECORD} levels, found more") from None


def decode(data: bytes, kind: type[S], where: str) -> S:
    """Decode canonical bytes into a record of `kind`; anything that is not the canonical form is refused."""
    if len(data) > LARGEST_RECORD_BYTES:
        raise RecordError(f"{where}: expected at most {LARGEST_RECORD_BYTES} bytes, found {len(data)}")
    record = canonical_record(data, kind)
    if record is not None:
        return record
    if len(data) > LARGEST_PARSED_BYTES:
        _check_large(data, kind, where)
    tree = parse(data, where)
    if rfc8785.dumps(tree) != data:
        raise RecordError(
            f"{where}: $: expected canonical form (RFC 8785), found another: it was written or edited by something else"
        )
    record = convert(tree, kind, where)
    # msgspec fills in a default, or the only tag there can be; every writer here puts both in.
    if canonical(record) != data:
        raise RecordError(
            f"{where}: $: expected every field and tag, found one left out: it was written or edited by something else"
        )
    return record


def schema_name(stage: StageName) -> str:
    """Return the envelope's schema name for a stage."""
    return f"assay/{stage}/{SCHEMA_VERSION}"


def content_digest(artifact: Artifact[Any]) -> Digest:
    """Return the sha256 of the artifact's canonical JSON without its `content_sha256` field."""
    tree = msgspec.to_builtins(artifact, str_keys=True)
    del tree["content_sha256"]
    return sha256_bytes(rfc8785.dumps(tree))


def _digest_within(data: bytes) -> Digest:
    """Return what `content_digest` gives for the artifact of these canonical bytes, without encoding it again."""
    # Keys are sorted, `command` comes first and holds no object, and a quote within its strings is escaped.
    start = data.index(b',"content_sha256":"')
    digest = hashlib.sha256(memoryview(data)[:start])
    digest.update(memoryview(data)[start + len(',"content_sha256":""') + 64 :])
    return digest.hexdigest()


def seal(artifact: Artifact[R]) -> Artifact[R]:
    """Return the artifact with its content digest filled in."""
    return msgspec.structs.replace(artifact, content_sha256=content_digest(artifact))


def again(stage: StageName) -> str:
    """Return what to do about a record of `stage` that cannot be used."""
    # The target rules have the names of the stages `report` and `teeth`, so the rules that do their work have others.
    target, rule = {"report": ("report", "render"), "teeth": ("teeth", "plant")}.get(stage, ("report", stage))
    return f"run stage '{stage}' again (snakemake --cores 1 {target} -R {rule})"


def decode_artifact(data: bytes, stage: StageName, where: str) -> Artifact[Any]:
    """Decode one artifact of `stage`, and refuse it if its schema, stage or content digest is another."""
    artifact: Artifact[Any] = decode(data, ARTIFACTS[stage], where)
    for name, expected, found in (
        ("schema", schema_name(stage), artifact.schema),
        ("stage", stage, artifact.stage),
        ("content_sha256", _digest_within(data), artifact.content_sha256),
    ):
        if expected != found:
            hint = ": it was edited after it was written" if name == "content_sha256" else ""
            raise RecordError(f"{where}: $.{name}: expected {expected}, found {one_line(found)}{hint}")
    return artifact


def read(path: Path, stage: StageName) -> Artifact[Any]:
    """Read and check one artifact; RecordError, with what to do, where it is missing, edited or not of `stage`."""
    try:
        return decode_artifact(path.read_bytes(), stage, str(path))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); {again(stage)}") from None
    except RecordError as error:
        raise RecordError(f"{error}; {again(stage)}") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside `path`, then rename, so that no reader ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(beside).chmod(0o644)
        Path(beside).replace(path)
    except BaseException as error:
        Path(beside).unlink(missing_ok=True)
        if isinstance(error, OSError):
            # A full disk names no file, and the file beside is none that a user knows.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock beside an artifact; a second writer waits. The kernel frees it however this process ends."""
    lock = path.parent / ".locks" / path.name
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def digests_now(artifacts: Iterable[Artifact[Any]]) -> dict[str, Digest]:
    """Map every material of these records to the sha256 that it has on disk now; one that is gone is left out."""
    names = {name for artifact in artifacts for name in artifact.materials}
    return {name: sha256_file(Path(name)) for name in sorted(names) if Path(name).is_file()}


def hash_materials(paths: Iterable[Path]) -> dict[str, Digest]:
    """Map each path, as given and with forward slashes, to the sha256 of its bytes."""
    return {path.as_posix(): sha256_file(path) for path in sorted(paths)}


def _named(path: Path) -> str:
    """Return a material's name: as given inside the project; a path from elsewhere may name its owner."""
    return scrub(path.as_posix()) if path.is_absolute() else path.as_posix()


@dataclass
class Session(Generic[R]):
    """One run of a stage: hashes its materials at the start and writes the artifact at the end.

    Materials are hashed before the work, and again before writing, so that an edit during a long stage is noticed
    rather than recorded as the source of a result that it did not make.
    """

    stage: StageName
    kernel: str | None
    materials: Mapping[Path, Digest]
    command: list[str]
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock_ns: int = field(default_factory=time.monotonic_ns)

    def confirm(self) -> None:
        """Hash every material again; RecordError where one changed since the session began."""
        for material, digest in self.materials.items():
            if sha256_file(material) != digest:
                raise RecordError(f"{material}: changed while stage '{self.stage}' ran; run it again")

    def write(self, path: Path, result: R, compilations: Compilations | UnsetType = UNSET) -> Artifact[R]:
        """Seal `result` in its envelope and write it; RecordError where a material changed meanwhile."""
        self.confirm()
        run = Run(
            started=self.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            duration_ns=time.monotonic_ns() - self.clock_ns,
            exit_code=0,
            compilations=compilations,
        )
        artifact = seal(
            Artifact(
                schema=schema_name(self.stage),
                stage=self.stage,
                kernel=self.kernel,
                materials={_named(p): d for p, d in sorted(self.materials.items())},
                command=self.command,
                run=run,
                result=result,
            )
        )
        write_bytes(path, canonical(artifact))
        return artifact


def open_session(stage: StageName, kernel: str | None, materials: Iterable[Path], command: list[str]) -> Session[Any]:
    """Start a session for `stage`: hash every material now."""
    return Session(stage, kernel, {path: sha256_file(path) for path in materials}, command)

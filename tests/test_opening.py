"""Opening a bundle: what is no archive is unreadable, and what is one is read strictly, record by record."""

import gzip
import io
import json
import lzma
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forge import H200, forge

from assay.artifact import LARGEST_PARSED_BYTES, canonical, seal
from assay.opening import UnreadableError, UnsoundError, open_bundle, open_bytes, record_stage
from assay.ustar import Caps, pack

GATE = "results/gate.json"
MEMBERS = forge(H200).members()
ROOT = next(iter(MEMBERS)).split("/")[0]
ARCHIVE = pack(MEMBERS)


def test_a_bundle_opens_with_its_records(tmp_path: Path) -> None:
    path = tmp_path / "any name.tar"
    path.write_bytes(ARCHIVE)
    opened = open_bundle(path)
    assert opened.name == ROOT
    assert opened.payload == open_bytes(ARCHIVE, "x").payload
    assert opened.one("gate").result.exit_code == 0
    assert set(opened.of_stage("gpu")) == {"results/matmul/gpu.json", "results/softmax/gpu.json"}
    assert len(opened.records) == 12


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("results/gate.json", "gate"),
        ("results/matmul/gpu.json", "gpu"),
        ("results/report.html", None),
        ("results/notes.json", None),
        ("results/a/b/gpu.json", None),
        ("kernels/gpu.json", None),
        ("results/matmul/logs", None),
    ],
)
def test_a_record_is_known_by_its_place(path: str, stage: str | None) -> None:
    assert record_stage(path) == stage


# Unreadable


def zipped(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("bundle/bagit.txt", data)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ustar",
        bytes(10240),
        b"x" * 2048,
        ARCHIVE[:200],
        gzip.compress(ARCHIVE),
        lzma.compress(ARCHIVE),
        zipped(ARCHIVE),
        b"{}",
        b"\x7fELF" + bytes(1000),
    ],
)
def test_what_is_no_archive_is_unreadable(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar"
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match=r"bundle\.tar: expected a bundle, which is a USTAR archive") as refusal:
        open_bundle(path)
    assert refusal.value.exit_code == 2


def test_a_compressed_bomb_is_not_even_unpacked() -> None:
    bomb = gzip.compress(bytes(50 * 2**20))
    with pytest.raises(UnreadableError, match="expected a bundle, which is a USTAR archive"):
        open_bytes(bomb, "bomb.tar.gz")


def test_a_file_beyond_the_cap_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.tar"
    with path.open("wb") as stream:
        stream.write(ARCHIVE)
        stream.truncate(2**31)  # sparse: takes no room
    with pytest.raises(
        UnreadableError, match=r"huge\.tar: expected at most 268435456 bytes, found 2147483648; name a file that"
    ):
        open_bundle(path)


def test_a_smaller_cap_is_kept() -> None:
    with pytest.raises(UnreadableError, match="expected at most 1000 bytes, found"):
        open_bytes(ARCHIVE, "x", Caps(total_bytes=1000))
    with pytest.raises(UnsoundError, match="more than 10 members"):
        open_bytes(ARCHIVE, "x", Caps(members=10))


def test_what_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none\.tar: cannot be read \(No such file or directory\)"):
        open_bundle(tmp_path / "none.tar")


def test_a_folder_a_pipe_and_a_device_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UnreadableError, match="expected a bundle, which is a regular file, found something else"):
            open_bundle(path)


# Not intact


def test_all_lies_in_one_folder() -> None:
    more = {**MEMBERS, "zzz/x": b""}
    with pytest.raises(UnsoundError, match=f"expected one folder that holds everything, found {ROOT}, zzz"):
        open_bytes(pack(more), "x")
    with pytest.raises(UnsoundError, match="expected one folder that holds everything"):
        open_bytes(pack({"bagit.txt": b""}), "x")


def test_an_archive_of_nothing_is_not_intact() -> None:
    with pytest.raises(UnsoundError, match=r"x: bagit\.txt: missing; it is part of every bag"):
        open_bytes(pack({f"{ROOT}/data/x": b""}), "x")


def test_two_bundles_in_one_archive_are_refused() -> None:
    with pytest.raises(UnsoundError, match="expected nothing after byte"):
        open_bytes(ARCHIVE + ARCHIVE, "x")


def gate_replaced(data: bytes) -> bytes:
    """Return a bundle with other bytes for the gate's record, all manifests put right."""
    return forge(H200).at_last(lambda files: files.update({GATE: data})).archive()


WRITTEN: bytes = MEMBERS[f"{ROOT}/data/{GATE}"]
TREE: dict[str, Any] = json.loads(WRITTEN)


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the gate's record after a change of its tree, canonical, its seal as it was."""
    tree = json.loads(WRITTEN)
    change(tree)
    return canonical(tree)


def in_result(**fields: Any) -> bytes:
    return changed(lambda tree: tree["result"].update(fields))


def with_exit_code(token: bytes) -> bytes:
    return WRITTEN.replace(b'"expected_exit_code":0', b'"expected_exit_code":' + token)


def deep(levels: int) -> bytes:
    return WRITTEN.replace(b'"kernel":null', b'"kernel":' + b"[" * levels + b"]" * levels)


RECORDS: dict[str, tuple[bytes, str]] = {
    "edited": (in_result(message="fine"), r"\$\.content_sha256: expected [0-9a-f]{64}, found .*: it was edited after"),
    "duplicate key": (WRITTEN.replace(b'"kernel":null', b'"kernel":null,"kernel":null'), r"\$\.kernel: key .* twice"),
    "NaN": (with_exit_code(b"NaN"), r"\$\.result\.expected_exit_code: NaN is not JSON"),
    "infinity": (with_exit_code(b"-Infinity"), r"\$\.result\.expected_exit_code: -Infinity is not JSON"),
    "1e400": (with_exit_code(b"1e400"), r"\$\.result\.expected_exit_code: 1e400 is beyond float64"),
    "2^53+1": (with_exit_code(b"9007199254740993"), r"\$\.result\.expected_exit_code: an integer beyond 2\^53-1"),
    "lone surrogate": (WRITTEN.replace(b"usable", b"us\\ud800ble"), r"\$\.result\.\S+: a lone surrogate"),
    "BOM": (b"\xef\xbb\xbf" + WRITTEN, r"\$: expected JSON in UTF-8, found something else"),
    "not UTF-8": (WRITTEN.replace(b"usable", b"us\xffble"), r"\$: expected JSON in UTF-8, found something else"),
    "100,000 levels": (deep(100_000), r"\$: expected at most 64 levels, found more"),
    "100 levels": (deep(100), r"\$\.kernel\S*: expected at most 64 levels, found more"),
    "space": (WRITTEN.replace(b":", b": ", 1), r"\$: expected canonical form"),
    "other order": (
        b"{" + WRITTEN[1:-1].split(b",", 1)[1] + b"," + WRITTEN[1:-1].split(b",", 1)[0] + b"}",
        r"\$: expected JSON",
    ),
    "schema version": (
        changed(lambda tree: tree.update(schema="assay/gate/2")),
        r"\$\.schema: expected assay/gate/1, ",
    ),
    "other stage": (changed(lambda tree: tree.update(stage="gpu")), r"\$\.stage: expected gate, found gpu"),
    "unknown stage": (changed(lambda tree: tree.update(stage="nothing")), r"\$\.stage: Invalid enum value 'nothing'"),
    "unknown outcome": (
        changed(lambda tree: tree["result"]["verdict"].update(outcome="verified")),
        r"\$\.result\.verdict\.outcome: Invalid enum value 'verified'",
    ),
    "unknown cause": (
        changed(lambda tree: tree["result"]["verdict"].update(cause="weather")),
        r"\$\.result\.verdict\.cause: Invalid enum value 'weather'",
    ),
    "unknown field": (in_result(note="x"), r"\$\.result: Object contains unknown field `note`"),
    "missing field": (changed(lambda tree: tree["result"].pop("argv")), r"\$\.result: Object missing required field"),
    "left-out default": (
        changed(lambda tree: tree["result"]["verdict"].pop("cause")),
        r"\$: expected every field and tag, found one left out",
    ),
    "wrong type": (in_result(exit_code="0"), r"\$\.result\.exit_code: Expected `int`, got `str`"),
    "float for a count": (in_result(exit_code=0.5), r"\$\.result\.exit_code: Expected `int`, got `float`"),
    "true for a count": (in_result(exit_code=True), r"\$\.result\.exit_code: Expected `int`, got `bool`"),
    "no digest": (
        changed(lambda tree: tree["materials"].update({"assay/gate.py": "0" * 63})),
        r"\$\.materials\[\.\.\.\]: Expected `str` matching regex",
    ),
    "empty": (b"", r"\$: expected JSON in UTF-8, found something else"),
    "list": (b"[]", r"\$: Expected `object`, got `array`"),
    "null": (b"null", r"\$: Expected `object`, got `null`"),
    "HTML": (b"<html></html>", r"\$: expected JSON in UTF-8, found something else"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_record_is_read_strictly(case: str) -> None:
    data, told = RECORDS[case]
    assert data != WRITTEN
    with pytest.raises(UnsoundError, match=rf"\Ax: {re.escape(GATE)}: {told}") as refusal:
        open_bytes(gate_replaced(data), "x")
    assert len(str(refusal.value).splitlines()) == 1
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("bomb", [b"[],", b'{"a":0},', b"0,"])
def test_a_json_bomb_is_refused_before_it_goes_off(bomb: bytes) -> None:
    """A tree of it would take 30 times its size; the decoder stops at the first value that is of no use."""
    data = WRITTEN.replace(b'"kernel":null', b'"kernel":[' + bomb * (20 * 2**20 // len(bomb)) + b"0]")
    with pytest.raises(UnsoundError, match=r"results/gate\.json: \$\.kernel: Expected `str \| null`, got `array`"):
        open_bytes(gate_replaced(data), "x")


def test_a_large_record_is_refused_for_its_own_reason_too() -> None:
    words = b",".join(b'"%d"' % n for n in range(700_000))
    twice = WRITTEN.replace(b'"argv":[', b'"argv":[' + words + b",", 1).replace(
        b'"kernel":null', b'"kernel":null,"kernel":null'
    )
    assert len(twice) > LARGEST_PARSED_BYTES
    with pytest.raises(UnsoundError, match=r"results/gate\.json: \$\.kernel: key 'kernel' stands twice"):
        open_bytes(gate_replaced(twice), "x")
    broken = WRITTEN.replace(b'"argv":[', b'"argv":[' + words + b"]", 1)
    with pytest.raises(UnsoundError, match=r"results/gate\.json: \$: JSON is malformed"):
        open_bytes(gate_replaced(broken), "x")


def test_a_record_in_the_place_of_another_stage_is_refused() -> None:
    """An interpreter's record under the name of the gpu's, and the same with stage and schema put right."""
    forged = forge(H200)
    interpreter = forged.payload()["results/matmul/interpreter.json"]
    tree = json.loads(interpreter)
    relabelled = canonical({**tree, "stage": "gpu", "schema": "assay/gpu/1"})
    for data in (interpreter, relabelled):
        files = {"results/matmul/gpu.json": data}
        archive = forge(H200).at_last(lambda payload, files=files: payload.update(files)).archive()  # type: ignore[misc]
        with pytest.raises(UnsoundError, match=r"results/matmul/gpu\.json: \$\.result: Object"):
            open_bytes(archive, "x")


def test_a_seal_put_right_is_no_fault_here() -> None:
    """What a sealed record says is judged later, against what it rests on."""
    opened = open_bytes(ARCHIVE, "x")
    assert seal(opened.one("gate")) == opened.one("gate")

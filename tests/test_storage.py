"""The folder of what was compiled: whole entries come back, anything else is refused for its own reason."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH

from assay.artifact import sha256_bytes
from assay.record import Unavailable
from assay.storage import ABANDONED_S, LARGEST_ENTRY_BYTES, EntryError, Storage, open_storage, pack, place, unpack

ONE, OTHER = sha256_bytes(b"one"), sha256_bytes(b"other")
FILES = {"kernel.json": b"{}", "kernel.cubin": bytes(range(256))}

keys = st.binary().map(sha256_bytes)
names = st.text(min_size=1, max_size=20).filter(lambda name: "/" not in name and "\0" not in name and name[0] != ".")
files = st.dictionaries(names.filter(lambda name: name.isprintable()), st.binary(max_size=200), max_size=3)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "cache")


# Laws


@given(keys, files)
def test_what_is_packed_is_unpacked(key: str, kept: dict[str, bytes]) -> None:
    assert unpack(pack(key, kept), key) == kept


@given(keys, files, st.data())
def test_no_entry_survives_a_changed_byte(key: str, kept: dict[str, bytes], data: st.DataObject) -> None:
    whole = bytearray(pack(key, kept))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(EntryError):
        unpack(bytes(whole), key)


@given(keys, files, st.data())
def test_no_entry_survives_being_cut_or_continued(key: str, kept: dict[str, bytes], data: st.DataObject) -> None:
    whole = pack(key, kept)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for broken in (cut, whole + data.draw(st.binary(min_size=1))):
        with pytest.raises(EntryError):
            unpack(broken, key)


@given(st.binary(max_size=300))
def test_whatever_lies_there_is_refused_and_never_raises_anything_else(data: bytes) -> None:
    for found in (data, sha256_bytes(data).encode() + b"\n" + data):
        with pytest.raises(EntryError):
            unpack(found, ONE)


# Refusals


def sealed(body: bytes) -> bytes:
    return sha256_bytes(body).encode() + b"\n" + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "its digest is not that of its content"),
        (pack(ONE, FILES)[:-1], "its digest is not that of its content"),
        (pack(OTHER, FILES), f"it is that of {OTHER[:16]}"),
        (sealed(b"cos\nsystem\n(S'true'\ntR."), "it is no entry (JSON is malformed"),
        (sealed(b'{"key":"%b","files":{},"more":1}' % ONE.encode()), "it is no entry (Object contains unknown field"),
        (pack(ONE, {"../escaped": b""}), "it names a file that leads out of its folder"),
        (pack(ONE, {"/absolute": b""}), "it names a file that leads out of its folder"),
        (pack(ONE, {"..": b""}), "it names a file that leads out of its folder"),
        (pack(ONE, {"": b""}), "it names a file that leads out of its folder"),
    ],
)
def test_an_entry_that_is_damaged_foreign_or_hostile_is_named_with_the_reason(
    storage: Storage, data: bytes, reason: str
) -> None:
    path = storage.path(ONE)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(EntryError) as error:
        storage.get(ONE)
    assert str(error.value).startswith(f"{path}: {reason}")
    storage.put(ONE, FILES)
    assert storage.get(ONE) == FILES


def test_a_link_a_folder_a_pipe_or_a_huge_file_in_the_place_of_an_entry_is_not_read(
    storage: Storage, tmp_path: Path
) -> None:
    path, reasons = storage.path(ONE), []
    path.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(pack(ONE, FILES))

    def refused() -> None:
        with pytest.raises(EntryError) as error:
            storage.get(ONE)
        reasons.append(str(error.value).removeprefix(f"{path}: it cannot be read "))

    path.symlink_to(tmp_path / "elsewhere")
    refused()
    path.unlink()
    os.mkfifo(path)
    refused()
    path.unlink()
    path.mkdir()
    refused()
    path.rmdir()
    path.touch()
    os.truncate(path, LARGEST_ENTRY_BYTES + 1)
    refused()
    assert reasons == [
        "(Too many levels of symbolic links)",
        "(no plain file)",
        "(Is a directory)",
        f"(larger than {LARGEST_ENTRY_BYTES} bytes)",
    ]


# The folder


def test_nothing_is_kept_under_a_key_that_was_never_put(storage: Storage) -> None:
    assert storage.get(ONE) is None
    storage.put(OTHER, FILES)
    assert storage.get(ONE) is None
    assert storage.get(OTHER) == FILES


def test_what_is_too_large_is_not_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.storage.LARGEST_ENTRY_BYTES", 200)
    storage.put(ONE, {"kernel.cubin": bytes(200)})
    assert storage.get(ONE) is None
    assert list(storage.found()) == []


def test_pruning_removes_what_was_used_longest_ago(storage: Storage) -> None:
    keys = [sha256_bytes(bytes([number])) for number in range(6)]
    for age, key in enumerate(reversed(keys)):
        storage.put(key, FILES)
        os.utime(storage.path(key), (1000 - age, 1000 - age))
    size = storage.path(keys[0]).stat().st_size
    # Reading an entry makes it the one used last.
    assert storage.get(keys[0]) == FILES
    assert storage.prune(6 * size) == 0
    assert storage.prune(3 * size) == 3
    assert {path.name for path, _ in storage.found()} == {keys[0], keys[5], keys[4]}


def test_pruning_removes_what_a_killed_writer_left_and_nothing_that_is_being_written(storage: Storage) -> None:
    storage.put(ONE, FILES)
    old, young = (storage.path(ONE).parent / name for name in (".old", ".young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (time.time() - ABANDONED_S - 60,) * 2)
    storage.prune()
    assert (old.exists(), young.exists(), storage.get(ONE)) == (False, True, FILES)


WRITER = """
import sys
from pathlib import Path
from assay.storage import Storage

storage, key = Storage(Path(sys.argv[1])), sys.argv[2]
for number in range(200):
    storage.put(key, {"kernel.cubin": sys.argv[3].encode() * 5000})
    assert set(storage.get(key)["kernel.cubin"]) in ({ord("a")}, {ord("b")})
    storage.prune()
"""


def test_writers_and_readers_at_once_see_whole_entries_only(storage: Storage) -> None:
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-c", WRITER, str(storage.folder), ONE]
    processes = [subprocess.Popen([*command, letter], env=environ) for letter in "aab"]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert [path.name for path in storage.path(ONE).parent.iterdir()] == [ONE]


# Where it is


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ASSAY_CACHE": "/kept", "XDG_CACHE_HOME": "/cache", "HOME": "/home/x"}, "/kept"),
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/x"}, "/cache/assay"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/x"}, "/home/x/.cache/assay"),
        # The XDG Base Directory Specification: a relative path is to be ignored.
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/x"}, "/home/x/.cache/assay"),
        ({"HOME": "/home/x"}, "/home/x/.cache/assay"),
    ],
)
def test_the_folder_is_where_caches_are(environment: dict[str, str], expected: str) -> None:
    assert place(environment) == Path(expected)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"ASSAY_CACHE": "", "HOME": "/home/x"}, "ASSAY_CACHE is empty"),
        ({}, "the user has no home; set ASSAY_CACHE"),
        ({"HOME": ""}, "the user has no home; set ASSAY_CACHE"),
    ],
)
def test_without_a_place_there_is_no_folder(environment: dict[str, str], reason: str) -> None:
    assert place(environment) == Unavailable(reason=reason)
    assert open_storage(environment) == Unavailable(reason=reason)


def test_a_fresh_folder_is_this_users_alone(tmp_path: Path) -> None:
    found = open_storage({"ASSAY_CACHE": str(tmp_path / "new" / "cache")})
    assert found == Storage(tmp_path / "new" / "cache")
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_or_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    shared, file = tmp_path / "shared", tmp_path / "file"
    shared.mkdir()
    shared.chmod(0o777)
    file.touch()
    assert open_storage({"ASSAY_CACHE": str(shared)}) == Unavailable(reason=f"{shared}: other users may write it")
    below = file / "cache"
    assert open_storage({"ASSAY_CACHE": str(below)}) == Unavailable(reason=f"{below}: cannot be made (Not a directory)")

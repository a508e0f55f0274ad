"""Artifacts on disk: one canonical form, every other refused for its own reason, and never half a file to read."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from project import PYTHON_PATH
from records import environment, gate
from strategies import characters, sealed

from assay.artifact import (
    DEEPEST_RECORD,
    LARGEST_RECORD_BYTES,
    canonical,
    content_digest,
    decode_artifact,
    open_session,
    parse,
    read,
    schema_name,
    seal,
    sha256_bytes,
    write_bytes,
)
from assay.errors import RecordError
from assay.record import ARTIFACTS, Artifact, Gate, Run, StageName
from assay.stage import evidence_files

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(characters), inner),
    max_leaves=12,
)


def artifact_of(stage: StageName, result: Any) -> Artifact[Any]:
    return seal(
        Artifact(
            schema=schema_name(stage),
            stage=stage,
            kernel=None,
            materials={"assay/gate.py": "0" * 64},
            command=["python", "-m", "assay", stage],
            run=Run(started="2026-11-29T10:00:00Z", duration_ns=1500000000, exit_code=0),
            result=result,
        )
    )


GATE = artifact_of("gate", gate(None))
WRITTEN = canonical(GATE)
TREE = json.loads(WRITTEN)


# the form


@pytest.mark.parametrize("stage", ARTIFACTS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_an_artifact_reads_back_as_it_was_and_its_bytes_are_a_fixed_point(
    stage: StageName, data: st.DataObject
) -> None:
    artifact = data.draw(sealed(stage))
    written = canonical(artifact)
    back = decode_artifact(written, stage, "x.json")
    assert back == artifact
    assert canonical(back) == written


@given(json_values)
def test_canonical_bytes_of_any_json_value_read_back_to_the_same_bytes(value: Any) -> None:
    written = canonical(value)
    assert parse(written, "x") == value
    assert canonical(parse(written, "x")) == written


@given(st.floats(min_value=-(2.0**70), max_value=2.0**70).map(float.__trunc__).map(float))
def test_a_float_that_is_a_large_whole_number_reads_back_as_itself(value: float) -> None:
    # RFC 8785 writes 1e20 as an integer of 21 digits.
    assert parse(canonical({"error": value}), "x") == {"error": value}


@settings(max_examples=400)
@given(st.integers(0, len(WRITTEN) - 1), st.integers(1, 255))
def test_any_changed_byte_is_refused(index: int, flip: int) -> None:
    changed = bytearray(WRITTEN)
    changed[index] ^= flip
    with pytest.raises(RecordError, match=r"\Aresults/gate\.json: \$"):
        decode_artifact(bytes(changed), "gate", "results/gate.json")


@given(st.integers(0, len(WRITTEN)), st.integers(1, 40))
def test_any_cut_is_refused(start: int, length: int) -> None:
    cut = WRITTEN[:start] + WRITTEN[start + length :]
    if cut != WRITTEN:
        with pytest.raises(RecordError, match=r"\Aresults/gate\.json: \$"):
            decode_artifact(cut, "gate", "results/gate.json")


# refusals


def text_with(pointer: str, value: str) -> bytes:
    """Return the artifact's bytes with the JSON text of one value replaced: `value` may be no JSON at all."""
    tree = json.loads(WRITTEN)
    at = tree
    *parents, last = pointer.split(".")
    for parent in parents:
        at = at[parent]
    at[last] = "<here>"
    return canonical(tree).replace(b'"<here>"', value.encode())


def resealed(**changes: Any) -> bytes:
    """Return bytes of a changed tree with a right content digest, so that only the change itself can be refused."""
    tree = {**TREE, **changes}
    del tree["content_sha256"]
    return canonical({**tree, "content_sha256": sha256_bytes(canonical(tree))})


def deep(levels: int) -> bytes:
    return text_with("result.message", "[" * levels + "]" * levels)


FINDING = r"found [0-9a-f]{64}: it was edited after it was written; run stage 'gate' again"
REFUSED: dict[str, tuple[bytes, str]] = {
    "unknown-field": (resealed(extra=1), r"\$: Object contains unknown field `extra`"),
    "unknown-nested-field": (
        resealed(run={**TREE["run"], "host": "a"}),
        r"\$\.run: Object contains unknown field `host`",
    ),
    "missing-field": (
        resealed(run={"started": "2026-11-29T10:00:00Z", "exit_code": 0}),
        r"\$\.run: Object missing required field `duration_ns`",
    ),
    "wrong-type": (resealed(kernel=7), r"\$\.kernel: Expected `str \| null`, got `int`"),
    "text-for-a-number": (text_with("run.exit_code", '"0"'), r"\$\.run\.exit_code: Expected `int`, got `str`"),
    "true-for-a-number": (text_with("run.exit_code", "true"), r"\$\.run\.exit_code: Expected `int`, got `bool`"),
    "float-for-an-integer": (text_with("run.exit_code", "0.5"), r"\$\.run\.exit_code: Expected `int`, got `float`"),
    "unknown-enum-value": (
        resealed(result={**TREE["result"], "verdict": {**TREE["result"]["verdict"], "outcome": "probably"}}),
        r"\$\.result\.verdict\.outcome: Invalid enum value 'probably'",
    ),
    "list-for-an-object": (b"[]", r"\$: Expected `object`, got `array`"),
    "nan": (text_with("run.exit_code", "NaN"), r"\$\.run\.exit_code: NaN is not JSON"),
    "infinity": (text_with("run.exit_code", "-Infinity"), r"\$\.run\.exit_code: -Infinity is not JSON"),
    "beyond-float": (text_with("run.exit_code", "1e400"), r"\$\.run\.exit_code: 1e400 is beyond float64"),
    "beyond-integer": (
        text_with("run.exit_code", str(2**53 + 1)),
        r"\$\.run\.exit_code: an integer beyond 2\^53-1, which JSON readers round",
    ),
    "large-integer-that-is-a-float": (
        text_with("run.exit_code", str(2**53)),
        r"\$\.run\.exit_code: Expected `int`, got `float`",
    ),
    "huge-integer": (text_with("run.exit_code", "9" * 5000), r"\$\.run\.exit_code: an integer beyond 2\^53-1"),
    "duplicate-key": (
        WRITTEN.replace(b'"exit_code":0', b'"exit_code":1,"exit_code":0'),
        r"\$\.run\.exit_code: key 'exit_code' stands twice",
    ),
    "lone-surrogate": (text_with("result.message", r'"\ud800"'), r"\$\.result\.message: a lone surrogate"),
    "surrogate-in-a-key": (text_with("materials", r'{"\udfff":1}'), r"\$\.materials: a key with a lone surrogate"),
    "byte-order-mark": (
        b"\xef\xbb\xbf" + WRITTEN,
        r"\$: expected JSON in UTF-8, found something else \(Unexpected UTF-8 BOM",
    ),
    "not-utf-8": (
        WRITTEN.replace(b"NVIDIA", b"NV\xffDIA"),
        r"\$: expected JSON in UTF-8, found something else \('utf-8' codec can't decode",
    ),
    "utf-16": (WRITTEN.decode().encode("utf-16"), r"\$: expected JSON in UTF-8, found something else"),
    "empty": (b"", r"\$: expected JSON in UTF-8, found something else \(Expecting value"),
    "cut": (WRITTEN[:-1], r"\$: expected JSON in UTF-8, found something else \(Expecting"),
    "two-documents": (WRITTEN * 2, r"\$: expected JSON in UTF-8, found something else \(Extra data"),
    "deep": (deep(DEEPEST_RECORD), r"\$\.result\.message(\[0\])+: expected at most 64 levels, found more"),
    "hundred-thousand-levels": (deep(100_000), r"\$: expected at most 64 levels, found more"),
    "final-line-feed": (WRITTEN + b"\n", r"\$: expected canonical form \(RFC 8785\)"),
    "space": (WRITTEN.replace(b'":', b'": ', 1), r"\$: expected canonical form"),
    "another-order": (json.dumps(TREE, separators=(",", ":")).encode() + b" ", r"\$: expected canonical form"),
    "escape-without-need": (WRITTEN.replace(b"NVIDIA", rb"\u004eVIDIA"), r"\$: expected canonical form"),
    "float-form-of-an-integer": (text_with("run.exit_code", "0.0"), r"\$: expected canonical form"),
    "minus-zero": (text_with("run.exit_code", "-0"), r"\$: expected canonical form"),
    "unknown-version": (
        resealed(schema="assay/gate/2"),
        r"\$\.schema: expected assay/gate/1, found assay/gate/2; run stage 'gate' again",
    ),
    "unknown-stage": (resealed(stage="weather"), r"\$\.stage: Invalid enum value 'weather'"),
    "stage-of-another-name": (
        resealed(stage="gpu"),
        r"\$\.stage: expected gate, found gpu; run stage 'gate' again",
    ),
    "edited": (
        text_with("result.exit_code", "0"),
        rf"\$\.content_sha256: expected [0-9a-f]{{64}}, {FINDING}",
    ),
    "too-large": (
        b" " * (LARGEST_RECORD_BYTES + 1),
        rf"expected at most {LARGEST_RECORD_BYTES} bytes, found {LARGEST_RECORD_BYTES + 1}; run",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_file_the_path_and_its_own_reason(name: str, tmp_path: Path) -> None:
    data, reason = REFUSED[name]
    path = tmp_path / "gate.json"
    path.write_bytes(data)
    with pytest.raises(RecordError, match=rf"\A{path}: {reason}") as refusal:
        read(path, "gate")
    assert len(str(refusal.value).splitlines()) == 1


def test_the_artifact_that_the_refused_ones_are_made_from_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_bytes(WRITTEN)
    assert read(tmp_path / "gate.json", "gate") == GATE
    assert resealed() == WRITTEN
    assert json.loads(deep(DEEPEST_RECORD - 2))["result"]["message"]


def test_the_record_of_another_stage_is_refused() -> None:
    other = canonical(artifact_of("environment", environment(None)))
    with pytest.raises(RecordError, match=r"\Ax: \$"):
        decode_artifact(other, "gate", "x")


def test_a_missing_record_is_refused_with_the_stage_to_run(tmp_path: Path) -> None:
    with pytest.raises(
        RecordError, match=r"gate\.json: cannot be read \(No such file or directory\); run stage 'gate'"
    ):
        read(tmp_path / "gate.json", "gate")


@given(st.text(st.characters(), min_size=1), json_values)
def test_a_refusal_is_one_printable_line_whatever_the_record_says(name: str, value: Any) -> None:
    hostile = json.dumps({**TREE, name: value, "stage": name}).encode()
    with pytest.raises(RecordError) as refusal:
        decode_artifact(hostile, "gate", "x.json")
    said = str(refusal.value)
    assert len(said.splitlines()) == 1
    assert not {unicodedata.category(character) for character in said} & {"Cc", "Cf", "Cs"}


def test_a_key_that_stands_twice_many_times_is_refused_in_time() -> None:
    pairs = ",".join(f'"{index}":0' for index in range(100_000))
    with pytest.raises(RecordError, match=r"\Ax: \$\.0: key '0' stands twice"):
        parse(f"{{{pairs},{pairs}}}".encode(), "x")


def test_the_content_digest_covers_every_field_but_itself() -> None:
    changes: list[dict[str, Any]] = [
        {"schema": "a"},
        {"stage": "gpu"},
        {"kernel": "a"},
        {"materials": {}},
        {"command": []},
        {"run": msgspec.structs.replace(GATE.run, duration_ns=1)},
        {"result": msgspec.structs.replace(GATE.result, message="a")},
    ]
    assert {*(name for change in changes for name in change), "content_sha256"} == set(GATE.__struct_fields__)
    changed = [msgspec.structs.replace(GATE, **change) for change in changes]
    assert len({content_digest(artifact) for artifact in [GATE, *changed]}) == 1 + len(changed)
    assert content_digest(msgspec.structs.replace(GATE, content_sha256="1" * 64)) == content_digest(GATE)


# writing


WRITER = """
import sys
from pathlib import Path
from assay.artifact import write_bytes
for letter in b"ab" * 500:
    write_bytes(Path(sys.argv[1]), bytes([letter]) * 3_000_000)
"""

HOLDER = """
import sys
from pathlib import Path
from assay.artifact import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def started() -> Any:
    """Return a function that starts Python code in a process, which is ended with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.002)


def test_a_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path, started: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("results/gate.json")
    write_bytes(path, b"a" * 3_000_000)
    halves = 0
    for _ in range(40):
        writer = started(WRITER, path)
        wait_for(lambda: any(path.parent.glob(".gate.json.*")))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert set(path.read_bytes()) in ({ord("a")}, {ord("b")})
        assert path.stat().st_size == 3_000_000
        assert evidence_files() == [path]
        for litter in path.parent.glob(".gate.json.*"):
            litter.unlink()
            halves += 1
        if halves == 3:
            return
    pytest.fail("no writer was killed in the middle")


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    write_bytes(path, b"old")
    with pytest.raises(TypeError):
        write_bytes(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["gate.json"]


def test_a_written_file_may_be_read_by_others(tmp_path: Path) -> None:
    write_bytes(tmp_path / "new" / "gate.json", b"x")
    assert (tmp_path / "new" / "gate.json").stat().st_mode & 0o777 == 0o644


def test_a_second_writer_waits_and_sigkill_frees_the_lock(tmp_path: Path, started: Any) -> None:
    path = tmp_path / "gate.json"
    first = started(HOLDER, path)
    assert first.stdout.readline() == "held\n"
    second = started(HOLDER, path)
    # The system itself lists who waits for which lock.
    wait_for(lambda: any("->" in line and f" {second.pid} " in line for line in _locks()))
    first.send_signal(signal.SIGKILL)
    assert second.stdout.readline() == "held\n"


def _locks() -> list[str]:
    return Path("/proc/locks").read_text("utf-8").splitlines()


def test_artifacts_of_one_folder_have_locks_of_their_own(tmp_path: Path, started: Any) -> None:
    assert started(HOLDER, tmp_path / "gate.json").stdout.readline() == "held\n"
    assert started(HOLDER, tmp_path / "gpu.json").stdout.readline() == "held\n"


# the session


def test_a_session_records_what_it_read_and_when(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text("x = 1\n")
    session = open_session("gate", None, [Path("kernel.py"), tmp_path / "kernel.py"], ["python"])
    written = session.write(Path("gate.json"), gate(None))
    assert read(Path("gate.json"), "gate") == written
    # A path from elsewhere may name its owner: the project's folder is cut off.
    assert written.materials == {
        "./kernel.py": sha256_bytes(b"x = 1\n"),
        "kernel.py": sha256_bytes(b"x = 1\n"),
    }
    assert written.run.exit_code == 0
    assert written.run.started.endswith("Z")


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_material_that_changes_meanwhile_stops_the_write(tmp_path: Path, change: str) -> None:
    material, out = tmp_path / "kernel.py", tmp_path / "gate.json"
    material.write_text("x = 1\n")
    write_bytes(out, b"earlier")
    session = open_session("gate", None, [material], [])
    if change == "edited":
        material.write_text("x = 2\n")
        reason = r"kernel\.py: changed while stage 'gate' ran; run it again"
    else:
        material.unlink()
        reason = r"kernel\.py: cannot be read"
    with pytest.raises(RecordError, match=reason):
        session.write(out, gate(None))
    assert out.read_bytes() == b"earlier"


def test_a_missing_material_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"kernel\.py: cannot be read \(No such file or directory\)"):
        open_session("gate", None, [tmp_path / "kernel.py"], [])


@settings(max_examples=20, phases=[Phase.generate])
@given(st.builds(lambda text: msgspec.structs.replace(gate(None), message=text), st.text(characters)))
def test_what_a_session_writes_reads_back(tmp_path_factory: pytest.TempPathFactory, result: Gate) -> None:
    path = tmp_path_factory.mktemp("session") / "gate.json"
    open_session("gate", None, [], []).write(path, result)
    assert read(path, "gate").result == result


def test_a_full_disk_is_told_with_the_file_that_was_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as refusal:
        write_bytes(tmp_path / "gate.json", b"x")
    assert refusal.value.filename == str(tmp_path / "gate.json")
    assert list(tmp_path.iterdir()) == []

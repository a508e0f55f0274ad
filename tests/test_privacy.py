"""Nothing that names the machine's owner leaves; what is left is still readable."""

import getpass
import os
import socket
import stat
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import privacy
from assay.record import Unavailable

ROOT = Path(__file__).parents[1]
UUID = "GPU-4c1d2f6e-90ab-4cde-8f01-23456789abcd"
ANY_TEXT = st.text(st.characters(), max_size=200)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for a salt of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    privacy._salt.cache_clear()
    yield tmp_path
    privacy._salt.cache_clear()


@given(ANY_TEXT)
def test_scrubbed_text_is_utf8_without_controls(text: str) -> None:
    scrubbed = privacy.scrub(text)
    scrubbed.encode("utf-8")
    hidden = {character for character in scrubbed if unicodedata.category(character) in ("Cc", "Cf", "Cs")}
    assert hidden <= {"\t", "\n"}


@given(ANY_TEXT, ANY_TEXT)
def test_no_home_is_left_wherever_it_stands(before: str, after: str) -> None:
    home = str(Path.home())
    assert home not in privacy.scrub(f"{before} {home}/{after}").split()
    assert f" {home}/" not in privacy.scrub(f"{before} {home}/{after}")


@given(ANY_TEXT, st.integers(20, 400))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = privacy.one_line(text, limit)
    assert len(line) <= limit
    assert line.splitlines() in ([], [line])


@given(st.text("abcdefghij ,:;=+0123456789.", max_size=100))
def test_plain_prose_is_left_alone(text: str) -> None:
    hosts = {socket.gethostname(), socket.gethostname().split(".")[0]}
    if not hosts & set(text.replace(".", " ").split()):
        assert privacy.scrub(f"Expected {text}") == f"Expected {text}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("A100\u202e", "A100\ufffd"),
        ("A\u200b100\U000e0041", "A\ufffd100\ufffd"),
        ("Größe ≤ 5 µs", "Größe ≤ 5 µs"),
        ("a\ud800b", "a\ufffdb"),
        ("/home/alice/x.py:3", "~/x.py:3"),
        ("/Users/alice", "~"),
        ("'/venv/lib/python3.12/site-packages/triton/x.py'", "'triton/x.py'"),
        ("https://alice:p@ss@host.example/x", "https://host.example/x"),
        ("the GPU-accelerated path of GPU-0", "the GPU-accelerated path of GPU-0"),
    ],
)
def test_what_is_replaced(text: str, expected: str) -> None:
    assert privacy.scrub(text) == expected


def test_the_project_folder_becomes_a_dot_and_its_neighbour_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert privacy.scrub(f"{tmp_path}/kernels/a.py") == "./kernels/a.py"
    assert privacy.scrub(f"in {tmp_path}.") == "in .."
    assert not privacy.scrub(f"{tmp_path}2/a.py").startswith(".")
    assert not privacy.scrub(f"{tmp_path}.tmp/a.py").startswith(".")


def test_of_a_neighbour_of_the_home_the_users_part_is_hidden_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "alice"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    privacy._replacements.cache_clear()
    assert "alice" not in privacy.scrub(f"{tmp_path}/alice.old/notes")
    privacy._replacements.cache_clear()


def test_the_host_is_replaced_as_a_word_only() -> None:
    host = socket.gethostname()
    scrubbed = privacy.scrub(f"on {host}: ok, x{host}x")
    assert scrubbed == (f"on {host}: ok, x{host}x" if host == "localhost" else f"on <host>: ok, x{host}x")


def test_the_user_is_replaced_in_paths_and_addresses() -> None:
    user = getpass.getuser()
    assert privacy.scrub(f"/scratch/{user} {user}@example.org") == "/scratch/<user> <user>@example.org"


@pytest.mark.parametrize("text", [UUID, UUID.upper(), f"MIG-{UUID}/1/0", "MIG-" + UUID[4:], UUID[:12], f"0,{UUID}"])
@pytest.mark.usefixtures("state")
def test_no_serial_of_a_device_is_left(text: str) -> None:
    scrubbed = privacy.scrub(f"CUDA_VISIBLE_DEVICES={text}")
    assert UUID[4:12] not in scrubbed.lower()
    assert "-<" in scrubbed


@pytest.mark.usefixtures("state")
def test_a_serial_becomes_the_hash_that_its_device_has() -> None:
    digest = privacy.salted(UUID)
    assert isinstance(digest, str)
    assert privacy.scrub(UUID) == f"GPU-<{digest[:16]}>"


def test_the_hash_is_steady_here_and_another_elsewhere(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = privacy.salted("node1")
    privacy._salt.cache_clear()
    assert privacy.salted("node1") == here
    assert privacy.salted("node2") != here
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "elsewhere"))
    privacy._salt.cache_clear()
    assert privacy.salted("node1") != here


def test_the_salt_is_its_owners_alone(state: Path) -> None:
    privacy.salted("node1")
    salt = state / "assay" / "salt"
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600
    assert [path.name for path in salt.parent.iterdir()] == ["salt"]


def test_processes_that_start_together_agree_on_one_salt(tmp_path: Path) -> None:
    code = "from assay.privacy import salted; print(salted('node1'))"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, cwd=ROOT)
        for _ in range(4)
    ]
    answers = {process.communicate()[0] for process in started}
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 64


def test_a_salt_that_another_process_made_meanwhile_is_kept(state: Path) -> None:
    salt = state / "assay" / "salt"
    privacy._make_salt(salt)
    first = salt.read_bytes()
    privacy._make_salt(salt)
    assert salt.read_bytes() == first


def test_no_place_for_a_salt_is_a_reason(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "file"))
    assert privacy.salted("node1") == Unavailable(reason="no place for this machine's salt (Not a directory)")


def test_a_damaged_salt_is_a_reason(state: Path) -> None:
    (state / "assay").mkdir()
    (state / "assay" / "salt").write_bytes(b"short")
    answer = privacy.salted("node1")
    assert isinstance(answer, Unavailable)
    assert "has 5 bytes where 32 were written" in answer.reason

"""The command `cache`: where things are kept, which of them are damaged, and clearing them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.__main__ import main
from assay.artifact import sha256_bytes
from assay.storage import Storage

KEYS = [sha256_bytes(bytes([number])) for number in range(3)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of three entries, which the command finds."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "kept"))
    for key in KEYS:
        Storage(tmp_path / "kept").put(key, {"kernel.cubin": bytes(2**19)})
    (tmp_path / "kept").chmod(0o700)
    return tmp_path / "kept"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], tuple[str, str]]:
    def read() -> tuple[str, str]:
        found = capsys.readouterr()
        return found.out, found.err

    return read


def test_it_says_where_and_how_much(folder: Path, said: Callable[[], tuple[str, str]]) -> None:
    assert main(["cache"]) == 0
    assert said() == (f"{folder}: 3 entries, 2.0 MiB of at most 2048\n", "")


def test_checking_names_each_damaged_entry_and_exits_with_1(folder: Path, said: Callable[[], tuple[str, str]]) -> None:
    assert main(["cache", "--check"]) == 0
    said()
    path = Storage(folder).path(KEYS[1])
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["cache", "--check"]) == 1
    out, err = said()
    assert out.startswith(f"{folder}: 3 entries")
    assert err == f"assay cache: {path}: its digest is not that of its content\n"


def test_clearing_leaves_nothing_and_touches_nothing_else(folder: Path, said: Callable[[], tuple[str, str]]) -> None:
    (folder / "notes.txt").write_text("mine")
    assert main(["cache", "--clear"]) == 0
    assert said() == (f"{folder}: 3 entries removed\n", "")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["notes.txt"]


def test_where_nothing_is_kept_it_says_why(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], tuple[str, str]]
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", "")
    assert main(["cache"]) == 2
    assert said() == (
        "",
        "assay cache: ASSAY_CACHE: expected a folder where compilations are kept, found none: ASSAY_CACHE is empty; "
        "unset it, or name another\n",
    )

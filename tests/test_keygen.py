"""Key pairs: where they may lie, who may read them, and that none is ever overwritten."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from assay.__main__ import main
from assay.keygen import PACKED
from assay.signature import read_public_key
from assay.sources import WORKFLOW


def made(out: Path) -> int:
    return main(["keygen", "--out", str(out)])


def test_a_pair_belongs_together_and_its_id_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "key"
    assert made(out) == 0
    private = load_pem_private_key(out.read_bytes(), None)
    assert isinstance(private, Ed25519PrivateKey)
    public = read_public_key((tmp_path / "key.pub").read_bytes(), "key.pub")
    assert public.keyval == {"public": private.public_key().public_bytes_raw().hex()}
    assert capsys.readouterr().out.splitlines()[0] == f"key id {public.keyid}"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_read_the_private_key(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        assert made(tmp_path / "key") == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_two_pairs_differ(tmp_path: Path) -> None:
    assert made(tmp_path / "one") == made(tmp_path / "two") == 0
    assert (tmp_path / "one").read_bytes() != (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("there", ["key", "key.pub"])
def test_nothing_is_overwritten_and_no_half_pair_is_left(
    tmp_path: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / there).write_bytes(b"precious")
    assert made(tmp_path / "key") == 2
    assert capsys.readouterr().err == (
        f"assay keygen: --out: expected no file of this name, found {tmp_path / there}; choose another: "
        "a key is never overwritten\n"
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {there: b"precious"}


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    assert made(tmp_path / "key") == 2
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert made(tmp_path / "none" / "key") == 2
    assert "none/key.pub cannot be written (No such file or directory)" in capsys.readouterr().err


@pytest.mark.parametrize("folder", PACKED)
def test_no_key_is_made_where_bundles_are_packed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir()
    assert made(Path(folder, "key")) == 2
    assert f"expected a place outside {folder}/, whose files are published" in capsys.readouterr().err
    assert not list((tmp_path / folder).iterdir())


def test_every_folder_of_the_workflow_is_refused() -> None:
    assert {pattern.split("/")[0] for pattern in WORKFLOW if "/" in pattern} <= set(PACKED)

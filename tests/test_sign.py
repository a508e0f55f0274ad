"""Signing: the same bytes each time, nothing else changed, and a signature that OpenSSL verifies."""

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from forge import forge
from packed import write_bundle
from records import MATMUL, Tree

from assay.__main__ import main
from assay.keygen import write_pair
from assay.opening import open_bundle, open_bytes
from assay.signature import check_signatures
from assay.ustar import pack, unpack

OPENSSL = shutil.which("openssl")


@pytest.fixture(scope="module")
def archive() -> tuple[str, bytes]:
    data = forge(None, (MATMUL,)).archive()
    return open_bytes(data, "forged").name, data


@pytest.fixture
def bundle(tmp_path: Path, archive: tuple[str, bytes]) -> Path:
    path = tmp_path / f"{archive[0]}.tar"
    path.write_bytes(archive[1])
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    write_pair(tmp_path / "key")
    return tmp_path / "key"


def public(key: Path) -> bytes:
    return key.with_name(f"{key.name}.pub").read_bytes()


def sign(bundle: Path, key: Path, *more: str) -> int:
    return main(["sign", str(bundle), "--key", str(key), *more])


def test_signing_adds_one_file_and_changes_no_other(bundle: Path, key: Path) -> None:
    before = unpack(bundle.read_bytes())
    assert sign(bundle, key) == 0
    after = unpack(bundle.read_bytes())
    (added,) = set(after) - set(before)
    (keyid,) = check_signatures(open_bundle(bundle).bag, [public(key)]).valid
    assert added == f"{bundle.stem}/signatures/{keyid}.dsse.json"
    assert {name: data for name, data in after.items() if name != added} == before


def test_a_second_signature_by_one_key_is_none_and_is_said(
    bundle: Path, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(bundle, key) == 0
    once, when = bundle.read_bytes(), bundle.stat().st_mtime_ns
    assert "already" not in capsys.readouterr().out
    assert sign(bundle, key) == 0
    assert "already signed, and left as it is, by the key" in capsys.readouterr().out
    assert bundle.stat().st_mtime_ns == when
    assert sign(bundle, key, "--out", str(tmp_path / "copy.tar")) == 0
    assert bundle.read_bytes() == once == (tmp_path / "copy.tar").read_bytes()


def test_signing_needs_no_clock(bundle: Path, key: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for out in outs:
        assert sign(bundle, key, "--out", str(out)) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert check_signatures(open_bundle(bundle).bag, [public(key)]).valid == ()


def test_several_keys_sign_in_any_order(bundle: Path, key: Path, tmp_path: Path) -> None:
    other, again = tmp_path / "other", tmp_path / "again.tar"
    write_pair(other)
    shutil.copy(bundle, again)
    assert [sign(bundle, key), sign(bundle, other), sign(again, other), sign(again, key)] == [0] * 4
    assert bundle.read_bytes() == again.read_bytes()
    assert len(check_signatures(open_bundle(bundle).bag, [public(key), public(other)]).valid) == 2


def test_what_is_signed_is_the_statement_of_the_contract(bundle: Path, key: Path) -> None:
    assert sign(bundle, key) == 0
    opened = open_bundle(bundle)
    (data,) = opened.bag.signatures.values()
    envelope = json.loads(data)
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    listed = hashlib.sha256(opened.bag.tags["tagmanifest-sha256.txt"]).hexdigest()
    status = opened.one("claims").result.status
    assert json.loads(base64.b64decode(envelope["payload"])) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "tagmanifest-sha256.txt", "digest": {"sha256": listed}}],
        "predicateType": "urn:assay:evidence:1",
        "predicate": {"status": status.overall, "sentence": status.sentence, "bundle": bundle.stem},
    }


@pytest.mark.skipif(OPENSSL is None, reason="the program openssl is not installed")
@pytest.mark.parametrize("spoilt", [False, True])
def test_openssl_agrees(bundle: Path, key: Path, tmp_path: Path, spoilt: bool) -> None:
    """DSSE's pre-authentication encoding, written out by hand, is what OpenSSL verifies."""
    assert sign(bundle, key) == 0
    (data,) = open_bundle(bundle).bag.signatures.values()
    envelope = json.loads(data)
    kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"])
    if spoilt:
        payload = payload.replace(b"VERIFIED", b"verified", 1)
    (tmp_path / "pae").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    verify = [str(OPENSSL), "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", f"{key}.pub"]
    files = ["-in", str(tmp_path / "pae"), "-sigfile", str(tmp_path / "sig")]
    done = subprocess.run([*verify, *files], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is not spoilt, done.stdout + done.stderr


def test_a_bundle_that_is_not_intact_is_not_signed(bundle: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bundle.read_bytes()
    bundle.write_bytes(spoilt := data.replace(b'"outcome":"passed"', b'"outcome":"failed"', 1))
    assert spoilt != data
    assert sign(bundle, key) == 1
    assert "expected sha256" in capsys.readouterr().err
    assert bundle.read_bytes() == spoilt


def test_a_bundle_that_claims_more_than_its_records_show_is_not_signed(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tree").mkdir()
    bundle = write_bundle(Tree(tmp_path / "tree", (MATMUL,)).lay_out().folder, tmp_path)
    before = bundle.read_bytes()
    open_bundle(bundle)
    assert sign(bundle, key) == 1
    assert capsys.readouterr().err.startswith(f"assay sign: {bundle}: ")
    assert bundle.read_bytes() == before


def test_what_is_no_bundle_is_unreadable(tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sign(tmp_path / "none.tar", key) == 2
    assert sign(key, key) == 2
    said = capsys.readouterr().err
    assert "none.tar: " in said
    assert "expected a bundle, which is a USTAR archive" in said


def test_a_bundle_of_another_name_is_not_signed(
    tmp_path: Path, bundle: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = unpack(bundle.read_bytes())
    renamed = {name.replace(bundle.stem, "other", 1): data for name, data in members.items()}
    (tmp_path / "other.tar").write_bytes(pack(renamed))
    assert sign(tmp_path / "other.tar", key) == 1
    assert f"expected the folder to be called {bundle.stem}" in capsys.readouterr().err


def encrypted(key: Path) -> bytes:
    private = load_pem_private_key(key.read_bytes(), None)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def elliptic() -> bytes:
    return generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (lambda key: None, "cannot be read (No such file or directory)"),
        (lambda key: b"", "expected a private key in PEM with no password"),
        (public, "expected a private key in PEM with no password"),
        (encrypted, "expected a private key in PEM with no password"),
        (lambda key: elliptic(), "expected an ed25519 key, found one of another kind"),
    ],
    ids=["missing", "empty", "public", "encrypted", "elliptic"],
)
def test_what_is_no_signing_key_is_refused(
    bundle: Path,
    key: Path,
    tmp_path: Path,
    content: Callable[[Path], bytes | None],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, other = bundle.read_bytes(), tmp_path / "other"
    if (data := content(key)) is not None:
        other.write_bytes(data)
    assert sign(bundle, other) == 2
    assert told in capsys.readouterr().err
    assert bundle.read_bytes() == before

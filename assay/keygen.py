"""Command `keygen`: makes an ed25519 key pair to sign bundles with."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from assay.errors import UsageError
from assay.signature import read_public_key

PACKED = ("archive", "assay", "bundles", "envs", "kernels", "reports", "results", "rules", "schemas")
"""Folders of the project whose files are packed into bundles, or published with them."""


def check_place(out: Path) -> None:
    """Refuse a place from which a private key could get into a bundle."""
    for folder in PACKED:
        if out.resolve().is_relative_to(Path(folder).resolve()):
            raise UsageError(
                f"--out: expected a place outside {folder}/, whose files are published, found {out}; choose another"
            )


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet, with this mode from its first byte on; UsageError where that fails."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
    except FileExistsError:
        raise UsageError(
            f"--out: expected no file of this name, found {path}; choose another: a key is never overwritten"
        ) from None
    except OSError as error:
        raise UsageError(f"--out: {path} cannot be written ({error.strerror}); choose another place") from None


def key_pair() -> tuple[bytes, bytes]:
    """Return a new private key (PEM, PKCS #8) and its public key (PEM, SubjectPublicKeyInfo)."""
    private = Ed25519PrivateKey.generate()
    return (
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    )


def write_pair(out: Path) -> str:
    """Write a key pair to `out` and `out`.pub, and return the key's id. Either both files are made or none."""
    private, public = key_pair()
    beside = out.with_name(f"{out.name}.pub")
    write_new(beside, public, 0o644)
    try:
        write_new(out, private, 0o600)
    except UsageError:
        beside.unlink()
        raise
    return read_public_key(public, str(beside)).keyid


def main(argv: Sequence[str]) -> int:
    """Make a key pair and print its id."""
    options = argparse.ArgumentParser(
        prog="python -m assay keygen", description="Make an ed25519 key pair to sign bundles with."
    )
    options.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="KEY",
        help="the private key to write; the public one is KEY.pub",
    )
    out: Path = options.parse_args(argv).out
    check_place(out)
    print(f"key id {write_pair(out)}")
    print(f"{out} is the private key: keep it to yourself")
    print(f"{out}.pub is the public key: give it to whoever verifies (--trust {out.name}.pub)")
    return 0

"""Command `sign`: adds a signature to a bundle. No byte of its payload or of its tag files changes."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]

from assay.artifact import canonical, write_bytes
from assay.bag import PAYLOAD
from assay.errors import UsageError
from assay.opening import Opened, UnsoundError
from assay.signature import PAYLOAD_TYPE, check_signatures, signature_path, statement_of
from assay.soundness import open_sound
from assay.ustar import pack


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read an ed25519 private key in PEM; UsageError where the file is anything else."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise UsageError(
            f"--key: {path} cannot be read ({error.strerror}); name the private key that keygen wrote"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError(f"--key: expected a private key in PEM with no password in {path}; keygen makes one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"--key: expected an ed25519 key, found one of another kind in {path}; keygen makes one")
    return key


def make_signature(opened: Opened, signer: CryptoSigner) -> bytes:
    """Return the envelope around the bundle's statement. The same bundle and key give the same bytes (RFC 8032)."""
    envelope = Envelope(canonical(statement_of(opened.bag, opened.name)), PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return canonical(envelope.to_dict())


def repack(opened: Opened, signatures: dict[str, bytes]) -> bytes:
    """Return the bundle as an archive with these signatures and all else as it is."""
    payload = {f"{PAYLOAD}{name}": data for name, data in opened.payload.items()}
    files = {**payload, **opened.bag.tags, **signatures}
    return pack({f"{opened.name}/{name}": data for name, data in files.items()})


def add_signature(opened: Opened, key: Ed25519PrivateKey, where: str) -> tuple[str, bytes, bool]:
    """Return the key's id, the archive with its signature, and whether that was added now.

    UnsoundError where a signature that the bundle has already, or would have, is not in order.
    """
    signer = CryptoSigner(key)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signatures = {signature_path(signer.public_key.keyid): make_signature(opened, signer), **opened.bag.signatures}
    for fault in check_signatures(replace(opened.bag, signatures=signatures), [public]).faults:
        raise UnsoundError(f"{where}: {fault}")
    return signer.public_key.keyid, repack(opened, signatures), len(signatures) > len(opened.bag.signatures)


def main(argv: Sequence[str]) -> int:
    """Sign a bundle, and say so; a second signature by one key changes nothing."""
    options = argparse.ArgumentParser(prog="python -m assay sign", description="Add a signature to a bundle.")
    options.add_argument("bundle", type=Path, metavar="BUNDLE", help="the archive")
    options.add_argument("--key", type=Path, required=True, help="the private key, as keygen makes it")
    options.add_argument("--out", type=Path, metavar="FILE", help="where to write (default: in the place of BUNDLE)")
    chosen = options.parse_args(argv)
    key = read_private_key(chosen.key)
    keyid, archive, added = add_signature(open_sound(chosen.bundle), key, str(chosen.bundle))
    out: Path = chosen.out or chosen.bundle
    if added or out != chosen.bundle:
        write_bytes(out, archive)
    print(f"{out}: {'signed' if added else 'already signed, and left as it is,'} by the key {keyid}")
    return 0

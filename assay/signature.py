"""Signatures of a bundle: what is signed, and whether a signature over exactly this bundle verifies. Pure.

A signature is a DSSE envelope (github.com/secure-systems-lab/dsse, protocol 1.0) around an in-toto Statement v1
(github.com/in-toto/attestation) whose one subject is the tag manifest, the file that lists all others. Envelope and
statement are read strictly, in canonical form, before the library that verifies them sees them.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from msgspec import field
from securesystemslib import dsse, exceptions
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from assay.artifact import decode, decode_artifact, sha256_bytes
from assay.bag import SIGNATURES, TAG_MANIFEST, Bag
from assay.errors import AssayError, RecordError, UsageError
from assay.privacy import one_line
from assay.record import Claims, Digest, Overall, Record

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:assay:evidence:1"
CLAIMS = "results/claims.json"
SIGNATURE_BYTES = 64
"""Of ed25519 (RFC 8032, section 5.1.6)."""

_FILE = re.compile(rf"{SIGNATURES}([0-9a-f]{{64}})\.dsse\.json")
# The mark with key material behind it: the source of a program that only names the mark is no key.
_KEY = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*(PUBLIC|PRIVATE) KEY-----(?:\s|\\n)*[A-Za-z0-9+/]{16}")


class SignatureError(AssayError):
    """A signature that is not in order."""

    exit_code = 1


class Digests(Record, frozen=True, kw_only=True):
    """The digest of a subject, under the name of its algorithm."""

    sha256: Digest


class Subject(Record, frozen=True, kw_only=True):
    """What a statement is about."""

    name: str
    digest: Digests


class Predicate(Record, frozen=True, kw_only=True):
    """What is stated of the bundle: its status, the sentence that says it, and its name."""

    status: Overall
    sentence: str
    bundle: str


class Statement(Record, frozen=True, kw_only=True):
    """An in-toto statement with our predicate."""

    type: str = field(name="_type")
    subject: list[Subject]
    predicateType: str
    predicate: Predicate


class EnvelopeSignature(Record, frozen=True, kw_only=True):
    """One signature in an envelope. `sig` is base64."""

    keyid: Digest
    sig: str


class Envelope(Record, frozen=True, kw_only=True):
    """A DSSE envelope. `payload` is base64."""

    payload: str
    payloadType: str
    signatures: list[EnvelopeSignature]


@dataclass(frozen=True)
class Signed:
    """What a bundle's signatures are worth.

    `valid`: ids of the given keys that signed exactly this bundle. `unknown`: ids of well-formed signatures by keys
    that were not given. `faults`: one sentence for each thing that is not in order, naming the file.
    """

    valid: tuple[str, ...]
    unknown: tuple[str, ...]
    faults: tuple[str, ...]


def read_public_key(data: bytes, where: str) -> SSlibKey:
    """Return an ed25519 public key from PEM (SubjectPublicKeyInfo); UsageError where it is anything else."""
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        found = "a private key, which only its owner may have" if b"PRIVATE KEY" in data else "something else"
        raise UsageError(
            f"{where}: expected an ed25519 public key in PEM, found {found}; name the file .pub that keygen wrote"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{where}: expected an ed25519 public key, found one of another kind; keygen makes one")
    return SSlibKey.from_crypto(key)


def signature_path(keyid: str) -> str:
    """Return where a bundle keeps the signature of a key."""
    return f"{SIGNATURES}{keyid}.dsse.json"


def statement_of(bag: Bag, name: str) -> Statement:
    """Return what is signed of a bundle called `name`, the same for the same bundle. RecordError without claims."""
    if CLAIMS not in bag.payload:
        raise RecordError(
            f"{CLAIMS}: expected the status that a signature states, found no such file; pack the bundle again"
        )
    claims: Claims = decode_artifact(bag.payload[CLAIMS], "claims", CLAIMS).result
    subject = Subject(name=TAG_MANIFEST, digest=Digests(sha256=sha256_bytes(bag.tags[TAG_MANIFEST])))
    predicate = Predicate(status=claims.status.overall, sentence=claims.status.sentence, bundle=name)
    return Statement(type=STATEMENT_TYPE, subject=[subject], predicateType=PREDICATE_TYPE, predicate=predicate)


def _base64(text: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    # Decoding alone lets pass bits behind the last byte, and padding in excess.
    if not data or base64.b64encode(data) != text.encode():
        raise SignatureError(f"{where}: expected standard base64 (RFC 4648, section 4) with its padding, found another")
    return data


def _envelope(path: str, data: bytes) -> Envelope:
    """Decode an envelope that holds one signature, by the key that its file is named after."""
    named = _FILE.fullmatch(path)
    if named is None:
        raise SignatureError(f"{path}: expected only signatures here, each in a file <key id>.dsse.json")
    envelope = decode(data, Envelope, path)
    if envelope.payloadType != PAYLOAD_TYPE:
        raise SignatureError(f"{path}: expected payloadType {PAYLOAD_TYPE}, found {one_line(envelope.payloadType)}")
    if len(envelope.signatures) != 1:
        raise SignatureError(f"{path}: expected one signature, found {len(envelope.signatures)}")
    keyid = envelope.signatures[0].keyid
    if keyid != named[1]:
        raise SignatureError(f"{path}: expected the signature of the key that the file is named after, found {keyid}'s")
    return envelope


def _check_statement(path: str, payload: bytes, bag: Bag) -> None:
    """Refuse a statement that is not the one that this bundle calls for."""
    found = decode(payload, Statement, f"{path}: payload")
    expected = statement_of(bag, found.predicate.bundle)
    if [subject.name for subject in found.subject] != [TAG_MANIFEST]:
        raise SignatureError(f"{path}: expected a statement about {TAG_MANIFEST} alone, found another subject")
    theirs, ours = found.subject[0].digest.sha256, expected.subject[0].digest.sha256
    if theirs != ours:
        raise SignatureError(
            f"{path}: signs a {TAG_MANIFEST} with sha256 {theirs}, and this bundle's has {ours}; "
            "it belongs to another bundle, or the bundle was changed after it was signed"
        )
    if not found.predicate.bundle.endswith(f"-{bag.manifest_sha256[:12]}"):
        raise SignatureError(
            f"{path}: signs a bundle called {one_line(found.predicate.bundle, 100)}, "
            f"and the name of this one ends with -{bag.manifest_sha256[:12]}"
        )
    if found != expected:
        raise SignatureError(f"{path}: states another type or status than this bundle's {CLAIMS} calls for")


def _verifies(envelope: Envelope, key: SSlibKey) -> bool:
    # Copied, because the library empties what it reads.
    tree = {
        "payload": envelope.payload,
        "payloadType": envelope.payloadType,
        "signatures": [{"keyid": one.keyid, "sig": one.sig} for one in envelope.signatures],
    }
    try:
        dsse.Envelope.from_dict(tree).verify([key], 1)
    except exceptions.VerificationError:
        return False
    return True


def _check_signature(path: str, data: bytes, bag: Bag, key: SSlibKey | None) -> str:
    """Return the signature in base64, if all is well with it and, where its key is given, it verifies."""
    envelope = _envelope(path, data)
    signature = envelope.signatures[0].sig
    length = len(_base64(signature, f"{path}: $.signatures[0].sig"))
    if length != SIGNATURE_BYTES:
        raise SignatureError(f"{path}: expected an ed25519 signature of {SIGNATURE_BYTES} bytes, found {length}")
    _check_statement(path, _base64(envelope.payload, f"{path}: $.payload"), bag)
    if key is not None and not _verifies(envelope, key):
        raise SignatureError(f"{path}: expected a signature by the key {key.keyid}, found one that it does not verify")
    return signature


def _keys_inside(files: Mapping[str, bytes]) -> list[str]:
    found = [(name, _KEY.search(data)) for name, data in sorted(files.items()) if b"-----BEGIN " in data]
    return [
        f"{name}: expected no key inside a bundle, where it proves nothing, found a {match[1].decode().lower()} key"
        for name, match in found
        if match
    ]


def check_signatures(bag: Bag, public_keys: Sequence[bytes]) -> Signed:
    """Judge every signature against public keys (PEM) from outside the bundle; UsageError where one is no key."""
    given = [read_public_key(data, f"public key {number}") for number, data in enumerate(public_keys, 1)]
    keys = {key.keyid: key for key in given}
    faults = _keys_inside({**bag.payload, **bag.tags, **bag.signatures})
    good: dict[str, str] = {}
    for path, data in sorted(bag.signatures.items()):
        keyid = path.removeprefix(SIGNATURES).partition(".")[0]
        try:
            signature = _check_signature(path, data, bag, keys.get(keyid))
        except (RecordError, SignatureError) as error:
            faults.append(str(error))
            continue
        if signature in good:
            faults.append(f"{path}: holds the same signature as {signature_path(good[signature])}")
        good.setdefault(signature, keyid)
    signers = sorted(good.values())
    valid, unknown = [[k for k in signers if (k in keys) == wanted] for wanted in (True, False)]
    return Signed(tuple(valid), tuple(unknown), tuple(faults))

"""Signatures judged: only one over exactly this bundle by a key from outside counts; each refusal has its reason."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from packed import bag_of, name_of, payload_of
from records import MATMUL, Tree, device
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]

from assay.artifact import canonical
from assay.errors import UsageError
from assay.opening import Opened
from assay.sign import make_signature
from assay.signature import Signed, check_signatures, signature_path

OWNER, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (1, 2))


def pem(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def id_of(key: Ed25519PrivateKey) -> str:
    return str(CryptoSigner(key).public_key.keyid)


FILE = signature_path(id_of(OWNER))


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return payload_of(Tree(tmp_path_factory.mktemp("tree"), (MATMUL,)).lay_out().folder)


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return payload_of(Tree(tmp_path_factory.mktemp("tree"), (MATMUL,), device()).lay_out().folder)


def signed_by(payload: dict[str, bytes], *keys: Ed25519PrivateKey) -> dict[str, bytes]:
    """Return the signatures of a bundle by these keys."""
    bag = bag_of(payload)
    return {
        signature_path(id_of(key)): make_signature(Opened(name_of(bag), bag, {}), CryptoSigner(key)) for key in keys
    }


def judge(payload: dict[str, bytes], signatures: dict[str, bytes], *given_keys: Ed25519PrivateKey) -> Signed:
    return check_signatures(bag_of(payload, signatures), [pem(key) for key in given_keys])


def test_a_signature_by_a_given_key_is_valid_and_one_by_another_unknown(payload: dict[str, bytes]) -> None:
    both = signed_by(payload, OWNER, OTHER)
    mine, theirs = id_of(OWNER), id_of(OTHER)
    assert judge(payload, both, OWNER) == Signed((mine,), (theirs,), ())
    assert judge(payload, both) == Signed((), tuple(sorted([mine, theirs])), ())
    assert judge(payload, both, OWNER, OTHER, OWNER) == Signed(tuple(sorted([mine, theirs])), (), ())
    assert judge(payload, {}, OWNER) == Signed((), (), ())


def refused(payload: dict[str, bytes], signatures: dict[str, bytes]) -> str:
    """Return the one fault; nothing else may count, with the owner's key or without."""
    found = judge(payload, signatures, OWNER)
    assert (found.valid, found.unknown) == ((), ())
    (fault,) = found.faults
    return fault


def resigned(payload: bytes, kind: str = "application/vnd.in-toto+json") -> bytes:
    """Sign other words with the true key, so that only what they say can be refused."""
    pae = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    signature = {"keyid": id_of(OWNER), "sig": base64.b64encode(OWNER.sign(pae)).decode()}
    return canonical({"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": [signature]})


def restated(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], bytes]:
    """Return what changes the statement in an envelope and signs it again."""

    def make(envelope: dict[str, Any]) -> bytes:
        statement = json.loads(base64.b64decode(envelope["payload"]))
        change(statement)
        return resigned(canonical(statement))

    return make


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], bytes]:
    """Return what changes the envelope itself."""

    def make(envelope: dict[str, Any]) -> bytes:
        change(envelope)
        return canonical(envelope)

    return make


def url_safe(envelope: dict[str, Any]) -> None:
    # A payload whose base64 is sure to hold both of the letters in which the alphabets differ.
    envelope["payload"] = base64.urlsafe_b64encode(b"\xfb\xff\xfe" * 9).decode()
    assert {"-", "_"} & set(envelope["payload"])


def flip(text: str, at: int) -> str:
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def set_in(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tree: tree.update({key: value})


def of_signature(key: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], bytes]:
    return edited(lambda envelope: envelope["signatures"][0].update({key: value(envelope["signatures"][0].get(key))}))


CASES: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "no JSON": (lambda envelope: b"no JSON", "$: expected JSON in UTF-8, found something else"),
    "empty": (lambda envelope: b"", "$: expected JSON in UTF-8, found something else"),
    "no object": (lambda envelope: b"[]", "Expected `object`, got `array`"),
    "spaces": (lambda envelope: json.dumps(envelope).encode(), "$: expected canonical form"),
    "newline": (lambda envelope: canonical(envelope) + b"\n", "$: expected canonical form"),
    "duplicate key": (
        lambda envelope: canonical(envelope).replace(b"{", b'{"payload":"",', 1),
        "key 'payload' stands twice",
    ),
    "deep": (lambda envelope: b"[" * 100_000, "expected at most 64 levels, found more"),
    "missing field": (edited(lambda envelope: envelope.pop("payload")), "missing required field `payload`"),
    "unknown field": (edited(set_in("cert", "x")), "unknown field `cert`"),
    "unknown field of the signature": (of_signature("cert", lambda _: "x"), "unknown field `cert`"),
    "payload of another type": (edited(set_in("payload", 1)), "$.payload: Expected `str`, got `int`"),
    "payload type": (
        edited(set_in("payloadType", "application/json")),
        "expected payloadType application/vnd.in-toto+json, found application/json",
    ),
    "payload type signed": (
        lambda envelope: resigned(base64.b64decode(envelope["payload"]), "text/plain"),
        "expected payloadType application/vnd.in-toto+json, found text/plain",
    ),
    "no signature": (edited(set_in("signatures", [])), "expected one signature, found 0"),
    "two signatures": (
        edited(lambda envelope: envelope["signatures"].append(envelope["signatures"][0])),
        "expected one signature, found 2",
    ),
    "key id": (
        of_signature("keyid", lambda _: "0" * 64),
        f"expected the signature of the key that the file is named after, found {'0' * 64}'s",
    ),
    "key id that is none": (of_signature("keyid", lambda _: "mine"), "keyid: Expected `str` matching"),
    "url-safe payload": (edited(url_safe), "$.payload: expected standard base64"),
    "url-safe signature": (of_signature("sig", lambda _: "-_" * 43 + "=="), "sig: expected standard base64"),
    "junk": (of_signature("sig", lambda sig: f"{sig[:9]}*{sig[9:]}"), "sig: expected standard base64"),
    "line feed": (of_signature("sig", lambda sig: f"{sig}\n"), "sig: expected standard base64"),
    "beyond ASCII": (of_signature("sig", lambda sig: f"{sig}é"), "sig: expected standard base64"),
    "no padding": (of_signature("sig", lambda sig: sig.rstrip("=")), "sig: expected standard base64"),
    "more padding": (of_signature("sig", lambda sig: f"{sig}=="), "sig: expected standard base64"),
    "bits behind the end": (of_signature("sig", lambda sig: f"{sig[:-3]}/=="), "sig: expected standard base64"),
    "empty signature": (of_signature("sig", lambda sig: ""), "sig: expected standard base64"),
    "short": (of_signature("sig", lambda sig: sig[:84]), "expected an ed25519 signature of 64 bytes, found 63"),
    "flipped": (of_signature("sig", lambda sig: flip(sig, 5)), "found one that it does not verify"),
    "zeros": (of_signature("sig", lambda sig: "A" * 86 + "=="), "found one that it does not verify"),
    "statement that is none": (lambda envelope: resigned(b"{}"), "payload: $: Object missing required field"),
    "statement with spaces": (
        lambda envelope: resigned(json.dumps(json.loads(base64.b64decode(envelope["payload"]))).encode()),
        "payload: $: expected canonical form",
    ),
    "statement with more": (restated(set_in("more", 1)), "payload: $: Object contains unknown field `more`"),
    "another digest": (
        restated(lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)),
        f"signs a tagmanifest-sha256.txt with sha256 {'0' * 64}, and this bundle's has",
    ),
    "another algorithm": (
        restated(lambda s: s["subject"][0].update(digest={"sha512": "0" * 128})),
        ".digest: Object contains unknown field `sha512`",
    ),
    "another file": (
        restated(lambda s: s["subject"][0].update(name="manifest-sha256.txt")),
        "expected a statement about tagmanifest-sha256.txt alone",
    ),
    "two subjects": (
        restated(lambda s: s["subject"].append(s["subject"][0])),
        "expected a statement about tagmanifest-sha256.txt alone",
    ),
    "another status": (restated(lambda s: s["predicate"].update(status="VERIFIED")), "states another type or status"),
    "another sentence": (restated(lambda s: s["predicate"].update(sentence="All.")), "states another type or status"),
    "another predicate": (restated(set_in("predicateType", "urn:other")), "states another type or status"),
    "another statement": (restated(set_in("_type", "https://in-toto.io/Statement/v0.1")), "states another type"),
    "another name": (restated(lambda s: s["predicate"].update(bundle="other")), "signs a bundle called other"),
}


@pytest.mark.parametrize(("spoil", "told"), CASES.values(), ids=CASES)
def test_each_fault_is_told_and_nothing_counts(
    payload: dict[str, bytes], spoil: Callable[[dict[str, Any]], bytes], told: str
) -> None:
    (data,) = signed_by(payload, OWNER).values()
    fault = refused(payload, {FILE: spoil(json.loads(data))})
    assert fault.startswith(f"{FILE}: ")
    assert told in fault
    assert "\n" not in fault


def test_what_resigned_makes_is_in_order(payload: dict[str, bytes]) -> None:
    """Else the cases above would be refused for a reason of the test's own making."""
    (data,) = signed_by(payload, OWNER).values()
    again = resigned(base64.b64decode(json.loads(data)["payload"]))
    assert judge(payload, {FILE: again}, OWNER) == Signed((id_of(OWNER),), (), ())


@pytest.mark.parametrize("given_keys", [(), (OWNER,)])
def test_a_signature_copied_from_another_bundle_counts_for_nothing(
    payload: dict[str, bytes], another: dict[str, bytes], given_keys: tuple[Ed25519PrivateKey, ...]
) -> None:
    found = judge(payload, signed_by(another, OWNER), *given_keys)
    assert (found.valid, found.unknown) == ((), ())
    assert "it belongs to another bundle, or the bundle was changed after it was signed" in found.faults[0]


@pytest.mark.parametrize("name", [f"signatures/{'0' * 64}.dsse.json", "signatures/copy/x.json", f"{FILE}.old"])
def test_a_signature_under_another_name_is_refused(payload: dict[str, bytes], name: str) -> None:
    (data,) = signed_by(payload, OWNER).values()
    assert refused(payload, {name: data}).startswith(f"{name}: expected ")


def test_one_signature_under_two_key_ids_counts_once(payload: dict[str, bytes]) -> None:
    signatures = signed_by(payload, OWNER)
    copy = signature_path("f" * 64)
    signatures[copy] = signatures[FILE].replace(id_of(OWNER).encode(), b"f" * 64)
    found = judge(payload, signatures, OWNER)
    assert (found.valid, found.unknown) == ((id_of(OWNER),), ())
    assert found.faults == (f"{copy}: holds the same signature as {FILE}",)


@pytest.mark.parametrize("encode", [pem, private_pem])
@pytest.mark.parametrize("place", ["signatures/key.pem", "envs/key.txt"])
def test_a_key_inside_is_refused_and_trusted_in_no_case(
    payload: dict[str, bytes], place: str, encode: Callable[[Ed25519PrivateKey], bytes]
) -> None:
    inside = {place: encode(OWNER)} if place.startswith("signatures/") else {}
    more = {} if inside else {place: b"# a key\n" + encode(OWNER)}
    kept = payload | more
    found = judge(kept, signed_by(kept, OWNER) | inside)
    assert found.valid == ()
    kind = "public" if encode is pem else "private"
    assert f"{place}: expected no key inside a bundle, where it proves nothing, found a {kind} key" in found.faults


def test_a_program_that_names_the_mark_of_a_key_is_no_key(payload: dict[str, bytes]) -> None:
    kept = {**payload, "assay/other.py": b'MARK = "-----BEGIN PUBLIC KEY-----"\n'}
    assert judge(kept, signed_by(kept, OWNER), OWNER).faults == ()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "expected an ed25519 public key in PEM, found something else; name the file .pub that keygen wrote"),
        (private_pem(OWNER), "found a private key, which only its owner may have"),
    ],
)
def test_a_key_to_trust_that_is_none_is_refused(payload: dict[str, bytes], data: bytes, told: str) -> None:
    with pytest.raises(UsageError, match=f"^public key 2: .*{told}"):
        check_signatures(bag_of(payload), [pem(OWNER), data])


def test_without_claims_there_is_nothing_to_state(payload: dict[str, bytes]) -> None:
    signatures = signed_by(payload, OWNER)
    bare = {name: data for name, data in payload.items() if name != "results/claims.json"}
    assert "results/claims.json: expected the status that a signature states, found no such file" in refused(
        bare, signatures
    )


@given(data=st.data())
def test_a_signature_holds_for_no_other_byte(payload: dict[str, bytes], data: st.DataObject) -> None:
    """One byte of the envelope changed anyhow: it is refused, or says that another key signed, and is not valid."""
    (good,) = signed_by(payload, OWNER).values()
    at, by = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(1, 255))
    spoilt = good[:at] + bytes([good[at] ^ by]) + good[at + 1 :]
    assert refused(payload, {FILE: spoilt}).startswith(f"{FILE}: ")


def test_the_library_alone_would_pass_what_is_refused_here(payload: dict[str, bytes]) -> None:
    """Why envelopes are read strictly first: securesystemslib decodes the URL-safe alphabet and ignores more fields."""
    (data,) = signed_by(payload, OWNER).values()
    tree = json.loads(data)
    tree["signatures"][0]["sig"] = tree["signatures"][0]["sig"].replace("+", "-").replace("/", "_")
    tree["more"] = 1
    assert Envelope.from_dict(tree).verify([CryptoSigner(OWNER).public_key], 1)

"""Bags: what is bagged comes back, other tools agree, and whatever is not as the manifests say is refused by name."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import bagit
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.artifact import sha256_bytes
from assay.bag import BagError, make_bag, read_bag

PAYLOAD = {"Snakefile": b"rule all: pass\n", "results/gate.json": b"{}", "kernels/empty.py": b""}
INFO = {"Bagging-Date": "2026-11-29", "External-Description": "VERIFIED on 2026-11-29: all of it."}
FILES = make_bag(PAYLOAD, INFO)
SIGNED = {**FILES, "signatures/" + "a" * 64 + ".dsse.json": b"{}"}

Files = dict[str, bytes]
paths = st.from_regex(r"[a-z][a-z0-9]{0,5}(/[a-z][a-z0-9]{0,5}){0,2}", fullmatch=True)
payloads = st.dictionaries(paths, st.binary(max_size=20), max_size=5)
labels = st.from_regex(r"X-[A-Za-z]{1,6}", fullmatch=True)
values = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10)


@given(payloads, st.dictionaries(labels, values, max_size=3))
def test_what_is_bagged_comes_back(payload: Files, info: dict[str, str]) -> None:
    bag = read_bag(make_bag(payload, info))
    assert bag.payload == payload
    assert bag.digests == {name: sha256_bytes(data) for name, data in payload.items()}
    assert {label: value for label, value in bag.info.items() if label != "Payload-Oxum"} == info


@given(payloads, payloads)
def test_the_digest_of_the_payload_is_the_payloads_alone(one: Files, other: Files) -> None:
    digests = [read_bag(make_bag(payload, INFO)).manifest_sha256 for payload in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)
    assert digests[0] == read_bag(make_bag(one, {})).manifest_sha256


def test_signatures_change_nothing_that_is_listed() -> None:
    signed, bare = read_bag(SIGNED), read_bag(FILES)
    assert (signed.payload, signed.tags) == (bare.payload, bare.tags)
    assert len(signed.signatures) == 1


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_changed_byte_of_any_file_is_refused(name: str, data: st.DataObject) -> None:
    content = FILES[name]
    if not content:
        changed = b"x"
    else:
        at = data.draw(st.integers(0, len(content) - 1))
        changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    with pytest.raises(BagError):
        read_bag({**FILES, name: changed})


@given(st.sampled_from(sorted(FILES)), st.integers(0, 3), st.binary(min_size=1, max_size=3))
def test_a_file_that_is_cut_or_longer_is_refused(name: str, cut: int, more: bytes) -> None:
    for changed in (FILES[name][:-cut] if cut else FILES[name] + b"\n", FILES[name] + more):
        if changed != FILES[name]:
            with pytest.raises(BagError):
                read_bag({**FILES, name: changed})


# Other tools


@pytest.fixture
def written(tmp_path: Path) -> Path:
    for name, data in SIGNED.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def test_the_bagit_library_validates_it(written: Path) -> None:
    bag = bagit.Bag(str(written))
    bag.validate()
    assert bag.version_info == (1, 0)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
@pytest.mark.parametrize("manifest", ["manifest-sha256.txt", "tagmanifest-sha256.txt"])
def test_sha256sum_checks_it(written: Path, manifest: str) -> None:
    command = ["sha256sum", "--check", "--strict", "--quiet", manifest]
    done = subprocess.run(command, cwd=written, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Refusals: what a forger leaves, having put right only the digests that he thought of


def tagged(files: Files) -> Files:
    """Put the tag manifest right."""
    tags = {n: d for n, d in files.items() if "/" not in n and n != "tagmanifest-sha256.txt"}
    lines = "".join(f"{sha256_bytes(data)}  {name}\n" for name, data in sorted(tags.items()))
    return {**files, "tagmanifest-sha256.txt": lines.encode()}


def edited(name: str, change: Callable[[bytes], bytes]) -> Callable[[Files], Files]:
    return lambda files: tagged({**files, name: change(files[name])})


def without(name: str) -> Callable[[Files], Files]:
    return lambda files: {other: data for other, data in files.items() if other != name}


def renamed(files: Files) -> Files:
    return {("data/results/gat3.json" if name == "data/results/gate.json" else name): d for name, d in files.items()}


def relisted(line: str) -> Callable[[bytes], bytes]:
    return lambda text: (text.decode() + line).encode()


MANIFEST = "manifest-sha256.txt"
REFUSALS: dict[str, tuple[Callable[[Files], Files], str]] = {
    "changed": (
        lambda files: {**files, "data/results/gate.json": b"[]"},
        r"data/results/gate\.json: expected sha256 [0-9a-f]{64}, as manifest-sha256\.txt says, found [0-9a-f]{64}",
    ),
    "undeclared": (
        lambda files: {**files, "data/extra": b""},
        r"data/extra: manifest-sha256\.txt does not list it",
    ),
    "missing": (
        without("data/results/gate.json"),
        r"data/results/gate\.json: manifest-sha256\.txt lists it, .*missing",
    ),
    "renamed": (renamed, r"data/results/gate\.json: manifest-sha256\.txt lists it, and it is missing"),
    "no payload manifest": (without(MANIFEST), r"manifest-sha256\.txt: missing; it is part of every bag"),
    "no tag manifest": (without("tagmanifest-sha256.txt"), r"tagmanifest-sha256\.txt: missing"),
    "no declaration": (without("bagit.txt"), r"bagit\.txt: missing"),
    "no info": (without("bag-info.txt"), r"bag-info\.txt: missing"),
    "tag changed": (
        lambda files: {**files, "bag-info.txt": files["bag-info.txt"] + b"X: y\n"},
        r"bag-info\.txt: expected sha256 .*, as tagmanifest-sha256\.txt says",
    ),
    "tag added": (
        lambda files: tagged({**files, "notes.txt": b"listed"}),
        r"notes\.txt: expected only bagit\.txt, .* here, found another file",
    ),
    "fetch": (lambda files: tagged({**files, "fetch.txt": b"http://x - data/x\n"}), r"fetch\.txt: expected only bagit"),
    "other manifest": (
        lambda files: tagged({**files, "manifest-md5.txt": b""}),
        r"manifest-md5\.txt: expected only bagit",
    ),
    "beside data": (lambda files: {**files, "metadata/x": b""}, r"metadata/x: expected only bagit\.txt, .* found"),
    "version": (
        edited("bagit.txt", lambda text: text.replace(b"1.0", b"0.97")),
        r"bagit\.txt: expected 'BagIt-Version",
    ),
    "encoding": (edited("bagit.txt", lambda text: text.replace(b"UTF-8", b"UTF-7")), r"bagit\.txt: expected 'BagIt-"),
    "upper case": (edited(MANIFEST, bytes.upper), r"manifest-sha256\.txt: line 1: expected '<sha256>  <path>'"),
    "one space": (edited(MANIFEST, lambda text: text.replace(b"  ", b" ")), r"manifest-sha256\.txt: line 1: expected"),
    "carriage return": (
        edited(MANIFEST, lambda text: text.replace(b"\n", b"\r\n")),
        r"manifest-sha256\.txt: line 1: expected '<sha256>  <path>', found",
    ),
    "binary mark": (edited(MANIFEST, lambda text: text.replace(b"  ", b" *")), r"manifest-sha256\.txt: line 1"),
    "twice": (
        edited(MANIFEST, lambda text: text + text),
        r"manifest-sha256\.txt: line 4: 'data/Snakefile' is listed twice",
    ),
    "unsorted": (
        edited(MANIFEST, lambda text: b"\n".join([*reversed(text.split(b"\n")[:-1]), b""])),
        r"manifest-sha256\.txt: expected its lines in sorted order",
    ),
    "no last newline": (
        edited(MANIFEST, lambda text: text[:-1]),
        r"manifest-sha256\.txt: expected its lines in sorted",
    ),
    "not UTF-8": (edited(MANIFEST, lambda text: text[:-1] + b"\xff\n"), r"manifest-sha256\.txt: expected its lines in"),
    "listed, not there": (
        edited(MANIFEST, relisted(f"{'0' * 64}  data/zzz\n")),
        r"data/zzz: manifest-sha256\.txt lists it, and it is missing",
    ),
    "oxum": (
        edited("bag-info.txt", lambda text: text.replace(b"17.3", b"17.4")),
        r"bag-info\.txt: expected Payload-Oxum 17\.3, found 17\.4",
    ),
    "no oxum": (
        edited("bag-info.txt", lambda text: text.replace(b"Payload-Oxum", b"Payload-None")),
        r"bag-info\.txt: expected Payload-Oxum 17\.3, found None",
    ),
    "label twice": (
        edited("bag-info.txt", lambda text: text + b"Payload-Oxum: 17.3\n"),
        r"bag-info\.txt: expected 'Label: value' once for each label",
    ),
    "folded line": (
        edited("bag-info.txt", lambda text: text + b"  more\n"),
        r"bag-info\.txt: expected 'Label: value' once for each label, found '  more'",
    ),
    "escape": (
        edited("bag-info.txt", lambda text: text + b"X: \x1b[31m\n"),
        r"bag-info\.txt: expected 'Label: value' once for each label, found 'X: \\x1b\[31m'",
    ),
    "labels unsorted": (
        edited("bag-info.txt", lambda text: text + b"Alpha: 1\n"),
        r"bag-info\.txt: expected its labels in sorted order",
    ),
    "info without newline": (
        edited("bag-info.txt", lambda text: text + b"Zeta: 1"),
        r"bag-info\.txt: expected its labels in sorted order, each line ended by a newline",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_file_and_its_own_reason(case: str) -> None:
    spoil, told = REFUSALS[case]
    with pytest.raises(BagError, match=rf"\A{told}") as refusal:
        read_bag(spoil(FILES))
    assert len(str(refusal.value).splitlines()) == 1
    assert str(refusal.value).isprintable()
    assert refusal.value.exit_code == 1

"""The command `verify`: each exit code for its own reason, in its order, and nothing of a bundle is believed or run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from forge import H200, Forge, forge
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from project import PYTHON_PATH, Project
from records import MATMUL

from assay.__main__ import main
from assay.artifact import canonical, decode, sha256_bytes
from assay.bag import make_bag
from assay.errors import AssayError
from assay.opening import UnsoundError, open_bytes
from assay.sign import add_signature, repack
from assay.signature import check_signatures
from assay.soundness import faults
from assay.ustar import pack
from assay.verify import Verification, staleness

CLAIMS, GATE = "results/claims.json", "results/gate.json"
OWNER, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (1, 2))
BARE: bytes = forge(H200, [MATMUL], rendered=True).archive()


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed(archive: bytes, *keys: Ed25519PrivateKey) -> bytes:
    for key in keys:
        archive = add_signature(open_bytes(archive, "x"), key, "x")[1]
    return archive


SIGNED = signed(BARE, OWNER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bundle.tar").write_bytes(BARE)
    for name, key in (("owner", OWNER), ("other", OTHER)):
        (tmp_path / f"{name}.pub").write_bytes(public(key))
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Verify an archive with some options; the answer is exit code, standard output and standard error."""

    def verified(archive: bytes, *options: str) -> tuple[int, str, str]:
        (folder / "bundle.tar").write_bytes(archive)
        words = [word.replace("KEYS", str(folder)) for word in options]
        code = main(["verify", str(folder / "bundle.tar"), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return verified


Run = Callable[..., tuple[int, str, str]]


# 0


def test_a_sound_bundle_is_said_to_be_and_what_was_looked_at(run: Run) -> None:
    code, out, err = run(BARE)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(r"assay-partially-verified-nvidia-h200-2026-11-29-[0-9a-f]{12}: sound", lines[0])
    assert lines[1].startswith("PARTIALLY VERIFIED on 2026-11-29: ")
    assert re.fullmatch(r"claims: .*\d+ passed.*", lines[2])
    assert re.fullmatch(r"checked: \d+ files, 8 records; form, digests, chain of materials, .*", lines[3])
    assert lines[4:] == ["report: the page its records render to", "signatures: not signed"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "which was not given with --trust"),
        (["--trust", "KEYS/owner.pub"], "signed by the trusted key"),
        (["--trust", "KEYS/other.pub", "--trust", "KEYS/owner.pub"], "signed by the trusted key"),
        (["--require", "matmul/tf32 accurate sm_90", "--require", 'status VERIFIED|"PARTIALLY VERIFIED"'], ": met"),
    ],
)
def test_what_is_asked_for_is_said_to_be_there(run: Run, options: list[str], told: str) -> None:
    code, out, _ = run(SIGNED, *options)
    assert code == 0
    assert told in out


# 1


def edited_report() -> Forge:
    """Edit a page, its digest in the report's record put right."""
    page, forged = "results/report.md", forge(H200, [MATMUL], rendered=True)
    data = forged.payload()[page].replace(b"blocked,", b"passed, ", 1)
    forged.put("results/report.json/result/outputs", lambda found: {**found, page: sha256_bytes(data)})
    return forged.at_last(lambda files: files.update({page: data}))


def resigned(change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> bytes:
    """Change the signatures of the signed bundle."""
    opened = open_bytes(SIGNED, "x")
    return repack(opened, change(dict(opened.bag.signatures)))


def of_another(_: dict[str, bytes]) -> dict[str, bytes]:
    return dict(open_bytes(signed(forge(None, [MATMUL]).archive(), OWNER), "x").bag.signatures)


def put_right() -> bytes:
    """Edit the payload, put every digest and the name right, and keep the old signature."""
    other = forge(H200, [MATMUL]).at_last(lambda files: files.update({"LICENSE": b"MIT"})).opened()
    return repack(other, dict(open_bytes(SIGNED, "x").bag.signatures))


NOT_INTACT: dict[str, tuple[Callable[[], bytes], str]] = {
    "payload byte flipped": (
        lambda: BARE.replace(b'"exit_code":0', b'"exit_code":1', 1),
        r"bundle\.tar: data/results/\S+: expected sha256 \S+, as manifest-sha256\.txt says, found",
    ),
    "cut": (lambda: BARE[: len(BARE) // 2], r"bundle\.tar: .*; the archive is cut off"),
    "claims edited": (
        lambda: forge(H200, [MATMUL]).put(f"{CLAIMS}/result/status/overall", "VERIFIED").archive(),
        r'results/claims\.json: /result/status/overall: expected "PARTIALLY VERIFIED", found "VERIFIED"',
    ),
    "passed for no reason": (
        lambda: forge(H200, [MATMUL]).put("results/matmul/gpu.json/result/checks/0/verdict/reason", "fine").archive(),
        r'results/matmul/gpu\.json: /result/checks/0/verdict/reason: expected ".*", found "fine"',
    ),
    "edited report": (
        lambda: edited_report().archive(),
        r"results/report\.md: expected the page that the records render",
    ),
    "manifest put right, old signature": (
        put_right,
        r"signatures/\S+: signs a tagmanifest-sha256\.txt with sha256 \S+, and",
    ),
    "signature of another bundle": (
        lambda: resigned(of_another),
        r"signatures/\S+: signs a tagmanifest-sha256\.txt with",
    ),
    "signature under another name": (
        lambda: resigned(lambda found: {f"signatures/{'0' * 64}.dsse.json": data for data in found.values()}),
        r"signatures/0{64}\.dsse\.json: expected the signature of the key that the file is named after",
    ),
    "no signature": (
        lambda: resigned(lambda found: {**found, "signatures/notes.txt": b"trust me"}),
        r"signatures/notes\.txt: expected only signatures here",
    ),
    "empty bag": (
        lambda: pack({f"empty/{name}": data for name, data in make_bag({}, {}).items()}),
        r"results/: expected the records of at least one kernel, found none",
    ),
    "key inside": (
        lambda: forge(H200, [MATMUL]).at_last(lambda files: files.update({"kernels/key.pub": public(OWNER)})).archive(),
        r"kernels/key\.pub: expected no key inside a bundle, where it proves nothing",
    ),
}


@pytest.mark.parametrize("case", NOT_INTACT)
def test_what_is_not_intact_is_refused_with_its_fault(run: Run, case: str) -> None:
    make, told = NOT_INTACT[case]
    code, out, err = run(make())
    assert (code, out) == (1, "")
    assert re.search(told, err), err


def test_of_many_faults_the_first_are_printed_and_json_has_all(run: Run) -> None:
    archive = (
        forge(H200, [MATMUL]).at_last(lambda files: files.update({f"results/{n}.x": b"" for n in range(30)})).archive()
    )
    code, _, err = run(archive)
    assert code == 1
    assert len(err.splitlines()) == 22
    assert err.splitlines()[-2:] == ["and 10 more faults; --json has them all", UnsoundError.remedy]
    assert len(json.loads(run(archive, "--json")[1])["faults"]) == 30


# 2


@pytest.mark.parametrize(
    ("archive", "options", "told"),
    [
        (b"not a bundle", [], "expected a bundle, which is a USTAR archive"),
        (BARE, ["--require", "matmul"], "--require: expected <kernel>"),
        (BARE, ["--trust", "KEYS/none.pub"], "none.pub: cannot be read (No such file or directory)"),
        (BARE, ["--trust", "KEYS/bundle.tar"], "expected an ed25519 public key in PEM"),
    ],
)
def test_what_cannot_be_read_or_makes_no_sense_is_said(run: Run, archive: bytes, options: list[str], told: str) -> None:
    code, out, err = run(archive, *options)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


def test_fresh_needs_a_checkout(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    code, _, err = run(BARE, "--fresh")
    assert code == 2
    assert "run in the folder of the Snakefile" in err
    assert run(BARE)[0] == 0


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--trust"], ["x", "--wrong"]])
def test_wrong_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify", *words])
    assert ended.value.code == 2
    assert "usage: python -m assay verify" in capsys.readouterr().err


# 3


@pytest.mark.parametrize(
    ("archive", "told"),
    [
        (BARE, "signatures: not signed; expected a signature by a trusted key"),
        (signed(BARE, OTHER), "which was not given with --trust; expected a signature by a trusted key"),
        (resigned(lambda found: {}), "signatures: not signed; expected a signature by a trusted key"),
    ],
    ids=["unsigned", "by another", "stripped"],
)
def test_a_bundle_without_a_trusted_signature_is_not_trusted(run: Run, archive: bytes, told: str) -> None:
    code, _, err = run(archive, "--trust", "KEYS/owner.pub")
    assert code == 3
    assert told in err
    assert run(archive)[0] == 0


# 4


def test_an_unmet_requirement_is_named(run: Run) -> None:
    code, _, err = run(BARE, "--require", "matmul accurate sm_80", "--require", "matmul timed sm_90")
    assert code == 4
    assert (
        "required: matmul accurate sm_80: not met: matmul/ieee/64x64x32 accurate sm_80 is untested (no-device)" in err
    )
    assert "required: matmul timed sm_90: met" in err


def test_what_changed_since_is_named(run: Run) -> None:
    """The checkout at hand has other kernels than the forged bundle."""
    code, _, err = run(BARE, "--fresh")
    assert code == 4
    assert "kernels/matmul.py is another" in err
    assert "kernels/softmax.py is new" in err


def test_staleness_is_by_file() -> None:
    opened = open_bytes(BARE, "x")
    there = dict(opened.bag.digests)
    assert staleness(opened, there) is None
    here = {name: digest for name, digest in there.items() if name != "Snakefile"}
    here |= {"kernels/matmul.py": "0" * 64, "assay/unknown.py": "1" * 64, "docs/notes.md": "2" * 64}
    assert staleness(opened, here) == "kernels/matmul.py is another; Snakefile is gone; assay/unknown.py is new"


# Of several, the worst


@pytest.mark.parametrize(
    ("archive", "options", "code"),
    [
        (b"x", ["--trust", "KEYS/owner.pub", "--require", "matmul accurate"], 2),
        (BARE[:-512], ["--require", "no such thing here at all"], 2),
        (BARE[:-512], ["--trust", "KEYS/owner.pub", "--require", "matmul accurate sm_80"], 1),
        (SIGNED.replace(b'"exit_code":0', b'"exit_code":1', 1), ["--trust", "KEYS/owner.pub"], 1),
        (BARE, ["--trust", "KEYS/owner.pub", "--require", "matmul accurate sm_80", "--fresh"], 3),
        (SIGNED, ["--trust", "KEYS/owner.pub", "--require", "matmul accurate sm_80"], 4),
        (SIGNED, ["--trust", "KEYS/owner.pub", "--require", "matmul accurate sm_90"], 0),
    ],
)
def test_the_worst_decides(run: Run, archive: bytes, options: list[str], code: int) -> None:
    assert run(archive, *options)[0] == code


# For machines


@pytest.mark.parametrize(
    ("archive", "options", "code"),
    [
        (SIGNED, ["--trust", "KEYS/owner.pub", "--require", "* gated"], 0),
        (BARE[:-512], [], 1),
        (b"x", [], 2),
        (BARE, ["--trust", "KEYS/owner.pub"], 3),
        (BARE, ["--require", "status FAILED"], 4),
    ],
)
def test_json_is_one_canonical_record(run: Run, archive: bytes, options: list[str], code: int) -> None:
    ended, out, err = run(archive, *options, "--json")
    assert (ended, err) == (code, "")
    assert out.count("\n") == 1
    found = decode(out.strip().encode(), Verification, "output")
    assert found.exit_code == code
    assert bool(found.faults) == (found.status is None) == (code in (1, 2))


def test_json_says_all_that_was_found(run: Run) -> None:
    found = json.loads(run(SIGNED, "--trust", "KEYS/owner.pub", "--require", "matmul timed sm_80", "--json")[1])
    opened = open_bytes(SIGNED, "x")
    assert found["bundle"] == opened.name
    assert found["content_sha256"] == opened.bag.manifest_sha256
    assert (found["files"], found["records"], found["report"]) == (len(opened.payload), 8, "identical")
    assert (len(found["trusted"]), found["others"]) == (1, [])
    assert found["status"] == json.loads(canonical(opened.one("claims").result.status))
    (required,) = found["required"]
    assert required["requirement"] == "matmul timed sm_80"
    assert "untested" in required["unmet"]


# What is hostile


HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eevil {{ 7*7 }} <b>"


@pytest.mark.parametrize("options", [[], ["--json"], ["--require", "* timed sm_80"]])
def test_no_escape_of_a_bundle_reaches_the_terminal(run: Run, options: list[str]) -> None:
    device = replace(H200, name=HOSTILE)
    forged = forge(device, [MATMUL], rendered=True)
    for archive in (forged.archive(), forged.put(f"{GATE}/result/expectation", HOSTILE).archive()):
        code, out, err = run(archive, *options)
        assert code in (0, 1, 4)
        assert "evil" in out + err
        assert all(line.isprintable() for line in (out + err).splitlines())


def test_nothing_is_extracted_and_torch_is_not_loaded(folder: Path) -> None:
    empty = folder / "empty"
    empty.mkdir()
    program = (
        "import sys; from assay.__main__ import main; code = main(['verify', '../bundle.tar']); "
        "sys.exit(code or 10 * ('torch' in sys.modules) or 20 * ('triton' in sys.modules))"
    )
    variables = {**os.environ, "PYTHONPATH": PYTHON_PATH, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", program], cwd=empty, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(empty.iterdir()) == []


# Any change at all


def refused(archive: bytes) -> bool:
    try:
        opened = open_bytes(archive, "x")
    except AssayError:
        return True
    found = check_signatures(opened.bag, [public(OWNER)])
    return bool(faults(opened) or found.faults) or len(found.valid) != 1


def test_the_signed_bundle_itself_is_not_refused() -> None:
    assert not refused(SIGNED)


HEADERS = [at for at in range(0, len(SIGNED), 512) if SIGNED[at + 257 : at + 262] == b"ustar"]
ENDS = range(len(SIGNED) - 10240, len(SIGNED))
SIGNATURE = SIGNED.index(b'{"payload"')
positions = st.one_of(
    st.integers(0, len(SIGNED) - 1),
    st.builds(int.__add__, st.sampled_from(HEADERS), st.integers(0, 511)),
    st.builds(lambda header, back: max(0, header - back), st.sampled_from(HEADERS), st.integers(1, 512)),
    st.sampled_from(ENDS),
    st.integers(SIGNATURE, SIGNATURE + 1000),
)


@given(positions, st.integers(1, 255))
def test_any_changed_byte_is_refused(at: int, by: int) -> None:
    changed = bytearray(SIGNED)
    changed[at] ^= by
    assert refused(bytes(changed))


@given(positions)
def test_a_cut_or_lengthened_bundle_is_refused(at: int) -> None:
    assert refused(SIGNED[:at])
    assert refused(SIGNED[:at] + b"\0" + SIGNED[at:])
    assert refused(SIGNED[:at] + SIGNED[at + 1 :])
    assert refused(SIGNED + SIGNED[:at] + b"\0")


# A bundle that the pipeline made


def test_a_bundle_of_a_real_run_is_sound_and_fresh_until_a_kernel_changes(project: Project) -> None:
    done = project.snakemake("bundle")
    assert done.returncode == 0, done.stdout
    (bundle,) = (project.root / "bundles").iterdir()
    words = ["verify", str(bundle), "--fresh", "--require", "one interpreted", "--require", "* compiled sm_80"]
    done = project.assay(*words)
    assert done.returncode == 0, done.stdout
    assert "report: the page its records render to" in done.stdout
    project.edit("kernels/one.py", "64", "32")
    done = project.assay(*words)
    assert done.returncode == 4, done.stdout
    assert "--fresh: not met: kernels/one.py is another" in done.stdout

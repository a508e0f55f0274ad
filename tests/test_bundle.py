"""Bundles: all evidence goes in, checked again first; the same results give the same bytes; nothing private goes in."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import bagit
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from project import ROOT, Project
from records import (
    MATMUL,
    NO_DRIVER,
    SOFTMAX,
    Tree,
    device,
    environment,
    evidence,
    evidence_of,
    replaced,
    teeth,
)

from assay import bundle, report
from assay.artifact import read, sha256_bytes, sha256_file
from assay.bag import SIGNATURES
from assay.errors import AssayError, RecordError, UsageError
from assay.naming import bundle_name, device_of
from assay.opening import open_bundle
from assay.privacy import scrub
from assay.record import Bundle, Overall, StageName, Unavailable, Verdict
from assay.schemas import schema_files
from assay.ustar import check_name, pack, unpack

RECORD = Path("results/bundle.json")
FAILED = Verdict(outcome="failed", cause="wrong-value", reason="element (3, 5) is wrong")
KEY = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Records of a machine with an H200, with their report, in a folder like the project's."""
    return laid_out(tmp_path, monkeypatch)


def laid_out(folder: Path, patch: pytest.MonkeyPatch) -> Tree:
    patch.chdir(folder)
    tree = Tree(folder, (MATMUL, SOFTMAX), device()).lay_out()
    for name in ("Snakefile", "config.yaml", "LICENSE"):
        shutil.copy2(ROOT / name, folder)
    report.main(tree.options())
    return tree


def packed(tree: Tree) -> Path:
    """Pack the evidence and return the archive's path."""
    assert bundle.main(tree.options()) == 0
    made: Bundle = read(RECORD, "bundle").result
    return Path(made.path)


def edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text("utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), "utf-8")


# What goes in


def test_every_record_goes_in_with_the_sources_that_it_names(tree: Tree) -> None:
    opened = open_bundle(packed(tree))
    assert set(opened.records) == {*tree.paths, "results/claims.json", "results/report.json"}
    for record in opened.records.values():
        for name, digest in record.materials.items():
            assert sha256_bytes(opened.payload[name]) == digest


def test_files_go_in_as_they_are_with_the_pages_and_the_workflow(tree: Tree) -> None:
    payload = open_bundle(packed(tree)).payload
    made_here = {name for name in payload if name.startswith("schemas/")} | {"ro-crate-metadata.json"}
    assert {"results/report.html", "results/report.md", "Snakefile", "config.yaml", "LICENSE"} <= set(payload)
    assert {f"assay/{path.name}" for path in (ROOT / "assay").glob("*.py")} <= set(payload)
    for name in set(payload) - made_here:
        assert payload[name] == Path(name).read_bytes(), name


def test_schemas_are_those_of_the_code_and_not_of_a_folder(tree: Tree) -> None:
    Path("schemas").mkdir()
    Path("schemas/gate.schema.json").write_text("{}")
    payload = open_bundle(packed(tree)).payload
    found = {name.removeprefix("schemas/"): data for name, data in payload.items() if name.startswith("schemas/")}
    assert found == schema_files()


def test_its_record_says_what_was_packed(tree: Tree) -> None:
    path = packed(tree)
    made: Bundle = read(RECORD, "bundle").result
    assert made.path == path.as_posix()
    assert (made.sha256, made.size_bytes) == (sha256_file(path), path.stat().st_size)
    assert made.members == len(unpack(path.read_bytes()))


def test_the_folder_can_be_chosen(tree: Tree) -> None:
    assert bundle.main([*tree.options(), "--folder", "elsewhere"]) == 0
    assert [path.suffix for path in Path("elsewhere").iterdir()] == [".tar"]
    assert not Path("bundles").exists()


# The same bytes


def test_two_bundles_of_the_same_results_have_the_same_bytes(tree: Tree) -> None:
    first = packed(tree)
    archive = first.read_bytes()
    first.unlink()
    command = [sys.executable, "-m", "assay", "bundle", *tree.options()]
    # Another process, with another order of its sets, in another time zone.
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    )
    assert [path.read_bytes() for path in Path("bundles").iterdir()] == [archive]


def test_other_results_have_another_name(tree: Tree) -> None:
    first = packed(tree)
    tree.claim([], sentence="Nothing is verified.")
    report.main(tree.options())
    assert packed(tree) != first
    assert first.exists()


# Its name

statuses = st.sampled_from(["VERIFIED", "PARTIALLY VERIFIED", "FAILED", "NOT VERIFIED"])


@given(statuses, st.text(max_size=120), st.dates(), st.binary())
@example("VERIFIED", "no-gpu", date(2026, 11, 29), b"")
@example("FAILED", "a GPU", date(2026, 11, 29), b"")
@example("FAILED", "\u6f22", date(2026, 11, 29), b"")
def test_a_name_is_plain_everywhere_and_says_status_date_and_digest(
    status: Overall, name: str, day: date, content: bytes
) -> None:
    found = bundle_name(status, name, day.isoformat(), sha256_bytes(content))
    assert re.fullmatch(r"assay-[a-z0-9-]+", found)
    assert found.startswith(f"assay-{status.lower().replace(' ', '-')}-")
    assert found.endswith(f"-{day.isoformat()}-{sha256_bytes(content)[:12]}")
    assert len(found) <= 100
    check_name(f"{found}.tar")
    assert scrub(found) == found


def test_a_name_says_status_device_date_and_the_digest_of_the_manifest(tree: Tree) -> None:
    path = packed(tree)
    digest = open_bundle(path).bag.manifest_sha256
    assert path == Path(f"bundles/assay-partially-verified-nvidia-h200-2026-11-29-{digest[:12]}.tar")
    assert open_bundle(path).name == path.stem


@pytest.mark.parametrize(
    ("devices", "name"),
    [
        (Unavailable(reason="no driver"), "no-gpu"),
        ([], "no-gpu"),
        ([replaced(device("Tesla T4"), visible=False)], "no-gpu"),
        ([replaced(device("Tesla T4"), visible=False), device()], "NVIDIA H200"),
        ([device(), device("Tesla T4")], "NVIDIA H200"),
    ],
    ids=["no driver", "none", "hidden", "first hidden", "two"],
)
def test_the_device_is_the_first_that_kernels_can_run_on(devices: Any, name: str) -> None:
    assert device_of(replaced(environment(device()), devices=devices)) == name


# Other programs


@pytest.fixture
def extracted(tree: Tree) -> Path:
    """The folder that `tar` makes of a bundle."""
    path = packed(tree).resolve()
    subprocess.run(["tar", "-xf", path], check=True)
    return Path(path.stem).resolve()


@pytest.mark.parametrize("manifest", ["manifest-sha256.txt", "tagmanifest-sha256.txt"])
def test_sha256sum_finds_every_file_as_listed(extracted: Path, manifest: str) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed")
    command = ["sha256sum", "--check", "--strict", manifest]
    done = subprocess.run(command, cwd=extracted, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (extracted / "data/results/gate.json").write_bytes(b"{}")
    (extracted / "bag-info.txt").write_bytes(b"")
    assert subprocess.run(command, cwd=extracted, capture_output=True, check=False).returncode == 1


def test_the_bagit_program_finds_it_valid(extracted: Path) -> None:
    command = [sys.executable, "-m", "bagit", "--validate", str(extracted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (extracted / "data/results/gate.json").write_bytes(b"{}")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_members_are_plain_files_of_nobody_in_one_folder(tree: Tree) -> None:
    path = packed(tree)
    with tarfile.open(path, format=tarfile.USTAR_FORMAT) as archive:
        members = archive.getmembers()
    assert {member.name.split("/")[0] for member in members} == {path.stem}
    for member in members:
        assert member.isreg()
        assert (member.mode, member.mtime, member.uid, member.gid, member.uname, member.gname) == (
            0o644,
            0,
            0,
            0,
            "",
            "",
        )


# Refusals


def remade_claims(tree: Tree) -> None:
    tree.claim([], sentence="Nothing is verified.")


def report_without(tree: Tree, left_out: str) -> None:
    """Make the report's record say that it was made without one of the others."""
    made = read(Path("results/report.json"), "report")
    materials = [name for name in made.materials if name != left_out]
    tree.put("results/report.json", "report", None, made.result, materials)


REFUSALS: dict[str, tuple[Callable[[Tree], Any], str]] = {
    "edited": (
        lambda tree: edit("results/matmul/gpu.json", "H200", "H100"),
        r"results/matmul/gpu\.json: \$\.content_sha256: .*edited after it was written; run stage 'gpu' again",
    ),
    "record missing": (
        lambda tree: Path("results/matmul/gpu.json").unlink(),
        r"results/matmul/gpu\.json: cannot be read \(No such file",
    ),
    "record left out": (
        lambda tree: tree.paths.remove("results/gate.json"),
        r"results/claims\.json: derived from results/gate\.json, which was not given; add --record",
    ),
    "claims made again": (remade_claims, r"results/report\.json: stale, results/claims\.json has changed since"),
    "kernel edited": (
        lambda tree: edit("kernels/matmul.py", "store", "stole"),
        r"results/matmul/interpreter\.json: stale, kernels/matmul\.py has changed since .*run stage 'interpreter'",
    ),
    "kernel gone": (
        lambda tree: Path("kernels/softmax.py").unlink(),
        r"results/softmax/interpreter\.json: stale, kernels/softmax\.py is gone; run stage 'interpreter' again",
    ),
    "page edited": (
        lambda tree: edit("results/report.md", "VERIFIED", "verified"),
        r"results/report\.md: expected sha256 \w{12}, as results/report\.json says, found sha256 \w{12}; .*-R render",
    ),
    "page gone": (
        lambda tree: Path("results/report.html").unlink(),
        r"results/report\.html: expected sha256 \w{12}, as results/report\.json says, found no such file",
    ),
    "report of less": (
        lambda tree: report_without(tree, "results/gate.json"),
        r"results/report\.json: made without results/gate\.json; run stage 'report' again .*-R render",
    ),
    "report gone": (lambda tree: Path("results/report.json").unlink(), r"results/report\.json: cannot be read"),
    "report edited": (
        lambda tree: edit("results/report.json", "VERIFIED", "FAILED"),
        r"results/report\.json: \$.* run stage 'report' again",
    ),
    "private key": (
        lambda tree: Path("kernels/mine.py").write_bytes(KEY),
        r"kernels/mine\.py: expected nothing secret in what is packed, found a private key; take it away",
    ),
    "space": (
        lambda tree: Path("kernels/my kernel.py").touch(),
        r"member 'kernels/my kernel\.py': expected a plain relative path, .* beside ASCII letters, .*; rename it",
    ),
    "not ASCII": (
        lambda tree: Path("kernels/n\u00e4me.py").touch(),
        r"member 'kernels/n\\xe4me\.py': expected a plain relative path, found a character beyond ASCII",
    ),
    "name of a device": (
        lambda tree: Path("kernels/con.py").touch(),
        r"member 'kernels/con\.py': .* a name that Windows gives to a device; rename it",
    ),
    "case": (
        lambda tree: Path("kernels/MATMUL.py").touch(),
        r"member 'kernels/matmul\.py': differs from 'kernels/MATMUL\.py' by case alone; rename it",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_trusted_or_published_is_named_and_nothing_is_packed(tree: Tree, case: str) -> None:
    spoil, told = REFUSALS[case]
    spoil(tree)
    with pytest.raises(RecordError, match=f"^{told}"):
        bundle.main(tree.options())
    assert not Path("bundles").exists()
    assert not RECORD.exists()


def test_a_record_elsewhere_is_refused_because_no_reader_would_find_it(tree: Tree) -> None:
    Path("results/claims.json").rename("claims.json")
    with pytest.raises(UsageError, match=r"^claims\.json: expected a record under results/, where the reader"):
        bundle.main([*tree.options(), "--claims", "claims.json"])


def test_sources_without_the_workflow_are_refused(tree: Tree) -> None:
    Path("Snakefile").unlink()
    with pytest.raises(UsageError, match=r"^Snakefile: expected the workflow in this folder"):
        bundle.main(tree.options())


def test_an_archive_that_the_bagit_library_refuses_is_not_put_in_place(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(bag: Any) -> None:
        raise bagit.BagValidationError("no such bag")

    monkeypatch.setattr(bagit.Bag, "validate", refuse)
    with pytest.raises(
        RecordError,
        match=r"^assay-\S+: expected a bag .*, found that its library refuses it \(no such bag\); report this",
    ):
        bundle.main(tree.options())
    assert not Path("bundles").exists()


def test_an_archive_that_its_readers_refuse_does_not_pass(tree: Tree) -> None:
    path = packed(tree)
    archive = path.read_bytes()
    bundle.validate(archive, path.stem)
    at = archive.index(b"H200")
    with pytest.raises(AssayError, match=rf"^{path.stem}: .* as manifest-sha256\.txt says"):
        bundle.validate(archive[:at] + b"H100" + archive[at + 4 :], path.stem)


# What stands there already


def test_a_bundle_that_stands_there_is_left_as_it_is(tree: Tree) -> None:
    path = packed(tree)
    before = path.stat()
    assert packed(tree) == path
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_signed_one_keeps_its_signatures(tree: Tree) -> None:
    path = packed(tree)
    unsigned = sha256_file(path)
    signed = pack({**unpack(path.read_bytes()), f"{path.stem}/{SIGNATURES}{'0' * 64}.dsse.json": b"{}"})
    path.write_bytes(signed)
    assert packed(tree) == path
    assert path.read_bytes() == signed
    assert read(RECORD, "bundle").result.sha256 == unsigned


def test_another_file_of_that_name_is_refused_and_left(tree: Tree) -> None:
    path = packed(tree)
    before = RECORD.read_bytes()
    path.write_bytes(b"something else")
    with pytest.raises(RecordError, match=rf"^{path}: expected no other file of this name, found one .*; move it away"):
        bundle.main(tree.options())
    assert path.read_bytes() == b"something else"
    assert RECORD.read_bytes() == before


def test_another_bundle_of_that_name_is_refused_and_left(tree: Tree) -> None:
    path = packed(tree)
    members = unpack(path.read_bytes())
    tree.claim([], sentence="Nothing is verified.")
    report.main(tree.options())
    other = packed(tree)
    renamed = {name.replace(other.stem, path.stem): data for name, data in unpack(other.read_bytes()).items()}
    assert renamed.keys() == members.keys()
    other.write_bytes(pack({name.replace(path.stem, other.stem): data for name, data in members.items()}))
    with pytest.raises(RecordError, match=rf"^{other}: expected no other bundle of this name"):
        bundle.main(tree.options())


# Logs


def with_failure(stage: StageName) -> Any:
    """Return the result of a stage in which one thing failed."""
    result = next(e.artifact.result for e in evidence_of(MATMUL, device()) if e.artifact.stage == stage)
    match stage:
        case "interpreter" | "gpu":
            return replaced(result, checks=[*result.checks[:-1], replaced(result.checks[-1], verdict=FAILED)])
        case "compile":
            return replaced(result, builds=[*result.builds[:-1], replaced(result.builds[-1], compiled=FAILED)])
        case _:
            (sweep,) = result.sweeps
            rows = [*sweep.rows[:-1], replaced(sweep.rows[-1], verdict=FAILED)]
            return replaced(result, sweeps=[replaced(sweep, rows=rows)])


def write_logs(text: str) -> None:
    for kernel in ("matmul", "softmax"):
        for stage in ("interpreter", "gpu"):
            path = Path(f"results/{kernel}/logs/{stage}.log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{stage} of {kernel}\n{text}", "utf-8")


@pytest.mark.parametrize("stage", ["interpreter", "compile", "gpu", "timing"])
def test_a_failure_in_any_stage_brings_the_logs_of_its_kernel(tree: Tree, stage: StageName) -> None:
    write_logs("")
    Path("results/matmul/logs/timing.log").touch()
    failed = [evidence(stage, with_failure(stage), "matmul"), *evidence_of(SOFTMAX, device())]
    assert [path.as_posix() for path in bundle.failed_logs(failed)] == [
        "results/matmul/logs/gpu.log",
        "results/matmul/logs/interpreter.log",
    ]


def test_logs_of_kernels_that_did_not_fail_stay_here(tree: Tree) -> None:
    write_logs("")
    blocked = evidence("gpu", replaced(with_failure("gpu"), availability=NO_DRIVER, checks=[]), "matmul")
    assert bundle.failed_logs([blocked, *evidence_of(SOFTMAX, device())]) == []
    assert not [name for name in open_bundle(packed(tree)).payload if "/logs/" in name]


def test_faults_that_were_planted_bring_no_logs(tree: Tree) -> None:
    write_logs("")
    Path("results/matmul/logs/teeth-cpu-0.log").write_text("what faulty kernels print", "utf-8")
    assert bundle.failed_logs([evidence("teeth", teeth(), "matmul")]) == []
    wrong = [evidence("gpu", with_failure("gpu"), "matmul"), evidence("teeth", teeth(), "matmul")]
    assert {path.name for path in bundle.failed_logs(wrong)} == {"gpu.log", "interpreter.log"}


def test_logs_go_in_scrubbed(tree: Tree) -> None:
    private = f"\x1b[31m{Path.cwd()}/kernels/matmul.py\x1b[0m and /home/somebody/data by https://me:secret@host/x\n"
    write_logs(private)
    tree.evidence("interpreter", "matmul", with_failure("interpreter"))
    tree.paths.pop()
    remade_claims(tree)
    report.main(tree.options())
    payload = open_bundle(packed(tree)).payload
    logs = {name: data.decode() for name, data in payload.items() if "/logs/" in name}
    told = "./kernels/matmul.py and ~/data by https://host/x\n"
    assert logs == {
        f"results/matmul/logs/{stage}.log": f"{stage} of matmul\n{told}" for stage in ("interpreter", "gpu")
    }


def test_of_a_long_log_the_last_whole_lines_go_in() -> None:
    lines = [f"/home/somebody/{number}\n" for number in range(bundle.LARGEST_LOG_BYTES // 10)]
    found = bundle.publishable("".join(lines).encode()).decode()
    first, _, kept = found.partition("\n")
    number = re.fullmatch(r"\[the first (\d+) bytes are left out\]", first)
    assert number is not None
    left_out = int(number[1])
    assert 0 < len("".join(lines)) - left_out <= bundle.LARGEST_LOG_BYTES
    assert kept == "".join(lines)[left_out:].replace("/home/somebody", "~")


@given(st.binary(max_size=200))
def test_any_log_can_be_published(log: bytes) -> None:
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", bundle.publishable(log))


# The whole workflow


@pytest.mark.slow
def test_the_workflow_packs_a_bundle_and_again_leaves_it_and_replaces_one_that_is_gone(project: Project) -> None:
    done = project.snakemake("bundle")
    assert done.returncode == 0, done.stdout
    (path,) = (project.root / "bundles").iterdir()
    archive, inode = path.read_bytes(), path.stat().st_ino
    assert f"bundles/{path.name}: " in done.stdout
    assert project.snakemake("bundle").returncode == 0
    assert path.stat().st_ino == inode
    path.unlink()
    assert project.snakemake("bundle").returncode == 0
    assert path.read_bytes() == archive
    assert project.planned() == set()


@pytest.mark.slow
def test_the_workflow_does_not_pack_a_record_that_was_edited(project: Project) -> None:
    project.edit("results/one/compile.json", '"registers":', '"registers":1')
    done = project.snakemake("bundle")
    assert done.returncode == 1
    assert "results/one/compile.json: $.content_sha256" in done.stdout
    assert not (project.root / "bundles").exists()


TALKATIVE = """
import pathlib
import socket

WHO = f"{pathlib.Path.home()}/x, {pathlib.Path.cwd()}/y on {socket.gethostname()}"
"""


@pytest.mark.slow
def test_nothing_in_a_bundle_names_its_maker(finished: Project, tmp_path: Path) -> None:
    private = finished.copy(tmp_path / "of-quintessa/project")
    (home := tmp_path / "quintessa").mkdir()
    private.edit("kernels/one.py", "import torch\n", f"{TALKATIVE}\nimport torch\n")
    talk = "    print(WHO, flush=True)\n    raise OSError(WHO)\n"
    private.edit("kernels/one.py", '    n = inputs["x"].numel()\n', talk)
    done = private.snakemake("bundle", variables={"HOME": str(home), "USER": "quintessa", "LOGNAME": "quintessa"})
    assert done.returncode == 0, done.stdout
    (path,) = (private.root / "bundles").iterdir()
    opened = open_bundle(path)
    assert b"on <host>" in opened.payload["results/one/logs/interpreter-0.log"]
    assert b"on <host>" in opened.payload["results/one/interpreter.json"]
    # A short host name, such as `c1`, also stands in digests.
    names = [b"quintessa", bytes(tmp_path), *([socket.gethostname().encode()] if len(socket.gethostname()) > 8 else [])]
    for name, data in unpack(path.read_bytes()).items():
        assert not [word for word in names if word in data], name

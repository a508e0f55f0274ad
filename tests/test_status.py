"""The command `status`: pages say what the evidence says, keep all else, and are left alone where anything is wrong."""

import os
import shutil
import stat
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from forge import H200, forge
from packed import archive_of, payload_of
from records import MATMUL, Tree, replaced

from assay.__main__ import main
from assay.artifact import sha256_bytes
from assay.opening import open_bundle, open_bytes
from assay.record import Device
from assay.status import read_bundle

MARKDOWN = "# Title\n\n<!-- assay:status -->\nold\n<!-- assay:end -->\n\nrest\n"
RAN = "on NVIDIA H200 (sm_90, driver 580.159.04) 4 of 4 variants ran"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A checkout in which the workflow has run on an H200, with a page; nothing is archived."""
    monkeypatch.chdir(tmp_path)
    made = Tree(tmp_path, (MATMUL,), H200).lay_out()
    Path("page.md").write_text(MARKDOWN)
    return made


def status(*arguments: str) -> int:
    return main(["status", *arguments])


@cache
def forged(found: Device | None = None) -> tuple[str, bytes]:
    """Return the name and the bytes of a sound bundle, made from the sources of the tree."""
    data = forge(found, (MATMUL,)).archive()
    return open_bytes(data, "forged").name, data


def put(name: str, data: bytes, folder: str = "archive") -> Path:
    Path(folder).mkdir(exist_ok=True)
    path = Path(folder, f"{name}.tar")
    path.write_bytes(data)
    return path


def archived(tree: Tree) -> Path:
    """Put a bundle in the archive, and take the results away."""
    shutil.rmtree("results")
    return put(*forged(H200))


def test_an_archived_bundle_is_told_with_a_link_to_it(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = archived(tree)
    assert status("page.md") == 0
    assert capsys.readouterr() == ("page.md: written\n", "")
    page = Path("page.md").read_text()
    assert RAN in page
    assert f"| NVIDIA H200 (sm_90) | 2026-11-29 | [{bundle.name}]({bundle.as_posix()}) |" in page
    assert page.startswith("# Title\n\n<!-- assay:status -->\n\n| kernel |")
    assert page.endswith("\n\n<!-- assay:end -->\n\nrest\n")


def test_a_link_leads_from_the_folder_of_the_page(tree: Tree) -> None:
    bundle = archived(tree)
    Path("docs/deep").mkdir(parents=True)
    for place, link in (("docs/deep/page.md", f"../../{bundle}"), ("archive/README.md", bundle.name)):
        shutil.copy("page.md", place)
        assert status(place) == 0
        assert f"]({link}) |" in Path(place).read_text()


def test_results_of_the_code_at_hand_are_told_without_a_link(tree: Tree) -> None:
    assert status("page.md") == 0
    assert "| 2026-11-29 | claims.json |" in Path("page.md").read_text()


def test_writing_again_changes_nothing(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("page.md") == 0
    written, when = Path("page.md").read_bytes(), Path("page.md").stat().st_mtime_ns
    capsys.readouterr()
    assert status("page.md") == 0
    assert capsys.readouterr().out == "page.md: as it was\n"
    assert (Path("page.md").read_bytes(), Path("page.md").stat().st_mtime_ns) == (written, when)
    assert status("page.md", "--check") == 0


def test_check_writes_nothing_and_shows_what_differs(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("page.md", "--check") == 1
    said = capsys.readouterr().out
    assert said.startswith("--- page.md\n+++ what the evidence says\n")
    assert "\n-old\n" in said
    assert "\n+| matmul | PARTIALLY VERIFIED |" in said
    assert Path("page.md").read_text() == MARKDOWN


def test_a_page_that_claims_more_is_found(tree: Tree) -> None:
    assert status("page.md") == 0
    page = Path("page.md").read_text()
    Path("page.md").write_text(page.replace("PARTIALLY VERIFIED", "VERIFIED"))
    assert status("page.md", "--check") == 1


def test_a_changed_source_is_said(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    archived(tree)
    assert status("page.md") == 0
    Path("kernels/matmul.py").write_text("# another\n")
    assert status("page.md", "--check") == 1
    capsys.readouterr()
    assert status("page.md") == 0
    assert Path("page.md").read_text().count("stale: kernels/matmul.py changed") == 2


def test_stale_results_are_named_and_not_used(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kernels/matmul.py").write_text("# another\n")
    assert status("page.md") == 0
    assert "assay status: not used: results/matmul/" in capsys.readouterr().err
    assert (
        "NOT VERIFIED: no sound evidence in archive, results; unsound or stale, and not used: results/claims.json."
        in Path("page.md").read_text()
    )


def test_an_unsound_bundle_is_named_and_the_rest_goes_on(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    put("unsound", archive_of(payload_of(tree.folder))[1])
    good = archived(tree)
    put("spoilt", good.read_bytes().replace(b"NVIDIA H200", b"NVIDIA H999"))
    put("none", b"")
    assert status("page.md") == 0
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in errors] == [
        "archive/none.tar",
        "archive/spoilt.tar",
        "archive/unsound.tar",
    ]
    page = Path("page.md").read_text()
    assert "H999" not in page
    assert good.name in page


@pytest.mark.parametrize("marker", ["# assay:status", "# assay:status matmul"])
def test_without_evidence_nothing_is_verified_and_the_reason_is_given(tree: Tree, marker: str) -> None:
    shutil.rmtree("results")
    Path("a.py").write_text(f"{marker}\n# assay:end\n")
    assert status("a.py") == 0
    of = " of matmul" if "matmul" in marker else ""
    assert Path("a.py").read_text() == (
        f"{marker}\n# NOT VERIFIED: no sound evidence{of} in archive, results.\n# assay:end\n"
    )


def test_a_kernel_that_nothing_tells_of_is_not_verified(tree: Tree) -> None:
    Path("a.py").write_text("# assay:status other\n# assay:end\n")
    assert status("a.py") == 0
    assert "# NOT VERIFIED: no sound evidence of other in archive, results.\n" in Path("a.py").read_text()


def test_source_files_keep_their_comments_line_ends_and_mode(tree: Tree) -> None:
    bundle = archived(tree)
    before = b"\xff\x00int x;\r\n  /* assay:status matmul */\r\nold\r\n  /* assay:end */\r\n\x0c\xfe"
    Path("a.c").write_bytes(before)
    Path("a.c").chmod(0o750)
    assert status("a.c") == 0
    after = Path("a.c").read_bytes()
    start, end = b"\xff\x00int x;\r\n  /* assay:status matmul */\r\n", b"  /* assay:end */\r\n\x0c\xfe"
    assert after.startswith(start)
    assert after.endswith(end)
    lines = after[len(start) : -len(end)].split(b"\r\n")[:-1]
    assert lines[0].startswith(b"  /* PARTIALLY VERIFIED on 2026-11-29: under the Triton 3.6.0")
    assert lines[-2:] == [b"  /* Evidence: */", f"  /* {bundle} */".encode()]
    assert b"\n" not in b"".join(lines)
    assert stat.S_IMODE(Path("a.c").stat().st_mode) == 0o750


def test_a_python_file_with_its_status_is_the_same_program(tree: Tree) -> None:
    Path("a.py").write_text("def f():\n    # assay:status\n    # assay:end\n    return 7\n")
    assert status("a.py") == 0
    assert RAN.split(" 4 of", maxsplit=1)[0] in " ".join(Path("a.py").read_text().replace("#", "").split())
    scope: dict[str, object] = {}
    exec(compile(Path("a.py").read_bytes(), "a.py", "exec"), scope)
    assert scope["f"]() == 7  # type: ignore[operator]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_a_c_file_with_its_status_still_compiles(tree: Tree) -> None:
    Path("a.c").write_text(
        "/* assay:status */\n/* assay:end */\n// assay:status\n// assay:end\nint main(void) { return 0; }\n"
    )
    assert status("a.c") == 0
    done = subprocess.run(["cc", "-Wall", "-Werror", "-c", "a.c", "-o", os.devnull], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_link_to_a_page_stays_one(tree: Tree) -> None:
    Path("link.md").symlink_to("page.md")
    assert status("link.md") == 0
    assert Path("link.md").is_symlink()
    assert RAN in Path("page.md").read_text()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "bad.md: cannot be read (No such file or directory); name a page that is there"),
        (
            b"no markers",
            "bad.md: expected a comment 'assay:status' and below it one 'assay:end', found neither; "
            "add both where the status shall stand",
        ),
        (b"<!-- assay:status -->\n", "bad.md: line 1: expected assay:end after it, found none; add it"),
    ],
)
def test_a_page_without_a_block_stops_all_before_anything_is_written(
    tree: Tree, content: bytes | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path("bad.md").write_bytes(content)
    assert status("page.md", "bad.md") == 2
    assert capsys.readouterr() == ("", f"assay status: {told}\n")
    assert Path("page.md").read_text() == MARKDOWN


def test_evidence_can_be_named(tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = tmp_path / put(*forged(H200), "elsewhere")
    for place in (bundle, bundle.parent):
        assert status("page.md", "--evidence", str(place)) == 0
        assert f"[{bundle.name}](elsewhere/{bundle.name})" in Path("page.md").read_text()
    assert status("page.md", "--evidence", "nowhere") == 2
    assert (
        "--evidence: expected a bundle, or a folder with bundles or results, found no nowhere"
        in capsys.readouterr().err
    )


def test_the_newest_run_at_each_place_is_told(tree: Tree) -> None:
    def later(artifact: Any) -> Any:
        return replaced(artifact, run=replaced(artifact.run, started="2026-11-30T09:00:00Z"))

    newer = forge(H200, (MATMUL,)).change("results/claims.json", later).archive()
    new = put(open_bytes(newer, "newer").name, newer)
    cpu, old = put(*forged()), archived(tree)
    assert status("page.md") == 0
    page = Path("page.md").read_text()
    assert f"| NVIDIA H200 (sm_90) | 2026-11-30 | [{new.name}]({new}) |" in page
    assert f"| no GPU | 2026-11-29 | [{cpu.name}]({cpu}) |" in page
    assert old.name not in page


def test_a_bundle_chooses_no_file_to_read(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record may name any path as its material. Only names that its bundle holds too are looked up."""
    private = Path("private.txt").absolute()
    private.write_bytes(b"guess")

    def guess(artifact: Any) -> Any:
        return replaced(artifact, materials={**artifact.materials, str(private): sha256_bytes(b"guess")})

    data = forge(H200, (MATMUL,)).change("results/gate.json", guess).archive()
    monkeypatch.setattr("assay.status.open_sound", open_bundle)
    run = read_bundle(put("guess", data))
    assert "kernels/matmul.py" in run.now
    assert str(private) not in run.now

"""The command `check`: exit 0 with the status, 1 naming every failed claim, 2 where the record cannot be read."""

from pathlib import Path

import pytest
from records import Tree, claim

from assay import check as command
from assay.__main__ import main
from assay.errors import RecordError
from assay.record import Claim


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, ()).lay_out()


def check(tree: Tree, claims: list[Claim], sentence: str = "") -> int:
    tree.claim(claims, sentence)
    return main(["check", "--claims", str(tree.folder / "results/claims.json")])


def test_without_a_failed_claim_it_says_the_status(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = claim(outcome="untested", cause="no-driver", reason="no NVIDIA driver")
    assert check(tree, [claim(), blocked], "PARTIALLY VERIFIED: two kernels.") == 0
    assert capsys.readouterr() == ("PARTIALLY VERIFIED: two kernels.\n", "")


def test_every_failed_claim_is_named_with_its_reason(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = claim(outcome="failed", cause="wrong-value", reason="ragged: 3 of 9 elements past the bound")
    broken = claim(kernel="softmax", variant="*", tier="interpreted", target=None, outcome="failed", reason="no KERNEL")
    assert check(tree, [claim(), wrong, broken]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "failed: accurate, matmul, ieee/64x64x32 on sm_90 (wrong-value): ragged: 3 of 9 elements past the bound",
        "failed: interpreted, softmax, * (no cause given): no KERNEL",
    ]


def test_a_hostile_reason_takes_one_line_and_no_terminal_code(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    reason = "\x1b[2Jcleared\nnext \u202e line"
    assert check(tree, [claim(outcome="failed", cause="crash", reason=reason)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cleared next" in said
    assert not {"\x1b", "\u202e"} & set(said)


def test_a_record_that_was_edited_is_refused(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    path = tree.folder / "results/claims.json"
    tree.claim([claim(outcome="failed", cause="crash", reason="it crashed")])
    path.write_bytes(path.read_bytes().replace(b'"outcome":"failed"', b'"outcome":"passed"'))
    assert main(["check", "--claims", str(path)]) == 2
    assert "edited after it was written" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"{}", b"not JSON"])
def test_a_record_that_is_no_record_is_refused(
    tree: Tree, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tree.folder / "results/other.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["check", "--claims", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"assay check: {path}: ")
    assert said.err.count("\n") == 1


def test_by_default_it_reads_the_pipelines_claims(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.folder)
    assert main(["check"]) == 0
    (tree.folder / "results/claims.json").unlink()
    with pytest.raises(RecordError, match=r"results/claims\.json: cannot be read"):
        command.main([])

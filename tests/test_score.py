"""The command prints one line for each kernel that has a record, and refuses what is none."""

from pathlib import Path

import pytest
import records
from records import Tree

from assay.errors import RecordError
from assay.score import main


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.chdir(tmp_path)
    return Tree(tmp_path, teeth=True).lay_out()


def test_every_kernel_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["matmul", "softmax"]
    assert all("5 of 6 planted faults caught" in line for line in lines)


def test_records_may_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results/softmax/teeth.json"]) == 0
    assert capsys.readouterr().out.startswith("softmax: ")


def test_what_cannot_be_read_is_refused_with_what_to_do(tree: Tree) -> None:
    path = tree.folder / "results/matmul/teeth.json"
    path.write_bytes(path.read_bytes().replace(b"survived", b"caught"))
    with pytest.raises(RecordError, match=r"edited after it was written; run stage 'teeth' again"):
        main([])
    assert records.teeth().mutants

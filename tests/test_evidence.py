"""No record that was edited, is missing, or describes other sources gets through; each refusal names it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, Tree, device, gpu, replaced

from assay.artifact import canonical, decode_artifact, seal, write_bytes
from assay.errors import RecordError
from assay.evidence import Evidence, check, load, present
from assay.stage import stage_of

GPU = Path("results/matmul/gpu.json")
KERNEL = Path("kernels/matmul.py")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.chdir(tmp_path)
    return Tree(tmp_path, (MATMUL,), device()).lay_out()


def checked(paths: list[str]) -> list[Evidence]:
    """Do what the report does before it shows anything."""
    records = [load(Path(path), stage_of(Path(path)), number) for number, path in enumerate(paths, start=1)]
    claims = load(Path("results/claims.json"), "claims", len(paths) + 1)
    check(records, claims, present([*records, claims]))
    return records


def edit(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


def reseal(path: Path) -> None:
    """Edit a record as someone would who knows how it is sealed."""
    artifact = decode_artifact(path.read_bytes(), "gpu", str(path))
    write_bytes(path, canonical(seal(replaced(artifact, command=["python", "edited"]))))


def test_records_as_they_were_written_are_let_through(tree: Tree) -> None:
    records = checked(tree.paths)
    assert [record.path for record in records] == tree.paths
    assert [record.number for record in records] == list(range(1, len(tree.paths) + 1))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            lambda: edit(GPU, b"H200", b"H100"),
            r"results/matmul/gpu\.json: \$\.content_sha256: .*edited.*run stage 'gpu'",
        ),
        (
            lambda: edit(GPU, b"{", b"{ "),
            r"results/matmul/gpu\.json: \$: expected canonical form.*run stage 'gpu' again",
        ),
        (lambda: reseal(GPU), r"results/matmul/gpu\.json: its sha256 is .*claims\.json was derived from .*'gpu' again"),
        (GPU.unlink, r"results/matmul/gpu\.json: cannot be read \(No such file.*run stage 'gpu' again"),
        (lambda: GPU.write_bytes(b""), r"results/matmul/gpu\.json: \$: expected JSON.*run stage 'gpu' again"),
        (
            lambda: edit(KERNEL, b"store", b"stole"),
            r"results/matmul/interpreter\.json: stale, kernels/matmul\.py has changed .*run stage 'interpreter' again",
        ),
        (KERNEL.unlink, r"results/matmul/interpreter\.json: stale, kernels/matmul\.py is gone"),
        (lambda: Path("results/claims.json").unlink(), r"results/claims\.json: cannot be read"),
        (
            lambda: edit(Path("results/claims.json"), b"PARTIALLY VERIFIED", b"VERIFIED"),
            r"results/claims\.json: .*edited",
        ),
    ],
    ids=[
        "edited",
        "reformatted",
        "resealed",
        "deleted",
        "emptied",
        "kernel edited",
        "kernel gone",
        "no claims",
        "claims",
    ],
)
def test_a_record_that_cannot_be_trusted_is_named_with_its_reason(
    tree: Tree, spoil: Callable[[], None], told: str
) -> None:
    spoil()
    with pytest.raises(RecordError, match=told):
        checked(tree.paths)


def test_a_record_made_again_since_the_claims_is_named(tree: Tree) -> None:
    tree.evidence("gpu", "matmul", gpu(MATMUL, None))
    with pytest.raises(RecordError, match=r"^results/matmul/gpu\.json: its sha256 is "):
        checked(tree.paths[:-1])


def test_a_record_that_the_claims_do_not_know_is_named(tree: Tree) -> None:
    Path("kernels/other.py").touch()
    tree.evidence("gpu", "other", gpu(MATMUL, None))
    with pytest.raises(RecordError, match=r"^results/other/gpu\.json: results/claims\.json was not derived from it"):
        checked(tree.paths)


@given(data=st.data())
def test_a_record_that_is_left_out_is_named(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("tree"))
        paths = Tree(folder, (MATMUL,)).lay_out().paths
        left_out = data.draw(st.sampled_from(paths))
        with pytest.raises(RecordError, match=f"derived from {re.escape(left_out)}, which was not given; add --record"):
            checked([path for path in paths if path != left_out])


def test_claims_that_cite_another_record_are_named(tree: Tree) -> None:
    records = [load(Path(path), stage_of(Path(path)), number) for number, path in enumerate(tree.paths, start=1)]
    claims = load(Path("results/claims.json"), "claims", 99)
    result = claims.artifact.result
    (link,) = result.claims[0].links
    cited = [replaced(result.claims[0], links=[replaced(link, sha256="0" * 64)]), *result.claims[1:]]
    artifact = replaced(claims.artifact, result=replaced(result, claims=cited))
    with pytest.raises(RecordError, match=r"cites results/gate\.json with sha256 000000000000, .* run stage 'claims'"):
        check(records, Evidence(99, claims.path, claims.sha256, artifact), present(records))


def test_a_record_replaced_while_it_is_checked_is_named(tree: Tree) -> None:
    records = [load(Path(path), stage_of(Path(path)), number) for number, path in enumerate(tree.paths, start=1)]
    claims = load(Path("results/claims.json"), "claims", 99)
    reseal(GPU)
    with pytest.raises(RecordError, match=r"^results/matmul/gpu\.json: stale, results/matmul/gpu\.json has changed"):
        check(records, claims, present([*records, claims]))

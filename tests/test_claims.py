"""The claims stage on real files: what it reads, what makes a claim stale, and the same bytes from the same records."""

from pathlib import Path

import pytest
from records import MATMUL, SOFTMAX, Tree, device

from assay.artifact import canonical, read, sha256_file
from assay.claims import main
from assay.errors import RecordError, UsageError
from assay.record import Artifact, Claims

SETTINGS = ["--settings", '{"gate":{"minimum_capability":"8.0"},"targets":["sm_75","sm_90"]}']


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.chdir(tmp_path)
    return Tree(tmp_path, (SOFTMAX, MATMUL), device()).lay_out()


def derived(tree: Tree, *arguments: str, out: str = "results/claims.json") -> Artifact[Claims]:
    assert main([*arguments, *SETTINGS, "--out", out]) == 0
    return read(Path(out), "claims")


def test_twice_gives_the_same_result_named_or_found(tree: Tree) -> None:
    first, second = derived(tree, *tree.options()), derived(tree, out="results/again.json")
    assert canonical(first.result) == canonical(second.result)
    assert {claim.kernel for claim in first.result.claims} == {"*", "matmul", "softmax"}
    assert {claim.freshness for claim in first.result.claims} == {"current"}
    assert set(tree.paths) <= set(first.materials)


def test_every_link_has_the_digest_of_the_file_that_it_names(tree: Tree) -> None:
    for claim in derived(tree).result.claims:
        for link in claim.links:
            assert link.sha256 == sha256_file(Path(link.artifact))


def test_a_kernel_edited_since_makes_its_claims_stale(tree: Tree) -> None:
    with Path("kernels/softmax.py").open("a") as stream:
        stream.write("# edited\n")
    claims = derived(tree).result.claims
    assert {claim.kernel for claim in claims if claim.freshness == "stale"} == {"softmax"}


def test_a_record_that_was_edited_is_refused(tree: Tree) -> None:
    path, before = Path("results/matmul/gpu.json"), Path("results/claims.json").read_bytes()
    path.write_bytes(path.read_bytes().replace(b'"outcome":"passed"', b'"outcome":"failed"', 1))
    with pytest.raises(RecordError, match=r"^results/matmul/gpu\.json: \$\.content_sha256: .*run stage 'gpu' again"):
        main(SETTINGS)
    assert Path("results/claims.json").read_bytes() == before


def test_a_missing_record_is_refused_and_what_to_add_is_said(tree: Tree) -> None:
    Path("results/softmax/timing.json").unlink()
    with pytest.raises(RecordError, match="expected a record of stage 'timing' of kernel softmax; add --record for it"):
        main(SETTINGS)


def test_a_file_that_is_named_after_no_stage_is_refused(tree: Tree) -> None:
    with pytest.raises(
        UsageError, match=r"expected a file named after its stage, such as results/gate\.json, found kernels/matmul\.py"
    ):
        main(["--record", "kernels/matmul.py", *SETTINGS])

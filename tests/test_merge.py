"""Merging: no order matters, no evidence is lost, a conflict stays one, and what is refused is refused by name."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from packed import archive_of, payload_of
from project import Project
from records import MATMUL, SOFTMAX, TARGETS, Tree, claim, claims_of, device, replaced
from test_report import HOSTILE, Reader, assert_self_contained, outside_fences, table_rows

from assay.__main__ import main
from assay.artifact import canonical, decode, read, seal, sha256_bytes, write_bytes
from assay.merge import digests_at_hand
from assay.merged_page import build_page, render
from assay.merging import DECIDES, merge, weigh
from assay.opening import Opened, open_bytes
from assay.outcomes import CONFLICT
from assay.record import Claim, Merged, MergedClaim, Outcome, StageName
from assay.schemas import schema_files

Change = Callable[[Tree, list[Claim]], list[Claim]]


def as_made(_: Tree, claims: list[Claim]) -> list[Claim]:
    return claims


def opened(found: Any, change: Change = as_made, words: str = "assay-test") -> Opened:
    """Return a bundle of a machine with this device, or none; `change` edits the records before they are packed."""
    with TemporaryDirectory() as folder:
        tree = Tree(Path(folder), (MATMUL, SOFTMAX), found).lay_out()
        tree.claim(change(tree, [c for subject in tree.subjects for c in claims_of(subject, TARGETS, found)]))
        name, data = archive_of(payload_of(Path(folder)), words)
    return open_bytes(data, name)


def failing(variant: str, tier: str, target: str | None) -> Change:
    """Return a change after which one claim of matmul failed."""

    def change(_: Tree, claims: list[Claim]) -> list[Claim]:
        at = ("matmul", variant, tier, target)
        wrong = {"outcome": "failed", "cause": "wrong-value", "reason": "ragged: 3 elements are past the bound"}
        return [replaced(c, **wrong) if (c.kernel, c.variant, c.tier, c.target) == at else c for c in claims]

    return change


def rewritten(tree: Tree, claims: list[Claim]) -> list[Claim]:
    """Replace the kernel's source, and with it the records that were made from it."""
    (tree.folder / "kernels/matmul.py").write_text("# another source\n")
    stages: tuple[StageName, ...] = ("interpreter", "compile", "gpu", "timing")
    for stage in stages:
        result = read(tree.folder / f"results/matmul/{stage}.json", stage).result
        tree.evidence(stage, "matmul", result)
    return failing("ieee/64x64x32", "interpreted", None)(tree, claims)


NAMES = ("cpu", "h200", "wrong", "rewritten", "renamed")


@cache
def pool() -> dict[str, Opened]:
    """Return a few bundles that disagree in every way that matters."""
    made = (
        opened(None),
        opened(device()),
        opened(device(), failing("ieee/64x64x32", "accurate", "sm_90")),
        opened(device(), rewritten),
        opened(device("NVIDIA H100"), words="assay-other"),
    )
    return dict(zip(NAMES, made, strict=True))


def of(merged: Merged, variant: str, tier: str, target: str | None) -> MergedClaim:
    found = [c for c in merged.claims if (c.kernel, c.variant, c.tier, c.target) == ("matmul", variant, tier, target)]
    assert len(found) == 1
    return found[0]


# Laws

outcomes = st.lists(st.sampled_from(get_args(Outcome)), min_size=1)


@given(outcomes, st.randoms())
def test_an_outcome_depends_on_no_order_and_no_repetition(found: list[Outcome], random: Any) -> None:
    shuffled = [*found, random.choice(found)]
    random.shuffle(shuffled)
    assert weigh(shuffled) == weigh(found)


@given(outcomes)
def test_only_passed_and_failed_conflict_and_nothing_is_made_up(found: list[Outcome]) -> None:
    assert (weigh(found) == "conflict") == ({"passed", "failed"} <= {*found})
    assert weigh(found) in {*found, "conflict"}
    assert {*DECIDES} == {*get_args(Outcome)}


@pytest.mark.parametrize("other", ["cantTell", "untested", "inapplicable"])
def test_what_was_shown_once_is_not_hidden_by_a_machine_that_could_not(other: Outcome) -> None:
    assert weigh(["passed", other]) == "passed"
    assert weigh(["failed", other]) == "failed"


def test_what_applies_on_some_machine_is_untested_until_one_runs_it() -> None:
    assert weigh(["inapplicable", "untested"]) == "untested"
    assert weigh(["inapplicable"]) == "inapplicable"


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=7), st.randoms())
def test_the_same_bundles_give_the_same_bytes_in_any_order(names: list[str], random: Any) -> None:
    shuffled = [*names, random.choice(names)]
    random.shuffle(shuffled)
    first, second = ([pool()[name] for name in order] for order in (names, shuffled))
    merged = merge(first, {})
    assert canonical(merged) == canonical(merge(second, {}))
    assert render(merged) == render(merge(second, {}))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_every_claim_of_every_bundle_is_told_once(names: set[str]) -> None:
    merged = merge([pool()[name] for name in names], {})
    for name in names:
        claims = pool()[name].one("claims").result.claims
        digest = pool()[name].bag.manifest_sha256
        told = [
            (claim.kernel, claim.variant, claim.tier, claim.target, account.outcome, account.reason)
            for claim in merged.claims
            for account in claim.accounts
            if account.bundle == digest
        ]
        assert sorted(map(str, told)) == sorted(
            str((c.kernel, c.variant, c.tier, c.target, c.outcome, c.reason)) for c in claims
        )


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.of(Merged))
def test_a_merged_record_reads_back_as_it_was(merged: Merged) -> None:
    assert decode(canonical(merged), Merged, "merged.json") == merged


def test_one_bundle_alone_says_what_it_said() -> None:
    alone = pool()["h200"]
    merged = merge([alone], {})
    assert [(c.outcome, c.reason) for c in merged.claims] == [
        (c.outcome, c.reason) for c in sorted(alone.one("claims").result.claims, key=lambda c: c.tier != "gated")
    ]


# What several machines show


def test_a_device_shows_what_a_machine_without_one_could_not() -> None:
    merged = merge([pool()["cpu"], pool()["h200"]], {})
    found = of(merged, "tf32/64x64x32", "accurate", "sm_90")
    assert found.outcome == "passed"
    assert sorted(account.outcome for account in found.accounts) == ["passed", "untested"]
    assert of(merged, "tf32/64x64x32", "accurate", "sm_80").outcome == "untested"
    assert "on NVIDIA H200 (sm_90, driver 580.159.04) 5 of 5 variants ran" in merged.status.sentence
    assert "correctness and timing on sm_75 and sm_80 remain blocked on every machine" in merged.status.sentence


def test_two_devices_of_one_target_are_both_named() -> None:
    sentence = merge([pool()["h200"], pool()["renamed"]], {}).status.sentence
    h100, h200 = "NVIDIA H100 (sm_90, driver 580.159.04)", "NVIDIA H200 (sm_90, driver 580.159.04)"
    assert any(
        f"on {first} and {second} 5 of 5 variants ran" in sentence for first, second in ((h100, h200), (h200, h100))
    )


def test_a_claim_that_passed_and_failed_is_a_conflict_with_both_sides() -> None:
    merged = merge([pool()["h200"], pool()["wrong"]], {})
    found = of(merged, "ieee/64x64x32", "accurate", "sm_90")
    assert (found.outcome, found.cause) == ("conflict", None)
    assert {account.bundle for account in found.accounts} == {
        pool()[name].bag.manifest_sha256 for name in ("h200", "wrong")
    }
    assert "passed in bundle" in found.reason
    assert "failed in bundle" in found.reason
    assert "(NVIDIA H200, Triton 3.6.0) on 2026-11-29" in found.reason
    assert merged.status.overall == "FAILED"
    assert "1 claim is in conflict, matmul/ieee/64x64x32 accurate on sm_90" in merged.status.sentence
    assert sum(claim.outcome == "conflict" for claim in merged.claims) == 1


def test_a_conflict_is_one_mark_in_the_matrix_and_both_sides_in_its_table() -> None:
    merged = merge([pool()["h200"], pool()["wrong"]], {})
    page = build_page(merged)
    (shown,) = page.conflicts
    assert {one.mark.word for one in shown.told} == {"verified", "failed"}
    assert dict(page.tally)[CONFLICT] == 1
    html, markdown = render(merged)
    for text in (Reader(html).text, markdown.decode()):
        assert "ragged: 3 elements are past the bound" in text
    (title,) = [t for t in Reader(html).values("title") if "past the bound" in t]
    assert "accurate on sm_90: verified" in title
    assert "accurate on sm_90: failed (wrong-value)" in title


def test_a_gate_is_of_one_machine_and_never_in_conflict() -> None:
    def shut(tree: Tree, claims: list[Claim]) -> list[Claim]:
        return [*claims, claim("*", "*", "gated", None, "failed", "gate-disagrees", "exit 0 where 1 is called for")]

    merged = merge([pool()["h200"], opened(None, shut)], {})
    gates = [c for c in merged.claims if c.tier == "gated"]
    assert {len({account.bundle for account in c.accounts}) for c in gates} == {1}
    assert len({account.bundle for c in gates for account in c.accounts}) == 2


# Several sources of one kernel


def test_two_sources_of_a_kernel_are_two_subjects() -> None:
    merged = merge([pool()["h200"], pool()["rewritten"]], {})
    found = [c for c in merged.claims if (c.kernel, c.variant, c.tier) == ("matmul", "ieee/64x64x32", "interpreted")]
    assert {c.outcome for c in found} == {"passed", "failed"}
    assert len({c.source for c in found}) == 2
    assert len([c for c in merged.claims if c.kernel == "softmax" and c.tier == "interpreted"]) == 1


@pytest.mark.parametrize("name", ["h200", "rewritten"])
def test_the_source_at_hand_is_current_and_the_status_is_about_it(name: str) -> None:
    at_hand = {kernel: sha256_bytes(pool()[name].payload[f"kernels/{kernel}.py"]) for kernel in ("matmul", "softmax")}
    merged = merge([pool()["h200"], pool()["rewritten"]], at_hand)
    current = {(source.kernel, source.sha256) for source in merged.sources if source.freshness == "current"}
    assert current == {*at_hand.items()} == {(s.kernel, s.sha256) for s in merged.sources if s.leading}
    assert (merged.status.overall == "FAILED") == (name == "rewritten")
    assert merged.notes == []
    for shown in (Reader(render(merged)[0]).text, render(merged)[1].decode()):
        assert "current: it is the kernels/matmul.py at hand" in shown
        assert "stale: it is not the kernels/matmul.py at hand" in shown


def test_without_a_source_at_hand_the_newest_bundles_is_current() -> None:
    def later(tree: Tree, claims: list[Claim]) -> list[Claim]:
        path = tree.folder / "results/gate.json"
        gate = read(path, "gate")
        run = replaced(gate.run, started="2027-01-01T00:00:00Z")
        write_bytes(path, canonical(seal(replaced(gate, run=run))))
        return rewritten(tree, claims)

    newest = opened(device(), later)
    for order in ([newest, pool()["h200"]], [pool()["h200"], newest]):
        merged = merge(order, {})
        (leading,) = [s for s in merged.sources if s.leading and s.kernel == "matmul"]
        assert leading.bundles == [newest.bag.manifest_sha256]
        assert leading.freshness == "current"
        assert [s.freshness for s in merged.sources if s.kernel == "matmul"] == ["current", "stale"]


def test_a_checkout_that_no_bundle_is_of_makes_everything_stale() -> None:
    merged = merge([pool()["h200"]], {"matmul": "0" * 64})
    assert merged.notes == ["No bundle is of the kernels/matmul.py at hand"]
    assert {c.freshness for c in merged.claims if c.kernel == "matmul"} == {"stale"}
    assert {c.freshness for c in merged.claims if c.kernel == "softmax"} == {"current"}
    assert merged.status.overall == "PARTIALLY VERIFIED"


# Nothing hostile acts


@cache
def harmless() -> Merged:
    return merge([pool()["h200"], pool()["wrong"], pool()["rewritten"]], {})


def hostile(text: str) -> Merged:
    """Return a merged record with this text wherever one can stand."""
    merged = harmless()
    bundles = [replaced(b, name=text, device=text, target=text, versions={text: text}) for b in merged.bundles]
    sources = [replaced(s, kernel=text, reason=text) for s in merged.sources]
    claims = [
        replaced(
            c,
            kernel=text,
            variant=text,
            target=c.target and text,
            reason=text,
            accounts=[replaced(a, reason=text, day=text) for a in c.accounts],
        )
        for c in merged.claims
    ]
    status = replaced(merged.status, sentence=text)
    made: Merged = replaced(merged, bundles=bundles, sources=sources, claims=claims, status=status, notes=[text])
    return made


def assert_harmless(merged: Merged) -> None:
    html, markdown = render(merged)
    page = Reader(html)
    assert set(page.tags) <= set(Reader(render(harmless())[0]).tags)
    assert_self_contained(page, html)
    table_rows(outside_fences(markdown.decode()))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_reasons_stay_text(text: str) -> None:
    assert_harmless(hostile(text))


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(strategies.characters, max_size=30))
def test_no_text_breaks_either_page(text: str) -> None:
    assert_harmless(hostile(text))


def test_the_pages_are_read_as_the_reports_are() -> None:
    page = Reader(render(merge(pool().values(), {}))[0])
    assert page.tags.count("caption") == page.tags.count("table")
    assert page.tags.count("th") == len([1 for tag, name, _ in page.attributes if (tag, name) == ("th", "scope")])


# The command


def bundle(project: Project) -> Path:
    done = project.assay("bundle", "--folder", "made")
    assert done.returncode == 0, done.stdout
    (made,) = (project.root / "made").glob("*.tar")
    return made


@pytest.fixture(scope="session")
def bundles(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two bundles of the tiny project: the second was made after kernel one was edited, and fails."""
    first = finished.copy(tmp_path_factory.mktemp("first") / "project")
    second = finished.copy(tmp_path_factory.mktemp("second") / "project")
    second.edit("kernels/one.py", "mask=i < n) + 1.0", "mask=i < n) + 1.5")
    assert second.snakemake("report").returncode == 0
    return [bundle(first), bundle(second)]


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


@pytest.mark.slow
def test_the_command_writes_the_record_and_both_pages_whatever_the_order(bundles: list[Path], tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    assert main(["merge", *map(str, bundles), "--out", str(a)]) == 0
    assert main(["merge", *map(str, reversed(bundles)), str(bundles[0]), "--out", str(b)]) == 0
    assert written(a) == written(b)
    assert set(written(a)) == {"merged.json", "merged.html", "merged.md"}
    record = written(a)["merged.json"]
    merged = decode(record, Merged, "merged.json")
    Draft202012Validator(json.loads(schema_files()["merged.schema.json"])).validate(json.loads(record))
    assert len(merged.bundles) == 2
    assert len([s for s in merged.sources if s.kernel == "one"]) == 2
    assert len([s for s in merged.sources if s.kernel == "two"]) == 1
    # Both sources of kernel one stand for themselves: nothing contradicts anything.
    assert not [c for c in merged.claims if c.outcome == "conflict"]
    assert merged.status.overall == "FAILED"


@pytest.mark.slow
def test_one_content_under_two_names_counts_once(
    bundles: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.tar"
    shutil.copy(bundles[0], copy)
    assert main(["merge", str(bundles[0]), str(copy), "--out", str(tmp_path / "out")]) == 0
    assert said(capsys)[0] == f"assay merge: {copy}: the same content as {bundles[0]}; it counts once"
    merged = decode(written(tmp_path / "out")["merged.json"], Merged, "merged.json")
    assert len(merged.bundles) == 1
    assert {len(c.accounts) for c in merged.claims} == {1}


@pytest.mark.slow
def test_an_unsound_bundle_is_refused_by_name_and_the_others_are_merged(
    bundles: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, none = tmp_path / "broken.tar", tmp_path / "none.tar"
    data = bytearray(bundles[1].read_bytes())
    data[data.index(b"Adds 2.0")] ^= 1
    broken.write_bytes(data)
    out = str(tmp_path / "out")
    assert main(["merge", str(broken), str(bundles[0]), str(none), "--out", out]) == 1
    lines = said(capsys)
    assert lines[0].startswith(f"assay merge: refused: {broken}: ")
    unread = f"assay merge: refused: {none}: cannot be read (No such file or directory); "
    assert lines[1] == f"{unread}name a file that `snakemake --cores 1 bundle` wrote"
    assert len(decode(written(tmp_path / "out")["merged.json"], Merged, "merged.json").bundles) == 1
    shutil.rmtree(out)
    assert main(["merge", str(broken), str(none), "--out", out]) == 2
    none_of_them = "expected at least one sound bundle, found none among 2"
    assert said(capsys)[-1] == f"assay merge: {none_of_them}; ask `python -m assay verify` what is wrong with each"
    assert not Path(out).exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_refused(
    bundles: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["merge", str(bundles[0]), "--out", str(tmp_path / "file")]) == 2
    assert said(capsys)[-1].startswith("assay merge: --out: expected a folder to write into, found")


def test_two_bundles_of_one_name_are_told_apart_and_said() -> None:
    twin = with_name(pool()["wrong"], pool()["h200"].name)
    merged = merge([pool()["h200"], twin], {})
    assert len(merged.bundles) == 2
    (note,) = merged.notes
    assert note.startswith(f"2 bundles have the name {twin.name} and different contents: ")
    for bundle_ in merged.bundles:
        assert bundle_.sha256[:12] in note
    assert note in Reader(render(merged)[0]).text


def with_name(bundle_: Opened, name: str) -> Opened:
    return Opened(name, bundle_.bag, bundle_.records)


def test_kernels_at_hand_are_found_by_plain_names_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/one.py").write_text("text")
    (tmp_path / "secret.py").write_text("text")
    assert digests_at_hand(["one", "two", "../secret", "/etc/passwd", ""]) == {"one": sha256_bytes(b"text")}

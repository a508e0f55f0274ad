"""The page of releases compared: what it shows, and that nothing in a record becomes markup."""

from typing import Any

from records import SOFTMAX, compilation, interpreter, replaced
from test_changes import with_binary, with_build
from test_known_changes import made

from assay.changes import Column, Software, Tiers, Versions, compare_versions
from assay.known_changes import KNOWN
from assay.record import Declaration, Unavailable, Verdict
from assay.versions_page import build_page, conclusion, is_notable, render

HOSTILE = "<script>alert(1)</script> | **bold**"
SOME = Tiers(interpreter(SOFTMAX), compilation(SOFTMAX, ["sm_80"]))
FAILED = Verdict(outcome="failed", cause="compile-error", reason=HOSTILE)


def column(version: str) -> Column:
    software = Software(
        python="3.11.7", torch="2.13.0", numpy="2.4.6", assemblers={"ptxas": "12.8.93"}, environment_sha256="1" * 64
    )
    return Column(version=version, software=software)


def blocked(version: str, reason: str) -> Column:
    return Column(version=version, software=Unavailable(reason=reason))


def compared(*tiers: Tiers, **more: Any) -> Versions:
    versions = ["3.6.0", "3.7.1", "3.8.0", "3.9.0"][: len(tiers)]
    columns = [*map(column, versions), *more.get("columns", [])]
    return compare_versions(columns, {"softmax": dict(zip(versions, tiers, strict=True))})


def texts(found: Versions) -> tuple[str, str]:
    html, markdown = render(found)
    return html.decode(), markdown.decode()


def test_a_release_that_is_blocked_is_a_column_with_its_reason() -> None:
    found = compared(SOME, columns=[blocked("3.9.0", "no space left")])
    html, markdown = texts(found)
    assert "no space left" in html
    assert "| 3.9.0 | ■ blocked: no space left |" in markdown
    assert "Triton 3.6.0 (3.9.0 blocked); kernels: 1, rows: 2;" in conclusion(found)
    assert [len(line.places) for _, lines in build_page(found).kernels for line in lines] == [2, 2]


def test_nothing_at_all_is_a_page_too() -> None:
    found = compare_versions([blocked("3.8.0", "no network")], {})
    html, markdown = texts(found)
    assert "Triton none (3.8.0 blocked); kernels: 0, rows: 0" in conclusion(found)
    assert html.rstrip().endswith("</html>")
    assert "no network" in markdown


def test_what_differs_is_marked_where_it_stands() -> None:
    found = compared(SOME, with_binary(SOME, registers=20))
    html, markdown = texts(found)
    assert '<li class="changed">20 registers</li>' in html
    assert "20 registers∗" in markdown
    assert "168 registers;" in markdown


def test_only_what_a_reader_must_know_stands_outside_the_matrix() -> None:
    counted = compared(SOME, with_binary(SOME, registers=20, binary_sha256="0" * 64, shared_bytes=8))
    assert build_page(counted).notable == []
    failing = compared(SOME, with_build(SOME, compiled=FAILED, binaries=[]))
    (group,) = build_page(failing).notable
    assert (group.kernel, group.targets, group.change.after) == ("softmax", "sm_80", "failed (compile-error)")


def test_kinds_of_tensor_core_instructions_are_told_apart_from_their_number() -> None:
    few, many, other = ({"mma.tf32": 2}, {"mma.tf32": 4}, {"wgmma.tf32": 2})
    builds = [made("sm_90", counts) for counts in (few, many, other)]
    found = compared(*(with_build(SOME, binaries=build.binaries) for build in builds))
    changes = [change for row in found.rows for change in row.changes if change.field == "instructions"]
    assert list(map(is_notable, changes)) == [False, True]


def test_known_changes_are_named_where_they_were_seen_and_also_where_not() -> None:
    declared: Declaration = SOME.compile.declaration  # type: ignore[assignment]
    ieee = replaced(declared, variants=[replaced(declared.variants[0], precision="ieee")])
    before, after = ({"mma.tf32": 2}, {"fma.f32": 32})
    tiers = [
        Tiers(
            SOME.interpreter, replaced(with_build(SOME, binaries=made("sm_80", ptx).binaries).compile, declaration=ieee)
        )
        for ptx in (before, before, after)
    ]
    found = compared(*tiers)
    seen = {sighting.known.name: len(sighting.groups) for sighting in build_page(found).sightings}
    assert seen == {"triton #10176": 0, "triton #9609": 1, "sm_80 stack": 0}
    _, markdown = texts(found)
    assert markdown.count("Not seen here.") == len(KNOWN) - 1
    assert "| 3.7.1 to 3.8.0 | instructions | mma.tf32 2 | fma.f32 32 | triton #9609 |" in markdown
    assert "known changes seen: triton #9609" in conclusion(found)


def test_nothing_in_a_record_becomes_markup() -> None:
    found = compared(SOME, with_build(SOME, compiled=FAILED, binaries=[]), columns=[blocked("3.9.0", HOSTILE)])
    html, markdown = texts(found)
    assert "<script>" not in html + markdown
    assert "**bold**" not in markdown
    assert "&lt;script&gt;" in html


def test_the_same_records_give_the_same_pages() -> None:
    found = compared(SOME, with_binary(SOME, registers=20))
    assert render(found) == render(found)

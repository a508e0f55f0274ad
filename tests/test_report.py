"""The report, from records to pages: nothing is lost, nothing hostile acts, nothing unchecked is shown."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import count, pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from project import PYTHON_PATH
from records import (
    MATMUL,
    SOFTMAX,
    SOURCE,
    TARGETS,
    Subject,
    Tree,
    claim,
    claims_of,
    device,
    environment,
    evidence,
    evidence_of,
    exposure,
    gate,
    replaced,
    status,
    teeth,
    timing,
)

from assay import report
from assay.artifact import read, sha256_bytes, sha256_file
from assay.errors import RecordError, UsageError
from assay.evidence import Evidence
from assay.markdown import escape
from assay.matrix import TARGET_TIERS, WHOLE_TIERS, mark
from assay.outcomes import MARKS
from assay.page import Page, build_page, render, source_hash, without_ends
from assay.record import Cause, Claim, Claims, Link, Outcome, StageName, Teeth, Unavailable, Verdict

ROOT = Path(__file__).parents[1]
VOID = {"meta", "br", "hr", "img", "input", "link", "base", "wbr"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg></td><h1>taken over</h1>",
    "{{ 7 * 7 }} {% raw %} {# gone #}",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "a|b`c``d\n# heading\n```\n| cell |",
    "[click](javascript:alert) ![x](y) <http://example.org>",
    "\u202eevil\u2066 &lt;b&gt;",
]


ENDED_BY = {
    "td": {"td", "th", "tr", "/tr", "/thead", "/tbody"},
    "th": {"td", "th", "tr", "/tr", "/thead", "/tbody"},
    "tr": {"tr", "/thead", "/tbody"},
    "dt": {"dd"},
    "dd": {"dt", "/div"},
}
"""What may stand in place of an end tag that HTML lets a page leave out."""


class Reader(HTMLParser):
    """Reads a page strictly: tags must balance, but for ends that HTML implies; tags, attributes and texts are kept."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(page.decode())
        self.close()
        assert self.open == []

    def end(self, by: str) -> None:
        """Close what is open and ends where `by` stands."""
        while self.open and by in ENDED_BY.get(self.open[-1], ()):
            self.open.pop()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.end(tag)
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert len({name for name, _ in attributes}) == len(attributes)
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        self.end(f"/{tag}")
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        return [value for _, found, value in self.attributes if found == name]


def pages_of(subjects: Sequence[Subject], claims: Sequence[Claim], name: str = "NVIDIA H200") -> tuple[bytes, bytes]:
    """Render the records of some kernels, and other claims than they call for."""
    found = device(name)
    records: list[Evidence] = [evidence("environment", environment(found)), evidence("gate", gate(found))]
    records += [record for subject in subjects for record in evidence_of(subject, found)]
    records += [evidence("teeth", planted(subject.name), subject.name) for subject in subjects]
    numbered = [replaced_number(record, number) for number, record in enumerate(records, start=1)]
    result = Claims(status=status(claims), claims=list(claims), source=SOURCE)
    page = build_page(numbered, evidence("claims", result, None, len(records) + 1), [])
    return render(page)


def planted(text: str) -> Teeth:
    """Return planted faults of every fate, with a text wherever a record can have one."""
    found = teeth(device(text))
    told = Verdict(outcome="failed", cause="wrong-value", reason=text)
    shown = [replaced(exposure("gpu", None), place=text, verdict=told)]
    changes = {"operator": text, "source": text, "replacement": text, "exposures": shown}
    return replaced(found, mutants=[replaced(one, **changes) for one in found.mutants])  # type: ignore[no-any-return]


def replaced_number(record: Evidence, number: int) -> Evidence:
    return Evidence(number, record.path, record.sha256, record.artifact)


def table_rows(markdown: str) -> list[list[str]]:
    """Return the cells of every table row, and check that a table's rows are as wide as its head."""
    rows, width = [], 0
    for line in markdown.split("\n"):
        if not line.startswith("|"):
            width = 0
            continue
        cells = re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]
        width = width or len(cells)
        assert len(cells) == width, line
        rows.append([cell.strip() for cell in cells])
    return rows


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tree]:
    """Lay out records in a fresh folder and go there."""

    def lay_out(subjects: Sequence[Subject] = (MATMUL, SOFTMAX), found: Any = None, teeth: bool = False) -> Tree:
        monkeypatch.chdir(tmp_path)
        return Tree(tmp_path, subjects, found, teeth=teeth).lay_out()

    return lay_out


def written() -> tuple[bytes, bytes]:
    return Path("results/report.html").read_bytes(), Path("results/report.md").read_bytes()


# What is on the pages


@pytest.mark.parametrize("found", [None, device()], ids=["no GPU", "H200"])
def test_the_pages_have_the_status_the_figures_and_where_they_come_from(made: Callable[..., Tree], found: Any) -> None:
    tree = made(found=found)
    assert report.main(tree.options()) == 0
    html, markdown = written()
    shown = Reader(html).text, markdown.decode()
    claims = read(Path("results/claims.json"), "claims").result
    for text in shown:
        assert claims.status.overall in text
        assert claims.status.sentence in text
        assert "2026-11-29T10:00:00Z" in text
        assert "Matrix product, float32" in text
        assert "B1" in text and "|want|" in text.replace("\\", "")  # noqa: PT018
        for path in [*tree.paths, "results/claims.json", "kernels/matmul.py"]:
            assert path in text
            assert sha256_file(Path(path)) in text
        assert ("0.4040" in text) == (found is not None)
        assert ("no NVIDIA driver: libcuda.so.1 cannot be loaded" in text) == (found is None)


def test_the_share_of_every_bound_and_what_a_second_launch_gave_are_shown(made: Callable[..., Tree]) -> None:
    made((MATMUL,), device())
    assert report.main([]) == 0
    html, markdown = written()
    for page in (Reader(html).text, markdown.decode()):
        assert "reduction 0.0136 %, componentwise 0.0136 %" in page
        assert "8 of 8 checks gave the same bits on a second launch" in page
        assert "rounded to nearest, ties away to 10 fraction bits" in page
        assert "2, 2, 4" in page


def test_a_case_that_is_exempt_says_why(made: Callable[..., Tree]) -> None:
    exempt = replace(
        MATMUL, exemptions={MATMUL.cases[1]: {"tf32": "its pieces are too small"}}, once=(MATMUL.cases[1],)
    )
    made((exempt,), device())
    assert report.main([]) == 0
    html, markdown = written()
    for page in (Reader(html).text, markdown.decode()):
        assert "tf32: its pieces are too small" in page
        assert "one configuration" in page


def test_without_planted_faults_the_pages_say_how_to_plant_them(made: Callable[..., Tree]) -> None:
    made((MATMUL, SOFTMAX))
    assert report.main([]) == 0
    for page in (Reader(written()[0]).text, written()[1].decode()):
        assert "No faults were planted in matmul, softmax; snakemake --cores 1 teeth does it." in page


def test_planted_faults_are_scored_beside_the_reference_and_survivors_named(made: Callable[..., Tree]) -> None:
    made((MATMUL, SOFTMAX), teeth=True)
    assert report.main([]) == 0
    html, markdown = written()
    assert "No faults were planted" not in Reader(html).text
    for page in (Reader(html).text, markdown.decode()):
        for alone, caught, faults, accepted in ((2, 10, 12, 2), (1, 5, 6, 1)):
            said = f"tolerance catch {alone} of {faults} of these faults; this pipeline catches {caught} of {faults}"
            assert f"{said}, {accepted} accepted as equivalent on the author's word." in page
        assert "x = load(x_ptr, change-initial=2)" in page
        assert "it is scaled by 0" in page
        assert "x = load(x_ptr, int64-to-int32=2)" in page
        assert "sentinel broken" in page


def test_a_check_more_takes_little_room() -> None:
    sizes = []
    for cases in (10, 20):
        subject = replace(MATMUL, cases=[f"ragged-{n}x131x77" for n in range(cases)])
        html, markdown = pages_of((subject,), [claim()])
        sizes.append((len(html), len(markdown)))
    # Ten cases of four variants at two tiers.
    (small_html, small_markdown), (large_html, large_markdown) = sizes
    assert (large_html - small_html) / 80 < 700
    assert (large_markdown - small_markdown) / 80 < 200


def test_a_claim_more_with_evidence_of_its_own_takes_little_room() -> None:
    record = evidence_of(MATMUL, device())[0]

    def page(number: int) -> tuple[bytes, bytes]:
        link = Link(artifact=record.path, sha256=record.sha256, pointer="/result/checks/1")
        return pages_of(
            (MATMUL,), [claim(variant=f"ieee/{n}", reason=f"case {n}", links=[link]) for n in range(number)]
        )

    (small_html, small_markdown), (large_html, large_markdown) = page(100), page(300)
    # So a thousand claims leave half of 2 MiB to everything else; what stands at a place is quoted once.
    assert (len(large_html) - len(small_html)) / 200 < 1000
    assert (len(large_markdown) - len(small_markdown)) / 200 < 250


def full(number: int) -> tuple[Subject, list[Claim]]:
    """Return a kernel of 6 variants and 24 cases, and its claims on 7 targets; each that is verified has evidence of
    its own.
    """
    cases = [f"ragged-{n}x131x77" for n in range(24)]
    precisions, configurations = ("ieee", "tf32", "bf16x3"), ("64x64x32", "128x64x64")
    kernel = Subject(f"kernel_{number}", "A kernel", precisions, configurations, cases)
    record = evidence_of(kernel, device())[0]
    places = count()

    def settled(one: Claim) -> Claim:
        place = next(places)
        link = Link(artifact=record.path, sha256=record.sha256, pointer=f"/result/checks/{place}")
        return replaced(one, reason=f"24 of 24 cases passed, {place}", links=[link])  # type: ignore[no-any-return]

    targets = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
    claims = [settled(one) if one.outcome == "passed" else one for one in claims_of(kernel, targets, device())]
    return kernel, claims


def test_eight_kernels_on_a_device_stay_small_enough_to_send() -> None:
    kernels = [full(number) for number in range(8)]
    html, _ = pages_of([kernel for kernel, _ in kernels], [claim for _, claims in kernels for claim in claims])
    assert len(html) < 2 * 2**20


def test_end_tags_are_left_out_only_where_the_next_tag_implies_them() -> None:
    row = "<tr><th>a</th><td>b</td></tr>"
    assert without_ends(f"<tbody>{row}\n{row}\n</tbody>") == "<tbody><tr><th>a<td>b\n<tr><th>a<td>b\n</tbody>"
    assert without_ends("<div><dt>a</dt><dd>b</dd></div>") == "<div><dt>a<dd>b</div>"
    for kept in ("<td>a</td>\n<td>b", "<td>a</td><!-- b -->", "</tr></table>", "<pre>&lt;/td&gt;&lt;td&gt;</pre>"):
        assert without_ends(kept) == kept


def swept(subject: Subject, change: Callable[[Any], Any]) -> Evidence:
    """Return a record of timing whose sweep was changed."""
    found = timing(subject, device())
    return evidence("timing", replaced(found, sweeps=[change(found.sweeps[0])]), subject.name)


def timed_page(change: Callable[[Any], Any]) -> tuple[bytes, bytes]:
    result = Claims(status=status([claim()]), claims=[claim()], source=SOURCE)
    return render(build_page([swept(MATMUL, change)], evidence("claims", result, None, 2), []))


def left_out(sweep: Any) -> Any:
    """Return a sweep from which the short round left out the second variant."""
    pruned = Verdict(outcome="inapplicable", cause="pruned", reason="more than 1.5 times as slow")
    row = replaced(sweep.rows[1], verdict=pruned, screen_ns=[700000.0])
    return replaced(sweep, rows=[sweep.rows[0], row, *sweep.rows[2:]])


def launch_bound(sweep: Any) -> Any:
    return replaced(sweep, rows=[replaced(row, launch_bound=True) for row in sweep.rows], outside=[3, 4, 5])


def test_how_a_size_was_sampled_is_on_both_pages() -> None:
    html, markdown = timed_page(launch_bound)
    for page in (Reader(html).text, markdown.decode()):
        assert re.search(r"replay \(launch-bound: 0\.4040? by events\)", page)
        assert "ieee/64x64x32 over itself: " in page
        assert "rounds, kept and not used: 3 to 5; " in page
        assert "sets in turn of 48 MiB from seed 20260901" in page
        assert "none is both faster and at least as accurate as" in page
        assert "Not in the picture: cuBLAS fp32 (no error: nothing is claimed of it)" in page
        assert "of the device, 0 s of it preparing libraries and 2.1 s sampling: " in page


def test_what_a_search_left_out_is_on_both_pages_and_each_table_has_its_caption() -> None:
    html, markdown = timed_page(left_out)
    found = Reader(html)
    assert found.tags.count("caption") == found.tags.count("table")
    for page in (found.text, markdown.decode()):
        assert "more than 1.5 times as slow" in page
        assert "0.7000" in page


def test_an_entrant_more_takes_little_room() -> None:
    def more(sweep: Any) -> Any:
        entrants = [replaced(sweep.rows[0], entrant=f"ieee/m128n128k{n}w4s3") for n in range(40)]
        return replaced(sweep, rows=[*sweep.rows, *entrants])

    (small_html, small_markdown), (large_html, large_markdown) = timed_page(lambda sweep: sweep), timed_page(more)
    assert (len(large_html) - len(small_html)) / 40 < 900
    assert (len(large_markdown) - len(small_markdown)) / 40 < 300


def test_kernel_source_is_quoted_with_its_digest(made: Callable[..., Tree]) -> None:
    made((MATMUL,))
    assert report.main([]) == 0
    text = '    x = load(x_ptr, other="<b>")\n'
    html, markdown = written()
    for page in (Reader(html).text, markdown.decode()):
        assert "matmul-load" in page
        assert text.strip() in page
        assert sha256_bytes(text.encode()) in page
    assert f"```python\n{text}```" in markdown.decode()


def test_the_record_vouches_for_both_pages_and_names_all_it_was_made_from(made: Callable[..., Tree]) -> None:
    tree = made()
    assert (
        report.main(["--html", "results/a.html", "--markdown", "results/a.md", "--out", "results/a/report.json"]) == 0
    )
    artifact = read(Path("results/a/report.json"), "report")
    assert artifact.result.outputs == {name: sha256_file(Path(name)) for name in ("results/a.html", "results/a.md")}
    assert artifact.result.status == read(Path("results/claims.json"), "claims").result.status
    expected = {*tree.paths, "results/claims.json", "kernels/matmul.py", "kernels/softmax.py", "assay/report.py"}
    assert expected | {"reports/report.html.j2", "reports/report.css"} <= set(artifact.materials)


def test_the_recorded_command_makes_the_same_pages_again(made: Callable[..., Tree]) -> None:
    made()
    assert report.main(["--html", "results/new.html"]) == 0
    command = read(Path("results/report.json"), "report").command
    before = Path("results/new.html").read_bytes()
    Path("results/new.html").unlink()
    assert command[:4] == ["python", "-m", "assay", "report"]
    assert report.main(command[4:]) == 0
    assert Path("results/new.html").read_bytes() == before


def test_the_same_records_give_the_same_bytes_in_whatever_order_they_are_named(made: Callable[..., Tree]) -> None:
    tree = made(found=device())
    report.main(tree.options())
    first = written()
    report.main([word for path in reversed(tree.paths) for word in ("--record", path)])
    assert written() == first


def test_a_record_without_declaration_leaves_the_others_whole(made: Callable[..., Tree]) -> None:
    tree = made((MATMUL, SOFTMAX))
    broken = Verdict(outcome="failed", cause="import-error", reason="kernels/matmul.py:3: SyntaxError: invalid syntax")
    empty: dict[StageName, tuple[str, ...]] = {
        "interpreter": ("checks", "contrasts"),
        "compile": ("builds", "findings"),
    }
    for stage, names in empty.items():
        result = read(Path(f"results/matmul/{stage}.json"), stage).result
        nothing: dict[str, list[Any]] = {name: [] for name in names}
        tree.evidence(stage, "matmul", replaced(result, loading=broken, declaration=None, **nothing))
    tree.claim([claim("matmul", "*", "interpreted", None, "failed", "import-error", broken.reason)])
    assert report.main([]) == 0
    for page in written():
        assert b"SyntaxError: invalid syntax" in page
        assert b"Row softmax, float32" in page


# Every claim is shown

claims = st.lists(
    st.builds(
        claim,
        kernel=st.sampled_from(["matmul", "softmax"]),
        variant=st.sampled_from(["ieee/a", "tf32/b"]),
        tier=st.sampled_from([*WHOLE_TIERS, *TARGET_TIERS]),
        target=st.sampled_from(TARGETS),
        outcome=st.sampled_from(get_args(Outcome)),
        cause=st.none() | st.sampled_from(get_args(Cause)),
    ),
    unique_by=lambda c: (c.kernel, c.variant, c.tier, None if c.tier in WHOLE_TIERS else c.target),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(claims)
def test_every_claim_has_its_outcome_in_both_pages(given_claims: list[Claim]) -> None:
    html, markdown = pages_of((), given_claims)
    titles = Reader(html).values("title")
    columns = sorted({c.target for c in given_claims if c.tier not in WHOLE_TIERS}, key=lambda t: int(str(t)[3:]))
    kernel, cells = "", {}
    whole = ["interpreted", *(["teeth"] if any(c.tier == "teeth" for c in given_claims) else [])]
    for line in markdown.decode().split("## What was not shown")[0].split("\n"):
        kernel = line.removeprefix("### Kernel ") if line.startswith("### Kernel") else kernel
        if line.startswith("| ") and "/" in line:
            variant, *rest = [cell[1:-1] for cell in line.split("|")[1:-1]]
            cells[kernel, variant] = rest
    for c in given_claims:
        assert any(title.startswith(f"{c.tier} on {c.target}: {mark(c).word}") for title in titles)
        row = cells[c.kernel, c.variant]
        if c.tier in WHOLE_TIERS:
            assert row[whole.index(c.tier)] == mark(c).symbol
        else:
            assert row[len(whole) + columns.index(c.target)][TARGET_TIERS.index(c.tier)] == mark(c).symbol


def test_an_outcome_is_told_by_symbol_style_and_words() -> None:
    outcomes: list[tuple[Outcome, Cause | None]] = [
        ("passed", None),
        ("failed", "wrong-value"),
        ("cantTell", "noise"),
        ("untested", "no-device"),
        ("untested", None),
        ("inapplicable", "capability"),
    ]
    given_claims = [
        claim(variant=f"v/{place}", outcome=o, cause=c, reason=f"reason {place}")
        for place, (o, c) in enumerate(outcomes)
    ]
    html, _ = pages_of((), given_claims)
    for place, c in enumerate(given_claims):
        shown = mark(c)
        cell = f'<td class="{shown.style}[^"]*"><a [^>]*title="[^"]*{shown.word}[^"]*reason {place}[^"]*">'
        assert re.search(f"{cell}<i>{shown.word}</i>", html.decode())
    for shown in MARKS:
        assert f'.{shown.style} {{ --symbol: "{shown.symbol}"; }}' in html.decode()
    assert {c.style for c in map(mark, given_claims)} == {m.style for m in MARKS} - {"conflict"}


def test_hundreds_of_blocked_claims_take_a_few_lines(made: Callable[..., Tree]) -> None:
    made()
    report.main([])
    section = written()[1].decode().split("## What was not shown")[1].split("\n## ")[0]
    assert section.count("15 claims") == 3
    assert len(section.strip().split("\n")) < 12


# Nothing hostile acts


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_reasons_stay_text(text: str) -> None:
    subject = replaced_subject(text)
    given_claims = [claim(kernel=text, variant=text, target=text, outcome="failed", cause="crash", reason=text)]
    html, markdown = pages_of((subject,), [*given_claims, *claims_of(subject, TARGETS, device(text))], text)
    harmless = pages_of((replaced_subject("x"),), [claim(), *claims_of(MATMUL, TARGETS, device())])
    read_html = Reader(html)
    assert set(read_html.tags) == set(Reader(harmless[0]).tags)
    assert_self_contained(read_html, html)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", (html + markdown).decode())
    table_rows(outside_fences(markdown.decode()))
    assert escape(text) in markdown.decode()


def replaced_subject(text: str) -> Subject:
    return Subject(
        text,
        text,
        (text,),
        (text,),
        (text, f"{text} 2"),
        text,
        {text: text},
        {text: text},
        {f"{text} 2": {text: text}},
        dot=True,
    )


def outside_fences(markdown: str) -> str:
    """Return the lines outside code blocks; a fence that hostile text could end would leave its rest among them."""
    kept, fence = [], ""
    for line in markdown.split("\n"):
        ticks = re.match(r"`{3,}", line)
        if not fence and ticks:
            fence = ticks[0]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            kept.append(line)
    assert fence == ""
    return "\n".join(kept)


def test_hostile_text_starts_no_heading_of_its_own() -> None:
    text = "x\n# owned\n## owned too\n</td>"
    given_claims = [claim(reason=text, outcome="failed", cause="crash", kernel=text, variant=text)]
    markdown = outside_fences(pages_of((replaced_subject(text),), given_claims, text)[1].decode())
    headings = [line for line in markdown.split("\n") if line.startswith("#")]
    assert not any(line.startswith(("# owned", "## owned")) for line in headings)


def test_templates_in_records_are_not_run() -> None:
    html, markdown = pages_of((), [claim(reason="{{ 7 * 7 }}{% for x in page %}", outcome="failed", cause="crash")])
    for page in (html, markdown):
        assert b"{{ 7 * 7 }}{% for x in page %}" in page


def assert_self_contained(page: Reader, html: bytes) -> None:
    """Check that a page loads nothing, runs nothing but its own script, and links only into itself."""
    assert page.tags.count("script") == 1
    assert_only_its_own_script_runs(html)
    assert not {"img", "link", "iframe", "object", "embed", "base", "form", "image"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset", "style")]
    offered = [value for value in page.values("href") if value.startswith("data:text/csv;charset=utf-8,")]
    assert len(offered) == len(page.values("download")) == len(re.findall(rb"<figure", html))
    links = [value for value in page.values("href") if value not in offered]
    assert all(value.startswith("#") for value in links)
    assert {value[1:] for value in links} <= set(page.values("id"))
    assert len(page.values("id")) == len(set(page.values("id")))
    style = html.decode().split("<style>")[1].split("</style>")[0]
    assert not re.search(r"url\(|@import|@font-face|https?:", style)


def assert_only_its_own_script_runs(html: bytes) -> None:
    """Check that the policy allows one script, by the digest of the one that is there."""
    page = html.decode()
    script = page.split("<script>")[1].split("</script>")[0]
    (policy,) = (v for v in Reader(html).values("content") if v.startswith("default-src"))
    (allowed,) = (rule for rule in policy.split("; ") if rule.startswith("script-src "))
    assert allowed == f"script-src {source_hash(script)}"
    styles = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    (allowed,) = (rule for rule in policy.split("; ") if rule.startswith("style-src "))
    assert allowed == " ".join(["style-src", *map(source_hash, styles)])
    assert script == (ROOT / "reports/report.js").read_text("utf-8")
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("found", [None, device()], ids=["no GPU", "H200"])
def test_the_page_is_one_file_that_loads_nothing(made: Callable[..., Tree], found: Any) -> None:
    made(found=found, teeth=True)
    report.main([])
    html, markdown = written()
    page = Reader(html)
    assert_self_contained(page, html)
    assert b"http://" not in html
    assert b"src=" not in html
    assert "default-src 'none'" in html.decode()
    table_rows(outside_fences(markdown.decode()))


def test_the_page_can_be_read_aloud_and_without_a_pointer(made: Callable[..., Tree]) -> None:
    made(found=device(), teeth=True)
    report.main([])
    page = Reader(written()[0])
    tables = page.tags.count("table")
    assert page.tags.count("caption") == tables
    assert all(("th", "scope") in {(t, n) for t, n, _ in page.attributes} for _ in range(tables))
    assert page.tags.count("th") == len([1 for tag, name, _ in page.attributes if (tag, name) == ("th", "scope")])
    drawings = re.findall(r"<svg [^>]*>", written()[0].decode())
    assert drawings
    ids = set(page.values("id"))
    for drawing in drawings:
        if "lineage" in drawing:
            assert 'role="group" aria-label="' in drawing
            continue
        assert 'role="img"' in drawing
        assert set(re.findall(r'aria-(?:labelledby|describedby)="([^"]*)"', drawing)) <= ids
        assert drawing.count("aria-") == 2
    headings = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))


def test_a_longer_table_row_would_be_noticed() -> None:
    with pytest.raises(AssertionError):
        table_rows("| a | b |\n|---|---|\n| 1 | 2 | 3 |")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_text_breaks_either_page(text: str) -> None:
    subject = replaced_subject(text)
    html, markdown = pages_of((subject,), [claim(kernel=text, variant=text, reason=text, outcome="failed")], text)
    assert_self_contained(Reader(html), html)
    table_rows(outside_fences(markdown.decode()))


# Nothing unchecked is shown


def test_a_record_that_is_refused_leaves_no_page(made: Callable[..., Tree]) -> None:
    tree = made()
    Path("kernels/softmax.py").write_text("edited", "utf-8")
    with pytest.raises(RecordError, match=r"results/softmax/interpreter\.json: stale, kernels/softmax\.py has changed"):
        report.main(tree.options())
    assert sorted(path.name for path in Path("results").glob("report*")) == []


def test_a_refused_rerun_leaves_the_earlier_pages_in_place(made: Callable[..., Tree]) -> None:
    tree = made()
    report.main(tree.options())
    before = written(), Path("results/report.json").read_bytes()
    path = Path("results/matmul/timing.json")
    path.write_bytes(path.read_bytes().replace(b"no NVIDIA driver", b"a new excuse here"))
    with pytest.raises(RecordError, match=r"results/matmul/timing\.json: .*edited.*run stage 'timing' again"):
        report.main(tree.options())
    assert (written(), Path("results/report.json").read_bytes()) == before


def test_sources_that_change_while_rendering_leave_no_page(
    made: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = made()

    def meanwhile(page: Page) -> tuple[bytes, bytes]:
        Path("kernels/matmul.py").write_text("edited", "utf-8")
        return render(page)

    monkeypatch.setattr(report, "render", meanwhile)
    with pytest.raises(RecordError, match=r"kernels/matmul\.py: changed while stage 'report' ran"):
        report.main(tree.options())
    assert not list(Path("results").glob("report*"))


@pytest.mark.parametrize("name", ["results/notes.json", "kernels/matmul.py"])
def test_a_file_that_is_no_record_is_refused(made: Callable[..., Tree], name: str) -> None:
    made()
    with pytest.raises(UsageError, match=f"--record: expected a file named after its stage, .*found {re.escape(name)}"):
        report.main(["--record", name])


def test_missing_templates_are_named(made: Callable[..., Tree], tmp_path: Path) -> None:
    made()
    (tmp_path / "reports").unlink()
    with pytest.raises(UsageError, match=r"reports/report\.html\.j2: expected the report's template, found none"):
        report.main([])


def test_the_command_refuses_in_one_sentence_and_no_traceback(made: Callable[..., Tree], tmp_path: Path) -> None:
    made()
    (tmp_path / "results/matmul/gpu.json").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "assay", "report", "--record", "results/matmul/gpu.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("assay report: results/matmul/gpu.json: cannot be read (No such file or directory)")
    assert done.stderr.count("\n") == 1


def test_an_unavailable_value_is_never_shown_as_empty(made: Callable[..., Tree]) -> None:
    tree = made((), device())
    unread = replaced(environment(device()), devices=[], torch_cuda=Unavailable(reason="torch has no CUDA"))
    tree.evidence("environment", None, unread)
    tree.paths = sorted(set(tree.paths))
    tree.claim([])
    report.main([])
    for page in (Reader(written()[0]).text, written()[1].decode()):
        assert "unavailable (torch has no CUDA)" in page
        assert "the driver lists none" in page

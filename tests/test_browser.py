"""The pages in a real browser: they are read on a phone and on paper, by keyboard, by finger, and without their script.

Skipped, with the reason, where there is no Chromium.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from browser import obstacle, started
from playwright.sync_api import Browser, BrowserContext, Dialog, Locator
from playwright.sync_api import Page as Tab
from records import MATMUL, SOFTMAX, Subject, claim, claims_of, device, evidence_of, replaced
from test_merge import pool
from test_report import HOSTILE, pages_of

from assay.merged_page import render as render_merged
from assay.merging import merge
from assay.outcomes import MARKS
from assay.record import Cause, Link, Outcome

PHONE, LAPTOP = (390, 844), (1366, 768)
PAPER = 703
"""The width of A4 without margins of 12 mm, in pixels of CSS."""
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
LONG = "a-name-without-a-break-" * 12

# Counts how far things move that nobody moved, from the first paint on.
WATCH = """
window.moved = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.moved += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""


@dataclass
class Visit:
    """One page in one tab, and what it did that it should not."""

    tab: Tab
    url: str
    said: list[str]
    asked: list[str]

    def at(self, selector: str, **options: Any) -> Locator:
        return self.tab.locator(selector, **options)

    def run(self, script: str) -> Any:
        return self.tab.evaluate(script)

    @property
    def focus(self) -> str:
        return str(self.run("document.activeElement.id"))

    def cells(self) -> Locator:
        return self.at(".matrix td a")


def large() -> tuple[bytes, bytes]:
    """Return a report of 8 kernels, 6 variants each, and 10 columns beside the interpreter's."""
    precisions, configurations = ("ieee", "tf32", "bf16x3"), ("64x64x32", "128x64x64")
    kernels = [Subject(f"kernel_{n}", f"A kernel, number {n}", precisions, configurations) for n in range(8)]
    return pages_of(kernels, [c for kernel in kernels for c in claims_of(kernel, ("sm_80", "sm_90"), device())])


def small() -> tuple[bytes, bytes]:
    """Return a report with an outcome of every kind."""
    kinds: list[tuple[str, Outcome, Cause | None]] = [
        ("sm_80", "failed", "wrong-value"),
        ("sm_86", "cantTell", "noise"),
        ("sm_89", "untested", None),
        ("sm_90", "failed", "wrong-value"),
    ]
    made = evidence_of(MATMUL, device())[0]
    places = [Link(artifact=made.path, sha256=made.sha256, pointer=f"/result/checks/{n}") for n in range(len(kinds))]
    odd = [
        claim("matmul", "tf32/64x64x32", "timed", target, outcome, cause, links=[place])
        for (target, outcome, cause), place in zip(kinds, places, strict=True)
    ]
    stale = replaced(claim("softmax", "f32/warps8", "interpreted", None), freshness="stale")
    return pages_of((MATMUL, SOFTMAX), [*claims_of(MATMUL, ("sm_75", "sm_90"), device()), *odd, stale])


def hostile() -> tuple[bytes, bytes]:
    """Return a report whose every name is an attack, or too long."""
    texts = [*HOSTILE, "<img src=x onerror='window.owned = 1'>", "';window.owned=1//", LONG]
    claims = [claim(t, t, target=t, outcome="failed", cause="crash", reason=t) for t in texts]
    return pages_of([Subject(LONG, LONG, (LONG,), (LONG,), (LONG, "x"), LONG, {LONG: LONG})], claims, "".join(HOSTILE))


PAGES: dict[str, Callable[[], tuple[bytes, bytes]]] = {
    "small": small,
    "large": large,
    "hostile": hostile,
    "merged": lambda: render_merged(merge(pool().values(), {})),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages as files, whole: that they are one file each is part of what is tried."""
    folder = tmp_path_factory.mktemp("pages")
    for name, page in PAGES.items():
        (folder / f"{name}.html").write_bytes(page()[0])
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if reason := obstacle():
        pytest.skip(reason)
    with started() as running:
        yield running


@pytest.fixture
def visit(browser: Browser, files: dict[str, Path]) -> Iterator[Callable[..., Visit]]:
    """Open a page in a tab of its own, at a size, in a colour scheme, with or without scripts and a finger."""
    contexts: list[BrowserContext] = []

    def go(name: str, size: tuple[int, int] = LAPTOP, dark: bool = False, **options: Any) -> Visit:
        scheme: Any = "dark" if dark else "light"

        def refuse(dialog: Dialog) -> None:
            said.append(dialog.message)
            dialog.dismiss()

        contexts.append(
            browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options)
        )
        tab, said, asked = contexts[-1].new_page(), list[str](), list[str]()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", refuse)
        tab.on("request", lambda request: asked.append(request.url))
        tab.add_init_script(WATCH)
        url = files[name].as_uri()
        tab.goto(url)
        return Visit(tab, url, said, asked)

    yield go
    for context in contexts:
        context.close()


# At every size, in every light


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_loads_nothing_fits_and_holds_still(
    visit: Callable[..., Visit], name: str, size: tuple[int, int], dark: bool
) -> None:
    seen = visit(name, size, dark)
    seen.run("scrollTo(0, document.body.scrollHeight); new Promise((done) => setTimeout(done, 50))")
    assert seen.run("window.moved") == 0
    seen.run("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    assert seen.run("document.documentElement.scrollWidth") == size[0]
    assert seen.said == []
    assert seen.asked == [seen.url]


def test_what_moves_by_itself_would_be_noticed(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    seen.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seen.run("document.body.prepend(Object.assign(document.createElement('p'), {textContent: 'late'}))")
    seen.run("new Promise((done) => setTimeout(done, 100))")
    assert seen.run("window.moved") > 0


def grave(seen: Visit, **options: Any) -> list[tuple[str, str, str]]:
    """Return what axe-core calls serious or critical: the rule, the first place and what to do about it."""
    found = seen.tab.evaluate("(options) => axe.run({resultTypes: ['violations'], ...options})", options)
    return [
        (rule["id"], rule["nodes"][0]["html"], rule["nodes"][0]["failureSummary"])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", ["small", "merged"])
def test_a_checker_of_accessibility_finds_nothing_serious(visit: Callable[..., Visit], name: str) -> None:
    seen = visit(name)
    seen.run("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    seen.cells().first.focus()
    seen.run(AXE.read_text("utf-8"))
    assert grave(seen) == []
    # In the dark only the colours are others.
    seen.tab.emulate_media(color_scheme="dark")
    assert grave(seen, runOnly=["color-contrast"]) == []


def test_the_checker_of_accessibility_would_notice(visit: Callable[..., Visit]) -> None:
    seen = visit("hostile")
    seen.run(AXE.read_text("utf-8"))
    seen.run("document.querySelector('h1').style.color = 'color-mix(in srgb, var(--paper) 85%, var(--ink))'")
    assert [rule for rule, _, _ in grave(seen, runOnly=["color-contrast"])] == ["color-contrast"]


def test_on_paper_everything_is_open_and_nothing_is_cut_off(visit: Callable[..., Visit]) -> None:
    seen = visit("small", (794, 1123))
    folded = seen.at("details:not([open])").count()
    assert folded
    seen.tab.emulate_media(media="print")
    hidden = "[...document.querySelectorAll('.exhibit pre')].filter((one) => !one.checkVisibility()).length"
    assert seen.run(hidden) == 0
    assert not seen.at("nav").is_visible()
    assert seen.run("getComputedStyle(document.querySelector('.matrix-box')).overflow") == "visible"
    spelled = seen.run("getComputedStyle(document.querySelector('a.source'), '::after').content")
    assert spelled == '" (" attr(title) ")"' or "results/claims.json" in spelled
    seen.tab.set_viewport_size({"width": PAPER, "height": 1000})
    assert seen.run("document.documentElement.scrollWidth") <= PAPER
    assert seen.tab.pdf().startswith(b"%PDF")
    assert seen.at("details:not([open])").count() == folded


# Reading


def test_every_section_is_reached_and_folds(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    links = seen.at("nav a")
    sections = seen.run("[...document.querySelectorAll('main > section')].map((one) => '#' + one.id)")
    assert [links.nth(n).get_attribute("href") for n in range(links.count())] == sections
    for section in sections:
        seen.at(f"nav a[href='{section}']").click()
        heading = seen.at(f"{section} h2")
        top = heading.bounding_box()
        assert top is not None
        assert 0 <= top["y"] < LAPTOP[1]
        heading.click()
        assert seen.at(f"{section} > details").get_attribute("open") is None
    # A link into a folded section opens it.
    seen.run("location.hash = '#r1'")
    seen.at("#r1").wait_for(state="visible")


def test_the_outcome_is_told_by_more_than_colour(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    shown = {
        (cell["style"], cell["text"])
        for cell in seen.run(
            "[...document.querySelectorAll('.matrix td a')].map((a) => "
            "({style: a.parentElement.classList[0], text: getComputedStyle(a, '::before').content.split('\"')[1] + "
            "a.textContent.replace('*', '').replace(', stale', '')}))"
        )
    }
    known = {(mark.style, f"{mark.symbol}{mark.word}") for mark in MARKS}
    assert shown == known
    assert seen.cells().filter(has_text="*").count() == 1


def test_a_large_matrix_keeps_its_names_in_sight(visit: Callable[..., Visit]) -> None:
    seen = visit("large", PHONE)
    assert seen.cells().count() == 8 * 6 * 11
    assert seen.at(".matrix tbody tr:not(.group)").count() == 48
    seen.run("location.hash = '#claims'")
    box = seen.at(".matrix-box")
    box.evaluate("(box) => box.scrollTo(120, 400)")
    frame = box.bounding_box()
    head = seen.at(".matrix thead").bounding_box()
    name = seen.at(".matrix tbody tr:nth-child(5) th").nth(3).bounding_box()
    cell = seen.cells().first.bounding_box()
    assert frame is not None and head is not None and name is not None and cell is not None  # noqa: PT018
    assert abs(head["y"] - frame["y"]) <= 1
    assert abs(name["x"] - frame["x"]) <= 1
    assert name["width"] <= 0.4 * PHONE[0]
    # WCAG 2.2, 2.5.8: targets of at least 24 by 24 pixels.
    assert min(cell["width"], cell["height"]) >= 24


# The matrix by keyboard, pointer and finger


def test_the_matrix_is_one_stop_and_arrows_move_in_it(visit: Callable[..., Visit]) -> None:
    seen = visit("large")
    seen.at(".matrix-box").focus()
    seen.tab.keyboard.press("Tab")
    while not re.fullmatch(r"c\d+", seen.focus):
        seen.tab.keyboard.press("Tab")
    order = seen.run("[...document.querySelectorAll('.matrix td a')].map((cell) => cell.id)")
    at = [order[n : n + 11] for n in range(0, len(order), 11)]
    assert seen.focus == at[0][0]
    for key, row, column in (
        ("ArrowRight", 0, 1),
        ("ArrowDown", 1, 1),
        ("End", 1, 10),
        ("ArrowRight", 1, 10),
        ("PageDown", 6, 10),
        ("ArrowDown", 7, 10),
        ("ArrowLeft", 7, 9),
        ("Control+End", 47, 10),
        ("PageUp", 36, 10),
        ("Home", 36, 0),
        ("ArrowUp", 35, 0),
        ("Control+Home", 0, 0),
        ("ArrowUp", 0, 0),
    ):
        seen.tab.keyboard.press(key)
        assert seen.focus == at[row][column], key
        assert seen.at("#tip").is_visible()
    seen.tab.keyboard.press("Tab")
    assert not re.fullmatch(r"c\d+", seen.focus)
    seen.tab.keyboard.press("Shift+Tab")
    assert seen.focus == at[0][0]


def test_the_reason_is_told_on_focus_and_escape_takes_it_away(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    cell = seen.at(".matrix td.failed a").first
    cell.focus()
    said = seen.at(f"#{cell.get_attribute('aria-describedby')}")
    assert said.inner_text() == "timed on sm_80: failed (wrong-value). 9 of 9 cases passed"
    seen.tab.keyboard.press("Escape")
    assert not said.is_visible()


def test_enter_opens_the_evidence_and_it_leads_back(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    cell = seen.cells().nth(3)
    place, goal = cell.get_attribute("id"), (cell.get_attribute("href") or "")[1:]
    cell.focus()
    seen.tab.keyboard.press("Enter")
    exhibit = seen.at(f"#{goal}")
    exhibit.wait_for(state="visible")
    assert seen.focus == goal
    exhibit.locator(f"a[href='#{place}']").click()
    assert seen.focus == place
    assert seen.run(f"location.hash === '#{place}'")


def test_hovering_tells_the_reason_and_the_tip_can_be_reached(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    cell = seen.at(".matrix td.inconclusive a").first
    cell.hover()
    tip = seen.at("#tip")
    assert "inconclusive (noise)" in tip.inner_text()
    tip.hover()
    tip.get_by_role("link").click()
    assert f"#{seen.focus}" == cell.get_attribute("href")
    assert not tip.is_visible()


def test_a_tap_tells_the_reason_and_a_second_one_goes_to_the_evidence(visit: Callable[..., Visit]) -> None:
    seen = visit("small", PHONE, has_touch=True, is_mobile=True)
    cell = seen.cells().nth(2)
    cell.tap()
    assert seen.at("#tip").is_visible()
    assert seen.run("location.hash") == ""
    seen.cells().nth(3).tap()
    assert seen.run("location.hash") == ""
    seen.cells().nth(3).tap()
    assert seen.run("location.hash") == seen.cells().nth(3).get_attribute("href")


# Evidence and provenance


def test_the_evidence_of_a_cell_walks_back_to_its_record_and_its_sources(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    cell = seen.at(".matrix td.failed a").first
    cell.click()
    exhibit = seen.at(f"#{seen.focus}")
    record = evidence_of(MATMUL, device())[0]
    for words in (record.path, record.sha256[:12], "/result/checks/0", "outcome: passed", "case: aligned"):
        assert words in exhibit.inner_text()
    exhibit.get_by_role("link", name=record.path).click()
    row = seen.at(f"#{seen.focus}")
    assert record.sha256 in row.inner_text()
    row.get_by_role("link", name="interpreter").click()
    node = seen.at(f"#{seen.focus}")
    assert node.get_attribute("aria-label") == f"interpreter, {record.path}, sha256 {record.sha256[:12]}"
    node.click()
    assert record.sha256 in seen.at(f"#{seen.focus}").inner_text()
    row.get_by_role("link", name="source files").click()
    assert seen.focus == "sources"


def test_every_link_leads_somewhere_on_every_page(visit: Callable[..., Visit]) -> None:
    for name in PAGES:
        seen = visit(name)
        links = seen.run("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href') || '')")
        known = set(seen.run("[...document.querySelectorAll('[id]')].map((one) => '#' + one.id)"))
        assert {link for link in links if not link.startswith("data:")} <= known | {""}, name


# Tables


def column(seen: Visit, table: str, number: int) -> list[str]:
    cells = seen.at(f"{table} tbody tr:not(.command)").locator(f"> :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_a_table_sorts_by_number_both_ways_and_back(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    before = column(seen, ".gaps", 2)
    button = seen.at(".gaps").get_by_role("button", name="Claims")
    header = seen.at(".gaps th", has=seen.tab.get_by_role("button", name="Claims"))
    for direction in ("ascending", "descending"):
        button.click()
        assert header.get_attribute("aria-sort") == direction
        assert column(seen, ".gaps", 2) == sorted(before, key=int, reverse=direction == "descending")
    button.click()
    assert header.get_attribute("aria-sort") is None
    assert column(seen, ".gaps", 2) == before


def test_the_matrix_sorts_by_outcome_within_each_kernel(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    names = "[...document.querySelectorAll('.matrix tbody')].map((b) => [...b.rows].map((r) => r.cells[0].innerText))"
    before = seen.run(names)
    seen.at(".matrix thead tr:nth-child(2) th.start button").first.click()
    for group, was in zip(seen.run(names), before, strict=True):
        assert group[0] == was[0]
        assert sorted(group) == sorted(was)
    seen.at(".matrix thead th[abbr='sm_80 timed'] button").click()
    assert seen.run(names)[0][1] == "tf32/64x64x32"
    rows = seen.at(".records tbody")
    first = rows.first.get_attribute("id")
    seen.at(".records").get_by_role("button", name="Record").click()
    seen.at(".records").get_by_role("button", name="Record").click()
    assert rows.first.get_attribute("id") != first
    assert rows.first.locator("tr").count() == 2


def test_a_filter_keeps_the_rows_with_all_words_and_escape_ends_it(visit: Callable[..., Visit]) -> None:
    seen = visit("large")
    bar = seen.at("#claims .filter")
    lines = seen.at(".matrix tbody tr:not(.group)")
    bar.locator("input").fill("kernel_3 tf32")
    assert bar.locator("output").inner_text() == "2 of 48 rows"
    assert lines.locator("visible=true").count() == 2
    assert seen.at(".matrix .group").locator("visible=true").count() == 1
    seen.tab.keyboard.press("Tab")
    while not re.fullmatch(r"c\d+", seen.focus):
        seen.tab.keyboard.press("Tab")
    assert seen.at(f"#{seen.focus}").is_visible()
    bar.locator("input").fill("nothing of that name")
    assert lines.locator("visible=true").count() == 0
    bar.locator("input").press("Escape")
    assert lines.locator("visible=true").count() == 48


# What must not happen


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
def test_hostile_names_do_nothing(visit: Callable[..., Visit], size: tuple[int, int]) -> None:
    seen = visit("hostile", size)
    for n in range(seen.cells().count()):
        seen.cells().nth(n).focus()
    assert seen.run("typeof window.owned") == "undefined"
    assert seen.at("script").count() == 1
    assert seen.at("img, iframe, h1 ~ h1").count() == 0
    assert seen.at("h1").inner_text() == "FAILED"
    for words in ("<script>alert(1)</script>", "{{ 7 * 7 }}"):
        assert words in seen.at(".matrix").inner_text()
    assert seen.said == []
    tip = seen.at("#tip").bounding_box()
    assert tip is not None
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= size[0]


def test_another_script_in_the_page_would_not_run(visit: Callable[..., Visit]) -> None:
    seen = visit("small")
    seen.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 1'}))")
    assert seen.run("typeof window.owned") == "undefined"
    assert any("Content Security Policy" in line for line in seen.said)


def test_without_scripts_all_can_be_read(visit: Callable[..., Visit]) -> None:
    seen = visit("small", PHONE, java_script_enabled=False)
    assert seen.at(".filter").locator("visible=true").count() == 0
    cell = seen.at(".matrix td.failed a").first
    assert "failed (wrong-value)" in (cell.get_attribute("title") or "")
    goal = cell.get_attribute("href")
    cell.click()
    assert seen.at(f"{goal}").is_visible()
    assert seen.at("#tip").count() == 0
    seen.at("#sources > summary").click()
    assert seen.at("#sources table").is_visible()

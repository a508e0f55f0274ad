"""The history of a folder of bundles: no order matters, a step is found and told, what is unsound is left out by name.

Its bundles are sound, of one machine and one kernel, and differ in the day, and in times on some of the days.
"""

import json
import random
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import dated
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from records import MATMUL, device
from test_report import HOSTILE, Reader, outside_fences, table_rows

from assay.__main__ import main
from assay.artifact import canonical, decode
from assay.changepoints import FEWEST, Newest
from assay.course import STATED, Course, Curve, Key, Source, Statement, Told, Words, beside, follow, source_of, told_by
from assay.course_chart import course_chart, draw
from assay.course_page import build_page, render, text
from assay.record import Unavailable
from assay.schemas import schema_files

MARGIN = 0.02
SLOWER = 1.5
CALM = [1.0, 1.001, 0.999, 1.0, 1.002]


@cache
def told_on(day: int, factor: float) -> tuple[Source, tuple[Told, ...]]:
    opened = dated.opened(f"2026-11-{day:02}", factor)
    return source_of(opened), tuple(told_by(opened))


def course_of(factors: Iterable[float]) -> Course:
    found = [told_on(day, factor) for day, factor in enumerate(factors, 1)]
    return follow([source for source, _ in found], [one for _, told in found for one in told], MARGIN)


def time_curve(course: Course, variant: str = dated.VARIANT) -> Curve:
    (found,) = [c for c in course.curves if c.about.variant == variant and c.about.figure == "time by events"]
    return found


def starts(curve: Curve) -> list[int]:
    assert not isinstance(curve.study.stretches, Unavailable)
    return [one.first for one in curve.study.stretches]


# Laws


@settings(max_examples=20)
@given(st.permutations(range(6)), st.booleans())
def test_neither_the_order_of_the_bundles_nor_one_given_twice_matters(order: Sequence[int], twice: bool) -> None:
    found = [told_on(at + 1, factor) for at, factor in enumerate([*CALM, SLOWER])]
    shuffled = [found[at] for at in order] + (found[:2] if twice else [])
    told = [one for _, of in shuffled for one in of]
    random.Random(str(order)).shuffle(told)
    assert canonical(follow([s for s, _ in shuffled], told, MARGIN)) == canonical(course_of([*CALM, SLOWER]))


@settings(max_examples=15)
@given(st.integers(2, 6), st.integers(2, 6), st.sampled_from([0.9, SLOWER]))
def test_a_step_is_found_in_the_series_that_it_is_in(before: int, after: int, step: float) -> None:
    if before + after < FEWEST:
        before = FEWEST - after
    course = course_of([1.0] * before + [step] * after)
    assert starts(time_curve(course)) == [0, before]
    others = [c for c in course.curves if c.about.variant != dated.VARIANT]
    assert others
    assert all(starts(curve) == [0] for curve in others)


def test_what_stays_the_same_has_no_change_and_no_regression() -> None:
    course = course_of(CALM)
    assert course.regressions == []
    assert all(starts(curve) == [0] for curve in course.curves)
    assert not any(statement.changes for statement in course.statements)


def test_every_figure_that_it_looks_for_is_one_that_claims_have() -> None:
    course = course_of([1.0])
    assert {one.about.figure for one in course.statements} == {"outcome", *STATED}
    tiers = {(curve.about.tier, curve.about.figure.split(" over ")[0]) for curve in course.curves}
    times = {("timed", "time by events"), ("timed", "library time by events"), ("timed", "time")}
    assert tiers == {("interpreted", "error"), ("accurate", "error"), *times}


# What counts


def test_the_newest_slower_time_is_a_regression_and_one_before_it_an_outlier() -> None:
    newest = course_of([*CALM, SLOWER])
    assert newest.regressions == [time_curve(newest)]
    before = course_of([*CALM, SLOWER, 1.0])
    assert before.regressions == []
    assert time_curve(before).study.outliers == [len(CALM)]


def test_a_faster_time_is_no_regression() -> None:
    course = course_of([*CALM, 0.9])
    assert course.regressions == []
    newest = time_curve(course).study.newest
    assert isinstance(newest, Newest)
    assert newest.moved == "down"


def test_the_ratio_to_the_library_is_shown_and_does_not_count() -> None:
    course = course_of([*CALM, SLOWER, SLOWER])
    (over,) = [c for c in course.curves if c.about.variant == dated.VARIANT and c.about.figure.startswith("time over")]
    assert starts(over) == [0, len(CALM)]
    assert not over.regressed


def test_few_bundles_are_said_to_be_few_and_the_newest_is_judged_all_the_same() -> None:
    course = course_of([1.0, SLOWER])
    curve = time_curve(course)
    assert curve.study.stretches == Unavailable(reason=f"too few points for change points: 2 of {FEWEST}")
    assert course.regressions == [curve]
    alone = time_curve(course_of([1.0]))
    assert alone.study.newest == Unavailable(reason="one point alone; nothing was before it")
    assert not alone.regressed


def test_one_machine_is_one_place() -> None:
    other = dated.dated("2026-11-09", {dated.VARIANT: SLOWER}, device("NVIDIA H100")).opened()
    found = [told_on(day, factor) for day, factor in enumerate(CALM, 1)]
    sources = [source_of(other), *(source for source, _ in found)]
    course = follow(sources, [*told_by(other), *(one for _, of in found for one in of)], MARGIN)
    assert course.regressions == []
    places = {c.about.place for c in course.curves if c.about.figure == "time by events"}
    assert places == {"NVIDIA H200 (sm_90)", "NVIDIA H100 (sm_90)"}
    # What needs no device is one series wherever it was shown.
    errors = [c for c in course.curves if c.about.tier == "interpreted"]
    assert {len(curve.points) for curve in errors} == {len(CALM) + 1}


def test_a_series_that_ended_is_no_regression_for_ever() -> None:
    found = [told_on(day, factor) for day, factor in enumerate([*CALM, SLOWER, 1.0], 1)]
    # The variant is not in the newest bundle any more.
    newest = [one for one in found[-1][1] if one[0].variant != dated.VARIANT]
    told = [*(one for _, of in found[:-1] for one in of), *newest]
    course = follow([source for source, _ in found], told, MARGIN)
    curve = time_curve(course)
    assert isinstance(curve.study.newest, Newest)
    assert curve.study.newest.moved == "up"
    assert course.regressions == []


def spilled(day: str, stack_bytes: int) -> tuple[Source, list[Told]]:
    opened = dated.spilling(dated.dated(day), MATMUL, "sm_80", stack_bytes).opened()
    return source_of(opened), told_by(opened)


def statement(course: Course, figure: str) -> Statement:
    (found,) = [
        one
        for one in course.statements
        if (one.about.variant, one.about.tier, one.about.target) == (dated.VARIANT, "compiled", "sm_80")
        and one.about.figure == figure
    ]
    return found


def test_an_outcome_that_is_lost_is_a_regression_and_says_why() -> None:
    found = [spilled("2026-11-01", 0), spilled("2026-11-02", 64)]
    course = follow([s for s, _ in found], [one for _, told in found for one in told], MARGIN)
    outcome, stack = statement(course, "outcome"), statement(course, "stack_bytes")
    assert course.regressions == [outcome, stack]
    (change,) = outcome.changes
    assert (change.before, change.after, change.at, change.worse) == ("verified", "failed", 1, True)
    assert "64" in change.reason
    assert stack.words == ["0", "64"]


def test_an_outcome_that_came_back_is_no_regression() -> None:
    found = [spilled("2026-11-01", 64), spilled("2026-11-02", 0)]
    course = follow([s for s, _ in found], [one for _, told in found for one in told], MARGIN)
    assert [change.worse for change in statement(course, "outcome").changes] == [False]
    assert course.regressions == []


def test_what_else_changed_stands_beside_a_change() -> None:
    occasion = time_curve(course_of([1.0])).points[0].occasion
    assert beside(occasion, occasion) == []
    assert set(occasion.setting) == {"kernels/matmul.py", "CPython", "torch", "triton", "numpy", "driver", "card"}
    other = replace(occasion, setting={**occasion.setting, "triton": "3.9.0"}, commit="abc")
    assert beside(occasion, other) == ["triton: 3.6.0 -> 3.9.0", f"commit: {occasion.commit} -> abc"]


# Pages


def hostile(words: str) -> Course:
    """Return a history in which every name and reason that a bundle can choose is this text."""
    found = [told_on(day, factor) for day, factor in enumerate([*CALM, SLOWER], 1)]
    told: list[Told] = []
    for at, (key, occasion, value) in enumerate(one for _, of in found for one in of):
        name = f"{words}{key.variant}"
        chosen = key._replace(kernel=words, variant=name, place=words, size=words, target=words, dimensions=words)
        settled = replace(occasion, bundle=words, setting={words: f"{words}{occasion.started}"}, commit=words)
        said = value._replace(word=f"{words}{at}", reason=words) if isinstance(value, Words) else value
        told.append((Key(*chosen), settled, said))
    sources = [replace(source, name=words, device=words) for source, _ in found]
    return follow(sources, told, MARGIN, [words])


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_names_and_reasons_stay_text(words: str) -> None:
    html, markdown = render(hostile(words))
    page = Reader(html)
    allowed = set(Reader(render(course_of([*CALM, SLOWER]))[0]).tags) | {"br"}
    assert set(page.tags) <= allowed
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form", "image"} & set(page.tags)
    table_rows(outside_fences(markdown.decode()))
    assert "\x1b" not in text(hostile(words))


def test_the_page_is_one_file_that_loads_nothing() -> None:
    html, markdown = render(course_of([*CALM, SLOWER, SLOWER]))
    page = Reader(html)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in ("src", "srcset")]
    links = [value for _, name, value in page.attributes if name in ("href", "xlink:href")]
    assert links
    assert {value.removeprefix("#") for value in links} <= set(page.values("id"))
    assert len(page.values("id")) == len(set(page.values("id")))
    assert not re.search(rb"url\((?!#)|@import|@font-face", html)
    assert b"default-src 'none'" in html
    assert markdown.decode().startswith("# Regression\n\n1 regression at the newest point: 7 bundles")


def test_a_chart_is_drawn_the_same_each_time_and_shows_the_step() -> None:
    chart = course_chart(time_curve(course_of([*CALM, SLOWER, SLOWER])))
    assert chart is not None
    assert [(first, last) for first, last, _ in chart.levels] == [(0, 4), (5, 6)]
    assert chart.regressed
    drawn = draw(chart, "a")
    assert drawn == draw(chart, "a")
    assert drawn.startswith("<svg")
    assert "currentColor" in drawn
    assert "2026-11-07" in drawn
    assert course_chart(time_curve(course_of([1.0]))) is None


def test_the_terminal_names_what_got_worse_first() -> None:
    lines = text(course_of([*CALM, SLOWER, SLOWER])).splitlines()
    assert lines[1].startswith(f"! matmul {dated.VARIANT}, timed on sm_90, 2048x2048x2048  ")
    assert "worse: 1.4993 (1.4980 to 1.5005) times" in lines[1]
    assert [line for line in lines if line.startswith(f"2026-11-06: matmul {dated.VARIANT}")]
    assert lines[-1].startswith("1 regression at the newest point: 7 bundles, ")


def test_what_is_not_drawn_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.course_page.MOST_CHARTS", 2)
    course = course_of([1.0, 1.0])
    page = build_page(course)
    assert sum(one.chart is not None for one in page.curves) == 2
    assert page.undrawn == len(course.curves) - 2


# The command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bundles"
    made.mkdir()
    for day, factor in enumerate([1.0, SLOWER], 1):
        dated.write(made, dated.dated(f"2026-11-{day:02}", {dated.VARIANT: factor}))
    return made


def test_the_command_says_a_regression_and_writes_record_and_pages(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["history", str(folder), "--out", str(out)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 regression at the newest point: 2 bundles, ")
    assert {path.name for path in out.iterdir()} == {"history.json", "history.html", "history.md"}
    record = (out / "history.json").read_bytes()
    assert decode(record, Course, "history.json").regressions
    Draft202012Validator(json.loads(schema_files()["history.schema.json"])).validate(json.loads(record))


def test_a_margin_that_takes_it_in_calls_it_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(folder), "--margin", "60"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("No regression at the newest point")


def test_an_unsound_bundle_is_left_out_by_name_and_the_check_does_not_pass(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = sorted(folder.glob("*.tar"))[-1]
    data = bytearray(newest.read_bytes())
    data[data.index(b"2026-11-0")] ^= 1
    newest.write_bytes(data)
    assert main(["history", str(folder)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"assay history: left out: {newest}: ")
    assert said.out.splitlines()[-1].startswith("No regression at the newest point: 1 bundle, ")


def test_a_forged_figure_is_found_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    better = dated.dated("2026-11-03").put("results/matmul/timing.json/result/sweeps/0/rows/0/time_ns/median", 1.0)
    dated.write(folder, better)
    assert main(["history", str(folder)]) == 1
    assert "left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "expected a folder with bundles, found no folder"),
        (lambda path: path.mkdir(), "expected bundles (*.tar), found none"),
        (lambda path: (path.mkdir(), (path / "a.tar").write_bytes(b"no")), "expected at least one sound bundle"),
    ],
)
def test_a_folder_without_sound_bundles_is_refused(
    make: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(make)
    make(tmp_path / "folder")
    assert main(["history", str(tmp_path / "folder")]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["history", str(folder), "--out", str(tmp_path / "file")]) == 2
    assert "--out: expected a folder to write into" in capsys.readouterr().err

"""Drawing: the same bytes for the same picture, of a name its text alone, and every colour a class of the page."""

import re
import subprocess
import sys
from html import unescape
from itertools import groupby
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from project import PYTHON_PATH

from assay import drawing
from assay.drawing import TONES, draw
from assay.picture import (
    SERIES,
    SHAPES,
    WIDTH,
    Axis,
    Bar,
    Line,
    Marks,
    Panel,
    Picture,
    Series,
    Spot,
    Table,
    Tick,
    Tone,
    Words,
    named,
)

ROOT = Path(__file__).parents[1]
HOSTILE = [
    "$\\frac{1}{0}$ and $",
    "</text></svg><script>alert(1)</script>",
    "\x1b[31m\x00\u202e & \ud800",
    "日本語 \U0001f600",
    "_hidden",
    "12",
    '" onload="alert(1)',
]


def picture(*shown: Bar | Line | Marks | Words, name: str = "p", text: str = "a picture") -> Picture:
    x = Axis(0.0, 10.0, (Tick(0.0, "0"), Tick(5.0, ""), Tick(10.0, "ten")))
    panel = Panel(20, 10, WIDTH - 40, 80, x, Axis(0.0, 1.0, (Tick(0.5, "half"),)), shown)
    return Picture(name, text, f"it says {text}", (), 120, (panel,), Table("t", ("a",), ()))


def everything(text: str = "word") -> list[Bar | Line | Marks | Words]:
    spots = (Spot(1.0, 0.2, text), Spot(2.0, 0.4), Spot(3.0, 0.6, text))
    marks = [
        Marks(Series("s", shape, tone, filled), spots)
        for shape, tone in zip(SHAPES, SERIES, strict=True)
        for filled in (True, False)
    ]
    line = Line(((0.0, 0.0), (5.0, 1.0), None, (6.0, 0.0), (7.0, 1.0)), "ink", 1.5, dashed=True)
    return [Bar(1.0, 4.0, 0.5, 0.2, "s1"), Bar(0.0, 4.0, 0.5, 0.2, "s6", False), line, *marks, Words(5.0, 0.5, text)]


def tree(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


# Determinism


def test_the_same_picture_gives_the_same_bytes_in_another_process_and_in_another_order() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); from test_drawing import draw, everything, picture; "
        "draw(picture(name='another')); sys.stdout.write(draw(picture(*everything())))"
    )
    env = {"PYTHONPATH": PYTHON_PATH, "PYTHONHASHSEED": "1", "MPLBACKEND": "pdf", "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == draw(picture(*everything()))
    assert done.stderr == ""


def test_no_setting_of_the_user_changes_a_picture(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text(
        "lines.linewidth: 9\nsvg.fonttype: path\nfont.family: serif\nfont.size: 40\nsavefig.bbox: tight\n"
        "axes.grid: True\ntext.usetex: True\nfigure.dpi: 300\naxes.facecolor: red\npath.sketch: 1, 100, 2\n"
    )
    code = (
        "import sys; from test_drawing import draw, everything, picture; sys.stdout.write(draw(picture(*everything())))"
    )
    env = {"PYTHONPATH": f"{PYTHON_PATH}:{ROOT / 'tests'}", "MATPLOTLIBRC": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == draw(picture(*everything()))


@pytest.mark.parametrize("family", ["serif", "monospace", "cursive"])
def test_no_font_decides_where_anything_stands(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = draw(picture(*everything()))
    monkeypatch.setitem(drawing._SETTINGS, "font.family", family)
    assert draw(picture(*everything())) == wanted


def test_drawing_leaves_the_settings_of_others_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"lines.linewidth": 7.0}):
        draw(picture(*everything()))
        assert matplotlib.rcParams["lines.linewidth"] == 7.0
    assert dict(matplotlib.rcParams) == before


def test_only_what_draws_imports_matplotlib_and_only_when_it_draws() -> None:
    for path in sorted((ROOT / "assay").glob("*.py")):
        found = re.findall(r"^(\s*)(?:import|from) matplotlib", path.read_text("utf-8"), re.MULTILINE)
        assert found == (["    "] * 3 if path.name in ("drawing.py", "course_chart.py") else []), path
    code = "import sys, assay.report, assay.verify; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PYTHONPATH": PYTHON_PATH}, check=True)


# What comes out


def test_all_that_is_drawn_is_there_and_in_a_colour_of_the_page() -> None:
    shown = everything()
    root = tree(draw(picture(*shown)))
    spots = sum(len(one.spots) for one in shown if isinstance(one, Marks))
    uses = list(root.iter("use"))
    assert len(uses) == spots
    assert [use.find("title") is None for use in uses] == [False, True, False] * (spots // 3)
    assert [text.text for text in root.iter("text")] == ["0", "ten", "half", "word"]
    seen = {name for element in root.iter() for name in element.get("class", "").split()} - {"picture"}
    assert {name.partition("-")[0] for name in seen} == {"fill", "stroke"}
    assert {name.partition("-")[2] for name in seen} <= set(TONES)
    shapes = {shape for defs in root.iter("defs") for shape in defs}
    bare = [e for e in root.iter() if e.tag in ("path", "text", "g") and e not in shapes and not e.get("class")]
    # A text without colours of its own has those of the group that it stands in.
    assert {e.tag for e in bare} <= {"text"}
    assert set(bare) <= {text for group in root.iter("g") if group.get("class") for text in group}


def test_every_tone_has_its_classes_in_the_stylesheet() -> None:
    sheet = (ROOT / "reports/picture.css").read_text("utf-8")
    assert set(TONES) == set(get_args(Tone))
    assert all(f"--{tone}:" in sheet for tone in SERIES)
    used = [("fill", ("ink", "quiet", "paper", "bad")), ("stroke", ("ink", "quiet", "faint", "bad"))]
    assert all(f".picture .{kind}-{tone} " in sheet for kind, tones in used for tone in tones)


def test_a_picture_is_named_and_told_by_its_caption_and_has_ids_of_its_own() -> None:
    roots = [tree(draw(picture(*everything(), name=name))) for name in ("one", "two")]
    for root, name in zip(roots, ("one", "two"), strict=True):
        assert root.get("role") == "img"
        assert (root.get("aria-labelledby"), root.get("aria-describedby")) == (f"{name}-title", f"{name}-said")
        ids = [str(e.get("id")) for e in root.iter() if e.get("id")]
        assert len(ids) == len(set(ids))
        assert all(found.startswith(f"{name}-") for found in ids)
        assert {str(use.get("href"))[1:] for use in root.iter("use")} <= set(ids)


def test_nothing_is_loaded_run_or_styled_by_a_picture() -> None:
    svg = draw(picture(*everything()))
    assert not re.search(r"url\(|https?:|style=|<style|xlink|<!|<\?|<image|clip", svg)
    assert {e.tag for e in tree(svg).iter()} == {"svg", "title", "defs", "g", "path", "use", "text"}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_is_a_text_and_nothing_else(text: str) -> None:
    svg, plain = (draw(picture(*everything(word), text=word)) for word in (text, "word"))
    root = tree(svg)
    assert [e.tag for e in root.iter()] == [e.tag for e in tree(plain).iter()]
    assert [e.attrib for e in root.iter()] == [e.attrib for e in tree(plain).iter()]
    assert [e.text for e in root.iter("text")][-1] == named(text)
    assert not re.search("[\x00-\x1f\u202e\ud800]", svg)


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_any_text_comes_out_as_it_is_printed(text: str) -> None:
    found = [unescape(words) for words in re.findall(r"<text[^>]*>([^<]*)</text>", draw(picture(*everything(text))))]
    assert (found[3:] or [""])[-1] == named(text)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), min_size=1, max_size=20))
def test_marks_stand_where_they_are_put(places: list[tuple[float, float]]) -> None:
    spots = tuple(Spot(x, y, f"{x} {y}") for x, y in places)
    uses = list(tree(draw(picture(Marks(Series("s", "circle", "s1"), spots)))).iter("use"))
    for (x, y), use in zip(places, uses, strict=True):
        assert float(str(use.get("x"))) == pytest.approx(20 + x / 10 * (WIDTH - 40), abs=0.051)
        assert float(str(use.get("y"))) == pytest.approx(90 - y * 80, abs=0.051)
        assert (use.findtext("title") or "") == f"{x} {y}"


def corners(path: str) -> list[list[tuple[float, float]]]:
    """Return the places that each stroke of a path leads through."""
    strokes: list[list[tuple[float, float]]] = []
    for letter, numbers in re.findall(r"([MLHV])([^MLHV]*)", path):
        to = [float(number) for number in numbers.split()]
        x, y = strokes[-1][-1] if letter in "HV" else to
        place = {"H": (to[0], y), "V": (x, to[0])}.get(letter, (x, y))
        strokes = [*strokes, [place]] if letter == "M" else [*strokes[:-1], [*strokes[-1], place]]
    return strokes


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 2)), min_size=2, max_size=6), min_size=1))
def test_lines_lead_through_the_places_that_they_are_given(strokes: list[list[tuple[int, int]]]) -> None:
    lines = [Line(tuple((float(x), y / 2) for x, y in stroke), "s3") for stroke in strokes]
    paths = [str(e.get("d")) for e in tree(draw(picture(*lines))).iter("path") if e.get("class") == "stroke-s3"]
    wanted = [[(20 + x * 42, 90 - y * 40) for x, y in stroke] for stroke in strokes]
    # A place right after itself is written once, and lines that look the same are one path.
    assert corners(paths[0]) == [[place for place, _ in groupby(stroke)] for stroke in wanted]
    assert len(paths) == 1


def test_looks_are_said_once_for_what_stands_in_a_row_and_what_is_filled_stays_in_its_order() -> None:
    words = [Words(1.0, y / 10, f"w{y}", "end", tone="quiet") for y in range(4)]
    bars = [Bar(0.0, x, 0.5, 0.2, "s6", filled=False) for x in (4.0, 2.0)]
    root = tree(draw(picture(*words, *bars)))
    group = next(e for e in root.iter("g") if e.get("text-anchor") == "end")
    assert [(text.text, set(text.attrib)) for text in group][-4:] == [(f"w{y}", {"x", "y"}) for y in range(4)]
    assert len([e for e in root.iter("path") if e.get("class") == "fill-paper stroke-s6"]) == 2


def test_what_cannot_be_drawn_is_a_mistake_of_the_caller() -> None:
    wrong: Any = "a string"
    with pytest.raises(TypeError, match="str cannot be drawn"):
        draw(picture(wrong))

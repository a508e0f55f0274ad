"""Draws a picture as SVG, by matplotlib: the same bytes for the same data, in whatever colours the page has.

With `course_chart` the only module that imports matplotlib, and it does so when it draws: no other stage waits for it.
No name of a kernel, variant or device reaches matplotlib, which would take `$` for mathematics and measure it in the
fonts of this machine: texts go in as numbers, and the words take their place in the tree that comes out. So do ids, of
which a page may have one alone, and colours, which become classes of the page's stylesheet.
"""

import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain, groupby
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup, escape

from assay.formats import distinct
from assay.picture import TEXT_PIXELS, WIDTH, Axis, Bar, Line, Marks, Panel, Picture, Tone, Words, named

LIBRARIES = ("matplotlib", "numpy")
"""Distributions that decide, beside this module, how the same picture is drawn."""

TONES: tuple[Tone, ...] = ("ink", "quiet", "faint", "paper", "bad", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8")
_COLOURS = {tone: f"#0000{place:02x}" for place, tone in enumerate(TONES, start=1)}
_TONES: Mapping[str, Tone] = {colour: tone for tone, colour in _COLOURS.items()}

_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "P", "wedge": "v"}
_SIZES = {"circle": 7.0, "square": 6.5, "triangle": 7.5, "diamond": 6.5, "cross": 8.0, "wedge": 7.5}
_RING = 5.0
_BAR = ((-1.0, -4.0), (1.0, -4.0), (1.0, 4.0), (-1.0, 4.0), (-1.0, -4.0))

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "assay",
    "path.simplify": False,
    "text.parse_math": False,
}

_KEPT = ("stroke-width", "stroke-dasharray", "text-anchor", "font-weight")
"""Properties of style that stay, as attributes; the others are defaults, colours, or the font, which is the page's."""

_NUMBER = re.compile(r"-?\d+\.\d+")
_STEP = re.compile(r"([A-Za-z])([^A-Za-z]*)")


class _Texts:
    """Gives every text a number that stands in for it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, text: str) -> str:
        self.told.append(named(text))
        return str(len(self.told) - 1)


# What is drawn


@singledispatch
def _show(shown: Any, axes: Any, texts: _Texts) -> None:
    raise TypeError(f"{type(shown).__name__} cannot be drawn")


@_show.register
def _(line: Line, axes: Any, texts: _Texts) -> None:
    gap = (float("nan"), float("nan"))
    xs, ys = zip(*(place or gap for place in line.places), strict=True)
    axes.plot(
        xs,
        ys,
        color=_COLOURS[line.tone],
        linewidth=line.width,
        linestyle=(0, (4, 3)) if line.dashed else "-",
        solid_capstyle="butt",
        clip_on=False,
    )


@_show.register
def _(bar: Bar, axes: Any, texts: _Texts) -> None:
    axes.barh(
        bar.y,
        bar.high - bar.low,
        left=bar.low,
        height=bar.height,
        facecolor=_COLOURS[bar.tone if bar.filled else "paper"],
        edgecolor=_COLOURS[bar.tone],
        linewidth=0 if bar.filled else 1.2,
        clip_on=False,
    )


@_show.register
def _(marks: Marks, axes: Any, texts: _Texts) -> None:
    series = marks.series
    ring = series.shape == "ring"
    axes.plot(
        [spot.x for spot in marks.spots],
        [spot.y for spot in marks.spots],
        linestyle="",
        marker=_BAR if series.shape == "bar" else _MARKERS.get(series.shape, "o"),
        markersize=_RING if ring else _SIZES.get(series.shape, 8.0),
        markerfacecolor=_COLOURS[series.tone if series.filled and not ring else "paper"],
        markeredgecolor=_COLOURS[series.tone],
        markeredgewidth=3.0 if ring and series.filled else 1.5,
        clip_on=False,
        zorder=4,
        gid=" ".join(texts(spot.told) for spot in marks.spots),
    )


@_show.register
def _(words: Words, axes: Any, texts: _Texts) -> None:
    axes.annotate(
        texts(words.text),
        (words.x, words.y),
        xytext=(words.right, words.up),
        textcoords="offset points",
        horizontalalignment={"start": "left", "middle": "center", "end": "right"}[words.anchor],
        verticalalignment="baseline",
        color=_COLOURS[words.tone],
        fontweight="bold" if words.bold else "normal",
        fontsize=TEXT_PIXELS,
        annotation_clip=False,
    )


def _axis(axis: Any, found: Axis) -> None:
    axis.set_ticks([tick.at for tick in found.ticks])
    axis.set_tick_params(length=0, label1On=False)
    if found.ticks:
        axis.grid(color=_COLOURS["faint"], linewidth=1.0)


def _labels(panel: Panel) -> Iterator[Words]:
    """Yield the labels of the ticks. Matplotlib's own are placed by the height of their glyphs in some font."""
    x, y = panel.x, panel.y
    yield from (Words(tick.at, y.low, tick.label, "middle", up=-15, tone="quiet") for tick in x.ticks if tick.label)
    yield from (Words(x.low, tick.at, tick.label, "end", -6, -4, "quiet") for tick in y.ticks if tick.label)


def _panel(figure: Any, panel: Panel, height: float, texts: _Texts) -> None:
    bottom = height - panel.top - panel.height
    axes = figure.add_axes((panel.left / WIDTH, bottom / height, panel.width / WIDTH, panel.height / height))
    axes.set_frame_on(False)
    axes.set_axisbelow(True)
    axes.set_autoscale_on(False)
    axes.set_xlim(panel.x.low, panel.x.high)
    axes.set_ylim(panel.y.low, panel.y.high)
    _axis(axes.xaxis, panel.x)
    _axis(axes.yaxis, panel.y)
    for shown in (*_labels(panel), *panel.shown):
        _show(shown, axes, texts)


def _drawn(picture: Picture, texts: _Texts) -> bytes:
    """Return what matplotlib makes of a picture, whatever the settings of whoever runs this."""
    # It would tell of a settings file that it cannot read and of a cache for fonts that it cannot keep: neither counts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    stream = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        # A point of matplotlib is then a pixel of the picture.
        figure = Figure(figsize=(WIDTH / 72, picture.height / 72), dpi=72, frameon=False)
        FigureCanvasSVG(figure)
        for panel in picture.panels:
            _panel(figure, panel, picture.height, texts)
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


# What becomes of it


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rounded(text: str) -> str:
    """Return numbers to a tenth of a pixel, so that the last digits of a sum do not show, and in their short form."""
    return _NUMBER.sub(lambda match: f"{round(float(match[0]), 1) + 0.0:g}", " ".join(text.split()))


def _path(text: str) -> str:
    """Return a path in its short form: a line along an axis by the coordinate that changes, and none to where it is.

    A line of no length shows nothing: its ends are cut off where it ends.
    """
    found, at = "", [""]
    for letter, numbers in _STEP.findall(_rounded(text)):
        to = numbers.split()
        if letter == "L" and to[0] == at[0]:
            found += f"V{to[1]}" if to != at else ""
        elif letter == "L" and to[1] == at[1]:
            found += f"H{to[0]}"
        else:
            found += letter + " ".join(to)
        at = to[-2:] or at
    return found


def _declarations(element: ElementTree.Element) -> dict[str, str]:
    pairs = (one.partition(":") for one in element.get("style", "").split(";") if one.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _style(element: ElementTree.Element) -> dict[str, str]:
    """Return the attributes that stand for an element's style: colours as classes, the rest as it is."""
    style = _declarations(element)
    if _local(element.tag) == "text":
        style.setdefault("fill", _COLOURS["ink"])
    colours = [f"{kind}-{_TONES[style[kind]]}" for kind in ("fill", "stroke") if style.get(kind) in _TONES]
    kept = {name: style[name] for name in _KEPT if style.get(name) not in (None, "start")}
    return {"class": " ".join(colours), **kept}


def _place(element: ElementTree.Element) -> dict[str, str]:
    found = {name: _rounded(element.attrib[name]) for name in ("x", "y") if name in element.attrib}
    return found | ({"d": _path(element.attrib["d"])} if "d" in element.attrib else {})


def _target(element: ElementTree.Element) -> str:
    """Return the id that a `use` refers to."""
    return next(value.removeprefix("#") for name, value in element.attrib.items() if _local(name) == "href")


def _tag(name: str, attributes: Mapping[str, str], inside: str = "") -> str:
    """Return an element with those attributes that have a value, escaped; `inside` is so already."""
    words = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items() if value)
    return f"<{name}{words}>{inside}</{name}>" if inside else f"<{name}{words}/>"


@dataclass(frozen=True)
class _Piece:
    """An element: its look, and where it stands. `inside` is escaped; one without a name is that and no more."""

    name: str
    look: tuple[tuple[str, str], ...]
    place: dict[str, str]
    inside: str = ""

    @property
    def kind(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.name, self.look


def _together(kind: tuple[str, tuple[tuple[str, str], ...]], pieces: Sequence[_Piece]) -> str:
    """Return pieces in a row that look the same, their look said once: strokes as one path, texts as a group."""
    name, look = kind[0], dict(kind[1])
    if not name:
        return "".join(piece.inside for piece in pieces)
    # What is filled hides what was drawn before it, so each area is a path of its own.
    if name == "path" and "fill-" not in look["class"]:
        return _tag("path", look | {"d": "".join(piece.place["d"] for piece in pieces)})
    if len(pieces) == 1 or name == "path":
        return "".join(_tag(name, look | piece.place, piece.inside) for piece in pieces)
    return _tag("g", look, "".join(_tag(name, piece.place, piece.inside) for piece in pieces))


class _Writer:
    """Writes matplotlib's tree anew: what is seen, and nothing else.

    `ids` are the ids that something refers to, each with the one that it has in the page.
    """

    def __init__(self, texts: _Texts, ids: Mapping[str, str]) -> None:
        self._texts, self._ids = texts, ids

    def __call__(self, tree: ElementTree.Element) -> str:
        return "".join(_together(kind, list(of)) for kind, of in groupby(self._pieces(tree), lambda one: one.kind))

    def _pieces(self, element: ElementTree.Element) -> Iterator[_Piece]:
        name = _local(element.tag)
        if name == "text":
            words = self._texts.told[int(element.text or "")]
            yield from [self._piece(element, escape(words))] if words else []
        elif name == "path":
            yield self._path(element)
        elif name in ("svg", "g", "defs"):
            marks = element.get("id", "")[:1].isdigit()
            yield from self._marks(element) if marks else chain.from_iterable(map(self._pieces, element))

    def _piece(self, element: ElementTree.Element, inside: str = "") -> _Piece:
        return _Piece(_local(element.tag), tuple(_style(element).items()), _place(element), inside)

    def _path(self, element: ElementTree.Element) -> _Piece:
        name = self._ids.get(element.get("id", ""))
        if name is None:
            return self._piece(element)
        # The shape of a mark. Its colours are those of the group that uses it.
        return _Piece("", (), {}, _tag("defs", {}, _tag("path", {"id": name} | _place(element))))

    def _marks(self, group: ElementTree.Element) -> Iterator[_Piece]:
        spots = [element for element in group.iter() if _local(element.tag) == "use"]
        yield from (self._path(element) for element in group.iter() if _local(element.tag) == "path")
        hints = [self._texts.told[int(number)] for number in group.get("id", "").split()]
        yield _Piece("", (), {}, _tag("g", _style(spots[0]), "".join(map(self._spot, spots, hints))))

    def _spot(self, use: ElementTree.Element, hint: str) -> str:
        attributes = {"href": f"#{self._ids[_target(use)]}"} | _place(use)
        return _tag("use", attributes, _tag("title", {}, escape(hint)) if hint else "")


def draw(picture: Picture) -> Markup:
    """Return a picture as an SVG element for a page, its ids beginning with its name; it loads nothing.

    Its title and what it says are those of the caption, elements of the page with the ids NAME-title and NAME-said.
    Colours are classes, such as `fill-ink` and `stroke-s1`: one of each kind for every `Tone`.
    """
    texts = _Texts()
    tree = ElementTree.fromstring(_drawn(picture, texts))  # noqa: S314 (matplotlib has just written it)
    targets = distinct(_target(element) for element in tree.iter() if _local(element.tag) == "use")
    ids = {found: f"{picture.name}-{place}" for place, found in enumerate(targets, start=1)}
    frame = {
        "class": "picture",
        "role": "img",
        "aria-labelledby": f"{picture.name}-title",
        "aria-describedby": f"{picture.name}-said",
        "viewBox": f"0 0 {WIDTH} {picture.height:g}",
    }
    return Markup(_tag("svg", frame, _Writer(texts, ids)(tree)))  # noqa: S704

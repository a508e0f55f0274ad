"""What a status block says, in the style of its page: a table and sentences, or the sentences as comments. Pure.

Names and sentences come from evidence that others made: nothing in them may act, neither end a comment nor be markup.
"""

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from assay.blocks import Block, Mark
from assay.markdown import escape
from assay.privacy import one_line

WIDTH = 79
"""Of a line in a comment, as far as its indentation leaves room for `NARROWEST`."""
NARROWEST = 40
LONGEST = 2000
HEADINGS = ("kernel", "status", "shown", "device", "date", "evidence")

# What words could do in a comment: end the line's own end (C joins lines at a backslash), end the comment or begin
# one, look like a marker, or name another encoding in the second line of a Python file (PEP 263).
_ACTIVE = (
    ("\\", "/"),
    ("*/", "* /"),
    ("/*", "/ *"),
    ("-->", "-- >"),
    ("<!--", "< !--"),
    ("assay:", "assay "),
    ("coding:", "coding "),
    ("coding=", "coding "),
)


@dataclass(frozen=True)
class Row:
    """What one run shows of one kernel. `link`: where the evidence lies, seen from the page, if it is a file."""

    kernel: str
    status: str
    shown: str
    place: str
    day: str
    evidence: str
    link: str | None


@dataclass(frozen=True)
class Notice:
    """Sentences, each with the name of its evidence where it has one, and the rows of a table."""

    sentences: Sequence[tuple[str, str | None]]
    rows: Sequence[Row]


def _words(row: Row) -> tuple[str, ...]:
    return row.kernel, row.status, row.shown, row.place, row.day


def _markdown(notice: Notice) -> list[str]:
    lines = [""]
    if notice.rows:
        lines += [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for row in notice.rows:
        name = escape(row.evidence).replace("]", r"\]")
        link = name if row.link is None else f"[{name}]({quote(row.link)})"
        lines.append(f"| {' | '.join([*map(escape, _words(row)), link])} |")
    lines += [""] if notice.rows else []
    for sentence, _ in notice.sentences:
        lines += [escape(one_line(sentence, LONGEST)), ""]
    return lines


def _html(notice: Notice) -> list[str]:
    lines = ["<table>", f"<tr>{''.join(f'<th>{word}</th>' for word in HEADINGS)}</tr>"] if notice.rows else []
    for row in notice.rows:
        name = html.escape(one_line(row.evidence))
        link = name if row.link is None else f'<a href="{quote(row.link)}">{name}</a>'
        cells = [*(html.escape(one_line(word)) for word in _words(row)), link]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    lines += ["</table>"] if notice.rows else []
    return lines + [f"<p>{html.escape(one_line(sentence, LONGEST))}</p>" for sentence, _ in notice.sentences]


def _inert(text: str) -> str:
    line = one_line(text, LONGEST)
    for active, harmless in _ACTIVE:
        line = line.replace(active, harmless)
    return line


def _comment(notice: Notice, mark: Mark) -> list[str]:
    before, behind = f"{mark.opening} ", f" {mark.closing}" if mark.closing else ""
    width = max(NARROWEST, WIDTH - len(mark.indent.expandtabs()) - len(before) - len(behind))
    lines = []
    for sentence, evidence in notice.sentences:
        paragraphs = [sentence] if evidence is None else [sentence, f"Evidence: {evidence}"]
        for text in map(_inert, paragraphs):
            lines += textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [f"{before}{line}{behind}" for line in lines]


def write(notice: Notice, block: Block) -> list[str]:
    """Return the block's lines, without line ends, indented like its marker."""
    if block.style == "comment":
        lines = _comment(notice, block.start)
    else:
        lines = _markdown(notice) if block.style == "markdown" else _html(notice)
    return [f"{block.start.indent}{line}" if line else "" for line in lines]

"""Untrusted text stays text in Markdown: escaping is undone by a reader, and breaks no cell, line or fence."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.markdown import escape, fenced
from assay.privacy import printable

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
pieces = st.sampled_from(
    ["|", "`", "\n", "<b>", "</td>", "&lt;", "\\", "[x](y)", "~~", "$", "*", "_", "# ", "1. ", "a b"]
)
starts = st.sampled_from(["", "* ", "- ", "+ ", "#", "### ", "1. ", "12) ", "> ", "==", "--", "*", "___"])
hostile = st.tuples(starts, st.lists(pieces | texts, max_size=8).map("".join)).map("".join)


def read(markdown: str) -> str:
    """Undo what CommonMark undoes: backslashes before ASCII punctuation, then character references."""
    parts = re.split(r"\\([!-/:-@\[-`{-~])", markdown)
    return "".join(part if place % 2 else html.unescape(part) for place, part in enumerate(parts))


@given(hostile)
def test_escaped_text_reads_as_the_text_on_one_line(text: str) -> None:
    assert read(escape(text)) == " ".join(printable(text).split())


@given(hostile)
def test_escaped_text_ends_no_cell_and_opens_no_code_tag_or_link(text: str) -> None:
    bare = re.sub(r"\\.", " ", escape(text))
    assert not re.search(r"[|`\n\[~$]", bare)
    assert not re.search(r"<[A-Za-z/!?]|&[#A-Za-z](?!mp;|t;)", bare)


@given(hostile)
def test_escaped_text_starts_no_block(text: str) -> None:
    assert not re.match(r"#{1,6}(\s|$)|>|[-+*](\s|$)|\d+[.)](\s|$)|-{2,}|=+", escape(text))


@pytest.mark.parametrize("text", ["sm_90", "a <= b", "1.24e-6", "4 * eps * sqrt(1024)", "-3.2", "ieee/64x64x32", "R&D"])
def test_harmless_text_stays_readable(text: str) -> None:
    expected = "R&amp;D" if text == "R&D" else text
    assert escape(text) == expected


@given(hostile)
def test_no_line_of_fenced_text_ends_its_fence(text: str) -> None:
    first, *lines, last = fenced(text, "python").split("\n")
    assert first == f"{last}python"
    assert set(last) == {"`"}
    assert not any(line.strip().startswith(last) for line in lines)
    assert "\n".join(lines) == printable(text).rstrip("\n")


def test_terminal_escapes_reach_neither() -> None:
    text = "\x1b[31mred\x1b[0m\x07\u202e"
    for shown in (escape(text), fenced(text)):
        assert "red" in shown
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)

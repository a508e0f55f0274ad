"""What a block says, in each style: nothing in a name or a sentence may act on the page that it is written into."""

import io
import re
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.blocks import Block, find_blocks, replace, split
from assay.notice import HEADINGS, WIDTH, Notice, Row, write

MARKERS = {
    "p.py": ("# assay:status\n", "# assay:end\n"),
    "p.c": ("    /* assay:status */\n", "    /* assay:end */\n"),
    "p.cu": ("// assay:status\n", "// assay:end\n"),
    "doc.c": (" * assay:status\n", " * assay:end\n"),
    "p.md": ("<!-- assay:status -->\n", "<!-- assay:end -->\n"),
    "p.html": ("<!-- assay:status -->\n", "<!-- assay:end -->\n"),
}
HOSTILE = [
    "*/ int main() { system(1); } /*",
    "--> <script>alert(1)</script> <!--",
    "ends with a backslash \\",
    "*\\*/\\",
    "assay:end",
    "# assay:end",
    "<!-- assay:end -->",
    "\n# assay:end\n",
    "coding: utf-7",
    "-*- coding=utf-16 -*-",
    "a | b ](javascript:alert(1)) [c](d) `e`",
    "\x1b[2J\u202eevil",
    "'''\nimport os\n'''",
]
words = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
texts = st.lists(words, min_size=1, max_size=8).map(" ".join)


def notice(text: str = "VERIFIED on 2026-11-29: all of it.", link: str | None = "archive/a.tar") -> Notice:
    return Notice([(text, text)], [Row("matmul", "VERIFIED", text, text, "2026-11-29", text, link)])


def written(where: str, said: Notice) -> tuple[list[str], str]:
    """Return the new lines, and the page with them."""
    lines = list(MARKERS[where])
    (block,) = find_blocks(lines, where)
    new = write(said, block)
    return new, replace(lines, [(block, new)])


def block_of(page: str, where: str) -> Block:
    (block,) = find_blocks(split(page), where)
    return block


@pytest.mark.parametrize("where", MARKERS)
@given(text=texts)
def test_whatever_is_said_the_block_ends_where_it_did(where: str, text: str) -> None:
    new, page = written(where, notice(text))
    block = block_of(page, where)
    assert block.end - block.start.line == len(new)
    assert replace(split(page), [(block, write(notice(text), block))]) == page


@given(texts)
def test_a_comment_in_python_holds_comments_alone(text: str) -> None:
    _, page = written("p.py", notice(text))
    kinds = {token.type for token in tokenize.generate_tokens(io.StringIO(page).readline)}
    assert kinds <= {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}
    for line in page.encode().splitlines()[:2]:
        assert not re.match(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", line)


@given(texts)
def test_a_comment_in_c_ends_on_its_line(text: str) -> None:
    new, _ = written("p.c", notice(text))
    assert all(line.startswith("    /* ") and line.endswith(" */") for line in new)
    assert all(line.count("*/") == line.count("/*") == 1 for line in new)
    assert not any(line.endswith("\\") for line in written("p.cu", notice(text))[0])
    assert not any("*/" in line for line in written("doc.c", notice(text))[0])


@given(texts)
def test_markup_in_html_stays_text(text: str) -> None:
    _, page = written("p.html", notice(text))
    tags = re.findall(r"<[^>]*>", page)
    assert len(tags) == page.count("<") == page.count(">")
    assert {re.sub(r"</?([^ >]+).*", r"\1", tag) for tag in tags} <= {"table", "tr", "th", "td", "a", "p", "!--"}


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_markdown_stays_text(text: str) -> None:
    _, page = written("p.md", notice(text))
    outside = "".join(split(page)[1:-1])
    assert not re.search(r"<[A-Za-z!/]", outside)
    (table_row,) = [line for line in page.splitlines() if line.startswith("| matmul")]
    active = re.sub(r"\\.", "", table_row)
    assert active.count("|") == len(HEADINGS) + 1
    # One link, ours: without an opening bracket a closing one is text.
    assert active.count("[") == active.split("|")[-2].count("](") == 1
    assert active.endswith("](archive/a.tar) |")


def test_a_comment_is_wrapped_and_a_long_word_is_not_cut() -> None:
    long = f"archive/{'x' * 90}.tar"
    new, _ = written("p.c", Notice([("word " * 60, long)], []))
    assert all(len(line) <= WIDTH for line in new if long not in line)
    assert f"    /* {long} */" in new


@given(st.integers(0, 200))
def test_a_deep_indentation_leaves_room(depth: int) -> None:
    lines = [f"{' ' * depth}# assay:status\n", "# assay:end\n"]
    (block,) = find_blocks(lines, "p.py")
    assert len(write(Notice([("word " * 60, None)], []), block)) <= 10


def test_markdown_has_a_table_and_the_sentence() -> None:
    new, _ = written("p.md", notice("all"))
    assert new == [
        "",
        "| kernel | status | shown | device | date | evidence |",
        "|---|---|---|---|---|---|",
        "| matmul | VERIFIED | all | all | 2026-11-29 | [all](archive/a.tar) |",
        "",
        "all",
        "",
    ]


def test_without_rows_there_is_no_table() -> None:
    nothing = Notice([("NOT VERIFIED: no evidence.", None)], [])
    assert written("p.md", nothing)[0] == ["", "NOT VERIFIED: no evidence.", ""]
    assert written("p.html", nothing)[0] == ["<p>NOT VERIFIED: no evidence.</p>"]
    assert written("p.py", nothing)[0] == ["# NOT VERIFIED: no evidence."]


def test_a_path_in_a_link_is_quoted() -> None:
    new, _ = written("p.md", notice("x", "archive/a b)(.tar"))
    assert "](archive/a%20b%29%28.tar) |" in new[3]

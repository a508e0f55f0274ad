"""Blocks between markers: found in every style of comment, and nothing outside them is ever touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.blocks import BlockError, find_blocks, replace, split

PAIRS = {
    "p.md": ("<!-- assay:status -->", "<!-- assay:end -->"),
    "p.html": ("  <!--assay:status-->", "\t<!--  assay:end  -->"),
    "p.py": ("# assay:status", "# assay:end"),
    "p.sh": ("\t## assay:status", "#assay:end"),
    "p.c": ("/* assay:status */", "/* assay:end */"),
    "p.h": ("/** assay:status */", "/* assay:end */"),
    "p.cu": ("  // assay:status", "  // assay:end"),
    "p.rs": ("/// assay:status", "//! assay:end"),
    "doc.c": (" * assay:status", " * assay:end"),
    "p.tex": ("% assay:status", "%% assay:end"),
    "p.sql": ("-- assay:status", "-- assay:end"),
    "p.ini": ("; assay:status", ";; assay:end"),
}
# No line of these is a marker, whatever stands around it.
OTHER = st.lists(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12), max_size=4
).map(
    lambda lines: "".join(f"{line}\n" for line in lines if "assay:" not in line and "`" not in line and "~" not in line)
)


@pytest.mark.parametrize(("where", "pair"), PAIRS.items(), ids=PAIRS)
@given(before=OTHER, old=OTHER, after=OTHER, newline=st.sampled_from(["\n", "\r\n"]))
def test_only_what_stands_between_the_markers_changes(
    where: str, pair: tuple[str, str], before: str, old: str, after: str, newline: str
) -> None:
    start, end = pair
    page = f"{before}{start}{newline}{old}{end}{newline}{after}"
    (block,) = find_blocks(split(page), where)
    new = replace(split(page), [(block, ["one", "two"])])
    assert new == f"{before}{start}{newline}one{newline}two{newline}{end}{newline}{after}"
    (again,) = find_blocks(split(new), where)
    assert replace(split(new), [(again, ["one", "two"])]) == new
    assert (
        replace(split(new), [(again, split(old.rstrip("\n"))[:0])]) == f"{before}{start}{newline}{end}{newline}{after}"
    )


@given(st.text())
def test_lines_together_are_the_page(page: str) -> None:
    assert "".join(split(page)) == page


def test_several_blocks_each_keep_their_kernel_and_style() -> None:
    page = "# assay:status matmul\n# assay:end\n  # assay:status softmax_2\nx\n  # assay:end"
    first, second = find_blocks(split(page), "p.py")
    assert [(b.start.kernel, b.start.indent, b.style) for b in (first, second)] == [
        ("matmul", "", "comment"),
        ("softmax_2", "  ", "comment"),
    ]
    assert replace(split(page), [(first, ["1"]), (second, ["2", "3"])]) == (
        "# assay:status matmul\n1\n# assay:end\n  # assay:status softmax_2\n2\n3\n  # assay:end"
    )


@pytest.mark.parametrize(
    ("where", "style"), [("a.md", "markdown"), ("a.HTML", "html"), ("a.htm", "html"), ("a", "markdown")]
)
def test_the_files_name_decides_how_an_html_comment_goes_on(where: str, style: str) -> None:
    (block,) = find_blocks(["<!-- assay:status -->\n", "<!-- assay:end -->\n"], where)
    assert block.style == style


NEITHER = (
    "expected a comment 'assay:status' and below it one 'assay:end', found neither; "
    "add both where the status shall stand"
)
FORM = "expected a comment of one line with 'assay:status', 'assay:status KERNEL' or 'assay:end', found"
ONE = "write one of the three"


@pytest.mark.parametrize(
    ("where", "page", "told"),
    [
        ("p.py", "", NEITHER),
        ("p.py", "assay:status\nassay:end\n", NEITHER),
        ("p.py", "x = 1  # assay:status\n# assay:statuses\n", NEITHER),
        ("p.md", "see `<!-- assay:status -->` and\n# assay:status\n", NEITHER),
        ("p.md", "```\n<!-- assay:status -->\n<!-- assay:end -->\n```\n", NEITHER),
        ("p.md", "~~~~ html\n```\n<!-- assay:status -->\n~~~\n<!-- assay:end -->\n~~~~\n", NEITHER),
        ("p.py", "\n# assay:status\n", "line 2: expected assay:end after it, found none; add it"),
        ("p.py", "# assay:end\n", "line 1: expected assay:status before it, found none; add it"),
        (
            "p.py",
            "# assay:status\n# assay:status\n# assay:end\n",
            "line 2: expected assay:end for line 1 before it, found none; add it",
        ),
        (
            "p.py",
            "# assay:status\n# assay:end\n# assay:end\n",
            "line 3: expected assay:status before it, found none; add it",
        ),
        ("p.py", "# assay:status two words\n# assay:end\n", f"line 1: {FORM} # assay:status two words; {ONE}"),
        ("p.py", "# assay:status\n# assay:end matmul\n", f"line 2: {FORM} # assay:end matmul; {ONE}"),
        ("p.py", "# assay:status Mat-Mul\n# assay:end\n", f"line 1: {FORM} # assay:status Mat-Mul; {ONE}"),
        ("p.md", "<!-- assay:status\n-->\n<!-- assay:end -->\n", f"line 1: {FORM} <!-- assay:status; {ONE}"),
        ("p.c", "/* assay:status\n * assay:end */\n", f"line 1: {FORM} /* assay:status; {ONE}"),
        ("p.py", "# assay:status -->\n# assay:end\n", f"line 1: {FORM} # assay:status -->; {ONE}"),
    ],
)
def test_markers_that_make_no_block_are_refused_by_line(where: str, page: str, told: str) -> None:
    with pytest.raises(BlockError) as refusal:
        find_blocks(split(page), where)
    assert str(refusal.value) == f"{where}: {told}"
    assert refusal.value.exit_code == 2


def test_an_example_in_a_code_block_is_not_the_block() -> None:
    page = "```html\n<!-- assay:status -->\n<!-- assay:end -->\n```\n\n<!-- assay:status -->\n<!-- assay:end -->\n"
    (block,) = find_blocks(split(page), "README.md")
    assert block.start.line == 6

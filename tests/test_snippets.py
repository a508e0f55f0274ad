"""Snippets quote exactly the lines between their marks, may nest, and say why where they cannot be quoted."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.artifact import sha256_bytes
from assay.record import Unavailable
from assay.snippets import Snippet, find_snippets

KERNELS = sorted((Path(__file__).parents[1] / "kernels").glob("*.py"))
lines = st.lists(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), max_size=12), min_size=1)


@given(lines, lines, lines)
def test_the_lines_between_the_marks_are_quoted_as_they_stand(
    before: list[str], inside: list[str], after: list[str]
) -> None:
    source = "\n".join([*before, "  # snippet: name", *inside, "  # end snippet", *after])
    text = "".join(f"{line}\n" for line in inside)
    first = len(before) + 2
    expected = Snippet("name", first, first + len(inside) - 1, text, sha256_bytes(text.encode()))
    assert find_snippets(source.encode()) == [expected]


def test_an_inner_snippet_stands_in_the_outer_one_without_its_marks() -> None:
    source = b"# snippet: outer\na\n    # snippet: inner\n    b\n    # end snippet\nc\n# end snippet\n"
    texts = {found.name: found.text for found in find_snippets(source) if isinstance(found, Snippet)}
    assert texts == {"outer": "a\n    b\nc\n", "inner": "    b\n"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"# snippet: open\na\n", "snippet open, line 1, has no '# end snippet'"),
        (b"\n# snippet: empty\n# end snippet\n", "snippet empty, line 2, is empty"),
        (b"# snippet: a\n\xff\n# end snippet\n", "the file is not UTF-8"),
    ],
)
def test_what_cannot_be_quoted_says_why(source: bytes, reason: str) -> None:
    assert find_snippets(source) == [Unavailable(reason=reason)]


@pytest.mark.parametrize("source", [b"", b"a\n# end snippet\nb", b"# snippet:\nx\n# end snippet", b"x # snippet: a\n"])
def test_a_file_without_marks_has_no_snippet(source: bytes) -> None:
    assert find_snippets(source) == []


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_kernel_of_the_project_quotes_something(path: Path) -> None:
    found = find_snippets(path.read_bytes())
    assert found
    assert all(isinstance(snippet, Snippet) for snippet in found)

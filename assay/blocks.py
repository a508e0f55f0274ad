"""Blocks in pages that a program keeps up to date: found between two markers, and replaced in the page's own style.

A marker is a comment with a line to itself: `assay:status`, or `assay:status KERNEL`, and `assay:end`. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from assay.errors import AssayError
from assay.privacy import one_line

Style = Literal["comment", "markdown", "html"]

_MARK = re.compile(
    r"([ \t]*)(<!--|/\*+|//[/!]?|#+|\*|%+|--+|;+)[ \t]*assay:(status|end)(?!\w|-(?!->))([^\r\n]*)(\r?\n)?"
)
_REST = re.compile(r"(?:[ \t]+([a-z][a-z0-9_]*))?[ \t]*(-->|\*/)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MARKDOWN = (".md", ".markdown")
_HTML = (".html", ".htm", ".xhtml")


class BlockError(AssayError):
    """A page whose markers do not make blocks."""


@dataclass(frozen=True)
class Mark:
    """A marker: its line, counted from 1, and how its comment is written."""

    line: int
    what: str
    indent: str
    opening: str
    closing: str
    newline: str
    kernel: str | None


@dataclass(frozen=True)
class Block:
    """The lines of a page between two markers: from `start.line` to `end`, counted from 0, `end` not with them."""

    start: Mark
    end: int
    style: Style


def split(page: str) -> list[str]:
    """Return a page's lines with their ends. Only a line feed ends one: form feeds and the like are left alone."""
    return re.findall(r"[^\n]*\n|[^\n]+", page)


def _read(line: str, number: int, where: str) -> Mark | None:
    found = _MARK.fullmatch(line)
    if found is None:
        return None
    indent, opening, what, rest, newline = found.groups()
    inside = _REST.fullmatch(rest)
    kernel, closing = inside.groups() if inside else (None, None)
    due = "-->" if opening == "<!--" else "*/" if opening.startswith("/*") else None
    if inside is None or closing != due or (what == "end" and kernel):
        raise BlockError(
            f"{where}: line {number}: expected a comment of one line with 'assay:status', 'assay:status KERNEL' or "
            f"'assay:end', found {one_line(line, 100)}; write one of the three"
        )
    return Mark(number, what, indent, opening, closing or "", newline or "", kernel)


def _marks(lines: Sequence[str], where: str) -> Iterator[Mark]:
    """Yield the markers. In Markdown what starts with # is a heading, and what stands in a code block an example."""
    markdown = PurePath(where).suffix.lower() in _MARKDOWN
    fence = ""
    for number, line in enumerate(lines, 1):
        found = _FENCE.match(line) if markdown else None
        if found and (not fence or found[1].startswith(fence)):
            fence = "" if fence else found[1]
        mark = None if fence else _read(line, number, where)
        if mark and not (markdown and mark.opening != "<!--"):
            yield mark


def _style(mark: Mark, where: str) -> Style:
    if mark.opening != "<!--":
        return "comment"
    return "html" if PurePath(where).suffix.lower() in _HTML else "markdown"


def find_blocks(lines: Sequence[str], where: str) -> list[Block]:
    """Return the blocks of the page called `where`; BlockError where it has none, or markers are not in pairs."""
    blocks: list[Block] = []
    start: Mark | None = None
    for mark in _marks(lines, where):
        if (start is None) == (mark.what == "end"):
            due = "assay:status before it" if start is None else f"assay:end for line {start.line} before it"
            raise BlockError(f"{where}: line {mark.line}: expected {due}, found none; add it")
        if start is not None:
            blocks.append(Block(start, mark.line - 1, _style(start, where)))
        start = mark if start is None else None
    if start is not None:
        raise BlockError(f"{where}: line {start.line}: expected assay:end after it, found none; add it")
    if not blocks:
        raise BlockError(
            f"{where}: expected a comment 'assay:status' and below it one 'assay:end', found neither; "
            "add both where the status shall stand"
        )
    return blocks


def replace(lines: Sequence[str], filled: Sequence[tuple[Block, Sequence[str]]]) -> str:
    """Return the page with new lines in its blocks; every other line is as it was."""
    page = list(lines)
    for block, content in sorted(filled, key=lambda pair: -pair[0].end):
        ends = [f"{line}{block.start.newline}" for line in content]
        page[block.start.line : block.end] = ends
    return "".join(page)

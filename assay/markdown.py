"""Untrusted text in Markdown: it stays text, on one line and in one table cell, whatever it holds."""

import re

from assay.privacy import printable

# Escaped only where it would mean something, so that the source stays readable on a terminal: `sm_90` and `a <= b` are
# text as they stand. Rules: CommonMark 0.31 and GFM's tables, strikethrough and mathematics.
_INLINE = re.compile(r"[\\`|\[~$]|\*(?=\S)|(?<=\S)\*|(?<![^\W_])_|_(?![^\W_])")
_ENTITY = re.compile(r"&(?=[#A-Za-z])")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ITEM = re.compile(r"^(\d+)([.)])(?=\s|$)")
_BLOCK = re.compile(r"^(#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|-{2,}|=+)")


def escape(text: str) -> str:
    """Return Markdown that renders as `text`, on one line, fit for a table cell or the start of a line."""
    line = " ".join(printable(text).split())
    line = _INLINE.sub(lambda match: f"\\{match[0]}", _ENTITY.sub("&amp;", line))
    line = _TAG.sub("&lt;", line)
    return _BLOCK.sub(r"\\\1", _ITEM.sub(r"\1\\\2", line))


def fenced(text: str, language: str = "") -> str:
    """Return `text` as a code block, in a fence longer than any run of backticks inside."""
    shown = printable(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"

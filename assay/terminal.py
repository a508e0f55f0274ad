"""What commands print to a terminal through rich: text is never read as markup, every name is made harmless first, and
a sign that the terminal's encoding lacks is replaced by another.
"""

import sys

from rich.console import Console, RenderableType
from rich.text import Text

from assay.outcomes import MARKS, Mark
from assay.privacy import one_line

STYLES = {
    "verified": "green",
    "failed": "bold red",
    "conflict": "bold magenta",
    "inconclusive": "yellow",
    "stale": "yellow",
    "blocked": "cyan",
    "not-run": "dim",
    "inapplicable": "dim",
}
"""A mark's style. Its sign says the same without colour."""
_PLAIN = str.maketrans("✓✗≠■·–∗…─", "+x!#.-*~-")
"""What stands for the signs where the encoding has none of them; no two are alike."""


def text(said: str, style: str = "") -> Text:
    """Return one line of text from anywhere, without what a terminal would obey."""
    return Text(one_line(said, 2000), style=style)


def sign(mark: Mark, stale: bool = False) -> Text:
    """Return a mark's sign, with a star where what it says is stale."""
    return Text(f"{mark.symbol}{'*' if stale else ''}", style=STYLES[mark.style])


def open_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or as COLUMNS says, or 80."""
    return Console(markup=False, emoji=False, highlight=False)


def _has_signs(encoding: str) -> bool:
    try:
        "".join(mark.symbol for mark in MARKS).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def printed(parts: RenderableType, console: Console) -> str:
    """Return what goes to the terminal, in the characters that its encoding has."""
    with console.capture() as capture:
        console.print(parts)
    # A table pads its last column, which a file that output is sent to need not hold.
    said = "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
    if _has_signs(console.encoding):
        return said
    return said.translate(_PLAIN).encode(console.encoding, "replace").decode(console.encoding)


def put(parts: RenderableType, console: Console) -> None:
    """Print to standard output."""
    sys.stdout.write(printed(parts, console))

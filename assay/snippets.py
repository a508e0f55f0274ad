"""Kernel source quoted with its digest: what stands between `# snippet: <name>` and `# end snippet`."""

import re
from dataclasses import dataclass, field

from assay.artifact import sha256_bytes
from assay.record import Digest, Unavailable

_OPEN = re.compile(r"\s*# snippet: (\S+)\s*")
_CLOSE = re.compile(r"\s*# end snippet\s*")


@dataclass(frozen=True)
class Snippet:
    """Quoted lines, without the marks. `sha256` is over `text` in UTF-8; lines count from 1, marks included."""

    name: str
    first_line: int
    last_line: int
    text: str
    sha256: Digest


@dataclass
class _Quote:
    """A snippet being read: the line of its mark, what it holds so far, and the line of its end mark."""

    name: str
    opened: int
    lines: list[str] = field(default_factory=list)
    closed: int | None = None

    def finish(self) -> Snippet | Unavailable:
        if self.closed is None:
            return Unavailable(reason=f"snippet {self.name}, line {self.opened}, has no '# end snippet'")
        if not self.lines:
            return Unavailable(reason=f"snippet {self.name}, line {self.opened}, is empty")
        text = "".join(f"{line}\n" for line in self.lines)
        return Snippet(self.name, self.opened + 1, self.closed - 1, text, sha256_bytes(text.encode()))


def find_snippets(source: bytes) -> list[Snippet | Unavailable]:
    """Return the snippets of a kernel file in the order they open, each with the reason where it cannot be quoted.

    Snippets may stand inside one another: an end mark closes the innermost, and one that closes none is ignored.
    """
    try:
        lines = source.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return [Unavailable(reason="the file is not UTF-8")]
    quotes: list[_Quote] = []
    open_now: list[_Quote] = []
    for number, line in enumerate(lines, start=1):
        if match := _OPEN.fullmatch(line):
            quotes.append(_Quote(match[1], number))
            open_now.append(quotes[-1])
        elif _CLOSE.fullmatch(line):
            if open_now:
                open_now.pop().closed = number
        else:
            for quote in open_now:
                quote.lines.append(line)
    return [quote.finish() for quote in quotes]

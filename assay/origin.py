"""Says where in a kernel file an exception comes from, and what it says. Imports no torch."""

import ast
import contextlib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from traceback import FrameSummary

from assay.privacy import one_line, scrub


def chained(error: BaseException) -> list[BaseException]:
    """Return an exception, what it was raised from, and so on: the root comes last."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def _frames(chain: Sequence[BaseException]) -> list[FrameSummary]:
    frames = [frame for link in chain for frame in traceback.extract_tb(link.__traceback__)]
    return [frame for frame in frames if "/kernels/" in frame.filename]


def _line_of(source: str, filename: str, within: int) -> int | None:
    """Return the line of a file at a line, from 1, of a function whose source stands there once."""
    with contextlib.suppress(OSError, ValueError):
        text = Path(filename).read_text("utf-8")
        if text.count(source) == 1:
            return text.count("\n", 0, text.index(source)) + within
    return None


def _compiled_at(chain: Sequence[BaseException], files: Sequence[str]) -> Iterator[str]:
    """Yield where Triton's compiler was, in the function called first: its errors hold the source of a function and the
    node of its syntax tree.
    """
    for link in chain:
        source, node = getattr(link, "src", None), getattr(link, "node", None)
        if isinstance(source, str) and source and isinstance(node, ast.stmt | ast.expr):
            found = ((name, _line_of(source.rstrip(), name, node.lineno)) for name in dict.fromkeys(files))
            yield from (f"{scrub(name)}:{line}" for name, line in found if line is not None)


def _said(root: BaseException) -> str:
    """Return what the root says. An error of Triton's compiler shows the source before it says anything."""
    message = getattr(root, "error_message", None)
    return message if isinstance(message, str) and message else str(root)


def reason_of(error: BaseException) -> str:
    """Return one line: where in a kernel file, which exception, and what it says.

    Triton's interpreter wraps what a kernel raises, so that only the root was raised within the kernel. Its compiler
    runs no line of a kernel, and says in which it was.
    """
    chain = chained(error)
    root, frames = chain[-1], _frames(chain)
    compiled = list(_compiled_at(chain, [frame.filename for frame in frames]))
    if compiled:
        name = "" if hasattr(root, "src") else "CompilationError: "
        return one_line(f"{compiled[-1]}: {name}{type(root).__name__}: {_said(root)}")
    place = f"{scrub(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    return one_line(f"{place}{type(root).__name__}: {root}")

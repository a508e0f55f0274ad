"""What stands at a place of a record, as an outline of a few lines for a reader. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.record import Unavailable

MOST_LINES, FEWEST_LINES = 20, 4
MANY_CLAIMS = 300
"""On a page of more claims than this, excerpts are shorter the more there are: the page shall stay below 2 MiB."""
MOST_ITEMS = 4
"""Of a list that are shown; how many more there are is said."""
DEEPEST = 3
LONGEST = 160
"""Characters of one value, and of a line that holds several."""
INLINE = 104


def _child(value: Any, key: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return getattr(value, key) if key in value.__struct_fields__ else Unavailable(reason="no such place")
    if isinstance(value, Mapping):
        return value.get(key, Unavailable(reason="no such place"))
    if isinstance(value, Sequence) and not isinstance(value, str) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    return Unavailable(reason="no such place")


def find(record: Any, pointer: str) -> Any:
    """Return what a JSON pointer (RFC 6901) leads to in a record, or Unavailable where it leads nowhere."""
    value = record
    for part in pointer.split("/")[1:]:
        value = _child(value, part.replace("~1", "/").replace("~0", "~"))
    return value


def _pairs(value: Any) -> list[tuple[str, Any]] | None:
    """Return the named parts of a value, those that are null left out; None of a value without names."""
    if isinstance(value, msgspec.Struct):
        found = [(name, getattr(value, name)) for name in value.__struct_fields__]
        return [(name, part) for name, part in found if part is not None]
    if isinstance(value, Mapping):
        return [(_scalar(name), part) for name, part in value.items()]
    return None


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", False: "false", True: "true"}[value]
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _inline(value: Any) -> str | None:
    """Return a value on one line, or None where it is too much for one."""
    pairs = _pairs(value)
    if isinstance(value, Unavailable):
        return f"unavailable ({_scalar(value.reason)})"
    if pairs is not None:
        parts = [(name, _inline(part)) for name, part in pairs]
        text = "{" + ", ".join(f"{name}: {part}" for name, part in parts) + "}"
        return text if len(text) <= INLINE and all(part is not None for _, part in parts) else None
    if isinstance(value, list | tuple):
        parts_of = [_inline(part) for part in value[: 2 * MOST_ITEMS]]
        more = f", {len(value) - len(parts_of)} more" if len(value) > len(parts_of) else ""
        text = f"[{', '.join(str(part) for part in parts_of)}{more}]"
        return text if len(text) <= INLINE and None not in parts_of else None
    return _scalar(value)


def _lines(value: Any, depth: int) -> list[str]:
    """Return the outline of a value that does not fit one line."""
    pairs = _pairs(value)
    shown = pairs if pairs is not None else [(str(at), part) for at, part in enumerate(value[:MOST_ITEMS])]
    found: list[str] = []
    for name, part in shown:
        inline = _inline(part)
        if inline is None and depth >= DEEPEST:
            inline = f"{len(part) if isinstance(part, list | Mapping) else 'a record'} ..."
        found.append(f"{'  ' * depth}{name}:" if inline is None else f"{'  ' * depth}{name}: {inline}")
        found += _lines(part, depth + 1) if inline is None else []
    left = len(value) - len(shown) if pairs is None else 0
    return [*found, f"{'  ' * depth}and {left} more"] if left else found


def lines_each(claims: int) -> int:
    """Return how many lines an excerpt may have on a page of so many claims."""
    return max(FEWEST_LINES, MOST_LINES * MANY_CLAIMS // max(claims, MANY_CLAIMS))


def excerpt(value: Any, most: int = MOST_LINES) -> str:
    """Return an outline of what stands at a place: names and values, without nulls, long lists and texts cut short and
    said to be, in at most `most` lines and one that says so. Of a whole list it says only how long it is.
    """
    if isinstance(value, list):
        return f"a list of {len(value)}"
    inline = _inline(value)
    lines = [inline] if inline is not None else _lines(value, 0)
    more = len(lines) - most
    return "\n".join([*lines[:most], f"and {more} more lines"] if more > 1 else lines)

"""Says where a record differs from what was worked out again: file, place, what was expected, what was found."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from assay.privacy import printable

LONGEST_VALUE = 240

Faults = Iterator[str]
"""One sentence each."""


def _line(text: str) -> str:
    return " ".join(printable(text).split())


def shown(value: Any) -> str:
    """Return a value of a record as JSON on one line, cut in the middle where it is long."""
    text = _line(json.dumps(msgspec.to_builtins(value, str_keys=True), ensure_ascii=False, separators=(",", ":")))
    half = (LONGEST_VALUE - 5) // 2
    return text if len(text) <= LONGEST_VALUE else f"{text[:half]} ... {text[-half:]}"


def _children(expected: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of two values of one kind, by name; nothing where they have no parts that correspond."""
    if isinstance(expected, msgspec.Struct) and type(expected) is type(found):
        yield from ((name, getattr(expected, name), getattr(found, name)) for name in expected.__struct_fields__)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        yield from ((str(at), one, other) for at, (one, other) in enumerate(zip(expected, found, strict=True)))
    elif isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        yield from ((str(key), expected[key], found[key]) for key in expected)


@dataclass(frozen=True)
class Spot:
    """A place in a file: its path, and a JSON pointer to where in it."""

    path: str
    pointer: str = "/result"

    def at(self, *names: str | int) -> "Spot":
        """Return a place beneath this one."""
        return Spot(self.path, "/".join([self.pointer, *map(str, names)]))

    def fault(self, expected: str, found: str) -> str:
        """Return the sentence of a fault here. The pointer may hold keys that are anybody's."""
        return f"{self.path}: {_line(self.pointer)}: expected {expected}, found {found}"

    def differ(self, expected: Any, found: Any) -> Faults:
        """Yield a fault at the first, innermost place at which the two differ; nothing where they are equal."""
        if expected == found:
            return
        for name, one, other in _children(expected, found):
            if one != other:
                yield from self.at(name).differ(one, other)
                return
        if isinstance(expected, list) and isinstance(found, list) and len(expected) != len(found):
            yield self.fault(f"{len(expected)} items", str(len(found)))
        else:
            yield self.fault(shown(expected), shown(found))

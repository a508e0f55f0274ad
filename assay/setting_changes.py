"""What differs between two configurations, change by change, so that one after the other can be made. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple


class Change(NamedTuple):
    """One change of a configuration: a value `put` at a path, or one `added` to, or `dropped` from, the list there."""

    path: tuple[str, ...]
    kind: Literal["put", "added", "dropped"]
    value: Any

    def __str__(self) -> str:
        """Return it in words."""
        name = ".".join(self.path)
        return {
            "put": f"{name}: {self.value}",
            "added": f"{name}: with {self.value}",
            "dropped": f"{name}: without {self.value}",
        }[self.kind]


def _of_lists(path: tuple[str, ...], good: list[Any], bad: list[Any]) -> list[Change]:
    """Return the elements that came, then those that went; one change of the whole where the order differs too."""
    added, dropped = [v for v in bad if v not in good], [v for v in good if v not in bad]
    if [*(v for v in good if v not in dropped), *added] != bad:
        return [Change(path, "put", bad)]
    return [*(Change(path, "added", v) for v in added), *(Change(path, "dropped", v) for v in dropped)]


def _walk(path: tuple[str, ...], good: Any, bad: Any) -> Iterator[Change]:
    if isinstance(good, dict) and isinstance(bad, dict):
        for key in good:
            yield from _walk((*path, key), good[key], bad[key])
    elif isinstance(good, list) and isinstance(bad, list) and good != bad:
        yield from _of_lists(path, good, bad)
    elif good != bad:
        yield Change(path, "put", bad)


def changes(good: dict[str, Any], bad: dict[str, Any]) -> list[Change]:
    """Return the changes that make `bad` of `good`. Both are whole configurations, which have the same keys."""
    return list(_walk((), good, bad))


def _changed(value: Any, change: Change) -> Any:
    if change.kind == "put":
        return change.value
    return [*value, change.value] if change.kind == "added" else [one for one in value if one != change.value]


def _applied(tree: dict[str, Any], change: Change) -> dict[str, Any]:
    key, *rest = change.path
    inner = change._replace(path=tuple(rest))
    return {**tree, key: _applied(tree[key], inner) if rest else _changed(tree[key], change)}


def apply(tree: dict[str, Any], made: Sequence[Change]) -> dict[str, Any]:
    """Return a configuration with these changes made, in order."""
    for change in made:
        tree = _applied(tree, change)
    return tree

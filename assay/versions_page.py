"""The comparison of Triton releases as a page: what its templates show, arranged from the comparison."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from assay.changes import FIELDS, Cell, Change, Column, Field, Row, Software, Versions, value
from assay.formats import distinct, listing, short
from assay.instructions import matrix_names
from assay.known_changes import KNOWN, Known
from assay.outcomes import BLOCKED, Mark, mark_of
from assay.page import TEMPLATES, render_by

TEMPLATE_NAMES = "versions.html.j2", "versions.md.j2"
INTERPRETER = "interpreter"
NAMED = 4
"""Variants that a line names before it counts them."""
LABELS: dict[Field, str] = {
    "instructions": "",
    "registers": "registers",
    "stack": "B stack",
    "shared": "B shared",
}


@dataclass(frozen=True)
class Figure:
    """One field of a cell in words, and whether it differs from the release before. `full` is the whole value."""

    text: str
    full: str
    changed: bool


@dataclass(frozen=True)
class Place:
    """One cell of the matrix."""

    mark: Mark
    reason: str
    figures: list[Figure]


@dataclass(frozen=True)
class Line:
    """One variant for one target, or under the interpreter. No place: the release has no such record."""

    variant: str
    target: str
    places: list[Place | None]


@dataclass(frozen=True)
class Count:
    """How many of a kernel's rows differ between two neighbours, by field; `compared` are those that both have."""

    kernel: str
    older: str
    newer: str
    compared: int
    changed: list[int]


@dataclass(frozen=True)
class Group:
    """Changes of one field that are alike, with the variants and targets that show them."""

    kernel: str
    variants: str
    targets: str
    change: Change


@dataclass(frozen=True)
class Sighting:
    """A known change, and where it was seen."""

    known: Known
    groups: list[Group]


@dataclass(frozen=True)
class VersionsPage:
    """All that the templates show."""

    versions: Versions
    blocked: Mark
    conclusion: str
    fields: tuple[Field, ...]
    sightings: list[Sighting]
    notable: list[Group]
    counts: list[Count]
    kernels: list[tuple[str, list[Line]]]


# the matrix


def _changed(row: Row, version: str) -> set[str]:
    return {change.field for change in row.changes if change.newer == version}


def _figure(field: Field, text: str, changed: bool) -> Figure:
    if field == "binary":
        return Figure(f"binary {' + '.join(map(short, text.split(' + ')))}", text, changed)
    told = f"{text} {LABELS.get(field, '')}".strip()
    return Figure(told, told, changed)


def _place(row: Row, version: str) -> Place | None:
    cell: Cell | None = row.cells.get(version)
    if cell is None:
        return None
    changed = _changed(row, version)
    shown: list[tuple[Field, str]] = [("outcome", value(cell, "outcome") or "")]
    shown += [(field, cell.figures[field]) for field in FIELDS if field in cell.figures]
    return Place(
        mark_of(cell.outcome, cell.cause),
        cell.reason,
        [_figure(field, text, field in changed) for field, text in shown],
    )


def _line(row: Row, columns: Sequence[Column]) -> Line:
    return Line(row.variant, row.target or INTERPRETER, [_place(row, column.version) for column in columns])


# the changes


def _tensor_kinds(text: str) -> list[str]:
    return matrix_names({part.split(" ")[0]: 1 for one in text.split(" + ") for part in one.split(", ")})


def is_notable(change: Change) -> bool:
    """Return whether a reader should meet a change outside the matrix.

    Registers, counts of instructions and binaries differ from nearly every release to the next.
    """
    if change.field == "instructions":
        return bool(change.known) or set(_tensor_kinds(change.before)) != set(_tensor_kinds(change.after))
    return change.field in ("outcome", "checks", "stack")


def _alike(pair: tuple[Row, Change]) -> tuple[str, ...]:
    row, change = pair
    return row.kernel, change.older, change.newer, change.field, change.before, change.after, *change.known


def _groups(pairs: Iterable[tuple[Row, Change]]) -> list[Group]:
    found = []
    for _, alike in groupby(sorted(pairs, key=_alike), key=_alike):
        members = list(alike)
        rows, change = [row for row, _ in members], members[0][1]
        variants = listing((row.variant for row in rows), NAMED, "variants")
        targets = ", ".join(distinct(row.target or INTERPRETER for row in rows))
        found.append(Group(rows[0].kernel, variants, targets, change))
    return found


def _all_changes(found: Versions) -> list[tuple[Row, Change]]:
    return [(row, change) for row in found.rows for change in row.changes]


def _sightings(found: Versions) -> list[Sighting]:
    pairs = _all_changes(found)
    return [Sighting(known, _groups(pair for pair in pairs if known.name in pair[1].known)) for known in KNOWN]


def _counts(kernel: str, rows: Sequence[Row], columns: Sequence[Column]) -> list[Count]:
    present = [column.version for column in columns if any(column.version in row.cells for row in rows)]
    return [
        Count(
            kernel,
            older,
            newer,
            sum(older in row.cells and newer in row.cells for row in rows),
            [sum(_is(change, older, newer, field) for row in rows for change in row.changes) for field in FIELDS],
        )
        for older, newer in pairwise(present)
    ]


def _is(change: Change, older: str, newer: str, field: Field) -> bool:
    return (change.older, change.newer, change.field) == (older, newer, field)


def conclusion(found: Versions) -> str:
    """Return the comparison in one sentence."""
    ran = [column.version for column in found.columns if isinstance(column.software, Software)]
    blocked = [column.version for column in found.columns if not isinstance(column.software, Software)]
    pairs = _all_changes(found)
    outcomes = sum(change.field in ("outcome", "checks") for _, change in pairs)
    seen = [known.name for known in KNOWN if any(known.name in change.known for _, change in pairs)]
    obstacles = f" ({', '.join(blocked)} blocked)" if blocked else ""
    return (
        f"Triton {', '.join(ran) or 'none'}{obstacles};"
        f" kernels: {len({row.kernel for row in found.rows})}, rows: {len(found.rows)}; differences between neighbours:"
        f" {len(pairs)}, of outcomes: {outcomes}; known changes seen: {', '.join(seen) or 'none'}"
    )


def build_page(found: Versions) -> VersionsPage:
    """Arrange the comparison for the templates."""
    kernels = {name: list(rows) for name, rows in groupby(found.rows, key=lambda row: row.kernel)}
    return VersionsPage(
        versions=found,
        blocked=BLOCKED,
        conclusion=conclusion(found),
        fields=FIELDS,
        sightings=_sightings(found),
        notable=_groups(pair for pair in _all_changes(found) if is_notable(pair[1])),
        counts=[count for name, rows in kernels.items() for count in _counts(name, rows, found.columns)],
        kernels=[(name, [_line(row, found.columns) for row in rows]) for name, rows in kernels.items()],
    )


def render(found: Versions, folder: Path = TEMPLATES) -> tuple[bytes, bytes]:
    """Return the comparison as HTML and as Markdown."""
    return render_by(TEMPLATE_NAMES, build_page(found), folder)

"""What changed in one kernel's records from one Triton release to the next. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from msgspec.structs import replace

from assay.formats import distinct
from assay.installation import release_order
from assay.known_changes import known_changes
from assay.outcomes import mark_of, tally
from assay.record import (
    Binary,
    Build,
    Cause,
    Check,
    Compile,
    Declaration,
    Digest,
    Interpreter,
    Outcome,
    Record,
    Unavailable,
    Verdict,
)

Field = Literal["outcome", "checks", "instructions", "registers", "stack", "shared", "binary"]
FIELDS: tuple[Field, ...] = ("outcome", "checks", "instructions", "registers", "stack", "shared", "binary")
"""What is compared: `checks` of the interpreter, all from `instructions` on of a build. Amounts are in bytes."""


class Cell(Record, frozen=True, kw_only=True):
    """One variant under one release: for a target, or under the interpreter. `figures` are what was found, in words;
    of a launch of several functions, each one's in their order.
    """

    outcome: Outcome
    cause: Cause | None
    reason: str
    figures: dict[Field, str]


class Change(Record, frozen=True, kw_only=True):
    """One field that differs from one release to the next that has it. `known`: the changes that this looks like."""

    older: str
    newer: str
    field: Field
    before: str
    after: str
    known: list[str]


class Row(Record, frozen=True, kw_only=True):
    """One variant for one target (None: under the interpreter), by release; a release that lacks it is left out."""

    kernel: str
    variant: str
    target: str | None
    cells: dict[str, Cell]
    changes: list[Change]


class Software(Record, frozen=True, kw_only=True, tag_field="kind", tag="software"):
    """What a release was run with. `environment_sha256` is the digest of the record that says it in full."""

    python: str
    torch: str
    numpy: str
    assemblers: dict[str, str | Unavailable]
    environment_sha256: Digest


class Column(Record, frozen=True, kw_only=True):
    """One release, and what it was run with, or why it could not be installed."""

    version: str
    software: Software | Unavailable


class Versions(Record, frozen=True, kw_only=True):
    """All releases, oldest first, and what each kernel's records say under each: `versions.json`."""

    schema: Literal["assay/versions/1"] = "assay/versions/1"
    columns: list[Column]
    rows: list[Row]


class Tiers(NamedTuple):
    """What one kernel's two records found under one release."""

    interpreter: Interpreter
    compile: Compile


Kernel = Mapping[str, Tiers]
"""One kernel's records, by release; one that could not be installed is left out."""


def word(outcome: Outcome, cause: Cause | None) -> str:
    """Return what an outcome is called, with its cause."""
    name = mark_of(outcome, cause).word
    return name if cause is None else f"{name} ({cause})"


def value(cell: Cell, field: Field) -> str | None:
    """Return one field of a cell in words; None where it has none, as a build that failed has no registers."""
    return word(cell.outcome, cell.cause) if field == "outcome" else cell.figures.get(field)


# cells


def _cell(verdict: Verdict, figures: dict[Field, str] | None = None) -> Cell:
    return Cell(outcome=verdict.outcome, cause=verdict.cause, reason=verdict.reason, figures=figures or {})


def _checks(checks: Sequence[Check]) -> str:
    """Return how many cases came out how, and by name those that did not pass."""
    counts = tally(mark_of(check.verdict.outcome, check.verdict.cause) for check in checks)
    exceptions = [
        f"{check.case} {word(check.verdict.outcome, check.verdict.cause)}"
        for check in checks
        if check.verdict.outcome != "passed"
    ]
    return "; ".join([", ".join(f"{count} {mark.word}" for mark, count in counts), *exceptions])


def _worst(checks: Sequence[Check]) -> Verdict:
    """Return the verdict that stands for several: the first that failed, or was not decided, or else passed."""
    order: tuple[Outcome, ...] = ("failed", "cantTell", "untested", "passed", "inapplicable")
    return min((check.verdict for check in checks), key=lambda verdict: order.index(verdict.outcome))


def _interpreted(found: Interpreter, variant: str) -> Cell | None:
    if found.declaration is None:
        return _cell(found.loading)
    checks = [check for check in found.checks if check.variant == variant]
    return _cell(_worst(checks), {"checks": _checks(checks)}) if checks else None


def _counts(binary: Binary) -> str:
    counts = [f"{name} {count}" for name, count in sorted(binary.instructions.assembly.items()) if count]
    return ", ".join(counts) or "no instructions of interest"


def _figures(binaries: Sequence[Binary]) -> dict[Field, str]:
    """Return the figures of a launch's functions, in their order."""
    each: list[dict[Field, str]] = [
        {
            "instructions": _counts(binary),
            "registers": str(binary.registers),
            "stack": str(binary.stack_bytes),
            "shared": str(binary.shared_bytes),
            "binary": binary.binary_sha256,
        }
        for binary in binaries
    ]
    return {field: " + ".join(one[field] for one in each) for field in FIELDS if each and field in each[0]}


def _build(found: Compile, variant: str, target: str) -> Build | None:
    return next((build for build in found.builds if (build.variant, build.target) == (variant, target)), None)


def _built(found: Compile, variant: str, target: str) -> Cell | None:
    if found.declaration is None:
        return _cell(found.loading)
    build = _build(found, variant, target)
    return None if build is None else _cell(build.compiled, _figures(build.binaries))


# changes


def neighbours(cells: Mapping[str, Cell]) -> Iterator[tuple[str, str]]:
    """Yield each release that has a cell with the next that has one, oldest first."""
    return pairwise(sorted(cells, key=release_order))


def _differing(older: Cell, newer: Cell) -> Iterator[tuple[Field, str, str]]:
    """Yield the fields that both cells have, and that differ."""
    for field in FIELDS:
        before, after = value(older, field), value(newer, field)
        if before is not None and after is not None and before != after:
            yield field, before, after


def _known(kernel: Kernel, row: Row, older: str, newer: str) -> dict[str, list[str]]:
    """Map fields to the names of the known changes that two builds show in them."""
    if row.target is None:
        return {}
    declared = kernel[newer].compile.declaration
    precision = next((v.precision for v in declared.variants if v.id == row.variant), "") if declared else ""
    builds = [_build(kernel[version].compile, row.variant, row.target) for version in (older, newer)]
    names: dict[str, list[str]] = {}
    if builds[0] is not None and builds[1] is not None:
        between = release_order(older), release_order(newer)
        for known in known_changes(precision, between, builds[0], builds[1]):
            names.setdefault(known.field, []).append(known.name)
    return names


def _changes(kernel: Kernel, row: Row) -> list[Change]:
    return [
        Change(older=older, newer=newer, field=field, before=before, after=after, known=known.get(field, []))
        for older, newer in neighbours(row.cells)
        for known in [_known(kernel, row, older, newer)]
        for field, before, after in _differing(row.cells[older], row.cells[newer])
    ]


def _row(name: str, kernel: Kernel, variant: str, target: str | None) -> Row:
    found = {
        version: _interpreted(tiers.interpreter, variant) if target is None else _built(tiers.compile, variant, target)
        for version, tiers in kernel.items()
    }
    cells = {version: cell for version, cell in found.items() if cell is not None}
    row = Row(kernel=name, variant=variant, target=target, cells=cells, changes=[])
    return replace(row, changes=_changes(kernel, row))


def _declarations(kernel: Kernel) -> Iterable[Declaration]:
    found = [tiers.compile.declaration or tiers.interpreter.declaration for tiers in kernel.values()]
    return [declaration for declaration in found if declaration is not None]


def kernel_rows(name: str, kernel: Kernel) -> list[Row]:
    """Return a kernel's rows: each variant under the interpreter, then for each target.

    A kernel that loads under no release has one row, which says so.
    """
    variants = distinct(variant.id for declaration in _declarations(kernel) for variant in declaration.variants)
    targets = distinct(build.target for tiers in kernel.values() for build in tiers.compile.builds)
    places: list[str | None] = [None, *targets]
    rows = [_row(name, kernel, variant, target) for variant in variants or ["*"] for target in places]
    return [row for row in rows if row.cells]


def compare_versions(columns: list[Column], kernels: Mapping[str, Kernel]) -> Versions:
    """Return every row of every kernel, over these releases."""
    return Versions(
        columns=columns, rows=[row for name, kernel in kernels.items() for row in kernel_rows(name, kernel)]
    )

"""Command `compare`: shows what changed from one bundle to another, and exits with 1 where something got worse."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from assay.artifact import canonical
from assay.differences import ClaimChange, Differences, ErrorChange, FieldChange, Side, find_differences
from assay.errors import UsageError
from assay.formats import listing, milliseconds, scientific
from assay.opening import Opened, UnreadableError, UnsoundError
from assay.outputs import rank
from assay.privacy import one_line
from assay.ratios import METHOD, Ratio, TimeChange, interval_text
from assay.record import Unavailable
from assay.soundness import open_sound

MARGIN = 0.02
"""Medians of a 0.05 ms kernel, taken by six processes in turn on an idle H200, lay within 1.4 % of one another."""
NAMED = 4
"""Variants, or cases, that a line names before it counts them."""


def _marked(worse: bool, text: str) -> str:
    return one_line(f"{'!' if worse else '-'} {text}", limit=1000)


def _side_lines(name: str, side: Side) -> list[str]:
    return [one_line(f"{name}: {side.bundle} ({side.device})"), one_line(f"   {side.sentence}", limit=2000)]


def _environment_lines(changes: Sequence[FieldChange]) -> Iterator[str]:
    yield f"Environment: {len(changes)} {'difference' if len(changes) == 1 else 'differences'}"
    yield from (_marked(False, f"{change.field}: {change.a} -> {change.b}") for change in changes)


def _claim_lines(changes: Sequence[ClaimChange]) -> Iterator[str]:
    """Yield one line for all claims of a kernel that share tier, target and change."""
    counts = [(name, sum(c.change == name for c in changes)) for name in ("lost", "gained", "changed")]
    yield f"Claims: {', '.join(f'{count} {name}' for name, count in counts)}"
    order = sorted(changes, key=lambda c: (not c.worse, c.change, c.kernel, c.tier, c.target or "", c.a, c.b))
    for (worse, change, kernel, tier, target, a, b), group in groupby(
        order, key=lambda c: (c.worse, c.change, c.kernel, c.tier, c.target, c.a, c.b)
    ):
        members = list(group)
        of = listing((c.variant for c in members), NAMED, "variants")
        where = f" on {target}" if target else ""
        why = f" ({members[0].reason})" if b not in ("verified", "absent") else ""
        yield _marked(worse, f"{change}: {kernel} {of}, {tier}{where}: {a} -> {b}{why}")


def _error_lines(changes: Sequence[ErrorChange]) -> Iterator[str]:
    """Yield one line for all cases of a variant at one stage."""
    past = sum(change.worse for change in changes)
    yield f"Accuracy: normalised errors that differ: {len(changes)}; past the bound in B and not in A: {past}"
    order = sorted(changes, key=lambda c: not c.worse)
    for (worse, kernel, stage, variant), group in groupby(order, key=lambda c: (c.worse, c.kernel, c.stage, c.variant)):
        members = list(group)
        largest = [scientific(max(values, key=rank)) for values in ([c.a for c in members], [c.b for c in members])]
        cases = listing((c.case for c in members), NAMED, "cases")
        yield _marked(worse, f"{kernel} {variant}, {stage}, largest of {cases}: {' -> '.join(largest)}")


def _time_line(change: TimeChange) -> str:
    about = f"{change.kernel} {change.size}, {change.entrant}{' (library)' if change.peer else ''}"
    if isinstance(change.ratio, Unavailable):
        return _marked(False, f"{change.verdict}: {about}: {change.reason}")
    by = " by replay" if change.mode == "replay" else ""
    times = f"{milliseconds(change.ratio.a_ns)} -> {milliseconds(change.ratio.b_ns)} ms{by}"
    return _marked(change.worse, f"{change.verdict}: {about}: {times}, ratio {interval_text(change.ratio)}")


def _time_lines(found: Differences) -> Iterator[str]:
    compared = sum(isinstance(change.ratio, Ratio) for change in found.times)
    yield f"Timing: entrants compared, B over A: {compared}; margin: {100 * found.margin:g} %"
    yield from (_marked(False, f"note: {note}") for note in found.notes)
    yield from map(_time_line, found.times)
    if compared:
        yield METHOD


def _conclusion(found: Differences) -> str:
    if not found.worse:
        return "Nothing got worse from A to B."
    kinds = (("claims", found.claims), ("errors", found.errors), ("times", found.times))
    counts = [f"{name} {sum(change.worse for change in changes)}" for name, changes in kinds]
    return f"Worse in B, each marked with !: {', '.join(counts)}."


def text(found: Differences) -> str:
    """Return the differences for people: what got worse is marked with an exclamation mark."""
    sections = [
        [*_side_lines("A", found.a), *_side_lines("B", found.b), found.ignored],
        _environment_lines(found.environment),
        _claim_lines(found.claims),
        _error_lines(found.errors),
        _time_lines(found),
        [_conclusion(found)],
    ]
    return "\n\n".join("\n".join(section) for section in sections)


def read_sound(path: Path) -> Opened:
    """Open a bundle; UnreadableError where it is not sound, because an exit with 1 says that something got worse."""
    try:
        return open_sound(path)
    except UnsoundError as error:
        raise UnreadableError(f"{error}; only sound bundles are compared: {error.remedy}") from None


def read_margin(given: str) -> float:
    """Return the margin as a fraction; UsageError where it is no percentage from 0 to 100."""
    try:
        margin = float(given) / 100
    except ValueError:
        margin = -1.0
    if not 0 <= margin <= 1:
        raise UsageError(f"--margin: expected a percentage from 0 to 100, found {one_line(given)}; write 2 for 2 %")
    return margin


def show(found: Differences, as_json: bool) -> int:
    """Print the differences, and return the exit code that they call for."""
    print(canonical(found).decode() if as_json else text(found))
    return 1 if found.worse else 0


def main(argv: Sequence[str]) -> int:
    """Return 0 where nothing got worse and 1 where something did: a claim lost or failed, an error past, a time up."""
    options = argparse.ArgumentParser(
        prog="python -m assay compare",
        description="Show what changed from bundle A to bundle B.",
    )
    options.add_argument("a", type=Path, metavar="A", help="the bundle before")
    options.add_argument("b", type=Path, metavar="B", help="the bundle after")
    options.add_argument(
        "--margin",
        default=f"{100 * MARGIN:g}",
        metavar="PERCENT",
        help="what counts as the same time (default: %(default)s)",
    )
    options.add_argument("--json", action="store_true", help="print every difference as one line of JSON")
    chosen = options.parse_args(argv)
    margin = read_margin(chosen.margin)
    return show(find_differences(read_sound(chosen.a), read_sound(chosen.b), margin), chosen.json)

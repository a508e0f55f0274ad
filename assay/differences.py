"""What changed from one bundle's records to another's: environment, claims, errors and times. Pure.

When a record was made, and how long that took, is left out on purpose; so are its digests, which follow from those.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from assay.admission import chosen_device
from assay.formats import shown
from assay.opening import Opened
from assay.outcomes import mark_of
from assay.ratios import TimeChange, condition_notes, time_changes
from assay.record import (
    Check,
    Claim,
    Comparison,
    Environment,
    Number,
    Overall,
    Record,
    StageName,
    Tier,
)

ABSENT = "absent"
IGNORED = (
    "When each was made, and how long its stages took, is ignored on purpose: two runs of one state never share it."
)


class Side(Record, frozen=True, kw_only=True):
    """One of the two bundles: its name, what it claims, and the device it ran on."""

    bundle: str
    content_sha256: str
    status: Overall
    sentence: str
    device: str


class FieldChange(Record, frozen=True, kw_only=True):
    """One value of the environment, in words."""

    field: str
    a: str
    b: str


class ClaimChange(Record, frozen=True, kw_only=True):
    """One claim in words such as 'verified'. Gained is verified in B alone, lost in A alone; `reason` is B's."""

    kernel: str
    variant: str
    tier: Tier
    target: str | None
    a: str
    b: str
    change: Literal["gained", "lost", "changed"]
    worse: bool
    reason: str


class ErrorChange(Record, frozen=True, kw_only=True):
    """The normalised error of one output of one case. Worse is past the bound in B and not in A."""

    kernel: str
    stage: Literal["interpreter", "gpu"]
    variant: str
    case: str
    output: str
    a: Number
    b: Number
    worse: bool


class Differences(Record, frozen=True, kw_only=True):
    """All that changed from A to B. `notes`: what to know before comparing the times, each a sentence."""

    a: Side
    b: Side
    ignored: str = IGNORED
    margin: float
    environment: list[FieldChange]
    claims: list[ClaimChange]
    errors: list[ErrorChange]
    times: list[TimeChange]
    notes: list[str]

    @property
    def worse(self) -> list[ClaimChange | ErrorChange | TimeChange]:
        """What got worse from A to B."""
        changes: list[ClaimChange | ErrorChange | TimeChange] = [*self.claims, *self.errors, *self.times]
        return [change for change in changes if change.worse]


def place_of(environment: Environment) -> str:
    """Return name and target of the device that kernels run on, or that there is none."""
    device = chosen_device(environment)
    return "no GPU" if device is None else f"{device.name} ({device.target})"


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value of a record in words, by its path."""
    if isinstance(tree, dict) and tree.get("kind") == "unavailable":
        yield path, f"unavailable ({tree['reason']})"
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, shown(tree)


def environment_changes(a: Environment, b: Environment) -> list[FieldChange]:
    """Return every value that differs, by path."""
    left, right = [dict(_leaves(msgspec.to_builtins(side))) for side in (a, b)]
    pairs = {name: (left.get(name, ABSENT), right.get(name, ABSENT)) for name in sorted(left.keys() | right.keys())}
    return [FieldChange(field=name, a=one, b=other) for name, (one, other) in pairs.items() if one != other]


def _word(claim: Claim | None) -> str:
    return ABSENT if claim is None else mark_of(claim.outcome, claim.cause).word


def got_worse(before: Claim | None, after: Claim | None) -> bool:
    """Return whether a claim got worse: it passed and no longer does, or it fails now."""
    passed, passes = (claim is not None and claim.outcome == "passed" for claim in (before, after))
    # Which variants a search space is thinned out to depends on a few samples.
    pruned = after is not None and after.cause == "pruned"
    failed = after is not None and after.outcome == "failed"
    return (passed and not passes and not pruned) or failed


def _claim_change(a: Claim | None, b: Claim | None) -> ClaimChange | None:
    """Return what became of a claim; None where it says the same."""
    about = b or a
    if about is None or _word(a) == _word(b):
        return None
    before, after = (claim is not None and claim.outcome == "passed" for claim in (a, b))
    return ClaimChange(
        kernel=about.kernel,
        variant=about.variant,
        tier=about.tier,
        target=about.target,
        a=_word(a),
        b=_word(b),
        change="gained" if after else "lost" if before else "changed",
        worse=got_worse(a, b),
        reason="" if b is None else b.reason,
    )


def claim_changes(a: Sequence[Claim], b: Sequence[Claim]) -> list[ClaimChange]:
    """Return every claim whose outcome differs, or that one side lacks, in the order of A, then of B."""
    left, right = [{(c.kernel, c.variant, c.tier, c.target): c for c in claims} for claims in (a, b)]
    changes = [_claim_change(left.get(key), right.get(key)) for key in {**left, **right}]
    return [change for change in changes if change is not None]


def _compared(checks: Sequence[Check]) -> dict[tuple[str, str, str], Comparison]:
    return {(check.variant, check.case, one.output): one for check in checks for one in check.comparisons}


def error_changes(
    kernel: str, stage: Literal["interpreter", "gpu"], a: Sequence[Check], b: Sequence[Check]
) -> list[ErrorChange]:
    """Return every output, compared on both sides, whose error differs."""
    left, right = _compared(a), _compared(b)
    changes = [
        ErrorChange(
            kernel=kernel,
            stage=stage,
            variant=key[0],
            case=key[1],
            output=key[2],
            a=left[key].normalised_error,
            b=right[key].normalised_error,
            worse=right[key].past_bound > 0 and not left[key].past_bound > 0,
        )
        for key in left
        if key in right
    ]
    return [change for change in changes if change.a != change.b or change.worse]


def _results(opened: Opened, stage: StageName) -> Mapping[str, Any]:
    return {str(record.kernel): record.result for record in opened.of_stage(stage).values()}


def _pairs(a: Opened, b: Opened, stage: StageName) -> Iterator[tuple[str, Any, Any]]:
    """Yield the results of each kernel that both bundles have a record of."""
    left, right = _results(a, stage), _results(b, stage)
    for kernel in sorted(left.keys() & right.keys()):
        yield kernel, left[kernel], right[kernel]


def _side(opened: Opened) -> Side:
    status = opened.one("claims").result.status
    return Side(
        bundle=opened.name,
        content_sha256=opened.bag.manifest_sha256,
        status=status.overall,
        sentence=status.sentence,
        device=place_of(opened.one("environment").result),
    )


def find_differences(a: Opened, b: Opened, margin: float) -> Differences:
    """Return all that changed from A to B."""
    sides = _side(a), _side(b)
    stages: tuple[Literal["interpreter", "gpu"], ...] = ("interpreter", "gpu")
    timed = list(_pairs(a, b, "timing"))
    notes = [] if sides[0].device == sides[1].device else [f"A ran on {sides[0].device}, B on {sides[1].device}"]
    return Differences(
        a=sides[0],
        b=sides[1],
        margin=margin,
        environment=environment_changes(a.one("environment").result, b.one("environment").result),
        claims=claim_changes(a.one("claims").result.claims, b.one("claims").result.claims),
        errors=[
            change
            for stage in stages
            for kernel, left, right in _pairs(a, b, stage)
            for change in error_changes(kernel, stage, left.checks, right.checks)
        ],
        times=[
            change
            for kernel, left, right in timed
            for change in time_changes(kernel, left.sweeps, right.sweeps, margin)
        ],
        notes=[*notes, *(note for k, left, right in timed for note in condition_notes(k, left.sweeps, right.sweeps))],
    )

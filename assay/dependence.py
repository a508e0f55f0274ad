"""What a wrong result depends on beside its inputs, found by launching again with one thing changed.

Asked only of a failure that the values alone decide, and only under the interpreter, where programs run one after
another: bits that change there change with what was changed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from msgspec.structs import replace

from assay.buffers import UNCLEARED, bits_of
from assay.marks import Mark
from assay.record import Cause, Comparison, Verdict
from assay.uncleared import ZEROS

Left = Mapping[str, torch.Tensor]
"""What a launch left in each output."""

COINCIDENCE = 8
"""Fewer elements that are wrong for one seed may happen to be right for another: outcomes such as 0 and 1 repeat."""


@dataclass(frozen=True)
class Look:
    """A further launch: what is put into the outputs (None: their usual blank) and into memory from torch.empty before
    it, and what a result that changes with it fails by.
    """

    blank: int | None
    filling: Mark
    cause: Cause
    says: str


LOOKS = (
    Look(
        None,
        UNCLEARED,
        "stale-result",
        "{} change in another launch on the same inputs: the result depends on more than these, such as what an "
        "earlier call left",
    ),
    Look(
        0,
        UNCLEARED,
        "not-written",
        "{} change with what the outputs held before: the result depends on what was there before the launch",
    ),
    Look(
        None,
        ZEROS,
        "undefined-read",
        "{} change with what torch.empty hands out: the result depends on memory that nobody wrote",
    ),
)


def explained(verdict: Verdict, left: Left, again: Callable[[Look], Left | None]) -> Verdict:
    """Return a failure with what its result depends on beside the inputs, if anything; its numbers stay in the reason.

    `left` is the failed result, and `again` launches once more and returns what that leaves, or None where it cannot
    tell.
    """
    for look in LOOKS:
        found = again(look)
        if found is None:
            break
        changed, total = _differing(left, found), sum(tensor.numel() for tensor in left.values())
        if changed:
            what = look.says.format(f"{changed} of {total} elements of the outputs")
            return replace(verdict, cause=look.cause, reason=f"{what}: {verdict.reason}")
    return verdict


def _differing(one: Left, other: Left) -> int:
    return sum(int((bits_of(one[name]) != bits_of(other[name])).sum()) for name in one)


def kept(verdict: Verdict, comparisons: Sequence[Comparison], earlier: Mapping[int, Sequence[Comparison]]) -> Verdict:
    """Return a failure blamed on an earlier call, where its result is wrong and the right one for a seed before it.

    `earlier` compares the failed result with what each of those seeds wants.
    """
    if sum(comparison.past_bound for comparison in comparisons) < COINCIDENCE:
        return verdict
    for seed, compared in earlier.items():
        if all(comparison.past_bound == 0 for comparison in compared):
            reason = f"the result is that of seed {seed}, tried before: an earlier call left it: {verdict.reason}"
            return replace(verdict, cause="stale-result", reason=reason)
    return verdict


def chance() -> tuple[object, ...]:
    """Return the states of the generators that a launch may draw from: one that does gives no result twice."""
    _, keys, position, *_ = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), np.asarray(keys).tobytes(), position

"""Compares one output with the float64 oracle, so that NaN, a wrong shape and an unwritten element fail."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from assay.judgement import normalised
from assay.kernel import Kernel, Problem, Tensors
from assay.record import Comparison, Worst, number

LARGEST_SHARE = 1e300
"""Of its limit that an error counts as: any error is infinitely past a limit of 0, and a NaN is further."""


def _same(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Say where both are equal, the same infinity, or both NaN: the oracle says what must come out."""
    return (got == want) | (got.isnan() & want.isnan())


def _largest(values: torch.Tensor) -> float:
    return float(values.amax()) if values.numel() else 0.0


def _empty(name: str, got: torch.Tensor, rule: str, words: str) -> Comparison:
    """Compare nothing with nothing: an output without elements is right."""
    return Comparison(
        output=name,
        rule=rule,
        shape=list(got.shape),
        dtype=str(got.dtype).removeprefix("torch."),
        elements=0,
        past_bound=0,
        largest_error=0.0,
        largest_reference=0.0,
        normalised_error=0.0,
        bound=words,
        worst=Worst(index=[], got=0.0, want=0.0, error=0.0, bound=0.0),
    )


def _place(flat: int, shape: Sequence[int]) -> list[int]:
    """Return the index of the element that is number `flat` in row-major order."""
    # torch.unravel_index does the same, and imports sympy at its first call, which takes the better part of a second.
    index = []
    for extent in reversed(shape):
        flat, at = divmod(flat, extent)
        index.append(at)
    return index[::-1]


def compare(
    name: str, got: torch.Tensor, want: torch.Tensor, limit: torch.Tensor, *, rule: str, words: str
) -> Comparison:
    """Compare `got` (any float dtype) with `want` and `limit` (float64, same shape), all in one place.

    The worst element is the one whose error is the largest share of its limit, not the first. An infinite limit bounds
    nothing, so it allows nothing. The normalised error divides by the largest finite |want|: near 0 an element's own
    relative error measures cancellation, not the multiplier.
    """
    wide, limits = got.to(torch.float64), limit.expand_as(want)
    same = _same(wide, want)
    error = torch.where(same, 0.0, (wide - want).abs())
    # Written so that NaN, in a result or in a limit, is past every bound.
    within = same | ((error <= limits) & limits.isfinite())
    share = torch.where(error > 0, error / limits, 0.0)
    # One past its limit stands above all others, whatever the division rounds to, and one without a number above those.
    past = torch.where(error.isfinite() & limits.isfinite(), 1 + share.clamp(1, LARGEST_SHARE), torch.inf)
    order = torch.where(within, share.clamp(max=1), past)
    if not want.numel():
        return _empty(name, got, rule, words)
    flat = int(order.argmax())
    at = _place(flat, want.shape)
    largest, reference = _largest(error), _largest(want[want.isfinite()].abs())
    return Comparison(
        output=name,
        rule=rule,
        shape=list(got.shape),
        dtype=str(got.dtype).removeprefix("torch."),
        elements=want.numel(),
        past_bound=int((~within).sum()),
        largest_error=number(largest),
        largest_reference=number(reference),
        normalised_error=normalised(largest, reference),
        bound=words,
        worst=Worst(
            index=at,
            got=number(float(wide.flatten()[flat])),
            want=number(float(want.flatten()[flat])),
            error=number(float(error.flatten()[flat])),
            bound=number(float(limits.flatten()[flat])),
        ),
    )


def compare_all(kernel: Kernel, outputs: Tensors, problem: Problem) -> list[Comparison]:
    """Compare every output under every bound that covers it, wherever the tensors are."""
    problem = replace(problem, dtypes={name: got.dtype for name, got in outputs.items()})
    return [
        compare(
            name,
            got,
            bound.reference(problem, name),
            bound.limit(problem, name),
            rule=bound.name,
            words=bound.words(problem, name),
        )
        for name, got in outputs.items()
        for bound in kernel.bounds
        if bound.covers(name)
    ]

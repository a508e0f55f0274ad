"""Compares one output with the float64 oracle, so that NaN, a wrong shape and an unwritten element fail."""

import torch

from assay.judgement import normalised
from assay.record import Comparison, Worst, number


def _excess(error: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """How far each error is past its limit; NaN counts as infinitely far."""
    excess = error - limit
    return torch.where(excess.isnan(), torch.inf, excess)


def _errors(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """|got - want|, and 0 where both are the same infinity or both NaN: the oracle says what must come out."""
    same = (got == want) | (got.isnan() & want.isnan())
    return torch.where(same, 0.0, (got - want).abs())


def _largest(values: torch.Tensor) -> float:
    return float(values.amax()) if values.numel() else 0.0


def compare(name: str, got: torch.Tensor, want: torch.Tensor, limit: torch.Tensor, words: str) -> Comparison:
    """Compare `got` (any float dtype) with `want` and `limit` (float64, same shape), all on the host.

    The worst element is the one furthest past its limit, not the first. The normalised error divides by the largest
    finite |want|: near 0 an element's own relative error measures cancellation, not the multiplier.
    """
    wide = got.to(torch.float64)
    error = _errors(wide, want)
    limits = limit.expand_as(want)
    reference = _largest(want[want.isfinite()].abs())
    flat = int(_excess(error, limits).argmax())
    at = [int(i) for i in torch.unravel_index(torch.tensor(flat), want.shape)] if want.dim() else []
    largest = _largest(error)
    return Comparison(
        output=name,
        shape=list(got.shape),
        dtype=str(got.dtype).removeprefix("torch."),
        elements=want.numel(),
        # `not (error <= limit)`, so that NaN is past every bound.
        past_bound=int((~(error <= limits)).sum()),
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

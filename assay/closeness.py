"""How close outputs came to the float64 oracle's, piece by piece, so that a large one takes no copies of its size."""

import math
from collections.abc import Iterable, Iterator

import torch

from assay.kernel import Tensors
from assay.record import Accuracy, as_float, number

PIECE = 1 << 24
"""Elements looked at in one go: 128 MiB in float64."""


def _pieces(got: torch.Tensor, want: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield both, cut along the first axis into pieces of about `PIECE` elements."""
    if not want.dim():
        got, want = got[None], want[None]
    rows = max(1, want.shape[0] * PIECE // want.numel())
    for start in range(0, want.shape[0], rows):
        yield got[start : start + rows], want[start : start + rows]


def _sums(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Return |got - want|^2, |want|^2, max |got - want| and max |want| of one piece."""
    error = got.to(torch.float64) - want
    return torch.stack((error.square().sum(), want.square().sum(), error.abs().amax(), want.abs().amax()))


def _over(error: float, reference: float) -> float:
    return error / reference if reference else error


def closeness(got: torch.Tensor, want: torch.Tensor) -> Accuracy:
    """Return the errors of one output of any float dtype; `want` is float64, of its shape and in its place.

    Where nothing but 0 is wanted, the error itself. ValueError where the shapes differ.
    """
    if got.shape != want.shape:
        raise ValueError(f"an output of shape {tuple(got.shape)} stands where {tuple(want.shape)} is wanted")
    if not want.numel():
        return Accuracy(normwise=0.0, largest=0.0)
    found = torch.stack([_sums(*piece) for piece in _pieces(got, want)])
    # `amax` hands a NaN on, which Python's `max` may lose.
    error, size = (math.sqrt(value) for value in found[:, :2].sum(0).tolist())
    largest, reference = found[:, 2:].amax(0).tolist()
    return Accuracy(normwise=number(_over(error, size)), largest=number(_over(largest, reference)))


def closeness_of_all(got: Tensors, want: Tensors) -> Accuracy:
    """Return the worst output's errors."""
    return worst(closeness(got[name], value) for name, value in want.items())


def worst(found: Iterable[Accuracy]) -> Accuracy:
    """Return the largest of each error; a NaN is larger than any."""
    each = list(found)
    return Accuracy(
        normwise=number(_largest(as_float(one.normwise) for one in each)),
        largest=number(_largest(as_float(one.largest) for one in each)),
    )


def _largest(values: Iterable[float]) -> float:
    return max(values, key=lambda value: (math.isnan(value), value), default=0.0)

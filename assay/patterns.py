"""Values that bite: patterns that the harness imposes on an input which a kernel file made."""

from collections.abc import Callable
from typing import Literal

import torch

from assay.errors import AssayError

Pattern = Literal[
    "positive",
    "negative",
    "equal",
    "zero",
    "tiny",
    "large",
    "denormal",
    "one-nan",
    "one-inf",
    "one-negative-inf",
    "row-negative-inf",
]


class PatternError(AssayError):
    """A pattern that does not go with the input that it is declared for."""


SCALE = 2.0**55
"""Of `large` and `tiny`: two such factors stay within float32 (2^127), with room for a sum of thousands."""


def _scale(values: torch.Tensor) -> float:
    # float16 reaches 2^15 only: there the scale leaves the same room in proportion.
    return SCALE if torch.finfo(values.dtype).max > 2.0**120 else 2.0**5


def _denormal(values: torch.Tensor) -> torch.Tensor:
    info = torch.finfo(values.dtype)
    largest = float(values.abs().max()) or 1.0
    # In float64: a product of denormals would be rounded twice.
    return (values.double() * (info.tiny / 2 / largest)).to(values.dtype)


def _one(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def place(values: torch.Tensor) -> torch.Tensor:
        placed = values.clone()
        placed[tuple(size // 2 for size in values.shape)] = value
        return placed

    return place


def _row(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def place(values: torch.Tensor) -> torch.Tensor:
        placed = values.clone()
        placed[values.shape[0] // 2] = value
        return placed

    return place


PATTERNS: dict[Pattern, Callable[[torch.Tensor], torch.Tensor]] = {
    # Random signs hide a bias: rounding errors, and truncation above all, show in sums of one sign.
    "positive": torch.abs,
    # A 0 in place of what lies past an edge is the largest of such a row; one of both signs hides it.
    "negative": lambda values: -values.abs(),
    "equal": lambda values: values[..., :1].expand_as(values).clone(),
    "zero": torch.zeros_like,
    "tiny": lambda values: values / _scale(values),
    "large": lambda values: values * _scale(values),
    "denormal": _denormal,
    "one-nan": _one(float("nan")),
    "one-inf": _one(float("inf")),
    "one-negative-inf": _one(-float("inf")),
    "row-negative-inf": _row(-float("inf")),
}
"""What each does to a tensor of floats; the result has its shape and dtype. One element means the middle one."""


def impose(pattern: Pattern, values: torch.Tensor, what: str) -> torch.Tensor:
    """Return the values with a pattern imposed; PatternError for one that is not of floats, naming `what` it is."""
    if not values.is_floating_point():
        raise PatternError(
            f"{what}: expected floating-point values for the pattern {pattern!r}, found {values.dtype}; take it away"
        )
    return PATTERNS[pattern](values)

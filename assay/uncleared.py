"""Fills memory that torch hands out without a value, so that a workspace is nowhere clean by chance.

Torch has a filling of its own: the hardware's NaN, which a kernel can compute too. The mark of the harness in its place
reaches the result of what reads it and names it there.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from assay.buffers import UNCLEARED, bits_of
from assay.marks import Mark

ZEROS: Mark = dict.fromkeys(UNCLEARED, 0)
"""What fresh memory often is, and what hides the fault."""

_ALLOCATING = frozenset(
    {
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.empty_permuted,
        torch.Tensor.new_empty,
        torch.Tensor.new_empty_strided,
    }
)

_FILLED: ContextVar[Mark] = ContextVar("filled", default=UNCLEARED)


class _Filling(TorchFunctionMode):
    """Fills the result of every call that allocates and writes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in _ALLOCATING:
            _fill(made)
        return made


def _fill(made: torch.Tensor) -> None:
    pattern = _FILLED.get()
    # Any byte is a value of its own, and a mark in it would name nothing; of half a complex number none is a NaN.
    if made.layout == torch.strided and made.itemsize > 1 and not made.is_complex():
        bits_of(made).fill_(pattern[made.itemsize])


@contextlib.contextmanager
def uncleared() -> Iterator[None]:
    """Fill what torch allocates inside without a value.

    Bytes, complex numbers and what is resized get torch's own filling: the largest integer, or NaN.
    """
    before, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    # What is asked for is `torch.utils.deterministic.fill_uninitialized_memory`, on by default, which heeds this only.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with _Filling():
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


@contextlib.contextmanager
def filled_with(pattern: Mark) -> Iterator[None]:
    """Let `uncleared` fill with another pattern, given for each size in bytes, inside."""
    token = _FILLED.set(pattern)
    try:
        yield
    finally:
        _FILLED.reset(token)

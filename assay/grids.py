"""Refuses a launch of more programs along an axis than CUDA allows, before any of them runs. Imports no torch.

A device refuses it too, with no more than "invalid argument".
"""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.errors import AssayError

MOST_PROGRAMS = (2**31 - 1, 65535, 65535)
"""Along the axes 0 to 2: "maximum x-, y- or z-dimension of a grid of thread blocks", the same for every compute
capability (CUDA C++ Programming Guide, technical specifications per compute capability).
"""

Grid = Sequence[int]


class GridTooLarge(AssayError):
    """A launch that no NVIDIA GPU takes. `assay.diagnosis` knows it by its name."""


def shape_of(grid: Grid | Callable[[Mapping[str, Any]], Grid], given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how many programs there are along each axis; `given` are the launch's arguments by name."""
    return tuple(grid(given) if callable(grid) else grid)


def excess(shape: Grid) -> str | None:
    """Say along which axis there are too many programs, or None."""
    for axis, (count, most) in enumerate(zip(shape, MOST_PROGRAMS, strict=False)):
        if count > most:
            advice = f"; axis 0 may have {MOST_PROGRAMS[0]}" if axis else ""
            return f"expected at most {most} programs along axis {axis}, as CUDA allows, found {count}{advice}"
    return None


def check_grid(shape: Grid) -> None:
    """Raise GridTooLarge for a grid past CUDA's limits."""
    said = excess(shape)
    if said is not None:
        raise GridTooLarge(said)


def excess_of(function: Any, grid: Any, arguments: Sequence[Any], more: Mapping[str, Any]) -> str | None:
    """Say what `excess` says of a launch of a compiled function, or None where its grid cannot be told beforehand.

    A grid may ask a device, and there may be none.
    """
    with contextlib.suppress(Exception):
        own = {name: value for name, value in more.items() if name in function.arg_names}
        return excess(shape_of(grid, inspect.getcallargs(function.fn, *arguments, **own)))
    return None

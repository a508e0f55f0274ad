"""Changes of Triton's compiler that are known by name, recognised in what it made before and after. Pure.

A change that looks like a known one is said to be like it: the binaries show what was done, and not why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.instructions import matrix_names
from assay.record import Build

TENSOR_CORE_PRECISIONS = ("tf32", "tf32x3", "bf16x3", "bf16x6", "fp16x3")
"""Precisions that ask for tensor cores, so that finding them used is no fault."""


@dataclass(frozen=True)
class Known:
    """One change: `first` is the release that has it. `field` is what it shows in."""

    name: str
    what: str
    first: tuple[int, ...]
    field: str
    shows: Callable[[Build, Build], bool]


def _products(build: Build, kinds: Sequence[str]) -> bool:
    """Return whether there are tf32 products of these kinds in the code."""
    names = {name for binary in build.binaries for name in matrix_names(binary.instructions.assembly, "tf32")}
    return any(name.startswith(f"{kind}.") for name in names for kind in kinds)


def _gave_up(kinds: Sequence[str]) -> Callable[[Build, Build], bool]:
    def shows(older: Build, newer: Build) -> bool:
        after = [name for binary in newer.binaries for name in matrix_names(binary.instructions.assembly)]
        return _products(older, kinds) and bool(newer.binaries) and not after

    return shows


def _stack(build: Build) -> int:
    return max((binary.stack_bytes for binary in build.binaries), default=0)


def _spills(older: Build, newer: Build) -> bool:
    none_before = bool(older.binaries) and not _stack(older)
    return older.target == "sm_80" and none_before and _stack(newer) > 0


KNOWN = (
    Known(
        "triton #10176",
        "Until 3.7 a float32 dot was multiplied in tf32 on sm_100 although it asked for ieee, where its operands were"
        " widened from bfloat16",
        (3, 8),
        "instructions",
        _gave_up(["tcgen05"]),
    ),
    Known(
        "triton #9609",
        "Until 3.7 a sum over a product of broadcast operands became a dot, and was multiplied in tf32",
        (3, 8),
        "instructions",
        _gave_up(["mma", "wgmma"]),
    ),
    Known(
        "sm_80 stack",
        "From 3.8 on registers of ieee dots are spilled to the stack on sm_80",
        (3, 8),
        "stack",
        _spills,
    ),
)


def known_changes(
    precision: str, between: tuple[tuple[int, ...], tuple[int, ...]], older: Build, newer: Build
) -> list[Known]:
    """Return the known changes that two builds of one variant for one target look like.

    `between` are the two releases as numbers. What a precision of the tensor cores does there is no fault.
    """
    if precision in TENSOR_CORE_PRECISIONS:
        return []
    before, after = between
    return [known for known in KNOWN if before < known.first <= after and known.shows(older, newer)]

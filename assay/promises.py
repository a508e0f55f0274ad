"""Refuses, under the interpreter, what a kernel promises the compiler of its values where the values break it.

`tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy` and `tl.assume` let the compiler read several elements at once
and leave checks out. A GPU then faults, or reads elsewhere, where they are not true; the interpreter passes over them.

What they say of a block is what Triton's `AxisInfo` takes from them: along each axis it lies in groups of so many
neighbours that go up by one element, or are equal, and the first of each group is a multiple. Of pointers multiples are
counted in bytes.

Lanes that are masked off later may hold anything, and which those are is not known yet. So a broken promise counts once
its program stores something: past the end of everything none does. Other such lanes stand at ragged edges, where
kernels put one value in place of others or begin again at the start: what one value explains is passed over, and so is
what is negative, which stands for nothing, or what may come from undefined lanes.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import triton.language as tl

from assay.addresses import active_lanes
from assay.errors import AssayError
from assay.undefined import has_undefined_integers

Array = npt.NDArray[Any]

VECTOR_BYTES = 16
"""What a vector load takes at once. Memory of the host is not aligned as a device's is, which may be to more."""


class FalsePromise(AssayError):
    """A promise to the compiler that values break. `assay.diagnosis` knows it by its name."""


def _lines(values: Array, axis: int) -> Array:
    """Return the lines along an axis as rows of int64; addresses lie in its lower half."""
    return np.moveaxis(values.astype(np.int64), axis, -1).reshape(-1, values.shape[axis])


def _replaced(line: Array, broken: Array) -> bool:
    """Return whether one value that stands for others explains where a line breaks, before or behind each break.

    An end of the line that repeats itself is one more: offsets may be held between two limits.
    """
    before, after = line[:-1][broken], line[1:][broken]
    held = (before == after) & ((before == line.min()) | (before == line.max()))
    before, after = before[~held], after[~held]
    ends = (before[0], after[0]) if before.size else (0,)
    return any(bool(((before == value) | (after == value)).all()) for value in ends)


def broken_group(values: Array, length: int, step: int, axis: int) -> tuple[int, int] | None:
    """Return two neighbours that do not go up by `step` in a group of `length` along an axis, where that is no edge."""
    lines = _lines(values, axis)
    within = np.arange(1, lines.shape[1]) % max(length, 1) != 0
    broken = within & (np.diff(lines) != step)
    for line, breaks in zip(lines[broken.any(axis=1)], broken[broken.any(axis=1)], strict=True):
        # A mask, or another condition, is what says which lanes count.
        if values.dtype == np.bool_ or not _replaced(line, breaks):
            at = int(np.argmax(breaks))
            return int(line[at]), int(line[at + 1])
    return None


def broken_multiple(values: Array, multiple: int, step: int, axis: int) -> int | None:
    """Return a value that is no multiple, of those that begin a run going up by `step` along an axis.

    Any run that the compiler knows of lies within one of these, so that more would have to be multiples. One value that
    no other follows may stand for lanes that are masked off, unless it is the only one there is.
    """
    lines = _lines(values, axis)
    begins = np.ones(lines.shape, bool)
    begins[:, 1:] = np.diff(lines) != step
    wrong = begins & (lines % multiple != 0) & (lines >= 0)
    followed = lines[:, :-1][wrong[:, :-1] & ~begins[:, 1:]]
    alone = np.unique(lines[wrong])
    if followed.size:
        return int(followed[0])
    return int(alone[0]) if alone.size > 1 or (alone.size and lines.size == 1) else None


def telling_axes(values: Array, step: int) -> Sequence[int]:
    """Return the axes along which multiples matter: those with runs that go up by `step`, or all where there is none.

    Where another axis has the runs, it is along that one that several elements are read at once.
    """
    axes = range(values.ndim)
    return [axis for axis in axes if bool((np.diff(_lines(values, axis)) == step).any())] or axes


def _multiples(values: Array, promised: Sequence[int], pointed: int) -> Iterator[str]:
    for axis in telling_axes(values, pointed or 1):
        multiple = math.gcd(promised[axis], VECTOR_BYTES) if pointed else promised[axis]
        found = broken_multiple(values, max(multiple, 1), pointed or 1, axis)
        if found is not None and pointed:
            past = f"found one that is {found % multiple} past"
            yield f"tl.multiple_of promises addresses that divide by {multiple}, {past}"
        elif found is not None:
            yield f"tl.multiple_of promises multiples of {multiple}, found {found}"


def _groups(name: str, values: Array, promised: Sequence[int], pointed: int) -> Iterator[str]:
    step, what = (0, "equal elements") if name == "max_constancy" else (pointed or 1, "neighbours")
    for axis, length in enumerate(promised):
        found = broken_group(values, length, step, axis)
        if found is not None:
            # An address tells nobody anything, and is another in every run.
            apart = f"two that are {found[1] - found[0]} bytes apart" if pointed else f"{found[0]} before {found[1]}"
            yield f"tl.{name} promises groups of {length} {what} along axis {axis}, found {apart}"


def _broken(name: str, values: Array, promised: Sequence[int], pointed: int) -> Iterator[str]:
    """Say which of the promises of one hint are broken. `pointed`: bytes of what pointers point at, or 0."""
    if name == "multiple_of":
        return _multiples(values, promised, pointed)
    return _groups(name, values, promised, pointed)


def _plain(values: Any) -> list[int]:
    """Return what a hint promises, one number for each axis."""
    each = values if isinstance(values, list | tuple | tl.tuple) else [values]
    return [int(value.value if isinstance(value, tl.constexpr) else value) for value in each]


def _elements(input: Any, interpreter: Any) -> tuple[Array | None, int]:
    """Return what a hint is about, None where it counts for nothing, and the size of what pointers point at, or 0.

    One value is a block of one. The variable of a loop the interpreter leaves a number.
    """
    if not isinstance(input, tl.tensor):
        return (np.array([input]) if isinstance(input, int) else None), 0
    kind, data = input.type.scalar, input.handle.data
    if not (kind.is_int() or kind.is_ptr()):
        return None, 0
    pointed = np.dtype(interpreter._get_np_dtype(kind.element_ty)).itemsize if kind.is_ptr() else 0
    return (data if input.type.is_block() else data.reshape(1)), pointed


def check_promises(interpreter: Any) -> None:
    """Check every promise of a kernel from now on. Called once, by `assay.interpreting`."""
    patch, builder = interpreter._patch_lang_core, interpreter.InterpreterBuilder

    def patched(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        for name in ("multiple_of", "max_contiguous", "max_constancy"):
            scope.set_attr(lang, name, _checking(name, getattr(lang, name), interpreter))

    def create_assume(self: Any, condition: Any) -> None:
        if not has_undefined_integers(self) and not bool(condition.data.all()):
            _remember(self, "tl.assume promises a condition, found it false")

    interpreter._patch_lang_core, builder.create_assume = patched, create_assume
    _forget_at_the_start(builder)
    _hold_to_account(builder, "create_masked_store", 0, 2)
    _hold_to_account(builder, "create_atomic_cas", 0, None)
    _hold_to_account(builder, "create_atomic_rmw", 1, 3)


def _remember(builder: Any, said: str) -> None:
    """Keep the first broken promise of a program, with the place in the kernel file where it was given."""
    if builder.broken is None:
        builder.broken = FalsePromise(said).with_traceback(_callers())


def _callers() -> TracebackType | None:
    """Return the frames that led here, as an exception that is raised has them: raised later, it still names these."""
    found, frame = None, sys._getframe(2).f_back
    while frame is not None:
        found, frame = TracebackType(found, frame, frame.f_lasti, frame.f_lineno), frame.f_back
    return found


def _forget_at_the_start(builder: Any) -> None:
    place, builder.broken = builder.set_grid_idx, None

    def placing(self: Any, *at: int) -> None:
        self.broken = None
        place(self, *at)

    builder.set_grid_idx = placing


def _hold_to_account(builder: Any, name: str, pointers_at: int, mask_at: int | None) -> None:
    """Refuse a broken promise where its program writes something; forget it where all of that is masked off."""
    access: Callable[..., Any] = getattr(builder, name)

    def accounting(self: Any, *operands: Any, **named: Any) -> Any:
        broken, self.broken = self.broken, None
        if broken is not None:
            mask = None if mask_at is None else operands[mask_at].data
            if active_lanes(operands[pointers_at].data, mask).size:
                raise broken
        return access(self, *operands, **named)

    setattr(builder, name, accounting)


def _checking(name: str, hint: Callable[..., Any], interpreter: Any) -> Callable[..., Any]:
    def checking(input: Any, values: Any, **named: Any) -> Any:
        hinted, promised = hint(input, values, **named), _plain(values)
        values, pointed = _elements(input, interpreter)
        builder = interpreter.interpreter_builder
        if values is not None and not has_undefined_integers(builder):
            said = next(_broken(name, values, promised, pointed), None)
            if said is not None:
                _remember(builder, said)
        return hinted

    return checking

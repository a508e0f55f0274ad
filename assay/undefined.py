"""Fills what a load leaves undefined under the interpreter: lanes masked off, of a load without `other=`.

Triton's documentation of `tl.load` leaves them undefined, so a result that depends on them is wrong although the
interpreter's 0 makes it look right. A NaN of the harness's own in them reaches most results; a comparison or a
selection drops it, so plausible values in their place are worth a run of their own.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Literal

import numpy as np
import triton.language as tl
from msgspec import structs

from assay.buffers import UNDEFINED
from assay.marks import Array, filled
from assay.record import Cause, Verdict

Lanes = Literal["nan", "values", "zeros"]
"""What undefined lanes hold: the harness's mark, what a tensor's own elements could be, or what hides the fault."""

LARGE = 1000.0
"""Plausible for a float, of both signs in turn: large enough to be the greatest and the least of most rows."""

OTHERS: tuple[Lanes, ...] = ("nan", "zeros")

DECIDED: tuple[Cause, ...] = ("wrong-value", "not-finite")
"""Causes of a failure that what a kernel loads can decide. One that it has for another reason keeps its own."""

_LANES: ContextVar[Lanes] = ContextVar("lanes", default="nan")


@contextlib.contextmanager
def undefined_lanes(lanes: Lanes) -> Iterator[None]:
    """Let undefined lanes hold this in every launch inside. On a device it changes nothing."""
    token = _LANES.set(lanes)
    try:
        yield
    finally:
        _LANES.reset(token)


def blamed(verdict: Verdict, again: Callable[[], Verdict]) -> Verdict:
    """Return the verdict of a run with plausible values in undefined lanes, blamed on these where they decide.

    They do if `again` passes with something else in their place and fails with the values once more: a kernel that
    returns the result of the launch before would pass at any second launch. A 0 can be counted as well as another
    value can, and the mark is a NaN, so that one of the two may not do.
    """
    if verdict.cause not in DECIDED:
        return verdict
    if not any(_passes(lanes, again) for lanes in OTHERS) or _passes("values", again):
        return verdict
    reason = f"masked lanes of a load without other=, which are undefined, decide the result: {verdict.reason}"
    return structs.replace(verdict, cause="undefined-read", reason=reason)


def _passes(lanes: Lanes, again: Callable[[], Verdict]) -> bool:
    with undefined_lanes(lanes):
        return again().outcome == "passed"


def fill_undefined_lanes(semantic: Any, interpreter: Any) -> None:
    """Fill undefined lanes as `undefined_lanes` says, instead of with 0.

    Done where `other=None` is still told from `other=0`: for a single lane what follows takes 0 for none.
    """
    load, builder = semantic.load, interpreter.InterpreterBuilder
    place, builder.undefined_integers = builder.set_grid_idx, False

    def placing(self: Any, *at: int) -> None:
        self.undefined_integers = False
        place(self, *at)

    def filling(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
        if mask is not None and other is None and ptr.type.scalar.is_ptr():
            other = _undefined(ptr, interpreter)
            if not (other.dtype.is_floating() or bool(mask.handle.data.all())):
                self.builder.undefined_integers = True
        return load(self, ptr, mask, other, *rest)

    semantic.load, builder.set_grid_idx = filling, placing


def has_undefined_integers(builder: Any) -> bool:
    """Return whether the program that runs has loaded a whole number that is undefined.

    What it makes of that, an offset above all, may be of lanes that are masked off later, and means nothing.
    """
    return bool(builder.undefined_integers)


def _undefined(ptr: Any, interpreter: Any) -> Any:
    """Return the lanes of a load: one for each of its pointers, so that neighbours can differ."""
    dtype = ptr.type.scalar.element_ty
    # A bool is loaded as the byte that holds it.
    dtype = tl.int8 if dtype == tl.int1 else dtype
    stored = np.dtype(interpreter._get_np_dtype(dtype))
    data = _LANE[_LANES.get()](ptr.handle.data.shape, stored, dtype)
    kind = tl.block_type(dtype, ptr.type.get_block_shapes()) if ptr.type.is_block() else dtype
    return tl.tensor(interpreter.TensorHandle(data, dtype), kind)


def _values(shape: tuple[int, ...], stored: np.dtype[Any], dtype: Any) -> Array:
    """Return values in turn: -1000 and 1000, 0 and 1, or of a float of one byte its mark with either sign."""
    odd = (np.arange(int(np.prod(shape))) % 2).astype(bool).reshape(shape)
    if dtype == tl.bfloat16:
        # Held as uint16: the upper half of a float32, which has 1000 exactly.
        return (np.where(odd, LARGE, -LARGE).astype(np.float32).view(np.uint32) >> 16).astype(stored)
    if stored.kind == "f":
        return np.where(odd, LARGE, -LARGE).astype(stored)
    if dtype.is_floating():
        return np.where(odd, UNDEFINED[1], UNDEFINED[1] | 0x80).astype(stored)
    return odd.astype(stored)


_LANE: dict[Lanes, Callable[[tuple[int, ...], np.dtype[Any], Any], Array]] = {
    "nan": lambda shape, stored, dtype: filled(shape, UNDEFINED, stored),
    "values": _values,
    "zeros": lambda shape, stored, dtype: np.zeros(shape, stored),
}


def pad_block_pointers(core: Any) -> None:
    """Let Triton 3.8 pad with 0 what lies outside a block pointer and has no padding option, as 3.6 and 3.7 do.

    Only 3.8 loads through a block pointer as through others, with a mask and no `other=`; 3.9 has no block pointers.
    """
    pointer = getattr(core, "_block_ptr", None)
    if pointer is None:
        return
    load = pointer.load

    def padding(self: Any, *, boundary_check: Any = (), padding_option: Any = "", **named: Any) -> Any:
        if boundary_check and not core._unwrap_if_constexpr(padding_option):
            padding_option = "zero"
        return load(self, boundary_check=boundary_check, padding_option=padding_option, **named)

    pointer.load = padding

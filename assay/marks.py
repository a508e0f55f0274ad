"""Marks: the bit patterns of the harness, which no operation of the interpreter may lose on the way to a result."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.buffers import BLANK, FENCE, POISON, UNCLEARED, UNDEFINED

Array = npt.NDArray[Any]
Mark = Mapping[int, int]
"""A bit pattern for each size in bytes."""

MARKS: tuple[Mark, ...] = (POISON, FENCE, BLANK, UNDEFINED, UNCLEARED)


def filled(shape: tuple[int, ...], mark: Mark, dtype: np.dtype[Any]) -> Array:
    return np.full(shape, mark[dtype.itemsize], f"u{dtype.itemsize}").view(dtype)


def _bears(data: Array, mark: Mark) -> Array:
    """Say which elements bear a mark: its pattern of that size, or what widening that of two bytes makes of it."""
    size = data.dtype.itemsize
    patterns = [mark[size]]
    if data.dtype == np.float32:
        half = filled((1,), mark, np.dtype(np.float16)).astype(np.float32)
        patterns += [int(half.view(np.uint32)[0]), mark[2] << 16]
    return np.isin(np.ascontiguousarray(data).view(f"u{size}").reshape(data.shape), patterns)


def _may_bear(data: Array) -> bool:
    """Say quickly of most arrays that they bear no mark. Bytes are left alone: any of their patterns is a value."""
    return data.dtype.itemsize > 1 and (data.dtype.kind != "f" or bool(np.isnan(data).any()))


def marked(result: Array, *operands: Array, over: Callable[[Array], Any] = np.asarray) -> Array:
    """Return a result that bears the mark of any operand that had one; `over` makes a mask of the result's shape."""
    if result.dtype.itemsize == 1:
        return result
    for data in filter(_may_bear, operands):
        for mark in MARKS:
            result = np.where(over(_bears(data, mark)), filled((), mark, result.dtype), result)
    return result


def keep_marks(builder: Any, reduction: Any) -> None:
    """Let no operation lose the NaN of the harness: memory that may not be read can hold anything, a maximum too.

    NumPy's nanmax, nanmin, fmax and fmin pass over NaN, as a GPU's do; its exp, log, sin and cos return another NaN, as
    do conversions and products of float16.
    """
    binary, unary, dot, min_max = builder.binary_op, builder.unary_op, builder.create_dot, reduction.min_max

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        made = binary(self, lhs, rhs, op)
        if op in (np.fmax, np.fmin):
            made.data = marked(made.data, lhs.data, rhs.data)
        return made

    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        made = unary(self, arg, op)
        if made.data.dtype.kind == "f":
            made.data = np.where(np.isnan(arg.data), arg.data, made.data)
        return made

    def create_dot(self: Any, *operands: Any) -> Any:
        made = dot(self, *operands)
        made.data = marked(made.data, made.data)
        return made

    def marked_min_max(self: Any, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        # Triton counts indices in 32 bits, NumPy in 64.
        return min_max(self, input, _over_marks(val_reduce_op), _over_marks(idx_reduce_op, np.dtype(np.int32)))

    builder.binary_op, builder.unary_op, builder.create_dot = binary_op, unary_op, create_dot
    reduction.min_max = marked_min_max


def _over_marks(reduce: Callable[..., Any] | None, dtype: np.dtype[Any] | None = None) -> Callable[..., Array] | None:
    """Return a reduction over all operands, those that bear a mark too; None for None. `dtype` is the result's."""
    if reduce is None:
        return None

    def reduced(data: Array, axis: int | None, keepdims: bool) -> Array:
        found = np.asarray(reduce(data, axis=axis, keepdims=keepdims), dtype)
        return marked(found, data, over=lambda bears: bears.any(axis=axis, keepdims=keepdims))

    return reduced

"""Keeps Triton's interpreter to what a GPU promises: mended where it errs, refusing where its result means nothing.

Called in a child process, before any launch. Every name of Triton that is replaced stands in `mend_interpreter`, with
the reason where it is replaced; Triton 3.6 to 3.9 agree on these names and on the parameters used.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import triton
import triton.language as tl

from assay.buffers import BLANK, FENCE, POISON, UNDEFINED
from assay.errors import AssayError

Array = npt.NDArray[Any]
Mark = Mapping[int, int]
"""A bit pattern for each size in bytes."""

MARKS: tuple[Mark, ...] = (POISON, FENCE, BLANK, UNDEFINED)

_COMPUTING = {
    "binary_op": "arithmetic",
    "unary_op": "arithmetic",
    "create_fma": "fma",
    "create_dot": "dot",
    "create_atomic_rmw": "an atomic operation",
}
"""Methods behind all arithmetic and comparisons. Selecting, moving, reshaping and |x| keep bits, and are right."""


class UnsupportedDtype(AssayError):
    """A computation that the interpreter can only do wrongly. `assay.diagnosis` knows the first words of its text."""


@cache
def mend_interpreter() -> None:
    """Mend Triton's interpreter for the rest of this process."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    _read_loop_bounds(interpreter)
    _fill_undefined_lanes(interpreter.TritonSemantic, interpreter)
    _pad_block_pointers(tl.core)
    _keep_marks(builder, interpreter.ReduceOps)
    _name_bfloat16(builder)
    _convert(builder)
    for name, what in _COMPUTING.items():
        _refuse_bfloat16(builder, name, what)
    _refuse_bfloat16_reductions(interpreter.ReduceScanOpInterface)


def _read_loop_bounds(interpreter: Any) -> None:
    """Let a loop bound be read under Triton 3.6 with NumPy 2.4 or newer.

    Triton 3.6 turns the bound, an array of shape (1,), into an int in a way that NumPy 2.4 refuses; Triton 3.7 squeezes
    it first, and so does this.
    """
    if not triton.__version__.startswith("3.6."):
        return
    patch = interpreter._patch_lang_tensor

    def mended(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = mended


# Undefined lanes


def _fill_undefined_lanes(semantic: Any, interpreter: Any) -> None:
    """Fill masked-off lanes of a load without `other=` with a NaN of their own instead of 0.

    Triton's documentation of `tl.load` leaves them undefined, so a result that depends on them is wrong although the
    interpreter's 0 makes it look right. Done where `other=None` is still told from `other=0`: for a single lane what
    follows takes 0 for none.
    """
    load = semantic.load

    def filling(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
        if mask is not None and other is None and ptr.type.scalar.is_ptr():
            other = _undefined_lane(ptr.type.scalar.element_ty, interpreter)
        return load(self, ptr, mask, other, *rest)

    semantic.load = filling


def _undefined_lane(dtype: Any, interpreter: Any) -> Any:
    # A bool is loaded as the byte that holds it.
    dtype = tl.int8 if dtype == tl.int1 else dtype
    lane = _filled((1,), UNDEFINED, interpreter._get_np_dtype(dtype))
    return tl.tensor(interpreter.TensorHandle(lane, dtype), dtype)


def _pad_block_pointers(core: Any) -> None:
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


# Marks: the bit patterns of the harness


def _filled(shape: tuple[int, ...], mark: Mark, dtype: np.dtype[Any]) -> Array:
    return np.full(shape, mark[dtype.itemsize], f"u{dtype.itemsize}").view(dtype)


def _bears(data: Array, mark: Mark) -> Array:
    """Say which elements bear a mark: its pattern of that size, or what widening that of two bytes makes of it."""
    size = data.dtype.itemsize
    patterns = [mark[size]]
    if data.dtype == np.float32:
        half = _filled((1,), mark, np.dtype(np.float16)).astype(np.float32)
        patterns += [int(half.view(np.uint32)[0]), mark[2] << 16]
    return np.isin(np.ascontiguousarray(data).view(f"u{size}").reshape(data.shape), patterns)


def _may_bear(data: Array) -> bool:
    """Say quickly of most arrays that they bear no mark. Bytes are left alone: any of their patterns is a value."""
    return data.dtype.itemsize > 1 and (data.dtype.kind != "f" or bool(np.isnan(data).any()))


def _marked(result: Array, *operands: Array, over: Callable[[Array], Any] = np.asarray) -> Array:
    """Return a result that bears the mark of any operand that had one; `over` makes a mask of the result's shape."""
    if result.dtype.itemsize == 1:
        return result
    for data in filter(_may_bear, operands):
        for mark in MARKS:
            result = np.where(over(_bears(data, mark)), _filled((), mark, result.dtype), result)
    return result


def _keep_marks(builder: Any, reduction: Any) -> None:
    """Let no operation lose the NaN of the harness: memory that may not be read can hold anything, a maximum too.

    NumPy's nanmax, nanmin, fmax and fmin pass over NaN, as a GPU's do; its exp, log, sin and cos return another NaN, as
    do conversions and products of float16.
    """
    binary, unary, dot, min_max = builder.binary_op, builder.unary_op, builder.create_dot, reduction.min_max

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        made = binary(self, lhs, rhs, op)
        if op in (np.fmax, np.fmin):
            made.data = _marked(made.data, lhs.data, rhs.data)
        return made

    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        made = unary(self, arg, op)
        if made.data.dtype.kind == "f":
            made.data = np.where(np.isnan(arg.data), arg.data, made.data)
        return made

    def create_dot(self: Any, *operands: Any) -> Any:
        made = dot(self, *operands)
        made.data = _marked(made.data, made.data)
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
        return _marked(found, data, over=lambda bears: bears.any(axis=axis, keepdims=keepdims))

    return reduced


# bfloat16


def _refusal(what: str) -> UnsupportedDtype:
    return UnsupportedDtype(
        f"Unsupported dtype bfloat16 in {what}: Triton's interpreter computes on its bit patterns (triton-lang/triton "
        "#11584, #11604), so the result would show nothing; a GPU can run this kernel"
    )


def _is_bfloat16(handle: Any) -> bool:
    return bool(getattr(getattr(handle, "dtype", None), "scalar", None) == tl.bfloat16)


def _refuse_bfloat16(builder: Any, name: str, what: str) -> None:
    """Refuse an operation on bfloat16: the interpreter holds it as uint16, and does it as one on integers."""
    compute = getattr(builder, name)

    def refusing(self: Any, *operands: Any, **named: Any) -> Any:
        if any(map(_is_bfloat16, operands)):
            raise _refusal(what)
        return compute(self, *operands, **named)

    setattr(builder, name, refusing)


def _refuse_bfloat16_reductions(interface: Any) -> None:
    """Refuse sums, extrema and scans of bfloat16. What `tl` widens to float32 beforehand never gets here as bfloat16.

    `check_tensor` sees the operands of every reduction and scan before any is computed.
    """
    check_tensor = interface.check_tensor

    def refusing(self: Any, input: Any) -> None:
        check_tensor(self, input)
        if any(_is_bfloat16(tensor.handle) for tensor in input):
            raise _refusal("a reduction")

    interface.check_tensor = refusing


def _name_bfloat16(builder: Any) -> None:
    """Let a constant be a bfloat16: before Triton 3.9 the interpreter has no `get_bf16` and raises AttributeError."""
    if not hasattr(builder, "get_bf16"):
        builder.get_bf16 = lambda self, value: self.create_fp_trunc(self.get_fp32(value), tl.bfloat16)


def _convert(builder: Any) -> None:
    """Round float32 to bfloat16 to the nearest, as a GPU does, refuse conversions of the bit pattern, and keep marks.

    The interpreter's `cast_impl` truncates; between bfloat16 and any dtype but float32 it converts the uint16.
    """
    cast = builder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if (source == tl.bfloat16) != (target == tl.bfloat16) and tl.float32 not in (source, target):
            raise _refusal(f"a conversion from {source} to {target}")
        made = cast(self, src, dst_type)
        if source == tl.float32 and target == tl.bfloat16:
            made.data = nearest_bfloat16(src.data)
        if source.is_floating() and target.is_floating():
            made.data = _marked(made.data, src.data)
        return made

    builder.cast_impl = cast_impl


def nearest_bfloat16(values: Array) -> Array:
    """Return the bit patterns (uint16, same shape) of float32 values rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(values.shape)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    # A carry could turn a NaN into infinity or 0.
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)

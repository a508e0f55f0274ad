"""Lets Triton's interpreter compute on bfloat16 and fp8, which it holds as integers, as a GPU does, or refuses to.

Called once, by `assay.interpreting`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from assay.errors import AssayError
from assay.marks import marked
from assay.narrowing import conversion, float32_to_odd, integers_in_registers, widen_bfloat16

_WIDENED = {"binary_op": "arithmetic", "unary_op": "arithmetic", "create_clampf": "a clamp"}
"""Methods behind + - *, comparisons, extrema and negation. What is to be divided, Triton widens itself."""

_REFUSED = {"create_fma": "fma", "create_atomic_rmw": "an atomic operation"}
"""Methods that do more than one such operation. Selecting, moving, reshaping and |x| keep bits, and are right.

An fma of bfloat16 is rounded once from sm_80 on, and before by way of float32, which for an fma is not the same.
"""


class UnsupportedDtype(AssayError):
    """A computation that the interpreter can only do wrongly. `assay.diagnosis` knows the first words of its text."""


def mend_bit_patterns(interpreter: Any) -> None:
    """Mend what is computed on bfloat16 and fp8, and what is converted to and from them, from now on."""
    builder = interpreter.InterpreterBuilder
    _name_bfloat16(builder)
    _convert(interpreter)
    _convert_bits(interpreter)
    _refuse_dtypes_of_amd(interpreter)
    for name, what in _REFUSED.items():
        _refuse_bits(builder, name, what)
    for name, what in _WIDENED.items():
        _widen_bfloat16(builder, name, what)
    _widen_dots(builder)
    _refuse_reductions_of_bits(interpreter.ReduceScanOpInterface)


# By name: a pointer to fp8 says of itself that it is fp8.
_FP8 = frozenset(name for name in tl.dtype.FP_TYPES if name.startswith("fp8"))
_HELD_AS_BITS = _FP8 | {tl.bfloat16.name}


def _refusal(dtype: Any, what: str) -> UnsupportedDtype:
    if dtype == tl.bfloat16:
        return UnsupportedDtype(
            f"Unsupported dtype bfloat16 in {what}: Triton's interpreter computes on its bit patterns "
            "(triton-lang/triton #11584, #11604), so the result would show nothing; a GPU can run this kernel"
        )
    return UnsupportedDtype(
        f"Unsupported dtype {dtype} in {what}: Triton's interpreter computes on its bit patterns, and for an NVIDIA "
        "GPU Triton does not compile it; convert to tl.float32 first"
    )


def _held_as_bits(handle: Any) -> Any:
    """Return the dtype of a handle if the interpreter holds it as integers; None otherwise."""
    dtype = getattr(getattr(handle, "dtype", None), "scalar", None)
    return dtype if getattr(dtype, "name", None) in _HELD_AS_BITS else None


def _refuse_bits(builder: Any, name: str, what: str) -> None:
    """Refuse an operation on bfloat16 or fp8: the interpreter does it as one on integers."""
    compute = getattr(builder, name)

    def refusing(self: Any, *operands: Any, **named: Any) -> Any:
        for dtype in filter(None, map(_held_as_bits, operands)):
            raise _refusal(dtype, what)
        return compute(self, *operands, **named)

    setattr(builder, name, refusing)


def _widen_bfloat16(builder: Any, name: str, what: str) -> None:
    """Compute on bfloat16 in float32 and round to nearest, as a GPU does; refuse fp8.

    From sm_90 on a GPU has `add.bf16`, `sub.bf16` and `mul.bf16`; sm_80 multiplies by 1 or adds -0 in an `fma.rn.bf16`;
    before, it goes by way of float32, which makes no difference: rounding twice is rounding once where the wider
    format has 2 * 8 + 2 bits and float32 has 24 (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter
    30(3), 1995; with underflow: Roux, J. Formalized Reasoning 7(2), 2014). As for other floats, Triton fuses a product
    and a sum unless told not to (`fma.rn.bf16`), and a GPU leaves out the rounding of the product: what a bound allows
    for both roundings covers that, but the bits may differ.
    """
    compute = getattr(builder, name)

    def computing(self: Any, *operands: Any, **named: Any) -> Any:
        dtypes = set(map(_held_as_bits, operands)) - {None}
        for dtype in dtypes - {tl.bfloat16}:
            raise _refusal(dtype, what)
        made = compute(self, *(_widened(self, operand) for operand in operands), **named)
        return self.cast_impl(made, tl.bfloat16) if dtypes and made.dtype == tl.float32 else made

    setattr(builder, name, computing)


def _widened(builder: Any, operand: Any) -> Any:
    return builder.cast_impl(operand, tl.float32) if _held_as_bits(operand) == tl.bfloat16 else operand


def _widen_dots(builder: Any) -> None:
    """Multiply bfloat16 in float32, where each product is exact, as on the tensor cores; Triton widens fp8 itself.

    Triton keeps no sum in bfloat16.
    """
    multiply: Callable[..., Any] = builder.create_dot

    def multiplying(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return multiply(self, _widened(self, a), _widened(self, b), d, *rest)

    builder.create_dot = multiplying


def _refuse_reductions_of_bits(interface: Any) -> None:
    """Refuse sums, extrema and scans of bfloat16 and fp8. What `tl` widens to float32 beforehand gets here as float32.

    NumPy would add bit patterns up, and what a GPU rounds at each step depends on its order.
    `check_tensor` sees the operands of every reduction and scan before any is computed.
    """
    check_tensor = interface.check_tensor

    def refusing(self: Any, input: Any) -> None:
        check_tensor(self, input)
        for dtype in filter(None, (_held_as_bits(tensor.handle) for tensor in input)):
            raise _refusal(dtype, "a reduction")

    interface.check_tensor = refusing


def _name_bfloat16(builder: Any) -> None:
    """Let a constant be a bfloat16: before Triton 3.9 the interpreter has no `get_bf16` and raises AttributeError."""
    if not hasattr(builder, "get_bf16"):
        builder.get_bf16 = lambda self, value: self.create_fp_trunc(self.get_fp32(value), tl.bfloat16)


def _convert(interpreter: Any) -> None:
    """Convert bfloat16 by way of float32, to integers as a GPU does, to fp8 as floats are narrowed; and keep marks.

    The interpreter's `cast_impl` converts a bfloat16's uint16 to and from any dtype but float32, and leaves what an
    integer cannot hold to C, for which it is undefined: of -5.0 as uint8 it makes 251, a GPU 0.
    """
    builder = interpreter.InterpreterBuilder
    cast, between_floats = builder.cast_impl, builder.create_fp_to_fp

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        source, target, original = src.dtype.scalar, dst_type.scalar, src.data
        if target.name in _FP8:
            return self.create_fp_to_fp(src, dst_type, None)
        src = _by_way_of_float32(src, target)
        if source.is_floating() and target.is_int():
            return interpreter.TensorHandle(_whole(src.data, interpreter._get_np_dtype(target)), target)
        made = cast(self, src, dst_type)
        if source.is_floating() and target.is_floating():
            made.data = marked(made.data, original)
        return made

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding: Any) -> Any:
        made = between_floats(self, src, dst_type, rounding)
        made.data = marked(made.data, src.data)
        return made

    builder.cast_impl, builder.create_fp_to_fp = cast_impl, create_fp_to_fp


def _by_way_of_float32(src: Any, target: Any) -> Any:
    """Return what is converted from or to bfloat16 as a float32 that becomes the same, and anything else as it is."""
    if tl.bfloat16 not in (src.dtype.scalar, target) or tl.float32 in (src.dtype.scalar, target):
        return src
    widened = widen_bfloat16(src.data) if target != tl.bfloat16 else float32_to_odd(src.data)
    return type(src)(widened, tl.float32)


def _whole(data: Any, target: np.dtype[Any]) -> Any:
    """Return floats as integers. A mark stays one, though a GPU's NaN is 0: memory that may not be read holds anything.

    A byte keeps the lower half of a mark of two, which is no 0 either.
    """
    return marked(integers_in_registers(data, target), data).astype(target)


def _convert_bits(interpreter: Any) -> None:
    """Convert bfloat16, fp8 and what is rounded toward 0 as an NVIDIA GPU does; refuse what Triton compiles for none.

    The interpreter's `_convert_float`, behind casts and dots, truncates to bfloat16, drops the carry when it rounds to
    fp8, takes ties away from 0, wraps what is too large, and errs in subnormal numbers, infinity and NaN
    (triton-lang/triton #8322, #9808, #11897).
    """
    convert, down = interpreter._convert_float, interpreter._ir.ROUNDING_MODE.RTZ

    def converted(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        toward_zero = rounding == down
        made = conversion(source.name, target.name, toward_zero=toward_zero)
        if made is not None:
            return np.asarray(made(data))
        if toward_zero or source.name in _FP8 or target.name in _FP8:
            raise _refused_conversion(source, target, " toward zero" if toward_zero else "")
        return convert(data, source, target, rounding)

    interpreter._convert_float = converted


def _refuse_dtypes_of_amd(interpreter: Any) -> None:
    """Refuse to make anything of the formats of fp8 that have no -0, as Triton does for an NVIDIA GPU.

    Before Triton 3.8 the interpreter fails to; from then on it converts as `_convert_float` does.
    """
    patch = interpreter._patch_lang_core

    def mended(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        to_ir = lang.dtype.to_ir

        def refusing(self: Any, builder: Any) -> Any:
            if self in (tl.float8e4b8, tl.float8e5b16):
                raise UnsupportedDtype(f"Unsupported dtype {self}: Triton has it for no NVIDIA GPU")
            return to_ir(self, builder)

        scope.set_attr(lang.dtype, "to_ir", refusing)

    interpreter._patch_lang_core = mended


def _refused_conversion(source: Any, target: Any, how: str) -> UnsupportedDtype:
    if tl.float8e4b15 in (source, target):
        why = "a GPU does it in inline assembly, which Triton's interpreter cannot run; a GPU can run this kernel"
    else:
        why = "Triton compiles it for no NVIDIA GPU; convert by way of tl.float32, and to nearest"
    return UnsupportedDtype(f"Unsupported conversion from {source} to {target}{how}: {why}")

"""Keeps Triton's interpreter to what a GPU promises: mended where it errs, refusing where its result means nothing.

Called in a child process, before any launch. What is replaced stands in `mend_interpreter`, with the reason where it is
replaced; Triton 3.6 to 3.9 agree on these names and on the parameters used.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import triton
import triton.language as tl

from assay.addresses import check_addresses
from assay.arguments import mend_arguments
from assay.combining import watch_combining
from assay.errors import AssayError
from assay.front_end import count_in_tensors, keep_captured, refuse_methods, yield_to_tensors
from assay.marks import keep_marks, marked
from assay.narrowing import conversion
from assay.promises import check_promises
from assay.schedules import watch_programs
from assay.threads import watch_threads
from assay.undefined import fill_undefined_lanes, pad_block_pointers

_COMPUTING = {
    "binary_op": "arithmetic",
    "unary_op": "arithmetic",
    "create_fma": "fma",
    "create_clampf": "a clamp",
    "create_dot": "dot",
    "create_atomic_rmw": "an atomic operation",
}
"""Methods behind all arithmetic and comparisons. Selecting, moving, reshaping and |x| keep bits, and are right."""


class UnsupportedDtype(AssayError):
    """A computation that the interpreter can only do wrongly. `assay.diagnosis` knows the first words of its text."""


class DeviceOnlyOperation(AssayError):
    """An operation that the interpreter has not. `assay.diagnosis` knows it by its name."""


@cache
def mend_interpreter() -> None:
    """Mend Triton's interpreter for the rest of this process."""
    from triton.experimental.gluon import _runtime as gluon
    from triton.language.extra import cuda, hip, libdevice
    from triton.runtime import autotuner, interpreter

    builder = interpreter.InterpreterBuilder
    _read_loop_bounds(interpreter)
    mend_arguments(interpreter)
    yield_to_tensors(tl.constexpr)
    keep_captured(interpreter.FunctionRewriter)
    count_in_tensors(interpreter)
    refuse_methods(tl.core, _refusing)
    _choose_without_timing(autotuner.Autotuner)
    _refuse_missing(builder)
    _refuse_foreign_code(builder, (libdevice, cuda, cuda.libdevice, hip, hip.libdevice))
    if not hasattr(builder, "create_dot_scaled"):
        # From Triton 3.8 on the interpreter has it.
        interpreter.TritonSemantic.dot_scaled = _refusing("tl.dot_scaled")
    # Gluon functions are compiled whatever TRITON_INTERPRET says, for a device that need not be there.
    gluon.GluonJITFunction.run = _refusing("a Gluon kernel")
    fill_undefined_lanes(interpreter.TritonSemantic, interpreter)
    pad_block_pointers(tl.core)
    _pass_over_nan(builder)
    keep_marks(builder, interpreter.ReduceOps)
    _wrap_sums(interpreter.ReduceOps)
    _name_conditions(builder)
    _name_bfloat16(builder)
    _convert(builder)
    _convert_bits(interpreter)
    _refuse_dtypes_of_amd(interpreter)
    for name, what in _COMPUTING.items():
        _refuse_bits(builder, name, what)
    _refuse_reductions_of_bits(interpreter.ReduceScanOpInterface)
    check_addresses(interpreter)
    check_promises(interpreter)
    held = watch_programs(interpreter)
    watch_combining(interpreter)
    watch_threads(interpreter, held)


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


def _pass_over_nan(builder: Any) -> None:
    """Let a maximum or minimum pass over NaN, as a GPU's does unless told not to.

    The interpreter does so from Triton 3.8 on; before, NaN spread, so that a kernel that drops one looked right.
    """
    builder.create_maxnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)
    builder.create_minnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)


def _wrap_sums(reduction: Any) -> None:
    """Let a sum of integers wrap in their own type, as a GPU's does.

    NumPy adds 32 bits up in 64, and a total that does not fit back raises OverflowError where it is one number.
    """
    add = reduction.sum

    def wrapping(self: Any, input: Any) -> Any:
        data = input.handle.data
        if data.dtype.kind not in "iu":
            return add(self, input)
        total = np.sum(data, axis=self.axis, keepdims=self.keep_dims, dtype=data.dtype)
        return self.to_tensor(total, input.dtype)

    reduction.sum = wrapping


def _name_conditions(builder: Any) -> None:
    """Let what a comparison makes be int1, and no number of the type compared.

    One element is spread over a block as that type, where `&` fails for floats and `~` of 1 is true for integers.
    """
    compute = builder.binary_op

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        made = compute(self, lhs, rhs, op)
        if made.data.dtype == np.bool_:
            made.dtype = tl.int1
        return made

    builder.binary_op = binary_op


def _choose_without_timing(autotuner: Any) -> None:
    """Let an autotuned kernel take its first configuration, after one run of each: times mean nothing here.

    Each runs, as it does on a device before one is chosen, so that a kernel that adds to what it finds shows.
    """

    def run_once(call: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
        call()
        return [0.0 for _ in quantiles]

    autotuner.do_bench = property(lambda self: run_once)


# What only a device can run


def _refuse_foreign_code(builder: Any, libraries: Iterable[ModuleType]) -> None:
    """Refuse inline assembly, and the functions of a device's libraries, by name.

    The interpreter runs none of them: of `libdevice` it has stubs, which return None, and a library of one vendor says
    that a decorator is missing, so that a sound kernel would look faulty.
    """
    for name, what in (("create_inline_asm", "inline assembly"), ("create_extern_elementwise", "an external function")):
        setattr(builder, name, _refusing(what))
    for library in libraries:
        for name, function in inspect.getmembers(library, inspect.isfunction):
            if not name.startswith("_"):
                setattr(library, name, _refusing(f"{function.__module__}.{name}"))


def _refuse_missing(builder: Any) -> None:
    """Refuse what the language asks of its compiler and the interpreter has not, by the name that it has there.

    It would end in an AttributeError, as if the kernel were at fault: in Triton 3.7 additions through a descriptor do.
    """

    def missing(self: Any, name: str) -> Callable[..., Any]:
        if name.startswith("create_"):
            return _refusing(f"'{name.removeprefix('create_')}'")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    builder.__getattr__ = missing


def _refusing(what: str) -> Callable[..., Any]:
    def refuse(*operands: Any, **named: Any) -> Any:
        raise DeviceOnlyOperation(f"Triton's interpreter cannot run {what}; a GPU can run this kernel")

    return refuse


# bfloat16 and fp8, which the interpreter holds as integers

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
    """Refuse an operation on bfloat16 or fp8: the interpreter does it as one on integers. It widens fp8 for a dot."""
    compute = getattr(builder, name)

    def refusing(self: Any, *operands: Any, **named: Any) -> Any:
        for dtype in filter(None, map(_held_as_bits, operands)):
            if name != "create_dot" or dtype == tl.bfloat16:
                raise _refusal(dtype, what)
        return compute(self, *operands, **named)

    setattr(builder, name, refusing)


def _refuse_reductions_of_bits(interface: Any) -> None:
    """Refuse sums, extrema and scans of bfloat16 and fp8. What `tl` widens to float32 beforehand gets here as float32.

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


def _convert(builder: Any) -> None:
    """Refuse conversions of the bit pattern of bfloat16, make constants of fp8 as floats are narrowed, and keep marks.

    The interpreter's `cast_impl` converts a bfloat16's uint16 to and from any dtype but float32.
    """
    cast, between_floats = builder.cast_impl, builder.create_fp_to_fp

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if target.name in _FP8:
            return self.create_fp_to_fp(src, dst_type, None)
        if source == tl.int1 and target == tl.bfloat16:
            # 0 and 1 are exact in both.
            src, source = cast(self, src, tl.float32), tl.float32
        if (source == tl.bfloat16) != (target == tl.bfloat16) and tl.float32 not in (source, target):
            raise _refusal(tl.bfloat16, f"a conversion from {source} to {target}")
        made = cast(self, src, dst_type)
        if source.is_floating() and target.is_floating():
            made.data = marked(made.data, src.data)
        return made

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding: Any) -> Any:
        made = between_floats(self, src, dst_type, rounding)
        made.data = marked(made.data, src.data)
        return made

    builder.cast_impl, builder.create_fp_to_fp = cast_impl, create_fp_to_fp


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

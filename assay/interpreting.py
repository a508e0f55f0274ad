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
from assay.errors import AssayError
from assay.marks import Array, keep_marks, marked
from assay.schedules import watch_programs
from assay.undefined import fill_undefined_lanes, pad_block_pointers

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
    _choose_without_timing(autotuner.Autotuner)
    _refuse_foreign_code(builder, (libdevice, cuda, cuda.libdevice, hip, hip.libdevice))
    # Gluon functions are compiled whatever TRITON_INTERPRET says, for a device that need not be there.
    gluon.GluonJITFunction.run = _refusing("a Gluon kernel")
    fill_undefined_lanes(interpreter.TritonSemantic, interpreter)
    pad_block_pointers(tl.core)
    _pass_over_nan(builder)
    keep_marks(builder, interpreter.ReduceOps)
    _name_bfloat16(builder)
    _convert(builder)
    for name, what in _COMPUTING.items():
        _refuse_bfloat16(builder, name, what)
    _refuse_bfloat16_reductions(interpreter.ReduceScanOpInterface)
    check_addresses(interpreter)
    watch_programs(interpreter)


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


def _refusing(what: str) -> Callable[..., Any]:
    def refuse(*operands: Any, **named: Any) -> Any:
        raise DeviceOnlyOperation(f"Triton's interpreter cannot run {what}; a GPU can run this kernel")

    return refuse


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
            made.data = marked(made.data, src.data)
        return made

    builder.cast_impl = cast_impl


def nearest_bfloat16(values: Array) -> Array:
    """Return the bit patterns (uint16, same shape) of float32 values rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(values.shape)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    # A carry could turn a NaN into infinity or 0.
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)

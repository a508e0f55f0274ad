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
from assay.bit_patterns import mend_bit_patterns
from assay.combining import watch_combining
from assay.errors import AssayError
from assay.front_end import count_in_tensors, keep_captured, refuse_methods, yield_to_tensors
from assay.marks import keep_marks
from assay.promises import check_promises
from assay.schedules import watch_programs
from assay.threads import watch_threads
from assay.undefined import fill_undefined_lanes, pad_block_pointers


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
    mend_bit_patterns(interpreter)
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

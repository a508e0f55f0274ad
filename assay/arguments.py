"""Gives a kernel, under Triton's interpreter, its arguments as the types that Triton makes of them where it compiles.

Left alone, the interpreter hands a Python float on with all of its bits, where a device gets a float32; its bool is an
integer of the wrong width before Triton 3.8, and a 1 is a tensor, where Triton compiles for the constant. What each
becomes is what `triton.runtime.jit` does with it (`create_function_from_signature`, `native_specialize_impl`), and how
a number is put into an annotated type is what the launcher does (`backends/nvidia/driver.c`): alike in Triton 3.6 to
3.9. Called once, by `assay.interpreting`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.jit import KernelParam, mangle_type

from assay.addresses import Array
from assay.grids import check_grid, shape_of

CONSTANT = "constexpr"
_INTEGERS = {f"{sign}{bits}": bits for bits in (8, 16, 32, 64) for sign in "iu"}
_FLOATS = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
_KINDS = frozenset(("u1", "bf16", *_INTEGERS, *_FLOATS))
"""What a parameter that takes a number may be annotated as, in Triton's short names."""


class _Whole(int):
    """An integer that is to become a `kind`; to a hook of the kernel's, which comes first, it is the integer."""

    kind: str


class _Real(float):
    """A float that is to become a `kind`."""

    kind: str


def mend_arguments(interpreter: Any) -> None:
    """Type the arguments of every launch from now on, and refuse a grid that no GPU takes."""
    function, convert = interpreter.InterpretedFunction, interpreter._implicit_cvt
    run = function.run

    def running(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if warmup:
            return run(self, *arguments, grid=grid, warmup=warmup, **named)
        own = {name: value for name, value in named.items() if name in self.arg_names}
        given, parameters = inspect.getcallargs(self.fn, *arguments, **own), list(_parameters(self))
        # As on a device, a function that gives the grid gets what the launch was given, and no tensors made of it.
        shape = shape_of(grid, given)
        check_grid(shape)
        _name_constants(self, parameters)
        typed = {one.name: _typed(given[one.name], one, interpreter) for one in parameters}
        first = [typed.pop(name) for name in self.arg_names[: len(arguments)]]
        return run(self, *first, grid=shape, warmup=warmup, **typed)

    def converting(value: Any) -> Any:
        return _tensor(value, interpreter) if isinstance(value, int | float) else convert(value)

    function.run, interpreter._implicit_cvt = running, converting


def _parameters(function: Any) -> Iterator[KernelParam]:
    """Yield a kernel's parameters as Triton describes them to its compiler."""
    exempt = tuple(function.kwargs.get("do_not_specialize") or ())
    for number, parameter in enumerate(inspect.signature(function.fn).parameters.values()):
        yield KernelParam(number, parameter, number in exempt or parameter.name in exempt, False)


def _name_constants(function: Any, parameters: Iterable[KernelParam]) -> None:
    """Say of constants that they are: of an annotation the interpreter keeps the text, and knows one such text."""
    made, constants = function.rewrite(), {one.name: tl.constexpr for one in parameters if one.is_constexpr}
    made.__annotations__ = {**made.__annotations__, **constants}


def _typed(value: Any, parameter: KernelParam, interpreter: Any) -> Any:
    """Return an argument that knows what it becomes, where its value or its parameter decides that and not its type."""
    if parameter.is_constexpr:
        return value
    if isinstance(value, tuple):
        return _elements(value, interpreter._tuple_create)
    if isinstance(value, int | float) and parameter.annotation_type in _KINDS:
        return _of_kind(value, parameter.annotation_type)
    return value if parameter.do_not_specialize else _constant(value)


def _elements(values: tuple[Any, ...], create: Callable[..., Any]) -> Any:
    """Return a tuple whose elements of 1 are constants, whatever its parameter says."""
    return create(values, [_elements(one, create) if isinstance(one, tuple) else _constant(one) for one in values])


def _constant(value: Any) -> Any:
    """Return an integer of 1 as the constant that Triton makes of it."""
    return _of_kind(value, CONSTANT) if type(value) is int and value == 1 else value


def _of_kind(value: int | float, kind: str) -> _Whole | _Real:
    made: _Whole | _Real = _Whole(value) if isinstance(value, int) else _Real(value)
    made.kind = kind
    return made


def _tensor(value: int | float, interpreter: Any) -> Any:
    """Return the tensor of one element that a number becomes, or the bare number where that is a constant."""
    bare = _bare(value)
    kind = value.kind if isinstance(value, _Whole | _Real) else str(mangle_type(bare))
    if kind == CONSTANT:
        return bare
    dtype = tl.str_to_ty(kind, None)
    return tl.tensor(interpreter.TensorHandle(held(bare, kind), dtype), dtype)


def _bare(value: int | float) -> int | float:
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else float(value)


def held(value: int | float, kind: str) -> Array:
    """Return the one element, as the interpreter holds it, that a launcher makes of a number for a type.

    An integer keeps the low bits that fit; a bfloat16 is cut off from a float32, and held as its bits.
    TypeError for a float where the type is an integer.
    """
    if kind == "u1":
        return np.array([bool(value)])
    if kind in _INTEGERS:
        bits = _INTEGERS[kind]
        if not isinstance(value, int):
            raise TypeError(f"expected an integer for a parameter that is annotated as {kind}, found {value}")
        low = np.array([value & ((1 << bits) - 1)], f"u{bits // 8}")
        return low.view(f"{kind[0]}{bits // 8}")
    with np.errstate(over="ignore"):
        if kind == "bf16":
            return (np.array([value], np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return np.array([value], np.float64).astype(_FLOATS[kind])

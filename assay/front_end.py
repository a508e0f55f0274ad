"""Mends how Triton's interpreter reads a kernel's text where that compiles and the interpreter would only raise.

Compiling, Triton walks the syntax tree itself: it finds what a function captured, lets a tensor do the arithmetic
with a constant to its left, and counts a loop in a tensor. The interpreter lets Python run the text, and Python has
other rules. Called once, by `assay.interpreting`.
"""

import ast
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import numpy as np
import triton.language as tl

_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"),
    *("lt", "le", "gt", "ge", "eq", "ne"),
)
"""Of two operands; a `tl.constexpr` to the left is asked first."""


def yield_to_tensors(constant: Any) -> None:
    """Let a `tl.constexpr` leave arithmetic and comparisons with a tensor to the tensor, as it does when compiled.

    A constant of the module's is one in the interpreter too, where it would compute with its bare value and call the
    result, which is a tensor, a constant.
    """
    for name in _OPERATORS:
        method = getattr(constant, f"__{name}__", None)
        if method is not None:
            setattr(constant, f"__{name}__", _yielding(method))


def _yielding(method: Callable[..., Any]) -> Callable[..., Any]:
    def operate(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, tl.tensor) else method(self, other)

    return operate


def keep_captured(rewriter: Any) -> None:
    """Let a function made by another keep what it has from there: what it captured, defaults and annotations.

    The interpreter executes its text anew at the top of the module, where those names mean nothing.
    """
    execute = rewriter._compile_and_exec

    def executing(self: Any, tree: ast.Module) -> Any:
        if "<locals>" not in self.fn.__qualname__:
            return execute(self, tree)
        maker = execute(self, _made_by(tree, self.fn.__code__.co_freevars))
        made = maker(*(cell.cell_contents for cell in self.fn.__closure__ or ()))
        for name in ("__defaults__", "__kwdefaults__", "__annotations__"):
            setattr(made, name, getattr(self.fn, name))
        return made

    rewriter._compile_and_exec = executing


def _made_by(tree: ast.Module, captured: tuple[str, ...]) -> ast.Module:
    """Return a module with a function that takes what was captured and returns the one function of the given module.

    Both have the same name, by which the interpreter finds what a module made. Of defaults only their places are kept.
    """
    [function] = tree.body
    assert isinstance(function, ast.FunctionDef)
    _forget_outside(function)
    maker = ast.parse(f"def {function.name}({', '.join(captured)}):\n    return {function.name}")
    for node in ast.walk(maker):
        ast.copy_location(node, function)
    [outer] = maker.body
    assert isinstance(outer, ast.FunctionDef)
    outer.body.insert(0, function)
    return maker


def _forget_outside(function: ast.FunctionDef) -> None:
    """Take out of a function what was evaluated where it was made: annotations, and the values of its defaults."""
    given, function.returns = function.args, None
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        argument.annotation = None
    nothing = ast.copy_location(ast.Constant(None), function)
    given.defaults = [nothing for _ in given.defaults]
    given.kw_defaults = [default and nothing for default in given.kw_defaults]


def count_in_tensors(interpreter: Any) -> None:
    """Let the variable of a loop be a tensor, as it is when compiled: it has a type, wraps, and divides toward 0.

    In the interpreter it would be an int of Python. That of `tl.static_range` is one, for it is unrolled.
    """
    rewriter = interpreter.FunctionRewriter

    class Counting(type(rewriter.ast_transformer)):  # type: ignore[misc]
        def visit_For(self, node: ast.For) -> ast.AST:
            self.generic_visit(node)
            match node.iter:
                case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range") as iterator):
                    counted = ast.copy_location(ast.Name(_COUNTED, ast.Load()), iterator)
                    node.iter.func, node.iter.args = counted, [iterator, *node.iter.args]
            return node

    rewriter.ast_transformer = Counting()
    # The rewriter gives what stands in its module to the functions that it rewrites.
    setattr(interpreter, _COUNTED, partial(_counted, interpreter))


_COUNTED = "_assay_counted"


def _counted(interpreter: Any, iterator: Callable[..., Any], *bounds: Any, **named: Any) -> Iterator[Any]:
    """Walk what an iterator yields as tensors, of the type that its bounds and step come to."""
    semantic = interpreter.interpreter_semantic
    given = (*bounds, *(named[name] for name in ("arg2", "step") if named.get(name) is not None))
    kind = reduce(semantic.integer_promote_impl, (semantic.to_tensor(one).dtype for one in given))
    for index in iterator(*bounds, **named):
        handle = interpreter.TensorHandle(np.array([index], interpreter._get_np_dtype(kind)), kind)
        yield tl.tensor(handle, kind)


def refuse_methods(core: Any, refusing: Callable[[str], Callable[..., Any]]) -> None:
    """Refuse the compiled methods of a class of several values, by name, where the interpreter leaves them out.

    `core._aggregate` takes over what it knows for a method, which what the interpreter makes of `triton.jit` is not.
    """
    aggregate = getattr(core, "_aggregate", None)
    if aggregate is None:
        return

    def aggregating(cls: type) -> Any:
        made = aggregate(cls)
        for name, member in vars(cls).items():
            if callable(member) and not hasattr(made, name):
                setattr(made, name, refusing(f"{cls.__name__}.{name}, a method of a class of several values"))
        return made

    core._aggregate = aggregating

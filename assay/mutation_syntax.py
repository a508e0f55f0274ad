"""Reading and rewriting single expressions of a Triton kernel's syntax tree."""

import ast
import copy
from collections.abc import Iterator

# Positional parameters of triton.language, of which only those up to the last that an operator drops matter here.
_ATOMIC = ("pointer", "val", "mask")
_PARAMETERS = {
    "load": ("pointer", "mask", "other", "boundary_check", "padding_option"),
    "store": ("pointer", "value", "mask", "boundary_check"),
    "dot": ("input", "other", "acc", "input_precision", "allow_tf32"),
    "full": ("shape", "value"),
    # Alone among atomic operations it takes no mask.
    "atomic_cas": ("pointer", "cmp", "val"),
}
# What the result does not depend on.
_HINTS = {"assume", "device_assert", "static_assert", "device_print", "static_print"}


def called(node: ast.AST | None) -> str:
    """Return the last part of the name of what a call calls, `load` of `tl.load(...)`; "" for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return ""


def is_jit(function: ast.FunctionDef) -> bool:
    """Whether a function is compiled for a device: whether one of its decorators has a name that ends in `jit`."""
    names = [node.func if isinstance(node, ast.Call) else node for node in function.decorator_list]
    return any(ast.unparse(name).endswith("jit") for name in names)


def is_access(call: ast.Call) -> bool:
    """Whether a call reads or writes memory."""
    return called(call) in ("load", "store") or called(call).startswith("atomic_")


def _parameters(call: ast.Call) -> tuple[str, ...]:
    name = called(call)
    return _PARAMETERS.get(name, _ATOMIC if name.startswith("atomic_") else ())


def argument(call: ast.Call, name: str) -> ast.expr | None:
    """Return what a call hands over for the parameter of that name, by position or by name; None where nothing."""
    for parameter, value in zip(_parameters(call), call.args, strict=False):
        if parameter == name:
            return value
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def without(call: ast.Call, *names: str) -> str:
    """Return the source of a call that leaves out these parameters."""
    given = [*_parameters(call), *("" for _ in call.args)]
    args = [value for value, name in zip(call.args, given, strict=False) if name not in names]
    keywords = [keyword for keyword in call.keywords if keyword.arg not in names]
    return ast.unparse(ast.Call(call.func, args, keywords))


def renamed(call: ast.Call, name: str) -> str:
    """Return the source of a call of the function of that name beside the one called."""
    function = call.func
    prefix = f"{bracketed(function.value)}." if isinstance(function, ast.Attribute) else ""
    return f"{prefix}{name}({', '.join(map(ast.unparse, [*call.args, *call.keywords]))})"


def bracketed(node: ast.AST) -> str:
    """Return the source of an expression in parentheses, safe in any place; superfluous ones go when it is applied."""
    return f"({ast.unparse(node)})"


def exchanged(root: ast.expr, changes: dict[ast.expr, ast.expr]) -> str:
    """Return the source of an expression in which other nodes stand for some."""
    # The memo of a deep copy says what stands for a node that was copied before: here, for each exchanged node.
    return ast.unparse(copy.deepcopy(root, {id(old): new for old, new in changes.items()}))


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two nodes are the same text, but for layout."""
    return ast.dump(left) == ast.dump(right)


def names(node: ast.AST) -> list[str]:
    """Return the names in a node, those at the top first."""
    return [found.id for found in ast.walk(node) if isinstance(found, ast.Name)]


def is_number(node: ast.AST) -> bool:
    """Whether a node is a number as written, which True and False are not."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_infinity(node: ast.AST) -> bool:
    """Whether a node is `float("inf")`, `float("-inf")` or `math.inf`."""
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return "inf" in text
        case ast.Attribute(attr="inf"):
            return True
    return False


def perturbed(node: ast.expr) -> str | None:
    """Return another value for a number: a whole one grows by 1, any other by 1%, beyond what a bound allows.

    A float that is tiny guards against division by zero, and a huge one or infinity stands for a value that must not
    count: 1% more would change nothing, so it becomes 0.0.
    """
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            changed = perturbed(operand)
            return None if changed is None else "0.0" if changed == "0.0" else f"-{changed}"
        case ast.Constant(value=float(value)):
            return "1.0" if value == 0 else "0.0" if not 1e-3 <= value <= 1e4 else repr(float(f"{value * 1.01:.6g}"))
        case ast.Constant(value=int(value)):
            return None if isinstance(value, bool) else str(value + 1)
    return "0.0" if is_infinity(node) else None


def terms(node: ast.expr) -> list[ast.expr]:
    """Return what a sum adds up, from left to right."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*terms(left), *terms(right)]
    return [node]


def below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what stands in it, in order of position; not what is only a hint or the text of a string."""
    if not isinstance(node, ast.JoinedStr) and called(node) not in _HINTS:
        yield node
        for child in ast.iter_child_nodes(node):
            yield from below(child)

"""Faults in what a kernel computes: reductions, formulas, accumulators, loops, numbers, precision."""

import ast
from collections.abc import Iterator

from assay.mutation_scope import Operator, Scope, Site
from assay.mutation_syntax import (
    argument,
    bracketed,
    called,
    exchanged,
    is_infinity,
    is_number,
    names,
    perturbed,
    renamed,
    same,
    terms,
    without,
)

# What shapes a tensor, or names an axis: a changed constant there is refused by the compiler and tells nothing.
_SHAPING = {"arange", "zeros", "full", "reshape", "view", "program_id", "num_programs", "make_block_ptr", "permute"}
_REDUCTIONS = {"sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce", "cumsum", "cumprod", "associative_scan"}
_EXTREMES = {"max": "min", "maximum": "minimum", "min": "max", "minimum": "maximum"}
_BASES = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}


def reductions(scope: Scope) -> Iterator[Site]:
    """A reduction computes something else, or goes along the other axis."""
    flat = not any(isinstance(node, ast.Slice) or called(node) in ("dot", "expand_dims") for node in scope.nodes)
    for call in scope.calls:
        name = called(call)
        if name == "sum":
            yield Site("sum-to-max", call, renamed(call, "max"))
        if name in _EXTREMES:
            kind: Operator = "max-to-min" if name.startswith("max") else "min-to-max"
            yield Site(kind, call, renamed(call, _EXTREMES[name]))
        # A function that never adds an axis has one, unless what it reduces comes from outside.
        outside = any(name in scope.parameters for arg in call.args[:1] for name in names(arg))
        if name == "program_id" or (name in _REDUCTIONS and (outside or not flat)):
            axes = [keyword.value for keyword in call.keywords if keyword.arg == "axis"] or call.args
            found = next((axis for axis in axes if ast.unparse(axis) in ("0", "1")), None)
            if found:
                yield Site("wrong-axis", found, "1" if ast.unparse(found) == "0" else "0")


def functions(scope: Scope) -> Iterator[Site]:
    """An element is computed by the wrong formula."""
    for node in scope.nodes:
        match node:
            case ast.Call(args=[_, left, right]) if called(node) == "where":
                yield Site("swap-branches", node, exchanged(node, {left: right, right: left}))
            case ast.Call() if called(node) in _BASES:
                yield Site("exp-base", node, renamed(node, _BASES[called(node)]))
            case ast.BinOp(left=left, op=ast.Sub(), right=right) if scope.is_extreme(right):
                yield Site("drop-maximum", node, bracketed(left))


def carries(scope: Scope) -> Iterator[Site]:
    """What earlier steps of a loop found is lost, or keeps a scale that no longer holds."""
    for node in scope.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if scope.in_loop(node):
                if name not in scope.indices:
                    yield Site("drop-carry", node, f"{name} = {bracketed(value)}")
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Mult() | ast.Div(), value=value):
                if name not in scope.indices:
                    yield Site("drop-rescale", value, "1.0")
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in scope.indices:
                yield from _carried(value, name, in_loop=scope.in_loop(node))


def _carried(value: ast.expr, name: str, in_loop: bool) -> Iterator[Site]:
    match value:
        case ast.Call() if called(value) == "dot" and name in names(argument(value, "acc") or ast.Constant(None)):
            yield Site("drop-carry", value, without(value, "acc"))
        case ast.Call(args=[left, right]) if called(value) in _EXTREMES and in_loop:
            yield from (Site("drop-carry", value, bracketed(b)) for a, b in _either(left, right) if _is(a, name))
        case ast.BinOp(left=left, op=ast.Add(), right=right) if in_loop:
            yield from (Site("drop-carry", value, bracketed(b)) for a, b in _either(left, right) if _holds(a, name))
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and _holds(node, name):
            yield Site("drop-rescale", node, name)


def _either(left: ast.expr, right: ast.expr) -> tuple[tuple[ast.expr, ast.expr], tuple[ast.expr, ast.expr]]:
    return (left, right), (right, left)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _holds(node: ast.expr, name: str) -> bool:
    """Whether the node is this name, or a product of it, or a quotient."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _is(left, name) or _is(right, name)
        case ast.BinOp(left=left, op=ast.Div()):
            return _is(left, name)
    return _is(node, name)


def scales(scope: Scope) -> Iterator[Site]:
    """A factor or divisor that the caller gave is left out."""
    given = scope.parameters | scope.constants
    for node in scope.nodes:
        match node:
            case ast.BinOp(left=kept, op=ast.Mult() | ast.Div(), right=ast.Name(id=name)) if name in given:
                pass
            case ast.BinOp(left=ast.Name(id=name), op=ast.Mult(), right=kept) if name in given:
                pass
            case _:
                continue
        if not scope.is_index(node):
            yield Site("drop-scale", node, bracketed(kept))


def initials(scope: Scope) -> Iterator[Site]:
    """What a sum starts from is not the neutral element."""
    for call in scope.calls:
        if called(call) in ("zeros", "zeros_like"):
            yield Site("change-initial", call, f"{bracketed(call)} + 1")
        value = argument(call, "value") if called(call) == "full" else None
        if value and (changed := perturbed(value)):
            yield Site("change-initial", value, changed)


def constants(scope: Scope) -> Iterator[Site]:
    """A number in arithmetic is another one."""
    arithmetic = ast.BinOp | ast.Compare | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.IfExp
    for node in scope.nodes:
        if not (is_number(node) or is_infinity(node)) or not isinstance(node, ast.expr):
            continue
        above = [up for up in scope.above(node) if not isinstance(up, ast.UnaryOp)]
        element = called(above[0]) in ("where", "fma", "exp", "exp2", "sqrt", "pow", *_EXTREMES)
        shaping = any(isinstance(up, ast.Subscript) or called(up) in _SHAPING for up in above)
        if (isinstance(above[0], arithmetic) or element) and not shaping and (changed := perturbed(node)):
            yield Site("perturb-constant", node, changed)


def loops(scope: Scope) -> Iterator[Site]:
    """A loop runs once too few, or stands still."""
    for node in scope.nodes:
        match node:
            case ast.For(iter=ast.Call(args=[_, *_]) as call) if called(call) in ("range", "static_range"):
                yield from _ranges(call)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub(), value=value):
                if name in scope.indices and scope.in_loop(node):
                    yield Site("skip-advance", value, "0")
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in scope.indices and scope.in_loop(node):
                if called(value) == "advance" or any(_is(term, name) for term in terms(value)[:-1]):
                    yield Site("skip-advance", value, name)


def _ranges(call: ast.Call) -> Iterator[Site]:
    start, stop, step = _bounds(call)
    second = bracketed(step) if same(start, ast.Constant(0)) else f"{bracketed(start)} + {bracketed(step)}"
    yield Site("skip-last-block", stop, f"{bracketed(stop)} - {bracketed(step)}")
    if len(call.args) == 1:
        yield Site("skip-first-block", call, f"{bracketed(call.func)}({second}, {bracketed(stop)})")
    else:
        yield Site("skip-first-block", start, second)
    if not same(step, ast.Constant(1)):
        yield Site("ceil-to-floor", stop, f"{bracketed(stop)} // {bracketed(step)} * {bracketed(step)}")
        yield Site("off-by-one", stop, f"{bracketed(stop)} - 1")


def _bounds(call: ast.Call) -> tuple[ast.expr, ast.expr, ast.expr]:
    match call.args:
        case [start, stop, step]:
            return start, stop, step
        case [start, stop]:
            return start, stop, ast.Constant(1)
    return ast.Constant(0), call.args[0], ast.Constant(1)


def precisions(scope: Scope) -> Iterator[Site]:
    """A product of matrices is computed in another precision than the one that was declared."""
    for call in scope.calls:
        if called(call) != "dot":
            continue
        if precision := argument(call, "input_precision"):
            yield from (Site("change-precision", precision, repr(word)) for word in ("tf32", "ieee"))
            yield Site("change-precision", call, without(call, "input_precision"))
        if allow := argument(call, "allow_tf32"):
            yield from (Site("change-precision", allow, word) for word in ("True", "False"))

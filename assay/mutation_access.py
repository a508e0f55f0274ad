"""Faults in where and when a kernel reads and writes: masks, grids, addresses, stores, widths of offsets, races."""

import ast
from collections.abc import Iterator
from itertools import pairwise

from assay.mutation_scope import Scope, Site
from assay.mutation_syntax import argument, bracketed, called, exchanged, is_number, names, same, terms, without

# `to` has a case of its own, and a barrier in shared memory is 64 bits wide whatever it guards.
_NO_OFFSETS = ("to", "allocate_shared_memory")
_SHIFTED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}


def masks(scope: Scope) -> Iterator[Site]:
    """A mask is missing, or holds where it must not."""
    for call in scope.accesses:
        if argument(call, "mask") or argument(call, "boundary_check"):
            yield Site("drop-mask", call, without(call, "mask", "other", "boundary_check", "padding_option"))
    for node in scope.nodes:
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right) if not is_number(left) and not is_number(right):
                yield Site("and-to-or", node, f"{bracketed(left)} | {bracketed(right)}")
                # One conjunct at a time: of a chain, the inner node drops the others.
                for kept, dropped in ((left, right), (right, left)):
                    if not (isinstance(dropped, ast.BinOp) and isinstance(dropped.op, ast.BitAnd)):
                        yield Site("drop-conjunct", node, bracketed(kept))


def fills(scope: Scope) -> Iterator[Site]:
    """A masked lane holds something else."""
    for call in scope.accesses:
        other = argument(call, "other") if called(call) == "load" else None
        if other:
            yield Site("drop-other", call, without(call, "other"))
            yield Site("change-other", other, _other_number(other))


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _other_number(other: ast.expr) -> str:
    """Return what shows in any result that the lanes reach: infinity survives a factor of 0, as NaN; an int 0 may be an
    index, which no infinity can be.
    """
    if not _is_zero(other):
        return "0.0"
    return "1.0" if isinstance(other, ast.Constant) and isinstance(other.value, int) else 'float("inf")'


def comparisons(scope: Scope) -> Iterator[Site]:
    """A comparison takes in the limit that it left out, or leaves out the one that it took in."""
    for node in scope.nodes:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _SHIFTED:
                yield Site("shift-comparison", node, f"{bracketed(left)} {_SHIFTED[type(operator)]} {bracketed(right)}")


def grids(scope: Scope) -> Iterator[Site]:
    """A number of blocks, or a block, is too small for what remains at the end."""
    for node in scope.nodes:
        match node:
            case ast.Call(args=[size, block]) if called(node) == "cdiv":
                yield Site("ceil-to-floor", node, f"{bracketed(size)} // {bracketed(block)}")
            case ast.Call(args=[_]) if called(node) == "next_power_of_2":
                yield Site("shrink-block", node, f"{bracketed(node)} // 2")
            case ast.BinOp(op=ast.FloorDiv(), left=above, right=block) if whole := _rounded_up(above, block):
                yield Site("ceil-to-floor", node, f"{bracketed(whole)} // {bracketed(block)}")


def _rounded_up(above: ast.expr, block: ast.expr) -> ast.expr | None:
    """Return x where `above` is x + block - 1, in either order and grouping of the three."""
    one = ast.Constant(1)
    match above:
        case (
            ast.BinOp(left=ast.BinOp(left=size, op=ast.Add(), right=width), op=ast.Sub(), right=last)
            | ast.BinOp(left=size, op=ast.Add(), right=ast.BinOp(left=width, op=ast.Sub(), right=last))
        ):
            pairs = ((size, width), (width, size))
            return next((x for x, b in pairs if same(b, block) and same(last, one)), None)
    return None


def addresses(scope: Scope) -> Iterator[Site]:
    """An address takes another tensor's layout than the one at hand."""
    for node in scope.nodes:
        if not isinstance(node, ast.BinOp) or _is_sum(scope.parents[node]) or not scope.is_index(node):
            continue
        last = terms(node)[-1]
        strides = [found[1] for found in map(scope.stride, terms(node)) if found]
        for left, right in pairwise(strides):
            yield Site("swap-strides", node, exchanged(node, {left: right, right: left}))
        # The row's stride is the last but one where the column has one too, and else the last.
        row = strides[:-1] if scope.stride(last) else strides
        length = next((scope.lengths[name] for name in names(last) if name in scope.lengths), None)
        if row and length:
            yield Site("stride-to-length", row[-1], length)


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def stride_arguments(scope: Scope) -> Iterator[Site]:
    """A launch hands over the last two strides of a tensor, `x.stride(0), x.stride(1)`, the wrong way round."""
    for call in scope.calls:
        if isinstance(call.func, ast.Subscript):
            for left, right, after in zip(call.args, call.args[1:], [*call.args[2:], None], strict=False):
                if _owner(left) and _owner(left) == _owner(right) != _owner(after):
                    yield Site("swap-strides", call, exchanged(call, {left: right, right: left}))


def _owner(argument: ast.expr | None) -> str:
    """Return `x` of `x.stride(0)`, "" for anything else."""
    match argument:
        case ast.Call(func=ast.Attribute(value=tensor, attr="stride"), args=[_]):
            return ast.unparse(tensor)
    return ""


def stores(scope: Scope) -> Iterator[Site]:
    """A result goes to the row beside its own, or nowhere."""
    for call in scope.calls:
        address = argument(call, "pointer") if called(call) == "store" else None
        if not address:
            continue
        yield Site("drop-store", call, "None")
        # A buffer of shared memory, `buffer.store(value)`, is its own address.
        if not argument(call, "value"):
            continue
        if isinstance(address, ast.List | ast.Tuple) and address.elts:
            yield Site("neighbour-row", address.elts[0], f"{bracketed(address.elts[0])} + 1")
        elif not scope.is_block(address):
            index = scope.row(address) or address
            yield Site("neighbour-row", index, f"{bracketed(index)} + 1")


def widths(scope: Scope) -> Iterator[Site]:
    """An offset is 32 bits wide and wraps, or a value stays in the narrow type that it was loaded in."""
    for node in scope.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[ast.Attribute(attr="int64")]):
                yield Site("int64-to-int32", node, bracketed(value))
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[ast.Attribute(attr="float32")]):
                yield Site("drop-upcast", node, bracketed(value))
            case ast.Attribute(value=value, attr="int64") if called(scope.parents[node]) not in _NO_OFFSETS:
                yield Site("int64-to-int32", node, f"{bracketed(value)}.int32")


def races(scope: Scope) -> Iterator[Site]:
    """Two programs, or two warps of one, get in each other's way."""
    for call in scope.calls:
        alone = isinstance(scope.parents[call], ast.Expr)
        if called(call) == "debug_barrier" or (alone and _awaits_barrier(call)):
            yield Site("drop-barrier", call, "None")
        if called(call) == "atomic_add" and alone and isinstance(call.func, ast.Attribute) and len(call.args) >= 2:
            pointer, value = map(bracketed, call.args[:2])
            mask = argument(call, "mask")
            masked = f", mask={bracketed(mask)}" if mask else ""
            language = ast.unparse(call.func.value)
            plain = f"{language}.load({pointer}{masked}) + {value}"
            yield Site("plain-atomic", call, f"{language}.store({pointer}, {plain}{masked})")


def _awaits_barrier(call: ast.Call) -> bool:
    """Whether a call is Gluon's `mbarrier.wait(...)`. Its opposite, `arrive`, is left alone: without it all hangs."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="mbarrier") | ast.Attribute(attr="mbarrier"), attr="wait"):
            return True
    return False

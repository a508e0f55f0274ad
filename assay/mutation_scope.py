"""One function of a kernel file as the operators of mutation see it, and what they yield.

What a name stands for is followed through plain assignments only, so a place can be missed.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from assay.mutation_syntax import argument, below, called, is_access, names, terms

Operator = Literal[
    "drop-mask",
    "drop-conjunct",
    "and-to-or",
    "drop-other",
    "change-other",
    "shift-comparison",
    "ceil-to-floor",
    "shrink-block",
    "swap-strides",
    "stride-to-length",
    "neighbour-row",
    "drop-store",
    "drop-maximum",
    "sum-to-max",
    "max-to-min",
    "min-to-max",
    "wrong-axis",
    "exp-base",
    "swap-branches",
    "drop-carry",
    "drop-rescale",
    "drop-scale",
    "change-initial",
    "skip-advance",
    "skip-first-block",
    "skip-last-block",
    "off-by-one",
    "change-precision",
    "drop-upcast",
    "int64-to-int32",
    "perturb-constant",
    "plain-atomic",
    "drop-barrier",
]


class Site(NamedTuple):
    """One change: `text`, an expression (for an augmented assignment a statement), stands where `node` stood."""

    operator: Operator
    node: ast.expr | ast.AugAssign
    text: str


class Scope:
    """One function: its nodes, their parents, its parameters, and what its names are assigned."""

    def __init__(self, function: ast.FunctionDef) -> None:
        """Read the function; its decorators, default values and docstring are no part of it."""
        self.nodes = [node for statement in function.body for node in below(statement)]
        self.parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        self.accesses = [call for call in self.calls if is_access(call)]
        arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        annotations = {arg.arg: ast.unparse(arg.annotation) if arg.annotation else "" for arg in arguments}
        self.constants = {name for name, annotation in annotations.items() if "constexpr" in annotation}
        self.parameters = set(annotations) - self.constants
        self.reads = [node.id for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        self.values: dict[str, list[ast.expr]] = {}
        for name, value in self._assignments():
            self.values.setdefault(name, []).append(value)
        self.indices = self._reaching(self._index_roots())
        self.lengths = dict(self._lengths())

    def _assignments(self) -> Iterator[tuple[str, ast.expr]]:
        for node in self.nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AugAssign(target=ast.Name(id=name), value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    | ast.For(target=ast.Name(id=name), iter=value)
                ):
                    yield name, value

    def _index_roots(self) -> Iterator[ast.expr]:
        yield from (node.iter for node in self.nodes if isinstance(node, ast.For))
        for call in self.accesses:
            found = argument(call, "pointer"), argument(call, "mask")
            yield from (root for root in found if root)

    def _reaching(self, roots: Iterable[ast.expr]) -> set[str]:
        """Return every name whose value can reach one of these expressions."""
        waiting, seen = list(roots), set[str]()
        while waiting:
            for name in set(names(waiting.pop())) - seen:
                seen.add(name)
                waiting += self.values.get(name, [])
        return seen

    def _lengths(self) -> Iterator[tuple[str, str]]:
        """Yield which parameter bounds which index: `n` of `column[None, :] < n`."""
        for node in self.nodes:
            match node:
                case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]) if names(left):
                    yield from ((names(left)[0], name) for name in names(right)[:1] if name in self.parameters)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what holds a node, from the inside out, up to the function."""
        while (up := self.parents.get(node)) is not None:
            yield up
            node = up

    def in_loop(self, node: ast.AST) -> bool:
        """Whether a loop of the function holds the node."""
        return any(isinstance(up, ast.For | ast.While) for up in self.above(node))

    def is_index(self, node: ast.AST) -> bool:
        """Whether the node helps to say where to read or write, or how often, rather than what."""
        inner = node
        for up in self.above(node):
            match up:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                    return name in self.indices
                case ast.Call() if up in self.accesses and inner is argument(up, "pointer"):
                    return True
                case ast.Compare() | ast.For() | ast.While() | ast.If():
                    return True
                case ast.stmt():
                    return False
            inner = up
        return False

    def is_extreme(self, node: ast.expr) -> bool:
        """Whether the node is a maximum, or a name that is assigned one, with or without further axes."""
        while isinstance(node, ast.Subscript):
            node = node.value
        values = self.values.get(node.id, []) if isinstance(node, ast.Name) else [node]
        return any(called(value) in ("max", "maximum") for value in values)

    def is_block(self, address: ast.expr) -> bool:
        """Whether an address is a block pointer, to which nothing can be added."""
        values = [value for name in names(address) for value in self.values.get(name, [])]
        return any(called(value) == "make_block_ptr" for value in values)

    def stride(self, term: ast.expr) -> tuple[ast.expr, ast.Name] | None:
        """Take `index * stride` apart, where the stride is a parameter of the function."""
        match term:
            case ast.BinOp(left=index, op=ast.Mult(), right=ast.Name(id=name) as stride) if name in self.parameters:
                return index, stride
            case ast.BinOp(left=ast.Name(id=name) as stride, op=ast.Mult(), right=index) if name in self.parameters:
                return index, stride
        return None

    def row(self, address: ast.expr, steps: int = 2) -> ast.expr | None:
        """Return an address's row index: of its products the last but one, as the last is the column's.

        Where it has none, names that serve this address alone are followed through so many assignments.
        """
        products = [term for term in terms(address) if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult)]
        if products:
            found = self.stride(products[-2:][0])
            return found[0] if found else products[-2:][0].left
        own = [name for name in map(ast.unparse, terms(address)) if self.reads.count(name) == 1]
        values = [value for name in own for value in self.values.get(name, [])] if steps else []
        return next(filter(None, (self.row(value, steps - 1) for value in values)), None)

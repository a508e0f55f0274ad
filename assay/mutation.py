"""Faulty kernels, derived from any Triton kernel file through its syntax tree: one change each, as people make them.

A kernel in Gluon is changed as one in Triton is, for both write alike what can go wrong in both.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from assay import mutation_access as access
from assay import mutation_arithmetic as arithmetic
from assay.mutation_scope import Operator, Scope, Site
from assay.mutation_syntax import is_jit

OPERATORS: dict[Operator, str] = {
    "drop-mask": "A load, store or atomic loses its mask, and with it what its masked lanes would hold.",
    "drop-conjunct": "A mask of several conditions loses one of them.",
    "and-to-or": "A lane counts as inside where one condition holds instead of both.",
    "drop-other": "A masked load no longer says what its masked lanes hold, so they are undefined.",
    "change-other": "Masked lanes of a load hold another number: infinity for zero, and 0.0 for anything else.",
    "shift-comparison": "A comparison takes in the limit that it left out, or the other way round.",
    "ceil-to-floor": "A number of blocks is rounded down, so that the incomplete last one is left out.",
    "shrink-block": "A block that should cover a whole row is half as wide.",
    "swap-strides": "Two strides of one address change places.",
    "stride-to-length": "Rows are taken to lie one row's length apart, whatever their stride is.",
    "neighbour-row": "A result is stored one row, or one element, further on.",
    "drop-store": "A result is never stored.",
    "drop-maximum": "The maximum is no longer subtracted.",
    "sum-to-max": "A sum becomes a maximum.",
    "max-to-min": "A maximum becomes a minimum.",
    "min-to-max": "A minimum becomes a maximum.",
    "wrong-axis": "A reduction goes along the other axis, or a program takes its number from the other axis.",
    "exp-base": "An exponential or logarithm takes base 2 for e, or e for 2.",
    "swap-branches": "A selection takes each branch where the other was meant.",
    "drop-carry": "An accumulator forgets what earlier steps of the loop added.",
    "drop-rescale": "A running value is not rescaled, or not normalised.",
    "drop-scale": "A factor or divisor among the kernel's parameters is left out.",
    "change-initial": "A tensor that should start as zero, or another constant, starts as something else.",
    "skip-advance": "A pointer or offset is not moved on from one step of a loop to the next.",
    "skip-first-block": "A loop leaves out its first step.",
    "skip-last-block": "A loop leaves out its last step.",
    "off-by-one": "A loop in blocks ends one element early, so that a last block of one element is left out.",
    "change-precision": "A product of matrices multiplies in tf32, in ieee or in the default precision instead.",
    "drop-upcast": "A value is not widened to float32 before it is used.",
    "int64-to-int32": "An offset is 32 bits wide and wraps past 2^31 elements.",
    "perturb-constant": "A number is changed: 1 more for a whole one, 1% for any other, 0.0 for a tiny or huge one.",
    "plain-atomic": "An atomic addition becomes a load, an addition and a store, which is a race.",
    "drop-barrier": "A barrier between the warps of a program, or the wait at one, is missing.",
}

_KERNEL_FAMILIES = (
    access.masks,
    access.fills,
    access.comparisons,
    access.grids,
    access.addresses,
    access.stores,
    arithmetic.reductions,
    arithmetic.functions,
    arithmetic.carries,
    arithmetic.scales,
    arithmetic.initials,
    arithmetic.loops,
    arithmetic.precisions,
    access.widths,
    arithmetic.constants,
    access.races,
)
_LAUNCH_FAMILIES = (access.grids, access.stride_arguments)
_ORDER = {operator: place for place, operator in enumerate(OPERATORS)}
_WIDTH = 100
# What may stand as an operand without parentheses, and what separates its parts by commas.
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)
_ENCLOSING = (ast.Call, ast.Tuple, ast.List)


@dataclass(frozen=True)
class Mutation:
    """A kernel file with one change.

    `line` and `column` (both from 1, in characters) say where the changed part begins. `source` is the statement or
    expression around it as it stands in the file, and `replacement` what stands there instead, each on one line of at
    most 100 characters. `text` is the whole changed file, as long in lines as the original and equal to it outside the
    changed part. `line_text` is the line itself, without the space around it. `place`: a change in a launch can leave
    the compiled code as it is and still be a fault. `function` is that in which it is, as the module knows it.
    """

    operator: Operator
    line: int
    column: int
    source: str
    replacement: str
    text: str
    line_text: str
    place: Literal["kernel", "launch"]
    function: str


def mutants(source: str) -> list[Mutation]:
    """Return the faulty variants of a kernel file, in order of position; no two are the same program.

    Changed are the functions whose decorator's name ends in `jit` and, in their grids and stride arguments only, those
    that launch one. SyntaxError where the text is not Python.
    """
    tree = ast.parse(source)
    file = _File(source, tree)
    seen = {ast.dump(tree)}
    found = []
    for site in sorted(_sites(tree), key=lambda site: (*file.span(site.node), _ORDER[site.operator], site.text)):
        text = file.changed(site)
        program = ast.dump(ast.parse(text))
        if program not in seen:
            seen.add(program)
            found.append(file.describe(site, text))
    return found


def _sites(tree: ast.Module) -> Iterator[Site]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    kernels = {function.name for function in functions if is_jit(function)}
    for function in functions:
        jit, launches = is_jit(function), _launches(function, kernels)
        families = _KERNEL_FAMILIES if jit else _LAUNCH_FAMILIES if launches else ()
        scope = Scope(function) if families else None
        for family in families:
            yield from family(scope) if scope else ()


def _launches(function: ast.FunctionDef, kernels: set[str]) -> bool:
    """Whether the function holds `kernel[grid](...)` for one of these kernels."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name))) if name in kernels:
                return True
    return False


class _File:
    """A source text, addressed by the positions of its syntax tree, which count bytes of UTF-8."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.bytes = source.encode()
        self.starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends, in bytes."""
        last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[last - 1] + column

    def changed(self, site: Site) -> str:
        """Return the whole text with a site's own in the place of its node."""
        start, end = self.span(site.node)
        new = _lengthened(self._fitted(site), self.bytes[start:end], site.node)
        return (self.bytes[:start] + new.encode() + self.bytes[end:]).decode()

    def describe(self, site: Site, text: str) -> Mutation:
        """Return the mutation that gave this text."""
        start, end = self.span(site.node)
        first, last = self.span(self._shown(site.node))
        shown = self.bytes[first:start] + self._fitted(site).encode() + self.bytes[end:last]
        above, below = self.starts[site.node.lineno - 1 : site.node.lineno + 1]
        return Mutation(
            site.operator,
            site.node.lineno,
            len(self.bytes[above:start].decode()) + 1,
            *_cut(_one_line(self.bytes[first:last]), _one_line(shown)),
            text=text,
            line_text=self.bytes[above:below].decode().strip(),
            place="kernel" if self._in_kernel(site.node) else "launch",
            function=self._outermost(site.node),
        )

    def _outermost(self, node: ast.AST) -> str:
        while not isinstance(self.parents[node], ast.Module):
            node = self.parents[node]
        return str(getattr(node, "name", ""))

    def _in_kernel(self, node: ast.AST) -> bool:
        while not (isinstance(node, ast.Module) or (isinstance(node, ast.FunctionDef) and is_jit(node))):
            node = self.parents[node]
        return isinstance(node, ast.FunctionDef)

    def _fitted(self, site: Site) -> str:
        """Return the text without superfluous parentheses, but in parentheses where it binds too loosely."""
        if isinstance(site.node, ast.AugAssign):
            return ast.unparse(ast.parse(site.text))
        start, end = self.span(site.node)
        around = self.bytes[start - 1 : start] + self.bytes[end : end + 1]
        new = ast.parse(site.text, mode="eval").body
        up = self.parents[site.node]
        operand = isinstance(up, ast.expr) and not isinstance(up, _ENCLOSING) and around != b"()"
        # `return(a) & b` would read `returna` with `a` for the conjunction.
        enclose = (operand and not isinstance(new, _ATOMS)) or re.search(rb"\w", around)
        return f"({ast.unparse(new)})" if enclose else ast.unparse(new)

    def _shown(self, node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
        """Return the largest expression or simple statement around a node that fits on a line, or else the node."""
        shown: ast.expr | ast.stmt = node
        up = self.parents[node]
        while isinstance(up, ast.expr) or not hasattr(up, "body"):
            if isinstance(up, ast.expr | ast.stmt) and len(_one_line(self.bytes[slice(*self.span(up))])) <= _WIDTH:
                shown = up
            up = self.parents[up]
        return shown


def _lengthened(text: str, old: bytes, node: ast.expr | ast.AugAssign) -> str:
    """Return the text with as many lines as what it replaces, so that those after it keep their numbers."""
    missing = "\n" * (len(old.splitlines()) - 1)
    if not missing:
        return text
    target, value = text.split(" = ", 1) if isinstance(node, ast.AugAssign) else ("", text)
    return f"{target} = ({value}{missing})" if target else f"({value}{missing})"


def _one_line(text: bytes) -> str:
    return " ".join(re.sub(r"#[^\r\n]*[\r\n]", " ", text.decode()).split())


def _cut(source: str, replacement: str) -> tuple[str, str]:
    """Shorten both lines to the width, where needed from the place on at which they begin to differ."""
    pairs = enumerate(zip(f"{source}\n", f"{replacement}\n", strict=False))
    first = max(0, next(place for place, (a, b) in pairs if a != b) - _WIDTH // 2)
    return _window(source, first), _window(replacement, first)


def _window(line: str, first: int) -> str:
    if len(line) <= _WIDTH:
        return line
    part = f"...{line[first:]}" if first else line
    return part if len(part) <= _WIDTH else f"{part[: _WIDTH - 3]}..."

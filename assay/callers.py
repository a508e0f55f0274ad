"""Which kernels of a file lead to a function: a change in it can show only where one of them is launched. Pure.

Names are followed as they stand in the text. What a file looks up by a string is not seen.
"""

import ast
from collections.abc import Iterator, Mapping

from assay.mutation_syntax import is_jit

Definitions = Mapping[str, ast.stmt]


def callers(source: str, function: str) -> frozenset[str] | None:
    """Return the compiled functions that lead to `function`, itself included, by the names in a kernel file's text.

    None where any launch may lead to it: it is no compiled function, or is handed around as a value outside of them.
    """
    tree = ast.parse(source)
    definitions = {name: node for node in tree.body for name in _defined(node)}
    found = _leading(definitions, function)
    compiled = frozenset(name for name in found if _is_compiled(definitions[name]))
    if function not in compiled or any(_handed(node, found) for node in tree.body if not _is_compiled(node)):
        return None
    return compiled


def _leading(definitions: Definitions, function: str) -> set[str]:
    uses = {name: {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} for name, node in definitions.items()}
    found, waiting = set[str](), [function] if function in definitions else []
    while waiting:
        found.add(name := waiting.pop())
        # Python that launches a kernel does not run inside of another.
        leading = [other for other, used in uses.items() if name in used and _is_compiled(definitions[other])]
        waiting += [other for other in leading if other not in found]
    return found


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _is_compiled(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and is_jit(node)


def _handed(node: ast.stmt, names: set[str]) -> bool:
    """Whether a statement uses one of the names other than to launch it, as `name[grid](...)` does."""
    launched = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Subscript)}
    used = (one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    return any(one.id in names and id(one) not in launched for one in used)

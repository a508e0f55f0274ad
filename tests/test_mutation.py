"""Every mutant is a program of its own that differs from its kernel in one place; each operator makes its fault."""

import ast
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.mutation import OPERATORS, Mutation, mutants
from assay.mutation_scope import Operator

ROOT = Path(__file__).parents[1]
HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
SIGNATURE = "def kernel(x_ptr, y_ptr, x_row, x_col, n, scale, BLOCK: tl.constexpr):\n"


def kernel(*lines: str) -> str:
    return HEAD + SIGNATURE + "".join(f"    {line}\n" for line in lines)


def found(source: str, operator: str) -> list[tuple[str, str]]:
    return [(mutant.source, mutant.replacement) for mutant in mutants(source) if mutant.operator == operator]


LOAD = "x = tl.load(x_ptr + column, mask=column < n, other=0.0)"
STORE = "tl.store(y_ptr + row * x_row + column * x_col, y, mask=inside)"
# Operator -> lines of a kernel, and what one of its mutants has there instead.
EXAMPLES: dict[Operator, list[tuple[str, str]]] = {
    "drop-mask": [
        (LOAD, "x = tl.load(x_ptr + column)"),
        (STORE, "tl.store(y_ptr + row * x_row + column * x_col, y)"),
        ("x = tl.load(p, inside, 0.0)", "x = tl.load(p)"),
        ("tl.store(p, y, inside)", "tl.store(p, y)"),
        ("tl.atomic_max(p, y, inside)", "tl.atomic_max(p, y)"),
        ("x = tl.load(p, boundary_check=(0,))", "x = tl.load(p)"),
    ],
    "drop-conjunct": [
        ("inside = (r < n) & (c < n)", "inside = r < n"),
        ("inside = (r < n) & (c < n)", "inside = c < n"),
        ("inside = a & b & c", "inside = a & c"),
    ],
    "and-to-or": [
        ("inside = (r < n) & (c < n)", "inside = (r < n) | (c < n)"),
    ],
    "drop-other": [
        (LOAD, "x = tl.load(x_ptr + column, mask=column < n)"),
    ],
    "change-other": [
        (LOAD, "x = tl.load(x_ptr + column, mask=column < n, other=float('inf'))"),
        ("x = tl.load(p, m, 0)", "x = tl.load(p, m, 1.0)"),
        ('x = tl.load(p, m, -float("inf"))', "x = tl.load(p, m, 0.0)"),
    ],
    "shift-comparison": [
        ("inside = c < n", "inside = c <= n"),
        ("inside = c >= n", "inside = c > n"),
    ],
    "ceil-to-floor": [
        ("tiles = tl.cdiv(n, BLOCK)", "tiles = n // BLOCK"),
        ("t = (n + BLOCK - 1) // BLOCK", "t = n // BLOCK"),
        ("t = (n + (BLOCK - 1)) // BLOCK", "t = n // BLOCK"),
        ("for start in range(0, n, BLOCK):\n    pass", "range(0, n // BLOCK * BLOCK, BLOCK)"),
    ],
    "shrink-block": [
        ("w = triton.next_power_of_2(n)", "w = triton.next_power_of_2(n) // 2"),
    ],
    "swap-strides": [
        (STORE, "tl.store(y_ptr + row * x_col + column * x_row, y, mask=inside)"),
    ],
    "stride-to-length": [
        (f"inside = column < n\n{STORE}", "tl.store(y_ptr + row * n + column * x_col, y, mask=inside)"),
        ("p = x_ptr + r * x_row + c\nm = c < n\ntl.load(p)", "p = x_ptr + r * n + c"),
    ],
    "neighbour-row": [
        (STORE, "tl.store(y_ptr + (row + 1) * x_row + column * x_col, y, mask=inside)"),
        ("p = y_ptr + r * x_row\ntl.store(p + c, y)", "p = y_ptr + (r + 1) * x_row"),
        ("tl.store(y_ptr + c, y)", "tl.store(y_ptr + c + 1, y)"),
        ("y_desc.store([r, c], y)", "y_desc.store([r + 1, c], y)"),
    ],
    "drop-store": [
        (STORE, "None"),
    ],
    "drop-maximum": [
        ("e = tl.exp(x - tl.max(x, axis=0))", "e = tl.exp(x)"),
        ("m = tl.maximum(a, b)\ne = tl.exp(x - m[:, None])", "e = tl.exp(x)"),
    ],
    "sum-to-max": [
        ("s = tl.sum(x, axis=0)", "s = tl.max(x, axis=0)"),
    ],
    "max-to-min": [
        ("s = tl.max(x, axis=0)", "s = tl.min(x, axis=0)"),
    ],
    "min-to-max": [
        ("rows = min(n, BLOCK)", "rows = max(n, BLOCK)"),
    ],
    "wrong-axis": [
        ("y = a[:, None]\ns = tl.sum(y, 1)", "s = tl.sum(y, 0)"),
        ("y = a[:, None]\ns = y.sum(axis=0)", "s = y.sum(axis=1)"),
        ("row = tl.program_id(0)", "row = tl.program_id(1)"),
    ],
    "exp-base": [
        ("e = tl.exp(x)", "e = tl.exp2(x)"),
    ],
    "swap-branches": [
        ("y = tl.where(m, a, b)", "y = tl.where(m, b, a)"),
    ],
    "drop-carry": [
        ("for step in range(n):\n    acc = tl.dot(a, b, acc)", "acc = tl.dot(a, b)"),
        ("for step in range(n):\n    acc += x", "acc = x"),
        ("for step in range(n):\n    acc = acc + x", "acc = x"),
        ("for step in range(n):\n    acc = acc * alpha + x", "acc = x"),
        ("for step in range(n):\n    top = tl.maximum(top, x)", "top = x"),
    ],
    "drop-rescale": [
        ("for step in range(n):\n    acc = acc * alpha[:, None]", "acc = acc"),
        ("for step in range(n):\n    acc = acc * alpha + x", "acc = acc + x"),
        ("for step in range(n):\n    acc *= alpha", "acc *= 1.0"),
        ("acc = acc / total", "acc = acc"),
    ],
    "drop-scale": [
        ("y = scale * x", "y = x"),
        ("y = tl.sum(x, axis=0) / n", "y = tl.sum(x, axis=0)"),
    ],
    "change-initial": [
        ("s = tl.zeros((BLOCK,), tl.float32)", "s = tl.zeros((BLOCK,), tl.float32) + 1"),
        ('s = tl.full((4,), -float("inf"), t)', "s = tl.full((4,), 0.0, t)"),
    ],
    "skip-advance": [
        ("for start in range(0, n, BLOCK):\n    x_ptr += BLOCK\n    x = tl.load(x_ptr)", "x_ptr += 0"),
        ("for start in range(0, n, BLOCK):\n    p = p + BLOCK\n    x = tl.load(p)", "p = p"),
        ("for start in range(0, n, BLOCK):\n    p = tl.advance(p, (0, 4))\n    x = tl.load(p)", "p = p"),
    ],
    "skip-first-block": [
        ("for start in range(0, n, BLOCK):\n    pass", "range(BLOCK, n, BLOCK)"),
        ("for step in range(n):\n    pass", "range(1, n)"),
    ],
    "skip-last-block": [
        ("for start in range(0, n, BLOCK):\n    pass", "range(0, n - BLOCK, BLOCK)"),
        ("for step in range(n):\n    pass", "range(n - 1)"),
    ],
    "off-by-one": [
        ("for start in range(0, n, BLOCK):\n    pass", "range(0, n - 1, BLOCK)"),
    ],
    "change-precision": [
        ("c = tl.dot(a, b, input_precision=P)", "c = tl.dot(a, b, input_precision='tf32')"),
        ("c = tl.dot(a, b, input_precision=P)", "c = tl.dot(a, b)"),
        ("c = tl.dot(a, b, allow_tf32=False)", "c = tl.dot(a, b, allow_tf32=True)"),
    ],
    "drop-upcast": [
        ("x = tl.load(p).to(tl.float32)", "x = tl.load(p)"),
    ],
    "int64-to-int32": [
        ("row = tl.program_id(0).to(tl.int64)", "row = tl.program_id(0)"),
        ("w = tl.full((), BLOCK, tl.int64)", "w = tl.full((), BLOCK, tl.int32)"),
    ],
    "perturb-constant": [
        ("y = x * 0.5", "y = x * 0.505"),
        ("y = x - 1", "y = x - 2"),
        ("y = tl.sqrt(x + 1e-6)", "y = tl.sqrt(x + 0.0)"),
        ("y = tl.where(m, x, -1e30)", "y = tl.where(m, x, -0.0)"),
    ],
    "plain-atomic": [
        ("tl.atomic_add(p, v, mask=m)", "tl.store(p, tl.load(p, mask=m) + v, mask=m)"),
    ],
    "drop-barrier": [
        ("tl.debug_barrier()", "None"),
        ("mbarrier.wait(full.index(buffer), phase)", "None"),
        ("hopper.mbarrier.wait(full, phase)", "None"),
    ],
}


@pytest.mark.parametrize(
    ("operator", "lines", "replacement"),
    [(operator, *example) for operator, examples in EXAMPLES.items() for example in examples],
)
def test_each_operator_makes_its_fault(operator: Operator, lines: str, replacement: str) -> None:
    source = kernel(*lines.splitlines())
    [shown] = [before for before, after in found(source, operator) if after == replacement]
    assert shown in source


def test_every_operator_has_a_sentence_and_an_example() -> None:
    assert set(OPERATORS) == set(get_args(Operator)) == set(EXAMPLES)
    assert all(words.endswith(".") and ". " not in words for words in OPERATORS.values())


@pytest.mark.parametrize(
    ("operator", "lines"),
    [
        ("and-to-or", "low = bits & 15"),
        ("drop-conjunct", "low = bits & 15"),
        ("swap-strides", "y = a * x_row + b * x_col"),
        ("drop-maximum", "y = x - tl.sum(x, axis=0)"),
        ("wrong-axis", "x = tl.arange(0, 8)\ns = tl.sum(x, axis=0)"),
        ("drop-carry", "acc = acc + x"),
        ("drop-carry", "for step in range(n):\n    x_ptr += BLOCK\n    x = tl.load(x_ptr)"),
        ("skip-advance", "for step in range(n):\n    acc += x"),
        ("drop-scale", "p = x_ptr + row * BLOCK\nx = tl.load(p)"),
        ("drop-rescale", "for step in range(n):\n    offset = offset * 2\n    x = tl.load(x_ptr + offset)"),
        ("change-initial", "w = tl.full((), BLOCK, tl.int64)"),
        ("off-by-one", "for step in range(n):\n    pass"),
        ("perturb-constant", "a = tl.arange(0, 8 * 2)\nb = tl.program_id(0)"),
        ("perturb-constant", "c = a[1 + 1]\nd = tl.sum(a, axis=-1)"),
        ("perturb-constant", "flag = n == True"),
        ("plain-atomic", "before = tl.atomic_add(p, v)"),
        ("drop-mask", "while tl.atomic_cas(p, 0, 1) == 1:\n    pass"),
        ("neighbour-row", "p = tl.make_block_ptr(y_ptr, (n,), (1,), (0,), (8,), (0,))\ntl.store(p, y)"),
        ("shift-comparison", "tl.device_assert(row < n)\ntl.assume(n > 0)"),
        ("neighbour-row", "buffer.store(y)"),
        ("int64-to-int32", "full = gl.allocate_shared_memory(gl.int64, [2, 1], layout)"),
        ("drop-barrier", "mbarrier.arrive(empty, count=1)\nprocess.wait()\nlast = mbarrier.wait(full, 0)"),
    ],
)
def test_no_operator_goes_where_its_fault_would_be_another(operator: str, lines: str) -> None:
    assert found(kernel(*lines.splitlines()), operator) == []


LAUNCH = """
def launch(x, y, n):
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    width = x.shape[0] < 4
    kernel[grid](x, y, x.stride(0), x.stride(1), n, 1.0, BLOCK=8)


def other(n):
    return triton.cdiv(n, 8)
"""


def test_a_launch_is_changed_in_its_grid_and_strides_only() -> None:
    changed = mutants(kernel("pass") + LAUNCH)
    assert [(mutant.operator, mutant.replacement, mutant.place) for mutant in changed] == [
        ("ceil-to-floor", "grid = lambda meta: (n // meta['BLOCK'],)", "launch"),
        ("swap-strides", "kernel[grid](x, y, x.stride(1), x.stride(0), n, 1.0, BLOCK=8)", "launch"),
    ]


@pytest.mark.parametrize(
    "decorator",
    [
        "triton.jit",
        "triton.jit(noinline=True)",
        "jit",
        "triton.autotune([])\n@triton.jit",
        "gluon.jit",
        'gluon.jit(do_not_specialize=["n"])',
    ],
)
def test_every_spelling_of_the_decorator_makes_a_kernel(decorator: str) -> None:
    source = kernel("y = tl.exp(x)").replace("triton.jit", decorator)
    assert [(mutant.operator, mutant.place) for mutant in mutants(source)] == [("exp-base", "kernel")]


def test_comments_and_strings_stay_as_they_are() -> None:
    words = "tl.store(y_ptr, tl.sum(x, axis=0) * 2, mask=a & b)"
    assert mutants(kernel(f'"""{words}"""', f"# {words}", f'name = "{words}"', f'text = f"{{n < 2}} {words}"')) == []


def test_a_statement_over_several_lines_keeps_its_lines_and_is_shown_on_one() -> None:
    lines = ["x = tl.load(  # first", "    x_ptr + column,", "    mask=inside,  # second", ")", "y = tl.exp(x)"]
    dropped, later = mutants(kernel(*lines))[0], mutants(kernel(*lines))[-1]
    assert (dropped.source, dropped.replacement) == (
        "x = tl.load( x_ptr + column, mask=inside, )",
        "x = tl.load(x_ptr + column)",
    )
    assert len(dropped.text.splitlines()) == len(kernel(*lines).splitlines())
    assert dropped.text.splitlines()[later.line - 1] == "    y = tl.exp(x)"


def test_a_long_statement_is_cut_around_the_change() -> None:
    names = ", ".join(f"argument_{number}" for number in range(20))
    shown = mutants(kernel(f"y = helper({names}, tl.exp(x), {names})"))[0]
    assert (shown.source, shown.replacement) == ("tl.exp(x)", "tl.exp2(x)")
    shown = mutants(kernel(f"y = tl.where(condition, {'+'.join(f'left_{i}' for i in range(20))}, right)"))[0]
    assert len(shown.source) <= 100 >= len(shown.replacement)
    assert shown.source != shown.replacement


# laws

NAMES = st.sampled_from(["x", "row", "n", "scale", "x_row", "x_col", "BLOCK", "x_ptr", "größe"])
NUMBERS = st.sampled_from(["0", "1", "2", "0.0", "0.5", "1e-6", '-float("inf")'])
BINARY = st.sampled_from(["+", "-", "*", "/", "//", "&", "|", "<", "<=", "==", "\n +", "&  # <\n"])
CALLS = st.sampled_from(
    [
        "tl.exp({})",
        "tl.max({}, axis=0)",
        "tl.sum({}, 1)",
        "tl.cdiv({}, BLOCK)",
        "tl.where(x < n, {}, 0.0)",
        "-{}",
        "tl.load({}, mask=row < n,\n other=0.0)",
        "({})[:, None]",
        "({}).to(tl.int64)",
        "tl.zeros((BLOCK,), {})",
        "tl.dot(x, {}, acc, input_precision='ieee')",
        "not({})",
        "((x)if {} else n)",
        "f'{{n < 1}}'",
        "'tl.exp(1 + 2)'",
    ]
)
EXPRESSIONS = st.recursive(
    NAMES | NUMBERS,
    lambda inner: (
        st.tuples(inner, BINARY, inner).map(lambda parts: f"({' '.join(parts)})")
        | st.tuples(CALLS, inner).map(lambda parts: f"({parts[0].format(parts[1])})")
        | st.tuples(inner, inner).map(lambda parts: f"({parts[0]})*({parts[1]})+({parts[0]})")
    ),
    max_leaves=6,
)
STATEMENTS = st.sampled_from(
    [
        "acc = {}",
        "acc += {}",
        "acc = acc * {}",
        "tl.store(x_ptr + row * x_row, {}, mask=row < n)",
        "tl.store({}, x)",
        "return({})&x",
        "x_ptr += {}; y = n  # acc < 1",
        "tl.atomic_add(x_ptr, {})",
        "for step in range({}): acc += x",
        "for step in range(0, n, BLOCK): acc += {}; y = x",
        "if({}): x_ptr += 1",
        "while({})and x: y = x",
        "# {}",
    ]
)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Lines of a function, some over several lines, with comments and whatever line ends."""
    pairs = draw(st.lists(st.tuples(STATEMENTS, EXPRESSIONS), min_size=1, max_size=4))
    lines = [form.format(f"({value})" if "#" not in form else "acc < 1") for form, value in pairs]
    text = "".join(f"    {line}\n" for line in [*lines, "pass"])
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def node_at(tree: ast.Module, mutant: Mutation, source: str) -> list[tuple[ast.AST, int, int]]:
    """Every node that begins where the mutant says, with its start and end in the bytes of the source."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    ahead = source.encode()[starts[mutant.line - 1] :].decode()[: mutant.column - 1]
    start = starts[mutant.line - 1] + len(ahead.encode())
    return [
        (node, start, starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0))
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt) and starts[node.lineno - 1] + node.col_offset == start
    ]


class Replace(ast.NodeTransformer):
    """Put a new node in the place of one."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def is_one_exchange(source: str, mutant: Mutation) -> bool:
    """Whether some node, replaced by what stands in its place, gives the mutant's text and its very tree."""
    old, new, whole = source.encode(), mutant.text.encode(), ast.dump(ast.parse(mutant.text))
    for number, (_, start, end) in enumerate(node_at(ast.parse(source), mutant, source)):
        if new[:start] != old[:start] or new[-len(old[end:]) :] != old[end:] or len(new) < start + len(old) - end:
            continue
        tree = ast.parse(source)
        node, part = node_at(tree, mutant, source)[number][0], new[start : len(new) - len(old) + end].decode()
        try:
            put = ast.parse(f"({part}\n)", mode="eval").body if isinstance(node, ast.expr) else ast.parse(part).body[0]
        except SyntaxError:
            continue
        if ast.dump(Replace(node, put).visit(tree)) == whole:
            return True
    return False


@settings(max_examples=60)
@given(body=bodies())
def test_a_mutant_is_the_file_with_one_node_exchanged(body: str) -> None:
    source = HEAD + SIGNATURE + body
    for mutant in mutants(source):
        assert is_one_exchange(source, mutant), (mutant.operator, mutant.text)
        assert len(mutant.text.encode().splitlines()) == len(source.encode().splitlines())


@settings(max_examples=60)
@given(body=bodies())
def test_mutants_are_programs_of_their_own_in_order_of_position(body: str) -> None:
    source = HEAD + SIGNATURE + body
    changed = mutants(source)
    programs = [ast.dump(ast.parse(text)) for text in [source, *(mutant.text for mutant in changed)]]
    assert len(set(programs)) == len(programs)
    places = [(mutant.line, mutant.column) for mutant in changed]
    assert places == sorted(places)
    assert changed == mutants(source)


@settings(max_examples=60)
@given(body=bodies())
def test_each_change_shows_on_one_line_of_limited_length(body: str) -> None:
    for mutant in mutants(HEAD + SIGNATURE + body):
        assert mutant.source != mutant.replacement
        for shown in (mutant.source, mutant.replacement):
            assert shown
            assert len(shown) <= 100
            assert len(shown.splitlines()) == 1


@settings(max_examples=30)
@given(body=bodies())
def test_a_file_without_kernels_gives_none(body: str) -> None:
    assert mutants((HEAD + SIGNATURE + body).replace("@triton.jit\n", "")) == []


# the kernels here


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "kernels").glob("*.py")))
def test_a_mutant_of_a_kernel_here_is_its_file_with_one_node_exchanged(name: str) -> None:
    source = (ROOT / "kernels" / f"{name}.py").read_text("utf-8")
    for mutant in mutants(source):
        assert is_one_exchange(source, mutant), mutant
        assert mutant.text.count("\n") == source.count("\n")


def test_the_faults_of_a_softmax_are_among_its_mutants() -> None:
    changed = mutants((ROOT / "kernels" / "softmax.py").read_text("utf-8"))
    assert 15 <= len(changed) <= 30
    assert {mutant.operator for mutant in changed} >= {
        "drop-mask",
        "drop-other",
        "change-other",
        "shift-comparison",
        "swap-strides",
        "stride-to-length",
        "drop-maximum",
        "sum-to-max",
        "int64-to-int32",
        "neighbour-row",
        "shrink-block",
    }


def test_the_faults_of_a_matrix_product_are_among_its_mutants() -> None:
    changed = mutants((ROOT / "kernels" / "matmul.py").read_text("utf-8"))
    assert 30 <= len(changed) <= 60
    assert {(mutant.operator, mutant.place) for mutant in changed} >= {
        ("drop-mask", "kernel"),
        ("drop-conjunct", "kernel"),
        ("ceil-to-floor", "kernel"),
        ("ceil-to-floor", "launch"),
        ("swap-strides", "kernel"),
        ("drop-carry", "kernel"),
        ("skip-advance", "kernel"),
        ("skip-last-block", "kernel"),
        ("off-by-one", "kernel"),
        ("change-precision", "kernel"),
        ("int64-to-int32", "kernel"),
        ("neighbour-row", "kernel"),
    }

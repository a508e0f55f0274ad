"""Which kernels lead to a function, by a kernel file's text; and, in doubt, that any may."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import ROOT

from assay.callers import callers
from assay.mutation import mutants

FILE = """
@triton.jit
def square(x):
    return x * x


@triton.jit
def norm(x):
    return tl.sqrt(tl.sum(square(x)))


@triton.jit
def norms_kernel(x_ptr):
    tl.store(x_ptr, norm(tl.load(x_ptr)))


@triton.jit
def copy_kernel(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr))


def launch(inputs, outputs, variant):
    start = norms_kernel[(1,)]
    start(inputs["x"])
    copy_kernel[(1,)](inputs["x"], outputs["y"])
"""


@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        ("square", {"square", "norm", "norms_kernel"}),
        ("norms_kernel", {"norms_kernel"}),
        ("copy_kernel", {"copy_kernel"}),
    ],
)
def test_a_function_is_led_to_by_what_names_it_and_by_what_names_that(function: str, kernels: set[str]) -> None:
    assert callers(FILE, function) == frozenset(kernels)


@pytest.mark.parametrize("function", ["launch", "nothing", ""])
def test_what_is_not_compiled_may_concern_any_launch(function: str) -> None:
    assert callers(FILE, function) is None


@pytest.mark.parametrize(
    "elsewhere", ["ALIAS = square", "TABLE = {'norm': norm}", "def other():\n    start(norms_kernel)"]
)
def test_a_function_that_is_handed_around_may_be_led_to_by_any_kernel(elsewhere: str) -> None:
    assert callers(f"{FILE}\n{elsewhere}\n", "square") is None
    assert callers(f"{FILE}\n{elsewhere}\n", "copy_kernel") == frozenset({"copy_kernel"})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_it_is_the_transitive_closure_whatever_calls_what(calls: list[tuple[int, int]]) -> None:
    bodies = {at: [f"    f{to}()" for caller, to in calls if caller == at] or ["    pass"] for at in range(6)}
    text = "\n".join(f"@triton.jit\ndef f{at}():\n" + "\n".join(body) for at, body in bodies.items())
    reached = {0}
    for _ in range(6):
        reached |= {caller for caller, to in calls if to in reached}
    assert callers(text, "f0") == frozenset(f"f{at}" for at in reached)


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").glob("*.py")), ids=lambda path: path.stem)
def test_every_fault_names_the_function_that_it_is_in(path: Path) -> None:
    source = path.read_text("utf-8")
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    for mutation in mutants(source):
        function = functions[mutation.function]
        assert function.lineno <= mutation.line <= (function.end_lineno or 0)
        leading = callers(source, mutation.function)
        assert (leading is None) == (mutation.place == "launch")
        assert leading is None or mutation.function in leading

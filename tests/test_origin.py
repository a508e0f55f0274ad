"""Where in a kernel file an exception comes from: what runs there, and what Triton's compiler refuses there."""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct

from assay.origin import chained, reason_of

FILE = '''"""A kernel file."""


def launch():
    prepare()


def prepare():
    raise ValueError("not today")


def kernel(x, n):
    total = 0
    for i in range(n):
        total += helper(x)
    return total


def helper(x):
    return x + unknown
'''


def module(folder: Path, text: str = FILE) -> ModuleType:
    path = folder / "kernels" / "odd.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("odd", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def source_of(name: str) -> tuple[str, ast.FunctionDef]:
    """Return a function's source as Triton has it, and its syntax tree."""
    found = next(node for node in ast.parse(FILE).body if isinstance(node, ast.FunctionDef) and node.name == name)
    source = ast.get_source_segment(FILE, found)
    assert source is not None
    (alone,) = ast.parse(source).body
    assert isinstance(alone, ast.FunctionDef)
    return source, alone


def caught(act: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as found:  # noqa: PT011, what it is stands in what is made of it
        act()
    return found.value


def refused(folder: Path, error: Exception, text: str = FILE) -> BaseException:
    """Return an error of the compiler as a launch in the kernel file raises it."""
    made = module(folder, text)

    def prepare() -> None:
        raise error

    vars(made)["prepare"] = prepare
    return caught(made.launch)


def test_what_a_file_raises_is_placed_where_it_was_raised(tmp_path: Path) -> None:
    reason = reason_of(caught(module(tmp_path).launch))
    assert reason.endswith("kernels/odd.py:9: ValueError: not today")


def test_what_the_interpreter_wraps_is_placed_where_its_root_was_raised(tmp_path: Path) -> None:
    wrapped = RuntimeError("ValueError('not today')")
    wrapped.__cause__ = caught(module(tmp_path).launch)
    assert reason_of(wrapped).endswith("kernels/odd.py:9: ValueError: not today")
    assert chained(wrapped) == [wrapped, wrapped.__cause__]


def test_what_comes_from_elsewhere_has_no_place() -> None:
    assert reason_of(KeyError("x")) == "KeyError: 'x'"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (CompilationError, "CompilationError"),
        (CompileTimeAssertionFailure, "CompileTimeAssertionFailure"),
        (UnsupportedLanguageConstruct, "UnsupportedLanguageConstruct"),
    ],
)
def test_what_the_compiler_refuses_is_placed_at_its_line(
    tmp_path: Path, kind: type[CompilationError], name: str
) -> None:
    source, function = source_of("kernel")
    reason = reason_of(refused(tmp_path, kind(source, function.body[1], "total changes its type")))
    assert reason.endswith(f"kernels/odd.py:14: {name}: total changes its type")
    # Of the launch and of the source that the compiler shows nothing is left.
    assert "total = 0" not in reason


def test_of_a_function_that_another_calls_the_inner_line_counts(tmp_path: Path) -> None:
    source, function = source_of("kernel")
    outer = CompilationError(source, function.body[1], None)
    inner_source, inner = source_of("helper")
    outer.__cause__ = CompilationError(inner_source, inner.body[0], "NameError('unknown is not defined')")
    reason = reason_of(refused(tmp_path, outer))
    assert reason.endswith("kernels/odd.py:20: CompilationError: NameError('unknown is not defined')")


def test_what_the_compiler_tripped_over_says_itself_what_it_was(tmp_path: Path) -> None:
    source, function = source_of("kernel")
    outer = CompilationError(source, function.body[2], None)
    outer.__cause__ = ValueError("arange's range must be a power of 2")
    reason = reason_of(refused(tmp_path, outer))
    assert reason.endswith("kernels/odd.py:16: CompilationError: ValueError: arange's range must be a power of 2")


@pytest.mark.parametrize("text", [FILE.replace("total = 0", "total = 1"), FILE + "\n\n" + source_of("kernel")[0]])
def test_a_source_that_does_not_stand_there_once_leaves_the_line_of_the_launch(tmp_path: Path, text: str) -> None:
    source, function = source_of("kernel")
    reason = reason_of(refused(tmp_path, CompilationError(source, function.body[1], "total changes its type"), text))
    assert "kernels/odd.py:5: CompilationError: at 3:4:" in reason

"""What compiles, the interpreter runs too: constants to the left of tensors, and functions that captured something."""

import json
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton.language as tl
from project import PYTHON_PATH
from trials import LIMIT_S, ROOT, bench, planted, written

from assay.child import Fault, interpreting_environment
from assay.diagnosis import diagnose

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
LANES = range(1, 17)
CONSTANT = 5

TEMPLATE = """
@triton.jit
def {name}(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, 1000.0 * ({expression}))
"""
HEAD = """
import json
import torch
import triton
import triton.language as tl

from assay.interpreting import mend_interpreter

mend_interpreter()
mend_interpreter()
C = tl.constexpr(5)
LATER = 0


@triton.jit
def treble(x):
    return 3 * x


def make(times, function, plus):
    TIMES: tl.constexpr = tl.constexpr(times)

    @triton.jit
    def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, more: tl.constexpr = plus):
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at)
        for _ in tl.static_range(TIMES):
            x = function(x)
        tl.store(y_ptr + at, x + more + LATER)

    return kernel


@triton.jit
def count(x_ptr, y_ptr, BLOCK: tl.constexpr):
    for i in range(8, 9):
        tl.store(y_ptr, i * (1 << 28))
        tl.store(y_ptr + 1, i.to(tl.int64) * (1 << 28))
        tl.store(y_ptr + 2, (i - 15) // 2)
    for i in range(tl.full((), 8, tl.int64), 9):
        tl.store(y_ptr + 3, i * (1 << 28))
    at = 4
    for i in tl.range(3, 0, step=-2, num_stages=2):
        for j in range(i, 4):
            if j == i:
                tl.store(y_ptr + at, 10 * i + j)
                at += 1
    for i in tl.static_range(7, 9):
        tl.store(y_ptr + i, i)
    tl.store(y_ptr + 9 + tl.arange(0, 1), tl.zeros((1,), tl.float32))
"""
TAIL = """
KERNELS |= {"count": count, "once": make(1, treble, 0), "twice": make(2, treble, 5)}
LATER = 100
x = torch.arange(1, 17, dtype=torch.int32)


def run(kernel):
    y = torch.full((16,), -7.0)
    kernel[(1,)](x, y, BLOCK=16)
    return y.tolist()


print(json.dumps({name: run(kernel) for name, kernel in KERNELS.items()}))
"""
AMONG_CONSTANTS = "(C * 2 - 1 if C + 1 == 6 and 1 < C else 0) + tl.zeros(((C - 1) * 4,), tl.float32)"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run every kernel, all in one child; return the 16 lanes of each."""
    expressions = {sign: f"C {sign} x" for sign in OPERATORS} | {"constants": AMONG_CONSTANTS}
    rows = {name: (f"kernel_{number}", text) for number, (name, text) in enumerate(expressions.items())}
    kernels = "".join(TEMPLATE.format(name=name, expression=text) for name, text in rows.values())
    table = ", ".join(f"{title!r}: {name}" for title, (name, _) in rows.items())
    script = tmp_path_factory.mktemp("front_end") / "script.py"
    script.write_text(f"{HEAD}{kernels}\nKERNELS = {{{table}}}\n{TAIL}", "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("sign", OPERATORS)
def test_a_constant_to_the_left_of_a_tensor_computes_with_each_element(found: dict[str, Any], sign: str) -> None:
    want = torch.tensor([float(OPERATORS[sign](CONSTANT, x)) for x in LANES])
    assert torch.allclose(torch.tensor(found[sign]), 1000.0 * want)


def test_a_constant_beside_a_constant_stays_one(found: dict[str, Any]) -> None:
    assert found["constants"] == [1000.0 * (2 * CONSTANT - 1)] * 16


def test_a_function_keeps_what_it_captured_and_sees_what_the_module_has_by_then(found: dict[str, Any]) -> None:
    assert found["once"] == [3.0 * x + 100 for x in LANES]
    assert found["twice"] == [9.0 * x + 105 for x in LANES]


FACTORY = ROOT / "tests" / "sound_kernels" / "powers_of_a_factory.py"


def test_what_such_a_function_raises_names_the_line_of_the_kernel_file(tmp_path: Path) -> None:
    path = planted(FACTORY, tmp_path, ("mask=at < n, other=0.0", "mask=at < n + 1, other=0.0"))
    line = 1 + path.read_text("utf-8").splitlines().index("        x = tl.load(x_ptr + at, mask=at < n + 1, other=0.0)")
    with bench(tmp_path / "child.log").child as child:
        request = {"kernel": str(path), "do": "try", "variant": "f32/block64", "case": "ragged-77", "seeds": [1]}
        fault = child.ask(request, LIMIT_S)
    assert isinstance(fault, Fault)
    assert fault.kind == "OutsideRead"
    assert f"kernels/powers_of_a_factory.py:{line}: " in fault.reason


CLASS = """
from triton.language.core import _aggregate


@_aggregate
class Total:
    value: tl.tensor

    @triton.constexpr_function
    def __init__(self, value):
        self.value = value

    @triton.jit
    def add(self, x):
        return Total(self.value + x)


KERNELS: Mapping"""


@pytest.mark.skipif(not hasattr(tl.core, "_aggregate"), reason="this Triton has no class of several values")
def test_a_method_of_a_class_of_several_values_is_for_a_device_alone(tmp_path: Path) -> None:
    text = FACTORY.read_text("utf-8")
    whole = text.replace("KERNELS: Mapping", CLASS).replace("x = function(x)", "x = Total(x).add(x).value")
    path = written(tmp_path, "powers_of_a_factory", whole)
    with bench(tmp_path / "child.log").child as child:
        request = {"kernel": str(path), "do": "try", "variant": "f32/block64", "case": "ragged-77", "seeds": [1]}
        fault = child.ask(request, LIMIT_S)
    assert isinstance(fault, Fault)
    verdict = diagnose(fault, "f32")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-operation")
    assert "cannot run Total.add, a method of a class of several values; a GPU can" in verdict.reason


def test_a_loop_is_counted_in_a_tensor(found: dict[str, Any]) -> None:
    """In 32 bits it wraps, in 64 it does not; a quotient is cut off toward 0; a static range has plain numbers."""
    assert found["count"][:4] == [-(2.0**31), 2.0**31, -3.0, 2.0**31]
    assert found["count"][4:9] == [33.0, 11.0, -7.0, 7.0, 8.0]

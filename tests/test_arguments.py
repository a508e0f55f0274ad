"""What a launch's arguments are under the interpreter: what Triton's own binder makes of them for its compiler."""

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH
from trials import DOUBLE, LIMIT_S, Workshop, bench, changed, verdict_of, workshop, written

from assay.arguments import held
from assay.child import interpreting_environment

ANNOTATIONS = {
    "nothing": "",
    "exempt": "",
    "float64": ": tl.float64",
    "float16": ": tl.float16",
    "bfloat16": ": tl.bfloat16",
    "text": ": 'fp32'",
    "bool": ": bool",
    "float": ": float",
    "int": ": int",
    "int64": ": tl.int64",
    "uint8": ": tl.uint8",
    "constant": ": tl.constexpr",
    "constant as text": ": 'tl.constexpr'",
    "constant by another name": ": triton.language.constexpr",
    "unknown": ": torch.Tensor",
}
"""How a parameter is annotated. The one that is exempt stands in `do_not_specialize`."""

INTEGERS = ("True", "False", "0", "1", "2", "16", "-1", "2**31 - 1", "2**31", "2**40", "2**63")
FLOATS = ("0.1", "1.0", "-2.5", "0.0", "1e300", "float('nan')", "np.float64(0.1)")
OTHERS = ("None", "torch.tensor(0.5)", "torch.tensor(True)", "(1, 2.0, True, (1, 3), torch.tensor(2))", "PAIR(1, 0.5)")
SCRIPT = """
import collections
import json
import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from assay.interpreting import mend_interpreter

mend_interpreter()
PAIR = collections.namedtuple("PAIR", "one two")
BACKEND = make_backend(GPUTarget("cuda", 90, 32))
seen = []


def note(a):
    seen.append(told(a))


def told(a):
    if isinstance(a, tuple):
        return [told(one) for one in a]
    return str(a.type) if isinstance(a, tl.tensor) else ["constant", repr(a)]


def signed(kind, value):
    if isinstance(kind, tuple):
        return [signed(*pair) for pair in zip(kind, value)]
    return ["constant", repr(value)] if kind == "constexpr" else str(tl.str_to_ty(kind, None))


def bound(kernel, exempt, value):
    function = JITFunction(kernel.fn, do_not_specialize=exempt)
    binder = create_function_from_signature(function.signature, function.params, BACKEND)
    kind, _ = binder(value)[1][0]
    return signed(kind, value)


def given(kernel, value):
    seen.clear()
    try:
        kernel[(1,)](value)
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        return f"{type(error).__name__}: {error}"
    return seen[0]
"""


def probes() -> str:
    made = []
    for number, (name, annotation) in enumerate(ANNOTATIONS.items()):
        exempt = "['a']" if name == "exempt" else "None"
        made.append(
            f"@triton.jit(do_not_specialize={exempt})\ndef probe_{number}(a{annotation}):\n    note(a)\n\n\n"
            f"KERNELS[{name!r}] = probe_{number}, {exempt}\n"
        )
    return "KERNELS = {}\n" + "\n".join(made)


EXPRESSIONS = {
    "float16 times float": ("h * a", "fp32"),
    "float times float16": ("a * h", "fp32"),
    "float16 over float": ("h / a", "fp32"),
    "bfloat16 and float": ("b + a", "fp32"),
    "float32 and float": ("f - a", "fp32"),
    "float64 and float": ("d * a", "fp64"),
    "integer and float": ("o * a", "fp32"),
    "negated": ("-a", "fp32"),
    "cast": ("a.to(tl.float16)", "fp16"),
    "compared": ("h < a", "int1"),
    "chosen": ("tl.where(f > 0, h, a)", "fp32"),
    "chosen by a flag": ("tl.where(flag, h, h)", "fp16"),
    "masked by a flag": ("(o < 3) & flag", "int1"),
    "inverted flag": ("~flag", "int1"),
    "flag times": ("flag * h", "fp16"),
    "narrow integer times a 1": ("o.to(tl.int8) * one", "int8"),
    "narrow integer times a number": ("o.to(tl.int8) * two", "int32"),
    "of a tuple": ("h * pair[1]", "fp32"),
    "annotated": ("h * wide", "fp64"),
    "annotated narrow": ("h * half", "fp16"),
    "constant": ("h * C", "fp16"),
}
"""Which type Triton gives each: the same where it compiles. `a`: a float argument; `C`: one that is a constant."""

PARAMETERS = "h_ptr, b_ptr, f_ptr, d_ptr, a, flag, one, two, pair, wide: tl.float64, half: tl.float16, C: tl.constexpr"
LOADS = """
    o = tl.arange(0, 16)
    h, b, f, d = tl.load(h_ptr + o), tl.load(b_ptr + o), tl.load(f_ptr + o), tl.load(d_ptr + o)
"""
LAUNCH = "[(1,)]({tensors}, 0.1, True, 1, 2, (1, 0.5), 0.1, 0.1, 0.1)"
TENSORS = ", ".join(f"torch.ones(16, dtype=torch.{name})" for name in ("float16", "bfloat16", "float32", "float64"))


def expression_probe() -> str:
    notes = "".join(f"    note({text})\n" for text, _ in EXPRESSIONS.values())
    return f"@triton.jit\ndef typed({PARAMETERS}):{LOADS}{notes}\n\ntyped{LAUNCH.format(tensors=TENSORS)}\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Launch every probe with every value in one child; return what came to each, and what Triton's binder says."""
    values = ", ".join(f"{text!r}: {text}" for text in (*INTEGERS, *FLOATS, *OTHERS))
    asked = (
        f"VALUES = {{{values}}}\n"
        "rows = {f'{name}, {text}': [bound(*KERNELS[name], value), given(KERNELS[name][0], value)]\n"
        "        for name in KERNELS for text, value in VALUES.items()}\n"
        f"seen.clear()\n{expression_probe()}"
        "print(json.dumps({'rows': rows, 'typed': seen}))\n"
    )
    script = tmp_path_factory.mktemp("arguments") / "script.py"
    script.write_text(f"{SCRIPT}\n\n{probes()}\n{asked}", "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("value", [*INTEGERS, *FLOATS, *OTHERS])
@pytest.mark.parametrize("name", ANNOTATIONS)
def test_an_argument_is_what_triton_compiles_for(found: dict[str, Any], name: str, value: str) -> None:
    signed, came = found["rows"][f"{name}, {value}"]
    if value in FLOATS and name.startswith(("int", "uint")):
        assert str(came).startswith("TypeError: expected an integer for a parameter that is annotated as ")
    elif value not in OTHERS or name in ("nothing", "exempt", "unknown"):
        assert came == signed


def test_what_follows_from_an_argument_has_the_type_that_triton_gives_it(found: dict[str, Any]) -> None:
    scalars = [said if "<" not in said else said.split(", ")[-1].rstrip(">") for said in found["typed"]]
    assert dict(zip(EXPRESSIONS, scalars, strict=True)) == {name: kind for name, (_, kind) in EXPRESSIONS.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = workshop(tmp_path_factory.mktemp("cache"))
    with made.child:
        yield made


def test_triton_gives_those_types_where_it_compiles(made: Workshop, tmp_path: Path) -> None:
    asserted = "".join(
        f'    tl.static_assert(({text}).dtype == tl.{NAMES[kind]}, "{name}")\n'
        for name, (text, kind) in EXPRESSIONS.items()
    )
    kernel = f"@triton.jit\ndef typed({PARAMETERS}):{LOADS}{asserted}\n\n"
    text = changed(
        DOUBLE,
        ("def launch(", f"{kernel}def launch("),
        ('    x, y = inputs["x"]', f'    typed{LAUNCH.format(tensors=TENSORS)}\n    x, y = inputs["x"]'),
    )
    request = {"kernel": str(written(tmp_path, "double", text)), "do": "translate", "variant": "f32/block64"}
    assert made.child.ask({**request, "target": "sm_90", "case": "ragged"}, LIMIT_S) == {}


NAMES = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "int1": "int1", "int8": "int8", "int32": "int32"}


def test_a_grid_that_cuda_does_not_take_is_not_interpreted(tmp_path: Path) -> None:
    tall = changed(DOUBLE, ("triton.cdiv(x.numel(), 64),)", "triton.cdiv(x.numel(), 64), 65536)"))
    tried = bench(tmp_path / "child.log")
    with tried.child:
        verdict = verdict_of(tried.check(written(tmp_path, "double", tall), "f32/block64", "ragged"), "f32")
    assert (verdict.outcome, verdict.cause) == ("failed", "launch-failed")
    assert re.search(r"kernels/double.py:\d+: GridTooLarge: .* along axis 1, .* found 65536;", verdict.reason)


@given(st.floats(width=64))
def test_a_float_is_put_into_its_type_as_c_does(value: float) -> None:
    assert held(value, "fp64").tobytes() == struct.pack("d", value)
    if abs(value) < 3.4e38:
        single = struct.pack("f", value)
        assert held(value, "fp32").tobytes() == single
        # The launcher cuts off the lower half.
        assert held(value, "bf16").tobytes() == single[2:]
    if abs(value) > 3.5e38:
        assert held(value, "fp32").tolist() == [np.copysign(np.inf, value)]


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from([8, 16, 32, 64]))
def test_an_integer_keeps_the_low_bits_that_fit(value: int, bits: int) -> None:
    signed, unsigned = held(value, f"i{bits}"), held(value, f"u{bits}")
    assert int(unsigned[0]) == value % 2**bits
    assert (int(signed[0]) - value) % 2**bits == 0
    assert signed.dtype == f"int{bits}"
    assert unsigned.dtype == f"uint{bits}"


def test_a_flag_is_one_bit() -> None:
    assert [held(value, "u1").tolist() for value in (True, False, 5, 0.0)] == [[True], [False], [True], [False]]

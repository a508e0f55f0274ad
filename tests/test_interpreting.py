"""What the mended interpreter makes of real kernels, run in a child process that decorates under the interpreter."""

import json
import math
import operator
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH
from trials import DOUBLE, LIMIT_S, bench, changed, verdict_of, written

from assay.artifact import convert
from assay.buffers import BLANK, POISON, UNDEFINED
from assay.child import Child, Fault, interpreting_environment
from assay.diagnosis import diagnose
from assay.record import Check

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))

# In each kernel `o` counts 16 lanes and `m` masks all but 3; `x` and `y` are bfloat16, `h` float16, `f` float32, all
# standard normal. `p` is `f` with the harness's poison in lane 3, and `q` with a NaN that is nobody's.
TEMPLATE = """
@triton.jit
def {name}(x_ptr, y_ptr, h_ptr, f_ptr, p_ptr, q_ptr, i_ptr, b_ptr, z_ptr):
    o = tl.arange(0, 16)
    m = o < 3
    x, y = tl.load(x_ptr + o), tl.load(y_ptr + o)
    h, f = tl.load(h_ptr + o), tl.load(f_ptr + o)
    p, q = tl.load(p_ptr + o), tl.load(q_ptr + o)
    tl.store(z_ptr + o, {expression})
"""
HEAD = """
import json
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice

from assay.interpreting import mend_interpreter

mend_interpreter()
mend_interpreter()


@triton.jit
def product(a, b):
    return a * b
"""
TAIL = """
DTYPES = {{torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}}
DTYPES |= dict.fromkeys((torch.float8_e4m3fn, torch.float8_e5m2), torch.uint8)


def run(kernel, dtype):
    generator = torch.Generator().manual_seed(1)
    f, y = torch.randn(16, generator=generator), torch.randn(16, generator=generator)
    p, q = f.clone(), f.clone()
    p.view(torch.int32)[3] = {poison}
    q[3] = float("nan")
    i, b = torch.arange(16), torch.ones(16, dtype=torch.bool)
    z = torch.full((16,), -7, dtype=dtype)
    try:
        kernel[(1,)](f.bfloat16(), y.bfloat16(), f.half(), f, p, q, i, b, z)
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        return f"{{type(error).__name__}}: {{error}}"
    return z.view(DTYPES.get(dtype, dtype)).tolist()


print(json.dumps({{name: run(kernel, dtype) for name, (kernel, dtype) in KERNELS.items()}}))
"""

SPREAD = "tl.zeros((16,), tl.float32) + "
REFUSED = {
    "fma": "tl.fma(x, y, x)",
    "sum": SPREAD + "tl.sum(x, axis=0)",
    "product": SPREAD + "tl.reduce(x, 0, product)",
    "atomic": "tl.atomic_add(z_ptr + o, x)",
}
"""On bfloat16: Triton 3.6 to 3.9 get all of these wrong, without a word or with one that says something else."""

SHORTENED = {"sum": "a reduction", "fma": "fma", "atomic": "an atomic operation"}

Values = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
RIGHT: dict[str, tuple[str, Values]] = {
    "move": ("x", lambda x, y, f: x),
    "select": ("tl.where(m, x, y)", lambda x, y, f: torch.where(torch.arange(16) < 3, x, y)),
    "magnitude": ("tl.abs(x)", lambda x, y, f: x.abs()),
    "reshape": ("tl.reshape(tl.trans(tl.reshape(x, (4, 4))), (16,))", lambda x, y, f: x.view(4, 4).T.reshape(16)),
    "add": ("x + y", lambda x, y, f: x + y),
    "subtract": ("x - y", lambda x, y, f: x - y),
    "multiply": ("x * y", lambda x, y, f: x * y),
    "add a constant": ("x + 1.5", lambda x, y, f: x + 1.5),
    "multiply by a whole number": ("3 * x", lambda x, y, f: 3 * x),
    "negate": ("-x", lambda x, y, f: -x),
    "compare": ("tl.where(x < y, x, y)", lambda x, y, f: torch.where(x < y, x, y)),
    "elementwise maximum": ("tl.maximum(x, y).to(tl.bfloat16)", lambda x, y, f: torch.maximum(x, y)),
    "clamp": ("tl.clamp(x, -0.5, 0.5).to(tl.bfloat16)", lambda x, y, f: x.clamp(-0.5, 0.5)),
    "sort": ("tl.sort(x)", lambda x, y, f: x.sort().values),
    "from integers": ("o.to(tl.bfloat16)", lambda x, y, f: torch.arange(16).bfloat16()),
    "from float64": ("f.to(tl.float64).to(tl.bfloat16)", lambda x, y, f: f.bfloat16()),
    "from float16": ("f.to(tl.float16).to(tl.bfloat16)", lambda x, y, f: f.half().bfloat16()),
    "divide": ("(x / y).to(tl.bfloat16)", lambda x, y, f: (x.float() / y.float()).bfloat16()),
    "widen and add": ("(x.to(tl.float32) + y.to(tl.float32)).to(tl.bfloat16)", lambda x, y, f: x + y),
    "widen and sum": (
        "(tl.sum(x.to(tl.float32), axis=0) + 0.0 * f).to(tl.bfloat16)",
        lambda x, y, f: x.float().sum().bfloat16().expand(16),
    ),
    "sum in float32": (
        "(tl.sum(x, axis=0, dtype=tl.float32) + 0.0 * f).to(tl.bfloat16)",
        lambda x, y, f: x.float().sum().bfloat16().expand(16),
    ),
    "dot": (
        "tl.reshape(tl.dot(tl.reshape(x, (4, 4)), tl.reshape(y, (4, 4))), (16,)).to(tl.bfloat16)",
        lambda x, y, f: (x.double().view(4, 4) @ y.double().view(4, 4)).float().bfloat16().view(16),
    ),
    "maximum": ("(tl.max(x, axis=0) + 0.0 * f).to(tl.bfloat16)", lambda x, y, f: x.max().expand(16)),
    "round": ("f.to(tl.bfloat16)", lambda x, y, f: f.bfloat16()),
    "constant": ("tl.full((16,), 1.5, tl.bfloat16)", lambda x, y, f: torch.full((16,), 1.5, dtype=torch.bfloat16)),
    "condition": ("(f < 0.5).to(tl.bfloat16)", lambda x, y, f: (f < 0.5).bfloat16()),
    "other": ("tl.load(x_ptr + o, mask=m, other=2.5)", lambda x, y, f: torch.where(torch.arange(16) < 3, x, 2.5)),
}
"""On bfloat16: right in every version, and not refused. All results are bfloat16."""

FLOATS, HALVES, LONGS, SHORTS = torch.float32, torch.float16, torch.int64, torch.int8
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
NARROWED = "f.to(tl.float8e4nv)"
TINY = "(b_ptr + o).to(tl.pointer_type(tl.float8e5))"
"""Bytes of 1: the smallest number of e5m2, 2^-16."""
ALL_TINY = "tl.full((4, 32), 1, tl.uint8), tl.full((4, 1), 127, tl.uint8), 'e5m2'"
ALL_ONE = "tl.full((32, 4), 0x3C, tl.uint8), tl.full((4, 1), 127, tl.uint8), 'e5m2'"
SCALED_DOT = f"tl.reshape(tl.dot_scaled({ALL_TINY}, {ALL_ONE}), (16,))"
"""Sums of 32 of that number."""

REFUSED_FP8: dict[str, tuple[str, str]] = {
    "add": (f"{NARROWED} + {NARROWED}", "Unsupported dtype fp8e4nv in arithmetic"),
    "compare": (
        f"tl.where({NARROWED} < {NARROWED}, h, h).to(tl.float8e4nv)",
        "Unsupported dtype fp8e4nv in arithmetic",
    ),
    "fma": (f"tl.fma({NARROWED}, {NARROWED}, {NARROWED})", "Unsupported dtype fp8e4nv in fma"),
    "clamp": (f"tl.clamp({NARROWED}, {NARROWED}, {NARROWED})", "Unsupported dtype fp8e4nv in a"),
    "sum": (f"tl.sum({NARROWED}, axis=0) + tl.zeros((16,), tl.float32)", "Unsupported dtype fp8e4nv in a reduction"),
    "from float64": ("f.to(tl.float64).to(tl.float8e4nv)", "Unsupported conversion from fp64 to fp8e4nv: "),
    "between the two": (f"{NARROWED}.to(tl.float8e5)", "Unsupported conversion from fp8e4nv to fp8e5: "),
    "toward zero": (
        "f.to(tl.float8e4nv, fp_downcast_rounding='rtz')",
        "Unsupported conversion from fp32 to fp8e4nv toward zero: ",
    ),
    "of an AMD GPU": ("f.to(tl.float8e4b8).to(tl.float32)", "Unsupported dtype fp8e4b8: "),
    "by inline assembly": ("f.to(tl.float8e4b15).to(tl.float32)", "Unsupported conversion from fp32 to fp8e4b15: "),
}
"""All but the last, Triton compiles for no NVIDIA GPU."""

RIGHT_FP8: dict[str, tuple[str, torch.dtype, Values]] = {
    "round": (NARROWED, E4M3, lambda x, y, f: f.to(E4M3)),
    "round bfloat16": ("x.to(tl.float8e5)", E5M2, lambda x, y, f: x.to(E5M2)),
    "round float16": ("h.to(tl.float8e4nv)", E4M3, lambda x, y, f: f.half().to(E4M3)),
    "store": ("f", E4M3, lambda x, y, f: f.to(E4M3)),
    "saturate": ("(f * 1e6).to(tl.float8e4nv)", E4M3, lambda x, y, f: f.sign().mul(448).to(E4M3)),
    "saturate e5m2": ("(f / 0.0).to(tl.float8e5)", E5M2, lambda x, y, f: f.sign().mul(57344).to(E5M2)),
    "select": (
        f"tl.where(m, {NARROWED}, y.to(tl.float8e4nv))",
        E4M3,
        lambda x, y, f: torch.cat([f[:3], y[3:]]).to(E4M3),
    ),
    "magnitude": (f"tl.abs({NARROWED})", E4M3, lambda x, y, f: f.abs().to(E4M3)),
    "widen and add": (f"{NARROWED}.to(tl.float32) + f", FLOATS, lambda x, y, f: f.to(E4M3).float() + f),
    "widen to bfloat16": (f"{NARROWED}.to(tl.bfloat16)", torch.bfloat16, lambda x, y, f: f.to(E4M3).bfloat16()),
    "add to float32": (f"{NARROWED} + f", FLOATS, lambda x, y, f: f.to(E4M3).float() + f),
    "maximum": (SPREAD + f"tl.max({NARROWED}, axis=0)", FLOATS, lambda x, y, f: f.to(E4M3).float().max().expand(16)),
    "subnormal": (
        "tl.load((b_ptr + o).to(tl.pointer_type(tl.float8e5)))",
        FLOATS,
        lambda x, y, f: torch.full((16,), 2.0**-16),
    ),
    "other": (
        "tl.load((b_ptr + o).to(tl.pointer_type(tl.float8e5)), mask=o < 0, other=1.1)",
        E5M2,
        lambda x, y, f: torch.full((16,), 1.1).to(E5M2),
    ),
    "dot": (
        "tl.reshape(tl.dot(tl.reshape(f.to(tl.float8e5), (4, 4)), tl.reshape(h.to(tl.float8e4nv), (4, 4))), (16,))",
        FLOATS,
        lambda x, y, f: (f.to(E5M2).double().view(4, 4) @ f.half().to(E4M3).double().view(4, 4)).float().view(16),
    ),
    "toward zero": (
        "f.to(tl.float8e5, fp_downcast_rounding='rtz')",
        E5M2,
        lambda x, y, f: (f.view(torch.int32) & ~0x1FFFFF).view(FLOATS).to(E5M2),
    ),
    "bfloat16 toward zero": (
        "f.to(tl.bfloat16, fp_downcast_rounding='rtz')",
        torch.bfloat16,
        lambda x, y, f: (f.view(torch.int32) >> 16).short().view(torch.bfloat16),
    ),
}
"""Right in every version."""

if VERSION > (3, 6):
    RIGHT_FP8["constant"] = (
        "tl.full((16,), 1.5, tl.float8e4nv)",
        E4M3,
        lambda x, y, f: torch.full((16,), 1.5).to(E4M3),
    )
if VERSION > (3, 7):
    RIGHT_FP8["scaled dot"] = (SCALED_DOT, FLOATS, lambda x, y, f: torch.full((16,), 2.0**-11))

UNMASKED = {
    "float32": ("tl.load(f_ptr + o, mask=m)", FLOATS),
    "float16": ("tl.load(h_ptr + o, mask=m)", HALVES),
    "bfloat16": ("tl.load(x_ptr + o, mask=m)", torch.bfloat16),
    "int64": ("tl.load(i_ptr + o, mask=m)", LONGS),
    "bool": ("tl.load((b_ptr + o).to(tl.pointer_type(tl.int8)), mask=m)", SHORTS),
}
"""Loads without `other=`: the lanes from 3 on are undefined."""

KEPT: dict[str, tuple[str, torch.dtype, dict[int, int]]] = {
    "sum": (SPREAD + "tl.sum(tl.load(f_ptr + o, mask=m), axis=0)", FLOATS, UNDEFINED),
    "maximum": (SPREAD + "tl.max(tl.load(f_ptr + o, mask=m), axis=0)", FLOATS, UNDEFINED),
    "minimum": (SPREAD + "tl.min(tl.load(f_ptr + o, mask=m), axis=0)", FLOATS, UNDEFINED),
    "maximum of halves": (SPREAD + "tl.max(tl.load(h_ptr + o, mask=m), axis=0)", FLOATS, UNDEFINED),
    "maximum of bfloat16": (SPREAD + "tl.max(tl.load(x_ptr + o, mask=m), axis=0)", FLOATS, UNDEFINED),
    "sum of two bfloat16": ("x + tl.load(y_ptr + o, mask=o < 0)", torch.bfloat16, UNDEFINED),
    "product by a whole number": ("3 * tl.load(x_ptr + o, mask=o < 0)", torch.bfloat16, UNDEFINED),
    "cut to an integer": ("tl.load(f_ptr + o, mask=o < 0).to(tl.int32)", torch.int32, UNDEFINED),
    "bfloat16 cut to an integer": ("tl.load(x_ptr + o, mask=o < 0).to(tl.int64)", torch.int64, UNDEFINED),
    "dot of halves": (
        "tl.reshape(tl.dot(tl.reshape(tl.load(h_ptr + o, mask=o < 0), (4, 4)), tl.reshape(h, (4, 4))), (16,))",
        FLOATS,
        UNDEFINED,
    ),
    "dot of bfloat16": (
        "tl.reshape(tl.dot(tl.reshape(tl.load(x_ptr + o, mask=o < 0), (4, 4)), tl.reshape(x, (4, 4))), (16,))",
        FLOATS,
        UNDEFINED,
    ),
    "sum past the end": (SPREAD + "tl.sum(p, axis=0)", FLOATS, POISON),
    "maximum past the end": (SPREAD + "tl.max(p, axis=0)", FLOATS, POISON),
    "exponential": (SPREAD + "tl.sum(tl.exp(p), axis=0)", FLOATS, POISON),
    "sine": (SPREAD + "tl.sum(tl.sin(p), axis=0)", FLOATS, POISON),
}
"""All 16 lanes must bear the mark of the harness."""

OTHERS: dict[str, tuple[str, torch.dtype]] = {
    "single lane": (SPREAD + "tl.load(f_ptr, mask=tl.program_id(0) > 0, other=0.0)", FLOATS),
    "narrowed": ("p.to(tl.float16)", HALVES),
    "narrowed to bfloat16": ("p.to(tl.bfloat16)", torch.bfloat16),
    "narrowed toward zero": ("p.to(tl.float16, fp_downcast_rounding='rtz')", HALVES),
    "elementwise maximum": ("tl.maximum(p, 0.0)", FLOATS),
    "a NaN of its own": (SPREAD + "tl.max(q, axis=0)", FLOATS),
    "index of maximum": ("tl.zeros((16,), tl.int32) + tl.argmax(tl.load(f_ptr + o, mask=m), axis=0)", torch.int32),
}
OTHERS["condition of one float"] = ("((o < 3) & (tl.sum(f, axis=0) == tl.sum(f, axis=0))).to(tl.int32)", torch.int32)
OTHERS["condition of one integer"] = ("((o < 3) & ~(tl.sum(o, axis=0) > 7)).to(tl.int32)", torch.int32)
OTHERS["maximum with a NaN"] = ("tl.maximum(q, 0.0)", FLOATS)
OTHERS["minimum with a NaN"] = ("tl.minimum(0.0, q)", FLOATS)
OTHERS["maximum that spreads a NaN"] = ("tl.maximum(q, 0.0, propagate_nan=tl.PropagateNan.ALL)", FLOATS)
DEVICE_ONLY = {
    "libdevice function": ("libdevice.tanh(f)", "triton.language.extra.libdevice.tanh"),
    "libdevice function of CUDA": ("cuda_libdevice.tanh(f)", "triton.language.extra.cuda.libdevice.tanh"),
    "special register": ("f + tl.extra.cuda.smid()", "triton.language.extra.cuda.utils.smid"),
    "inline assembly": (
        'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [f], dtype=tl.float32, is_pure=True, pack=1)',
        "inline assembly",
    ),
}
if VERSION < (3, 8):
    DEVICE_ONLY["scaled dot"] = (SCALED_DOT, "tl.dot_scaled")
BLOCK_POINTER = "tl.load(tl.make_block_ptr(f_ptr, (3,), (1,), (0,), (16,), (0,)), boundary_check=(0,){padding})"
BLOCK_POINTERS = VERSION < (3, 9)
if BLOCK_POINTERS:
    OTHERS["block pointer"] = (BLOCK_POINTER.format(padding=""), FLOATS)
    OTHERS["block pointer padded with NaN"] = (BLOCK_POINTER.format(padding=", padding_option='nan'"), FLOATS)


def expressions() -> dict[str, tuple[str, torch.dtype]]:
    made = {f"refused {name}": (text, FLOATS if SPREAD in text else torch.bfloat16) for name, text in REFUSED.items()}
    made |= {f"right {name}": (text, torch.bfloat16) for name, (text, _) in RIGHT.items()}
    made |= {f"refused fp8 {name}": (text, FLOATS) for name, (text, _) in REFUSED_FP8.items()}
    made |= {f"right fp8 {name}": (text, dtype) for name, (text, dtype, _) in RIGHT_FP8.items()}
    made |= {f"unmasked {name}": row for name, row in UNMASKED.items()}
    made |= {f"kept {name}": (text, dtype) for name, (text, dtype, _) in KEPT.items()}
    made |= {name: (text, FLOATS) for name, (text, _) in DEVICE_ONLY.items()}
    return made | OTHERS


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run every expression, all in one child; return the bits of 16 lanes, or the exception's text, of each."""
    rows = {f"kernel_{number}": (name, *row) for number, (name, row) in enumerate(expressions().items())}
    kernels = "".join(TEMPLATE.format(name=name, expression=text) for name, (_, text, _) in rows.items())
    table = ", ".join(f"{title!r}: ({name}, {dtype})" for name, (title, _, dtype) in rows.items())
    script = tmp_path_factory.mktemp("interpreted") / "script.py"
    script.write_text(f"{HEAD}{kernels}\nKERNELS = {{{table}}}\n{TAIL.format(poison=POISON[4])}", "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the `x`, `y` and `f` of the kernels."""
    generator = torch.Generator().manual_seed(1)
    f, y = torch.randn(16, generator=generator), torch.randn(16, generator=generator)
    return f.bfloat16(), y.bfloat16(), f


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_interpreter_computes_on_bit_patterns_is_refused(found: dict[str, Any], name: str) -> None:
    said = found[f"refused {name}"]
    assert isinstance(said, str), f"{name} gave {said}"
    assert said.startswith("UnsupportedDtype: Unsupported dtype bfloat16 in ")
    assert SHORTENED.get(name, "") in said
    verdict = diagnose(Fault("exception", said, "UnsupportedDtype"), "bf16")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-dtype")


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_on_bfloat16_passes(found: dict[str, Any], name: str) -> None:
    x, y, f = drawn()
    want = RIGHT[name][1](x, y, f).to(torch.bfloat16).contiguous()
    assert found[f"right {name}"] == want.view(torch.int16).tolist()


@pytest.mark.parametrize("name", REFUSED_FP8)
def test_what_no_gpu_makes_of_fp8_is_refused(found: dict[str, Any], name: str) -> None:
    said = found[f"refused fp8 {name}"]
    assert isinstance(said, str), f"{name} gave {said}"
    assert said.startswith(f"UnsupportedDtype: {REFUSED_FP8[name][1]}")
    assert ("a GPU can run this kernel" in said) == (name == "by inline assembly")
    verdict = diagnose(Fault("exception", said, "UnsupportedDtype"), "f32")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-dtype")


@pytest.mark.parametrize("name", RIGHT_FP8)
def test_what_a_gpu_makes_of_fp8_passes(found: dict[str, Any], name: str) -> None:
    _, dtype, values = RIGHT_FP8[name]
    want = values(*drawn()).contiguous()
    assert want.dtype == dtype
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    assert found[f"right fp8 {name}"] == want.view(bits).tolist()


@pytest.mark.parametrize("name", UNMASKED)
def test_masked_lanes_of_a_load_without_other_are_undefined(found: dict[str, Any], name: str) -> None:
    size = UNMASKED[name][1].itemsize
    lanes = found[f"unmasked {name}"]
    assert lanes[3:] == [UNDEFINED[size]] * 13
    assert UNDEFINED[size] not in lanes[:3]


@pytest.mark.parametrize("name", KEPT)
def test_the_mark_of_what_may_not_be_read_is_not_lost(found: dict[str, Any], name: str) -> None:
    _, dtype, mark = KEPT[name]
    assert found[f"kept {name}"] == [mark[dtype.itemsize]] * 16


def test_a_single_lane_that_says_0_is_0(found: dict[str, Any]) -> None:
    assert found["single lane"] == [0] * 16


@pytest.mark.parametrize("name", ["narrowed", "narrowed to bfloat16", "narrowed toward zero"])
def test_a_mark_is_narrowed_to_the_mark_of_two_bytes(found: dict[str, Any], name: str) -> None:
    lanes = found[name]
    assert lanes[3] == POISON[2]
    assert not {POISON[2], UNDEFINED[2], BLANK[2]} & {lane for at, lane in enumerate(lanes) if at != 3}


def test_a_condition_of_one_element_is_one_for_a_block_too(found: dict[str, Any]) -> None:
    assert found["condition of one float"] == [1] * 3 + [0] * 13
    # The sum is 120, so that no lane is left.
    assert found["condition of one integer"] == [0] * 16


def test_an_elementwise_maximum_keeps_a_mark_where_it_stands(found: dict[str, Any]) -> None:
    _, _, f = drawn()
    want = f.clamp(min=0.0).view(torch.int32).tolist()
    want[3] = POISON[4]
    assert found["elementwise maximum"] == want


def test_a_maximum_passes_over_a_nan_of_the_kernels_own_as_before(found: dict[str, Any]) -> None:
    _, _, f = drawn()
    f[3] = -math.inf
    assert found["a NaN of its own"] == f.max().expand(16).contiguous().view(torch.int32).tolist()


def test_an_elementwise_maximum_drops_a_nan_as_a_device_does(found: dict[str, Any]) -> None:
    _, _, f = drawn()
    f[3] = 0.0
    assert found["maximum with a NaN"] == f.clamp(min=0.0).view(torch.int32).tolist()
    assert found["minimum with a NaN"] == f.clamp(max=0.0).view(torch.int32).tolist()


def test_an_elementwise_maximum_spreads_a_nan_if_told_to(found: dict[str, Any]) -> None:
    lanes = torch.tensor(found["maximum that spreads a NaN"], dtype=torch.int32).view(torch.float32)
    assert lanes.isnan().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("name", DEVICE_ONLY)
def test_what_only_a_device_can_run_is_refused_by_name(found: dict[str, Any], name: str) -> None:
    said = found[name]
    assert said == (
        f"DeviceOnlyOperation: Triton's interpreter cannot run {DEVICE_ONLY[name][1]}; a GPU can run this kernel"
    )
    verdict = diagnose(Fault("exception", said, "DeviceOnlyOperation"), "f32")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-operation")


TUNED = """
@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def double_kernel"""


def test_an_autotuned_kernel_takes_its_first_configuration(tmp_path: Path) -> None:
    path = written(tmp_path, "double", tuned(("2.0 * x", "BLOCK / 16.0 * x")))
    assert tried_alone(path) == ("passed", None)


def test_an_autotuned_kernel_that_adds_to_its_output_is_caught(tmp_path: Path) -> None:
    text = tuned(
        ("tl.store(y_ptr + i * y_step, 2.0 * x, mask=i < n)", "tl.atomic_add(y_ptr + i * y_step, 2.0 * x, mask=i < n)"),
        ("    double_kernel[", "    y.zero_()\n    double_kernel["),
    )
    assert tried_alone(written(tmp_path, "double", text)) == ("failed", "stale-result")


def tuned(*changes: tuple[str, str]) -> str:
    """Return the small kernel file with an autotuner."""
    return changed(
        DOUBLE,
        ("\n@triton.jit\ndef double_kernel", TUNED),
        ("triton.cdiv(x.numel(), 64),", "4,"),
        (", BLOCK=64)", ")"),
        *changes,
    )


def tried_alone(path: Path) -> tuple[str, str | None]:
    with bench(path.with_suffix(".log")).child as child:
        request = {"kernel": str(path), "do": "try", "variant": "f32/block64", "case": "ragged", "seeds": [1]}
        answer = child.ask(request, 120.0)
    verdict = diagnose(answer, "f32") if isinstance(answer, Fault) else convert(answer["check"], Check, "").verdict
    return verdict.outcome, verdict.cause


def test_the_place_of_an_undefined_maximum_is_undefined(found: dict[str, Any]) -> None:
    assert found["index of maximum"] == [UNDEFINED[4]] * 16


@pytest.mark.skipif(not BLOCK_POINTERS, reason="Triton 3.9 has no block pointers")
def test_a_block_pointer_keeps_its_padding_option(found: dict[str, Any]) -> None:
    _, _, f = drawn()
    inside = f[:3].view(torch.int32).tolist()
    assert found["block pointer"] == inside + [0] * 13
    padded = torch.tensor(found["block pointer padded with NaN"], dtype=torch.int32)
    assert padded[:3].tolist() == inside
    assert bool(padded.view(torch.float32)[3:].isnan().all())
    assert UNDEFINED[4] not in padded.tolist()


BFLOAT16 = ('Variant("f32", "block64")', 'Variant("f32", "block64", dtype=torch.bfloat16)')


def test_a_kernel_file_that_adds_bfloat16_is_tried(tmp_path: Path) -> None:
    assert tried_alone(written(tmp_path, "double", changed(DOUBLE, BFLOAT16, ("2.0 * x", "x + x")))) == ("passed", None)


def test_a_kernel_file_that_sums_bfloat16_is_not_applicable_to_the_interpreter(tmp_path: Path) -> None:
    path = written(tmp_path, "double", changed(DOUBLE, BFLOAT16, ("2.0 * x", "tl.sum(x, axis=0)")))
    tried = bench(tmp_path / "child.log")
    with tried.child:
        verdict = verdict_of(tried.check(path, "f32/block64", "ragged"), "f32")
    assert (verdict.outcome, verdict.cause) == ("inapplicable", "unsupported-dtype")
    assert "kernels/double.py:" in verdict.reason
    assert "bit patterns" in verdict.reason


# Laws of bfloat16 and of conversions, held by a child that computes what it is asked

OPERATIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("x + y", operator.add),
    "subtract": ("x - y", operator.sub),
    "multiply": ("x * y", operator.mul),
}
COMPARISONS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "lt": ("x < y", operator.lt),
    "le": ("x <= y", operator.le),
    "gt": ("x > y", operator.gt),
    "ge": ("x >= y", operator.ge),
    "eq": ("x == y", operator.eq),
    "ne": ("x != y", operator.ne),
}
EXTREMA: dict[str, tuple[str, Callable[..., float]]] = {
    "maximum": ("tl.maximum(x, y)", max),
    "minimum": ("tl.minimum(x, y)", min),
}
CONVERSION = "x.to(z_ptr.dtype.element_ty)"
LAW_KERNELS = {name: text for name, (text, _) in (OPERATIONS | COMPARISONS | EXTREMA).items()} | {
    "negate": "-x",
    "convert": CONVERSION,
}
LAW_KERNEL = """
@triton.jit
def {name}(x_ptr, y_ptr, z_ptr):
    o = tl.arange(0, 16)
    x, y = tl.load(x_ptr + o), tl.load(y_ptr + o)
    tl.store(z_ptr + o, {text})
"""
LAW_TAIL = """
import numpy as np
from assay.child import serve


def tensor(bits, name):
    dtype = getattr(torch, name)
    padded = np.array([*map(int, bits)] + [0] * (16 - len(bits)), f"u{dtype.itemsize}")
    return torch.from_numpy(padded.view(f"i{dtype.itemsize}")).view(dtype)


def answer(request):
    x, y = (tensor(request[name], request["dtype"]) for name in "xy")
    z = tensor([], request["made"])
    globals()[request["do"]][(1,)](x, y, z)
    bits = z.view(getattr(torch, f"int{8 * z.itemsize}")).numpy().view(f"u{z.itemsize}")
    return {"bits": [str(one) for one in bits[: len(request["x"])]]}


serve(answer)
"""
LANES = 16
SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Bytes of the floats that Triton converts to integers."""


@pytest.fixture(scope="module")
def computer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("laws")
    kernels = "".join(LAW_KERNEL.format(name=name, text=text) for name, text in LAW_KERNELS.items())
    (folder / "script.py").write_text(f"{HEAD}{kernels}{LAW_TAIL}", "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    with Child([sys.executable, str(folder / "script.py")], environment, folder / "child.log") as child:
        yield child


def computed(child: Child, do: str, x: list[int], y: list[int], dtype: str, made: str) -> list[int]:
    """Return the bits of what a kernel makes of two lists of bits."""
    # As text: JSON has no room for 64 bits.
    operands = {"x": list(map(str, x)), "y": list(map(str, y))}
    answer = child.ask({"do": do, **operands, "dtype": dtype, "made": made}, LIMIT_S)
    assert not isinstance(answer, Fault), answer
    return [int(bits) for bits in answer["bits"]]


def value_of(code: int) -> float:
    """Return the value of a bfloat16's bits."""
    return float(struct.unpack("f", struct.pack("I", code << 16))[0])


def nearest(exact: Fraction) -> float:
    """Return the bfloat16 nearest to a number, ties to even; infinity past the largest by half a unit or more."""
    if exact == 0:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -126) - 7)
    rounded = round(exact / step) * step
    return math.copysign(math.inf, exact) if abs(rounded) >= 2**128 else float(rounded)


def same(got: float, want: float) -> bool:
    """Say whether two values are one, the sign of 0 too; any NaN is another's like."""
    if math.isnan(want):
        return math.isnan(got)
    return got == want and math.copysign(1.0, got) == math.copysign(1.0, want)


NUMBERS = [0x0080, 0x1FC0, 0x3F80, 0x5F80, 0x7F00]
"""The smallest normal bfloat16, one whose square is subnormal, 1, one whose square overflows, one that twice does."""


def codes(about: int) -> st.SearchStrategy[int]:
    """Draw the bits of a bfloat16 within 12 powers of 2 of a number, or of any, or of a NaN that is nobody's mark."""
    magnitudes = st.integers(max(about - 0x600, 0), min(about + 0x600, 0x7F80))
    signed = st.builds(operator.or_, magnitudes | st.integers(0, 0x7F80), st.sampled_from([0, 0x8000]))
    return signed | st.sampled_from([0x7F80, 0xFF80, 0x7FC0, 0, 0x8000])


pairs = st.sampled_from(NUMBERS).flatmap(
    lambda about: st.lists(st.tuples(codes(about), codes(about)), min_size=1, max_size=LANES)
)


@pytest.mark.parametrize("name", OPERATIONS)
@given(pairs=pairs)
def test_bfloat16_is_computed_exactly_and_rounded_once(
    computer: Child, name: str, pairs: list[tuple[int, int]]
) -> None:
    apply = OPERATIONS[name][1]
    x, y = ([pair[at] for pair in pairs] for at in (0, 1))
    for a, b, code in zip(map(value_of, x), map(value_of, y), bfloat16(computer, name, x, y), strict=True):
        # A double has room for their product and passes over no sum that is 0: the sign and what is no number are its.
        wide = apply(a, b)
        ordinary = math.isfinite(wide) and wide != 0
        want = math.copysign(nearest(apply(Fraction(a), Fraction(b))), wide) if ordinary else wide
        assert same(value_of(code), want), (a, b)


def bfloat16(child: Child, do: str, x: list[int], y: list[int]) -> list[int]:
    return computed(child, do, x, y, "bfloat16", "bfloat16")


@pytest.mark.parametrize("name", COMPARISONS)
@given(pairs=pairs)
def test_bfloat16_is_compared_by_value(computer: Child, name: str, pairs: list[tuple[int, int]]) -> None:
    x, y = ([pair[at] for pair in pairs] for at in (0, 1))
    want = [int(COMPARISONS[name][1](value_of(a), value_of(b))) for a, b in pairs]
    assert computed(computer, name, x, y, "bfloat16", "int8") == want


@pytest.mark.parametrize("name", EXTREMA)
@given(pairs=pairs)
def test_an_extremum_of_bfloat16_passes_over_nan(computer: Child, name: str, pairs: list[tuple[int, int]]) -> None:
    x, y = ([pair[at] for pair in pairs] for at in (0, 1))
    for a, b, code in zip(map(value_of, x), map(value_of, y), bfloat16(computer, name, x, y), strict=True):
        numbers = [value for value in (a, b) if not math.isnan(value)]
        want = EXTREMA[name][1](numbers, default=math.nan)
        # Which of two zeros it is, IEEE 754 leaves open.
        assert same(value_of(code) + 0.0, want + 0.0), (a, b)


@given(pairs=pairs)
def test_bfloat16_is_negated_exactly(computer: Child, pairs: list[tuple[int, int]]) -> None:
    x = [pair[0] for pair in pairs]
    for a, code in zip(map(value_of, x), bfloat16(computer, "negate", x, x), strict=True):
        # Before Triton 3.8 it is 0 - x, which makes no -0 of 0.
        assert same(value_of(code) + 0.0, -a + 0.0)


integers = st.sampled_from([(bits, signed) for bits in (8, 16, 32, 64) for signed in (False, True)])


@given(integers, st.data())
def test_an_integer_is_rounded_to_bfloat16_once(computer: Child, kind: tuple[int, bool], data: st.DataObject) -> None:
    bits, signed = kind
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    # About a tie of two bfloat16, with what float32 or float64 would lose.
    tie = st.builds(
        lambda odd, shift, by: (odd << shift) + by, st.integers(257, 511), st.integers(0, 54), st.integers(-1, 1)
    )
    drawn = st.integers(least, most) | tie.filter(lambda value: value <= most)
    values = data.draw(st.lists(drawn, min_size=1, max_size=LANES))
    held = [value % 2**bits for value in values]
    made = computed(computer, "convert", held, held, f"{'' if signed else 'u'}int{bits}", "bfloat16")
    assert [value_of(code) for code in made] == [nearest(Fraction(value)) for value in values]


ties = st.builds(
    lambda odd, by, exponent: math.ldexp((odd << 44) + by, exponent),
    st.integers(257, 511),
    st.integers(-1, 1),
    st.integers(-190, 85),
)


@given(st.lists(st.floats() | st.floats(-1e39, 1e39) | ties, min_size=1, max_size=LANES))
def test_a_float64_is_rounded_to_bfloat16_once(computer: Child, values: list[float]) -> None:
    held = [patterned(value, "float64") for value in values]
    for value, code in zip(values, computed(computer, "convert", held, held, "float64", "bfloat16"), strict=True):
        want = math.copysign(nearest(Fraction(value)), value) if math.isfinite(value) else value
        assert same(value_of(code), want), value


def patterned(value: float, dtype: str) -> int:
    """Return the bits of a float; those of one NaN for any, which is nobody's mark."""
    tensor = torch.tensor([math.nan if math.isnan(value) else value], dtype=torch.float64).to(getattr(torch, dtype))
    size = SIZES[dtype]
    return int(tensor.view(getattr(torch, f"int{8 * size}")).item()) % (1 << 8 * size)


def cut(value: float, bits: int, *, signed: bool, wide: bool) -> int:
    """Return the low bits of a float cut to an integer and held to the ends of a register of 16 bits or more."""
    half = 1 << (max(bits, 16) - 1)
    least, most = (-half, half - 1) if signed else (0, 2 * half - 1)
    if math.isnan(value):
        held = half if wide else 0
    elif math.isinf(value):
        held = most if value > 0 else least
    else:
        held = min(max(int(value), least), most)
    return held % (1 << bits)


@given(st.sampled_from(sorted(SIZES)), integers, st.data())
def test_a_float_is_cut_to_an_integer_as_ptx_says(
    computer: Child, dtype: str, kind: tuple[int, bool], data: st.DataObject
) -> None:
    bits, signed = kind
    ends = st.sampled_from([float(2**power) for power in (7, 8, 15, 16, 31, 32, 63, 64)])
    near = st.builds(lambda end, by, sign: sign * (end + by), ends, st.floats(-2, 2), st.sampled_from([-1.0, 1.0]))
    held = [patterned(v, dtype) for v in data.draw(st.lists(st.floats() | near, min_size=1, max_size=LANES))]
    made = computed(computer, "convert", held, held, dtype, f"{'' if signed else 'u'}int{bits}")
    wide = 64 in (bits, 8 * SIZES[dtype])
    assert made == [cut(unpatterned(code, dtype), bits, signed=signed, wide=wide) for code in held]


def unpatterned(code: int, dtype: str) -> float:
    """Return the value of a float's bits."""
    bits = torch.from_numpy(np.array([code], f"u{SIZES[dtype]}").view(f"i{SIZES[dtype]}"))
    return float(bits.view(getattr(torch, dtype)).double().item())

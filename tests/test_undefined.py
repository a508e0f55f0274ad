"""What undefined lanes hold, in each of three ways, and when a failure is blamed on them."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH

from assay.buffers import UNDEFINED
from assay.child import interpreting_environment
from assay.record import Cause, Verdict
from assay.undefined import _LANES, Lanes, blamed, undefined_lanes

SCRIPT = """
import json
import torch
import triton
import triton.language as tl

from assay.interpreting import mend_interpreter
from assay.undefined import undefined_lanes

mend_interpreter()


@triton.jit
def copy(x_ptr, y_ptr):
    i = tl.arange(0, 4)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < 1))


@triton.jit
def copy_one(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr, mask=tl.program_id(0) > 0))


@triton.jit
def copy_square(x_ptr, y_ptr):
    i = tl.arange(0, 2)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < 1))


def lanes_of(dtype, held, kernel=copy, stored=None):
    y = torch.zeros(4, dtype=stored or dtype)
    with undefined_lanes(held):
        kernel[(1,)](torch.full((4,), 7, dtype=torch.float32).to(dtype), y)
    return y.view(torch.uint8).tolist() if stored or dtype.is_floating_point and dtype.itemsize == 1 else y.tolist()


DTYPES = {name: getattr(torch, name) for name in
    ("float64", "float32", "float16", "bfloat16", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8")}
found = {name: {held: lanes_of(dtype, held) for held in ("values", "zeros")} for name, dtype in DTYPES.items()}
found["bool"] = {held: lanes_of(torch.bool, held, stored=torch.uint8) for held in ("values", "zeros")}
found["one lane"] = {held: lanes_of(torch.float32, held, copy_one)[:1] for held in ("values", "zeros")}
found["square"] = {held: lanes_of(torch.float32, held, copy_square) for held in ("values", "zeros")}
found["nan"] = lanes_of(torch.int32, "nan")
with undefined_lanes("values"):
    pass
y = torch.zeros(4, dtype=torch.int32)
copy[(1,)](torch.full((4,), 7, dtype=torch.int32), y)
found["afterwards"] = y.tolist()
print(json.dumps(found))
"""
FLOATS = ("float64", "float32", "float16", "bfloat16", "square")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run every load in one child that decorates under the interpreter; the first lane of each is not masked."""
    script = tmp_path_factory.mktemp("undefined") / "script.py"
    script.write_text(SCRIPT, "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_plausible_floats_are_large_and_of_both_signs(found: dict[str, Any], dtype: str) -> None:
    assert found[dtype] == {"values": [7.0, 1000.0, -1000.0, 1000.0], "zeros": [7.0, 0.0, 0.0, 0.0]}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_plausible_integers_are_small_enough_for_an_index(found: dict[str, Any], dtype: str) -> None:
    assert found[dtype] == {"values": [7, 1, 0, 1], "zeros": [7, 0, 0, 0]}


def test_a_plausible_bool_is_one(found: dict[str, Any]) -> None:
    assert found["bool"] == {"values": [1, 1, 0, 1], "zeros": [1, 0, 0, 0]}


def test_a_plausible_float_of_one_byte_has_either_sign(found: dict[str, Any]) -> None:
    assert found["float8_e5m2"]["values"][1:] == [UNDEFINED[1], UNDEFINED[1] | 0x80, UNDEFINED[1]]
    assert found["float8_e5m2"]["zeros"][1:] == [0, 0, 0]


def test_a_single_lane_is_filled_too(found: dict[str, Any]) -> None:
    assert found["one lane"] == {"values": [-1000.0], "zeros": [0.0]}


def test_the_mark_is_what_they_hold_unless_told_otherwise(found: dict[str, Any]) -> None:
    assert found["nan"] == found["afterwards"] == [7, *[UNDEFINED[4]] * 3]


def test_what_they_hold_is_as_it_was_also_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), undefined_lanes("zeros"):
        raise ZeroDivisionError
    assert _LANES.get() == "nan"


PASSED = Verdict(outcome="passed", reason="right")


def failed(cause: Cause) -> Verdict:
    return Verdict(outcome="failed", cause=cause, reason="5 of 5 elements are wrong")


def runs(**verdicts: Verdict) -> Callable[[], Verdict]:
    return lambda: verdicts[_LANES.get()]


@pytest.mark.parametrize("passing", ["nan", "zeros"])
@pytest.mark.parametrize("cause", ["wrong-value", "not-finite"])
def test_a_failure_that_goes_with_the_values_and_comes_back_is_blamed_on_them(passing: Lanes, cause: Cause) -> None:
    wrong = failed(cause)
    again = runs(**{"nan": wrong, "zeros": wrong, "values": wrong, passing: PASSED})
    verdict = blamed(wrong, again)
    assert (verdict.outcome, verdict.cause) == ("failed", "undefined-read")
    assert verdict.reason.endswith(f"decide the result: {wrong.reason}")


@given(st.sampled_from(["wrong-value", "not-finite"]), st.booleans())
def test_a_failure_that_stays_or_does_not_come_back_is_not(cause: Cause, stays: bool) -> None:
    wrong = failed(cause)
    other = wrong if stays else PASSED
    assert blamed(wrong, runs(nan=other, zeros=other, values=other)) == wrong


@pytest.mark.parametrize("verdict", [PASSED, failed("not-written"), failed("input-changed"), failed("poison-read")])
def test_what_loads_do_not_decide_is_not_tried_again(verdict: Verdict) -> None:
    assert blamed(verdict, lambda: pytest.fail("it was tried again")) == verdict

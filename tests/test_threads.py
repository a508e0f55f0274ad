"""What launches under the interpreter say of lanes between barriers, and what they leave lane by lane."""

import json
import subprocess
import sys
from typing import Any

import pytest
from project import PYTHON_PATH

from assay.child import interpreting_environment

SCRIPT = """
import json

import torch
import triton
import triton.language as tl

from assay.interpreting import mend_interpreter
from assay.schedules import LANE_BY_LANE, watching

mend_interpreter()


@triton.jit
def between(HOW: tl.constexpr, p_ptr):
    lanes = tl.arange(0, 4)
    if HOW == "barrier":
        tl.debug_barrier()
    elif HOW == "sum":
        tl.sum(lanes, axis=0)
    elif HOW == "scan":
        tl.cumsum(lanes, axis=0)
    elif HOW == "trans":
        tl.trans(lanes[:, None])
    elif HOW == "reshape":
        tl.reshape(lanes, (2, 2))
    elif HOW == "join":
        tl.split(tl.join(lanes, lanes))
    elif HOW == "gather":
        tl.gather(lanes, 3 - lanes, axis=0)
    elif HOW == "atomic":
        tl.atomic_add(p_ptr + 9, 1.0)
    elif HOW == "arithmetic":
        lanes + tl.where(lanes[None, :] > 1, 2, lanes[None, :])


@triton.jit
def hand_on(p_ptr, HOW: tl.constexpr):
    lanes = tl.arange(0, 4)
    tl.store(p_ptr + lanes, lanes + 1.0)
    between(HOW, p_ptr)
    tl.store(p_ptr + 4 + lanes, tl.load(p_ptr + 3 - lanes))


@triton.jit
def reverse(p_ptr, HOW: tl.constexpr):
    lanes = tl.arange(0, 4)
    tl.store(p_ptr + lanes, lanes + 1.0)
    tl.debug_barrier()
    turned = tl.load(p_ptr + 3 - lanes)
    between(HOW, p_ptr)
    tl.store(p_ptr + lanes, turned)


@triton.jit
def mark(p_ptr, HOW: tl.constexpr):
    tl.store(p_ptr + tl.arange(0, 4), 1.0)
    between(HOW, p_ptr)
    tl.store(p_ptr + 2, 5.0)


@triton.jit
def load_own(p_ptr, HOW: tl.constexpr):
    lanes = tl.arange(0, 4)
    tl.store(p_ptr + lanes, lanes + 1.0)
    tl.store(p_ptr + 4 + lanes, tl.load(p_ptr + lanes))
    tl.store(p_ptr + 8, 7.0)
    tl.store(p_ptr + 8, tl.load(p_ptr + 8) + 1.0)


@triton.jit
def each_its_own(p_ptr, HOW: tl.constexpr):
    # What a program stores, the next one loads: that is no affair of lanes.
    program = tl.program_id(0)
    tl.store(p_ptr + 1 + program, tl.load(p_ptr + program) + 1.0)


@triton.jit
def load_masked(p_ptr, HOW: tl.constexpr):
    lanes = tl.arange(0, 4)
    tl.store(p_ptr + lanes, lanes + 1.0, mask=lanes < 2)
    tl.store(p_ptr + 4 + lanes, tl.load(p_ptr + 3 - lanes, mask=lanes < 2))


def ran(kernel, how="nothing", grid=1):
    p, found, log = torch.zeros(10), {}, {}
    for schedule in ("in order", *LANE_BY_LANE):
        # The same memory each time: a log speaks of addresses.
        p.zero_()
        with watching([], schedule, log) as watch:
            kernel[(grid,)](p, HOW=how)
        found[schedule] = p.tolist()
        if schedule == "in order":
            found |= {"alternatives": watch.alternatives, "unfenced": watch.unfenced}
    return found


BARRIERS = "barrier", "sum", "scan", "trans", "reshape", "join", "gather", "atomic"
print(json.dumps({
    **{kernel.__name__: ran(kernel) for kernel in (hand_on, reverse, mark, load_own, load_masked)},
    "each_its_own": ran(each_its_own, grid=2),
    "two programs": ran(hand_on, grid=2),
    "arithmetic": ran(hand_on, "arithmetic"),
    "barriers": {
        how: [ran(kernel, how)["unfenced"] for kernel in (hand_on, reverse, mark)] for how in BARRIERS
    },
}))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("script") / "kernels"
    folder.mkdir()
    path = folder / "script.py"
    path.write_text(SCRIPT, "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_load_may_come_before_the_store_of_another_lane(ran: dict[str, Any]) -> None:
    found = ran["hand_on"]
    assert found["in order"][:8] == [1, 2, 3, 4, 4, 3, 2, 1]
    assert found["first lane first"][:8] == [1, 2, 3, 4, 0, 0, 2, 1]
    assert found["last lane first"][:8] == [1, 2, 3, 4, 4, 3, 0, 0]
    assert list(found["alternatives"]) == ["first lane first", "last lane first"]
    words = "lanes of program (0, 0, 0) store and load at one address, with no tl.debug_barrier() between ("
    assert found["unfenced"].startswith(words)
    assert found["unfenced"].count("kernels/script.py:") == 2


def test_a_store_may_come_before_the_load_of_another_lane(ran: dict[str, Any]) -> None:
    found = ran["reverse"]
    assert found["in order"][:4] == [4, 3, 2, 1]
    assert found["first lane first"][:4] == [4, 3, 3, 4]
    assert found["last lane first"][:4] == [1, 2, 2, 1]
    assert " load and store at one address" in found["unfenced"]


def test_of_two_stores_either_may_be_the_last(ran: dict[str, Any]) -> None:
    found = ran["mark"]
    assert [found[of][2] for of in ("in order", "first lane first", "last lane first")] == [5, 1, 5]
    assert " store at one address" in found["unfenced"]


def test_what_a_lane_has_stored_itself_it_finds(ran: dict[str, Any]) -> None:
    found = ran["load_own"]
    assert (found["unfenced"], found["alternatives"]) == (None, {})
    assert found["first lane first"] == found["last lane first"] == found["in order"]


def test_a_lane_that_is_masked_off_is_in_no_conflict(ran: dict[str, Any]) -> None:
    assert ran["load_masked"]["unfenced"] is None


def test_two_programs_are_not_two_lanes(ran: dict[str, Any]) -> None:
    assert ran["each_its_own"]["unfenced"] is None
    assert ran["two programs"]["unfenced"].startswith("lanes of program (0, 0, 0) ")


def test_arithmetic_is_no_barrier(ran: dict[str, Any]) -> None:
    assert ran["arithmetic"]["unfenced"] is not None


def test_what_moves_values_between_threads_is_a_barrier(ran: dict[str, Any]) -> None:
    assert set(ran["barriers"]) == {"barrier", "sum", "scan", "trans", "reshape", "join", "gather", "atomic"}
    for how, found in ran["barriers"].items():
        assert found == [None, None, None], how

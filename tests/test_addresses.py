"""An access outside every tensor of a launch is refused before it happens; one inside, or masked off, never is."""

import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
import triton
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH

from assay.addresses import Span, count_outside, extent, how_far
from assay.child import interpreting_environment

spans = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)).map(lambda s: (s[0], s[0] + s[1])), max_size=4)


@given(st.lists(st.integers(0, 250), max_size=20), st.sampled_from([1, 2, 4, 8]), spans)
def test_an_element_is_inside_if_all_its_bytes_lie_in_one_span(
    addresses: list[int], size: int, allowed: list[Span]
) -> None:
    byte_sets = [set(range(*span)) for span in allowed]
    want = sum(not any(set(range(at, at + size)) <= inside for inside in byte_sets) for at in addresses)
    assert count_outside(np.array(addresses, np.uint64), size, allowed) == want


def test_addresses_of_the_upper_half_are_compared_unsigned() -> None:
    high = 1 << 63
    addresses = np.array([high, high + 4, high + 8], np.uint64)
    assert count_outside(addresses, 4, [(high, high + 8), (0, 4)]) == 1


@given(st.lists(st.integers(0, 250), min_size=1, max_size=20), st.sampled_from([1, 2, 4, 8]), spans)
def test_how_far_is_the_least_that_would_bring_the_farthest_element_inside(
    addresses: list[int], size: int, allowed: list[Span]
) -> None:
    held = [(start, stop) for start, stop in allowed if start < stop]
    far = [min((max(start - at, at + size - stop) for start, stop in held), default=0) for at in addresses]
    said = how_far(np.array(addresses, np.uint64), size, allowed)
    if not held:
        assert said == ""
    elif max(far) > 0:
        count = max(far)
        assert re.fullmatch(rf", up to {count} byte{'s' if count > 1 else ''} (before|past) the nearest", said)


FAR: list[tuple[list[int], list[Span], str]] = [
    ([996], [(1000, 1064)], "4 bytes before the nearest"),
    ([1064], [(1000, 1064)], "4 bytes past the nearest"),
    ([1061], [(1000, 1064)], "1 byte past the nearest"),
    ([1000, 1100, 1064], [(1000, 1064)], "40 bytes past the nearest"),
    ([1064], [(0, 8), (1000, 1064), (1072, 1080), (1066, 1066)], "4 bytes past the nearest"),
    ([1068], [(1000, 1064), (1072, 1080)], "4 bytes before the nearest"),
    ([1 << 33], [(3 << 32, 4 << 32)], "about 4 GiB before the nearest"),
    ([(1 << 63) + (5 << 20)], [(1 << 63, (1 << 63) + 64)], "about 5 MiB past the nearest"),
]


@pytest.mark.parametrize(("addresses", "allowed", "said"), FAR)
def test_how_far_is_said_in_words(addresses: list[int], allowed: list[Span], said: str) -> None:
    assert how_far(np.array(addresses, np.uint64), 4, allowed) == f", up to {said}"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=3))
def test_an_extent_ends_with_the_last_element(axes: list[tuple[int, int]]) -> None:
    shape, strides = [n for n, _ in axes], [step for _, step in axes]
    tensor = torch.zeros(200).as_strided(shape, strides, 5)
    places = [sum(at * step for at, step in zip(index, strides, strict=True)) for index in np.ndindex(*shape)]
    start, stop = extent(tensor)
    assert stop - start == (4 * (max(places) + 1) if places else 0)
    assert not places or start == tensor.data_ptr()


SCRIPT = """
import json
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from assay.addresses import allowing
from assay.interpreting import mend_interpreter

mend_interpreter()


@triton.jit
def copy(x_ptr, y_ptr, first, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + first + i, mask=i < n, other=0.0))


@triton.jit
def fill(y_ptr, first, BLOCK: tl.constexpr):
    tl.store(y_ptr + first + tl.arange(0, BLOCK), 1.0)


@triton.jit
def add(y_ptr, first, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + first + i, 1.0, mask=i < n)


@triton.jit
def swap(y_ptr, first):
    tl.atomic_cas(y_ptr + first, 0, 1)


@triton.jit
def pair(xs, y_ptr, first, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(xs[0] + i) + tl.load(xs[1] + first + i))


@triton.jit
def described(x, y_ptr, first, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), x.load([first]))


@triton.jit
def followed(table_ptr, y_ptr, first, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + i, tl.load(x_ptr + first + i))


flat = torch.arange(64, dtype=torch.float32)
x, y = flat[16:32], torch.zeros(16)
middle, made = x[4:8], torch.zeros(64)[16:32]
gapped = flat[16:46].as_strided((2, 10), (20, 1), 16)
locks = torch.zeros(4, dtype=torch.int32)
table = torch.tensor([x.data_ptr()])


def run(kernel, *arguments, guarded=(x,), **options):
    before = flat.clone()
    try:
        with allowing(guarded):
            kernel[(1,)](*arguments, **options)
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        assert bool((flat == before).all()), "it was refused too late"
        return f"{type(error).__name__}: {error}"
    return None


def through_table(first, *tensors):
    return run(followed, table, y, first, BLOCK=16, guarded=tensors)


def unguarded(first):
    return run(copy, x, y, first, 16, BLOCK=16, guarded=())


print(json.dumps({
    "read": run(copy, x, y, 0, 16, BLOCK=16),
    "read past": run(copy, x, y, 1, 16, BLOCK=16),
    "read before": run(copy, x, y, -2, 16, BLOCK=16),
    "read past, unguarded": unguarded(1),
    "read past the storage": unguarded(33),
    "read before, unguarded": unguarded(-16),
    "read before the storage": unguarded(-17),
    "read around a view": run(copy, middle, y, -4, 16, BLOCK=16),
    "read past by way of a view": run(copy, middle, y, -3, 16, BLOCK=16),
    "read around what is unguarded": run(copy, made, y, -16, 16, BLOCK=16),
    "read past, masked": run(copy, x, y, 1, 15, BLOCK=16),
    "read nothing": run(copy, x, y, 1 << 44, 0, BLOCK=16),
    "read a gap": run(copy, gapped, y, 10, 16, BLOCK=16),
    "read past rows": run(copy, gapped, y, 20, 16, BLOCK=16),
    "read as keywords": run(copy, x_ptr=x, y_ptr=y, first=1, n=16, BLOCK=16),
    "read reinterpreted": run(copy, triton.reinterpret(x, tl.float32), y, 0, 16, BLOCK=16),
    "read past reinterpreted": run(copy, triton.reinterpret(x, tl.float32), y, 1, 16, BLOCK=16),
    "write past": run(fill, x, 3, BLOCK=16),
    "add past": run(add, x, 4, 16, BLOCK=16),
    "add past, masked": run(add, x.clone(), 4, 12, BLOCK=16),
    "swap": run(swap, locks, 3),
    "swap past": run(swap, locks, 4),
    "pair": run(pair, (x, x), y, 0, BLOCK=16),
    "pair past": run(pair, (x, x), y, 5, BLOCK=16),
    "descriptor": run(described, TensorDescriptor(x, [16], [1], [16]), y, 8, BLOCK=16),
    "descriptor past": run(described, TensorDescriptor(x, [48], [1], [16]), y, 8, BLOCK=16),
    "table": through_table(0, x),
    "table past": through_table(1, x),
    "table of nobody": through_table(0),
    "after": run(copy, x, y, 1, 16, BLOCK=16),
}))
"""
READ = "OutsideRead: {} lanes read outside every tensor that the launch was given, up to {} the nearest"
WRITE = "OutsideWrite: {} lanes write outside every tensor that the launch was given, up to {} the nearest"
ACCESSES: dict[str, str | None] = {
    "read": None,
    "read past": READ.format("1 of 16", "4 bytes past"),
    "read before": READ.format("2 of 16", "8 bytes before"),
    "read around a view": None,
    "read past by way of a view": READ.format("1 of 16", "4 bytes past"),
    "read around what is unguarded": None,
    "read past, unguarded": None,
    "read past the storage": READ.format("1 of 16", "4 bytes past"),
    "read before, unguarded": None,
    "read before the storage": READ.format("1 of 16", "4 bytes before"),
    "read past, masked": None,
    "read nothing": None,
    "read a gap": None,
    "read past rows": READ.format("6 of 16", "24 bytes past"),
    "read as keywords": READ.format("1 of 16", "4 bytes past"),
    "read reinterpreted": None,
    "read past reinterpreted": READ.format("1 of 16", "4 bytes past"),
    "write past": WRITE.format("3 of 16", "12 bytes past"),
    "add past": WRITE.format("4 of 16", "16 bytes past"),
    "add past, masked": None,
    "swap": None,
    "swap past": WRITE.format("1 of 1", "4 bytes past"),
    "pair": None,
    "pair past": READ.format("5 of 16", "20 bytes past"),
    "descriptor": None,
    "descriptor past": READ.format("8 of 16", "32 bytes past"),
    "table": None,
    "table past": READ.format("1 of 16", "4 bytes past"),
    "after": READ.format("1 of 16", "4 bytes past"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run every access in one child that decorates under the interpreter; return what each was refused for."""
    script = tmp_path_factory.mktemp("addresses") / "script.py"
    script.write_text(SCRIPT, "utf-8")
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", ACCESSES)
def test_what_lies_outside_is_refused_and_nothing_else(found: dict[str, Any], name: str) -> None:
    assert found[name] == ACCESSES[name], triton.__version__


def test_what_no_argument_reaches_is_refused_wherever_it_lies(found: dict[str, Any]) -> None:
    assert str(found["table of nobody"]).startswith(READ.partition(", ")[0].format("16 of 16"))

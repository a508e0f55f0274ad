"""Conversions to and from narrow formats, over every code and every middle, against arithmetic in float64."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from assay.marks import Array
from assay.narrowing import conversion, float32_to_odd, nearest_bfloat16, widen_bfloat16

CODES = np.arange(256, dtype=np.uint8)
HALVES = np.arange(1 << 16, dtype=np.uint16)


@dataclass(frozen=True)
class Format:
    """A binary format: its fraction bits, the exponent of its smallest normal number, and its largest number."""

    fraction: int
    least: int
    largest: float


FORMATS = {
    "fp8e4nv": Format(3, -6, 448.0),
    "fp8e5": Format(2, -14, 57344.0),
    "fp16": Format(10, -14, 65504.0),
    "bf16": Format(7, -126, float(torch.finfo(torch.bfloat16).max)),
}
FP8 = ["fp8e4nv", "fp8e5"]
patterns = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50)


def decoded(name: str) -> Array:
    """Return the value (float64) of each code of fp8, from its sign, exponent and fraction."""
    form = FORMATS[name]
    exponent, fraction = (CODES & 0x7F) >> form.fraction, CODES & (2**form.fraction - 1)
    significand = np.where(exponent == 0, 0, 2**form.fraction) + fraction
    values = np.ldexp(significand.astype(float), np.maximum(exponent.astype(int), 1) - 1 + form.least - form.fraction)
    values[values > form.largest] = np.nan
    if name == "fp8e5":
        values[[0x7C, 0xFC]] = np.inf
    return np.asarray(np.where(CODES < 0x80, values, -values))


def wide(values: Array) -> Array:
    """Return values as float64, and any NaN as a quiet one: NumPy warns of others, now or at the next step."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isnan(values), np.nan, values.astype(float)))


def spacing(values: Array, form: Format) -> Array:
    """Return the distance (float64) of the format's numbers at each value."""
    _, exponent = np.frexp(np.abs(values))
    return np.asarray(np.ldexp(1.0, np.maximum(exponent - 1, form.least) - form.fraction))


def to_nearest(values: Array, form: Format) -> Array:
    """Return the format's numbers (float64) nearest to values, ties to even, none past the largest."""
    exact = wide(values)
    step = spacing(np.where(np.isfinite(exact), exact, 0.0), form)
    return np.asarray(np.copysign(np.minimum(np.rint(np.abs(exact) / step) * step, form.largest), exact))


def same(got: Array, want: Array) -> bool:
    """Say whether values are the same, NaN and the sign of 0 too."""
    signs = np.isnan(want) | (np.signbit(got) == np.signbit(want))
    return bool(np.array_equal(got, want, equal_nan=True) and signs.all())


def convert(values: Array, source: str, target: str, *, toward_zero: bool = False) -> Array:
    made = conversion(source, target, toward_zero=toward_zero)
    assert made is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return made(values)


def values_of(held: Array, name: str) -> Array:
    """Return values (float64) of what NumPy holds of a format."""
    if name in FP8:
        return decoded(name)[held]
    return wide(np.asarray(widen_bfloat16(held) if name == "bf16" else held))


def edges(name: str) -> Iterator[Array]:
    """Yield every number of a format and every middle between two, in float32, and the neighbours of each."""
    numbers = np.unique(np.abs(decoded(name)[np.isfinite(decoded(name))]))
    past = numbers[-1] + (numbers[-1] - numbers[-2]) * np.array([0.5, 1.0, 1.5])
    at = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, past]).astype(np.float32)
    for end in (at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))):
        yield from (end, -end)
    smallest = np.finfo(np.float32).smallest_subnormal
    yield np.array([0.0, -0.0, np.inf, -np.inf, np.nan, smallest, -smallest, np.finfo(np.float32).max], np.float32)


@pytest.mark.parametrize("target", ["fp32", "fp16"])
@pytest.mark.parametrize("name", FP8)
def test_every_code_of_fp8_is_widened_to_its_value(name: str, target: str) -> None:
    assert same(convert(CODES, name, target).astype(float), decoded(name))


def test_every_code_of_e4m3_becomes_its_value_as_bfloat16() -> None:
    assert same(values_of(convert(CODES, "fp8e4nv", "bf16"), "bf16"), decoded("fp8e4nv"))


def test_infinity_and_nan_of_e5m2_become_the_next_numbers_as_bfloat16() -> None:
    got, want = values_of(convert(CODES, "fp8e5", "bf16"), "bf16"), decoded("fp8e5")
    past = (CODES & 0x7F) >= 0x7C
    assert same(got[~past], want[~past])
    # What Triton's shift and multiplication by 2^112 (mul.rn.bf16x2) make of an exponent of ones.
    assert got[past].tolist() == [65536.0, 81920.0, 98304.0, 114688.0, -65536.0, -81920.0, -98304.0, -114688.0]


@pytest.mark.parametrize("name", FP8)
def test_float32_is_rounded_to_the_nearest_fp8_at_every_edge(name: str) -> None:
    for values in edges(name):
        assert same(values_of(convert(values, "fp32", name), name), to_nearest(values, FORMATS[name])), values


@pytest.mark.parametrize("source", ["fp16", "bf16"])
@pytest.mark.parametrize("name", FP8)
def test_every_number_of_two_bytes_is_rounded_to_the_nearest_fp8(name: str, source: str) -> None:
    held = HALVES.view(np.float16) if source == "fp16" else HALVES
    got, want = values_of(convert(held, source, name), name), to_nearest(values_of(held, source), FORMATS[name])
    assert same(got, want)


@pytest.mark.parametrize("name", FP8)
@given(patterns)
def test_any_float32_is_rounded_to_the_nearest_fp8(name: str, patterns: list[int]) -> None:
    values = np.array(patterns, np.uint32).view(np.float32)
    got, want = values_of(convert(values, "fp32", name), name), to_nearest(values, FORMATS[name])
    assert same(got, want)


@pytest.mark.parametrize("name", FP8)
@given(st.lists(st.floats(-70000, 70000, width=32), min_size=1, max_size=50))
def test_a_float32_of_its_range_is_rounded_to_the_nearest_fp8(name: str, floats: list[float]) -> None:
    values = np.array(floats, np.float32)
    assert same(values_of(convert(values, "fp32", name), name), to_nearest(values, FORMATS[name]))


@pytest.mark.parametrize("name", FP8)
def test_every_number_of_fp8_comes_back_from_float32_as_its_code(name: str) -> None:
    finite = np.isfinite(decoded(name))
    assert convert(convert(CODES, name, "fp32"), "fp32", name)[finite].tolist() == CODES[finite].tolist()


@given(patterns)
def test_float32_is_rounded_to_bfloat16_as_torch_does(patterns: list[int]) -> None:
    values = np.array(patterns, np.uint32).view(np.float32)
    got, want = nearest_bfloat16(values), torch.from_numpy(values.copy()).bfloat16()
    number = ~np.isnan(values)
    assert np.array_equal(got[number], want.view(torch.int16).numpy().view(np.uint16)[number])
    assert bool(torch.from_numpy(got[~number].view(np.int16)).view(torch.bfloat16).isnan().all())


def test_every_bfloat16_is_widened_as_torch_does() -> None:
    want = torch.from_numpy(HALVES.view(np.int16)).view(torch.bfloat16).float().numpy()
    assert same(convert(HALVES, "bf16", "fp32"), want)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8e5"])
@given(patterns)
def test_what_is_rounded_toward_zero_is_the_last_number_not_past_it(name: str, patterns: list[int]) -> None:
    assert cut_short(np.array(patterns, np.uint32).view(np.float32), name)


@pytest.mark.parametrize("name", ["fp16", "fp8e5"])
def test_edges_are_rounded_toward_zero(name: str) -> None:
    assert all(cut_short(values, name) for values in edges("fp8e5"))


def cut_short(values: Array, name: str) -> bool:
    """Say whether finite values are cut to the number before, and infinity and NaN stay."""
    got, form = values_of(convert(values, "fp32", name, toward_zero=True), name), FORMATS[name]
    exact = wide(values)
    finite = np.isfinite(exact)
    step = spacing(np.where(finite, exact, 0.0), form)
    cut = np.minimum(np.floor(np.where(finite, np.abs(exact), 0.0) / step) * step, form.largest)
    return same(got, np.where(finite, np.copysign(cut, exact), exact))


def test_a_single_number_without_a_shape_is_converted_too() -> None:
    assert np.asarray(convert(np.array(1.9), "fp32", "fp8e5")).shape == ()
    assert convert(np.array(0x3C, np.uint8), "fp8e5", "fp32") == 1.0


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("fp64", "fp8e4nv"),
        ("fp8e5", "fp64"),
        ("fp8e5", "fp8e4nv"),
        ("fp8e4nv", "fp8e5"),
        ("fp32", "fp8e4b15"),
        ("fp32", "fp8e4b8"),
        ("fp8e5b16", "fp16"),
    ],
)
def test_what_triton_compiles_for_no_nvidia_gpu_has_no_conversion(source: str, target: str) -> None:
    assert conversion(source, target, toward_zero=False) is None


@pytest.mark.parametrize(("source", "target"), [("fp32", "fp8e4nv"), ("fp16", "fp8e5"), ("bf16", "fp8e5")])
def test_toward_zero_there_is_but_float32_to_e5m2(source: str, target: str) -> None:
    assert conversion(source, target, toward_zero=True) is None
    assert conversion(source, target, toward_zero=False) is not None


# What the module says of PTX


@triton.jit
def converting_kernel(x_ptr, z_ptr):  # type: ignore[no-untyped-def]
    tl.store(z_ptr, tl.load(x_ptr).to(z_ptr.dtype.element_ty))


@triton.jit
def computing_kernel(x_ptr, z_ptr):  # type: ignore[no-untyped-def]
    x, y = tl.load(x_ptr), tl.load(x_ptr + 1)
    tl.store(z_ptr, x + y)
    tl.store(z_ptr + 1, x - y)
    tl.store(z_ptr + 2, x * y)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield


def ptx(kernel: Any, source: str, made: str, capability: int) -> str:
    """Return what Triton compiles a kernel of two pointers to."""
    signature = {"x_ptr": f"*{source}", "z_ptr": f"*{made}"}
    code = ASTSource(fn=kernel, signature=signature, constexprs={})
    options = {"enable_fp_fusion": True}
    return str(triton.compile(code, target=GPUTarget("cuda", capability, 32), options=options).asm["ptx"])


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("capability", [75, 80, 90])
@pytest.mark.parametrize("source", ["fp16", "bf16", "fp32", "fp64"])
def test_triton_cuts_floats_to_integers_in_registers_of_16_bits_or_more(source: str, capability: int) -> None:
    for bits in (8, 16, 32, 64):
        for made, kind in (("i", "s"), ("u", "u")):
            text = ptx(converting_kernel, source, f"{made}{bits}", capability)
            assert re.findall(r"cvt\.rzi\.(\w+)\.", text) == [f"{kind}{max(bits, 16)}"]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("capability", "instructions"),
    [
        (75, ["add.f32", "sub.f32", "mul.f32"]),
        (80, ["fma.rn.bf16", "fma.rn.bf16", "fma.rn.bf16"]),
        (90, ["add.bf16", "sub.bf16", "mul.bf16"]),
    ],
)
def test_triton_rounds_bfloat16_once_or_by_way_of_float32(capability: int, instructions: list[str]) -> None:
    text = ptx(computing_kernel, "bf16", "bf16", capability)
    assert re.findall(r"(?:add|sub|mul|fma\.rn)\.b?f\d+", text) == instructions


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_what_float32_has_not_becomes_the_odd_one_of_its_neighbours(values: list[float]) -> None:
    exact = np.array(values)
    made = float32_to_odd(exact)
    lost = made != exact
    assert bool((made.view(np.uint32) % 2 == 1)[lost].all())
    with np.errstate(over="ignore", under="ignore"):
        before, beyond = (np.nextafter(np.abs(made), np.float32(end)) for end in (0.0, np.inf))
    assert bool(((before < np.abs(exact)) & (np.abs(exact) < beyond))[lost].all())
    assert np.array_equal(np.signbit(made), np.signbit(exact))

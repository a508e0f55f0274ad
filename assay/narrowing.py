"""What an NVIDIA GPU makes of a number as an integer or in a format of one or two bytes, on NumPy's bit patterns.

Formats have Triton's names. Rounding is that of PTX's `cvt` from sm_90 on: to nearest, ties to even, and to fp8 with
`.satfinite`, so that what lies past the largest number, infinity too, becomes that number. Before, a GPU may differ
(triton-lang/triton #11753): sm_89 goes by way of float16 cut short, and errs by little more than half a unit; one that
has no such instruction takes ties away from 0 and does not saturate.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from assay.marks import Array

Convert = Callable[[Array], Array]

NAN = 0x7F
"""In both formats of fp8."""


def _values(dtype: torch.dtype) -> Array:
    values: Array = torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32).numpy()
    return values


FP8 = {"fp8e4nv": _values(torch.float8_e4m3fn), "fp8e5": _values(torch.float8_e5m2)}
"""The value (float32) of each code."""


def nearest_fp8(values: Array, name: str) -> Array:
    """Return the codes (uint8, same shape) of float16 or float32 values in a format of fp8."""
    magnitudes = FP8[name][np.isfinite(FP8[name]) & (np.arange(256) < 0x80)]
    middles = (magnitudes[:-1] + magnitudes[1:]) / 2
    lower, upper = (np.searchsorted(middles, np.abs(values), side) for side in ("left", "right"))
    # They differ where a value is a middle, and there one of them is even.
    codes = np.where(lower % 2 == 0, lower, upper) | np.where(np.signbit(values), 0x80, 0)
    return np.where(np.isnan(values), NAN, codes).astype(np.uint8)


def nearest_bfloat16(values: Array) -> Array:
    """Return the bit patterns (uint16, same shape) of float32 values rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(values.shape)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    # A carry could turn a NaN into infinity or 0.
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def float32_to_odd(values: Array) -> Array:
    """Return integers or float64 values as float32, which round to bfloat16 as the values themselves do.

    What float32 has not becomes the one of its two neighbours whose last bit is 1, so that a tie between two bfloat16
    stays none (Boldo & Melquiond, IEEE Trans. Comput. 57(4), 2008). Triton compiles a float64 so for GPUs without
    `cvt.rn.bf16.f64`. An integer they round twice, by way of the nearest float32: from sm_90 on it is rounded once.
    """
    exact = _to_53_bits(values).astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        nearest = exact.astype(np.float32)
        widened = nearest.astype(np.float64)
    cut = nearest.view(np.uint32) - (np.abs(widened) > np.abs(exact))
    lost = (widened != exact) & ~np.isnan(exact)
    return np.asarray(cut | lost).astype(np.uint32).view(np.float32)


def _to_53_bits(values: Array) -> Array:
    """Return values, but integers that float64 has not rounded to odd at their eleventh bit."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return values
    odd = ((values >> 11) | ((values & 0x7FF) != 0)) << 11
    return np.where(np.abs(values.astype(np.float64)) < 2.0**53, values, odd)


def float16_toward_zero(values: Array) -> Array:
    """Return float32 values as float16 without what does not fit: the largest number for any past it but infinity."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        nearest = values.astype(np.float16)
    beyond = np.abs(nearest.astype(np.float32)) > np.abs(values)
    return (nearest.view(np.uint16) - beyond).astype(np.uint16).view(np.float16)


def bfloat16_toward_zero(values: Array) -> Array:
    """Return the bit patterns (uint16) of the upper halves of float32 values."""
    upper = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(values.shape) >> 16
    return np.where(np.isnan(values), upper | 0x40, upper).astype(np.uint16)


def fp8e5_toward_zero(values: Array) -> Array:
    """Return the codes (uint8) of float32 values as fp8e5: the upper halves of float16, infinity among them."""
    upper = float16_toward_zero(values).view(np.uint16) >> 8
    return np.where(np.isnan(values), NAN, upper).astype(np.uint8)


def widen_bfloat16(bits: Array) -> Array:
    """Return the values (float32) of bit patterns (uint16)."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def integers_in_registers(values: Array, target: np.dtype[Any]) -> Array:
    """Return floats cut to integers as PTX's `cvt.rzi` does, of the target's sign and as wide as the register.

    No register is narrower than 16 bits: of (u)int8 a store keeps the lower byte. What lies past an end becomes the
    last number before it. NaN becomes 0, and where either side has 64 bits, the sign's bit alone (PTX ISA, cvt). So
    Triton 3.6 to 3.9 compile it from sm_75 to sm_90, but not as a promise: LLVM calls what lies past the target's ends
    poison, and a GPU that widens an int8 without storing it still has all 16 bits.
    """
    register = np.dtype(f"{target.kind}{max(target.itemsize, 2)}")
    least, end = int(np.iinfo(register).min), int(np.iinfo(register).max) + 1
    wide = 8 in (values.dtype.itemsize, target.itemsize)
    with np.errstate(invalid="ignore"):
        cut = np.trunc(values.astype(np.float64))
    ends = [cut < least, cut >= end, np.isnan(cut)]
    made = np.where(np.logical_or.reduce(ends), 0.0, cut).astype(register)
    return np.select(ends, [register.type(at) for at in (least, end - 1, (least or end // 2) if wide else 0)], made)


def _as_bfloat16(name: str) -> Array:
    """Return the bit pattern (uint16) that each code of fp8 becomes.

    Triton shifts those of fp8e5 and multiplies by 2^112, so that infinity and NaN become the next numbers.
    """
    values = FP8[name].copy()
    if name == "fp8e5":
        codes = np.arange(256)
        past = np.ldexp(1 + (codes & 3) / 4, 16) * np.where(codes < 0x80, 1, -1)
        values = np.where((codes & NAN) < 0x7C, values, past).astype(np.float32)
    return bfloat16_toward_zero(values)


def _widening(name: str) -> dict[tuple[str, str], Convert]:
    tables = {"fp32": FP8[name], "fp16": FP8[name].astype(np.float16), "bf16": _as_bfloat16(name)}
    return {(name, target): table.__getitem__ for target, table in tables.items()}


def _rounding(name: str) -> dict[tuple[str, str], Convert]:
    return {
        ("fp32", name): lambda values: nearest_fp8(values, name),
        ("fp16", name): lambda values: nearest_fp8(values, name),
        ("bf16", name): lambda bits: nearest_fp8(widen_bfloat16(bits), name),
    }


_NEAREST: dict[tuple[str, str], Convert] = {
    ("fp32", "bf16"): nearest_bfloat16,
    ("bf16", "fp32"): widen_bfloat16,
    **{row: convert for name in FP8 for row, convert in (_widening(name) | _rounding(name)).items()},
}
_TOWARD_ZERO: dict[tuple[str, str], Convert] = {
    ("fp32", "fp8e5"): fp8e5_toward_zero,
    ("fp32", "fp16"): float16_toward_zero,
    ("fp32", "bf16"): bfloat16_toward_zero,
}


def conversion(source: str, target: str, *, toward_zero: bool) -> Convert | None:
    """Return what converts the values (or codes) of one format into those of another.

    None for other formats: NumPy converts those that it has, and Triton the rest of fp8 for no NVIDIA GPU, but for
    fp8e4b15, which takes inline assembly.
    """
    return (_TOWARD_ZERO if toward_zero else _NEAREST).get((source, target))

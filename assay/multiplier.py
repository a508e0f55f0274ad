"""Sends the rounding canary through a kernel's own launch, and rounds operands as it found. Runs in a child process."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from assay.kernel import Dot, Kernel, Problem, Size, Tensors, Variant
from assay.record import Number, Operand, as_float, number
from assay.rounding import PROBES, Rounding, classify, describe

SMALLEST_EXPONENT = -126
"""Of a normal float32, and of tf32, which has its exponent."""


@dataclass(frozen=True)
class Multiplier:
    """What the canary read in each operand of a variant's product, and the roundings that this shows."""

    dot: Dot
    readings: dict[Operand, list[Number]]

    @property
    def roundings(self) -> dict[str, Rounding]:
        """Map the name of each operand's input to its rounding."""
        names: dict[Operand, str] = {"left": self.dot.left, "right": self.dot.right}
        return {
            names[operand]: classify([as_float(reading) for reading in readings])
            for operand, readings in self.readings.items()
        }

    @property
    def words(self) -> str:
        """Say how each operand is treated."""
        return ", ".join(f"{name} {describe(rounding)}" for name, rounding in self.roundings.items())


def _identity(like: torch.Tensor) -> torch.Tensor:
    return torch.eye(*like.shape, dtype=like.dtype)


def _canary(kernel: Kernel, dot: Dot, operand: Operand) -> dict[str, torch.Tensor]:
    """Return the inputs of a canary: every row of A, or column of B, holds one probe."""
    made = kernel.inputs(dot.size, torch.Generator().manual_seed(0))
    values = {name: torch.zeros_like(value) for name, value in made.items()}
    left, right = made[dot.left], made[dot.right]
    probes = torch.tensor(PROBES, dtype=left.dtype)
    if operand == "left":
        repeated = probes.repeat(-(-left.shape[0] // len(PROBES)))[: left.shape[0]]
        return {**values, dot.left: repeated[:, None].expand_as(left).contiguous(), dot.right: _identity(right)}
    repeated = probes.repeat(-(-right.shape[1] // len(PROBES)))[: right.shape[1]]
    return {**values, dot.left: _identity(left), dot.right: repeated[None, :].expand_as(right).contiguous()}


def _read(kernel: Kernel, dot: Dot, variant: Variant, operand: Operand, device: str) -> list[Number]:
    values = _canary(kernel, dot, operand)
    outputs = {
        name: torch.full(o.shape, torch.nan, dtype=o.dtype, device=device) for name, o in kernel.outputs(values).items()
    }
    kernel.launch({name: value.to(device) for name, value in values.items()}, outputs, variant)
    result = outputs[dot.output].cpu().to(torch.float64)
    column = result[: len(PROBES), 0] if operand == "left" else result[0, : len(PROBES)]
    return [number(float(reading)) for reading in column]


def through(kernel: Kernel, dot: Dot, variant: Variant, device: str) -> Multiplier:
    """Send the canary through both operands of a variant. Whatever the launch raises passes through."""
    return Multiplier(dot, {operand: _read(kernel, dot, variant, operand, device) for operand in ("left", "right")})


def round_operand(values: torch.Tensor, rounding: Rounding) -> torch.Tensor:
    """Return float64 values rounded to `fraction_bits` bits after the leading one, by the rounding's mode."""
    assert rounding.fraction_bits is not None
    _, exponent = torch.frexp(values)
    # frexp's significand lies in [1/2, 1), so the leading bit is one lower; below float32's normal numbers it is fixed.
    places = rounding.fraction_bits + 1 - exponent.clamp(min=SMALLEST_EXPONENT + 1)
    scaled = torch.ldexp(values.abs(), places)
    below = scaled.floor()
    rest, odd = scaled - below, below % 2 == 1
    up = {
        "nearest-away": rest >= 0.5,
        "nearest-even": (rest > 0.5) | ((rest == 0.5) & odd),
    }.get(rounding.mode, torch.zeros_like(rest, dtype=torch.bool))
    rounded = torch.ldexp(below + up, -places) * values.sign()
    return torch.where(values.isfinite(), rounded, values)


def rounded_inputs(inputs: Tensors, multiplier: Multiplier) -> Mapping[str, torch.Tensor] | None:
    """Return the inputs with the operands as the multiplier takes them; None where it takes both exactly.

    Operands taken in pieces (tf32x3, bf16x3, bf16x6, fp16x3) keep no fixed number of bits: what they lose is the
    bound's.
    """
    found = {
        name: rounding
        for name, rounding in multiplier.roundings.items()
        if rounding.fraction_bits is not None and rounding.mode != "exact"
    }
    if not found:
        return None
    return {name: round_operand(v, found[name]) if name in found else v for name, v in inputs.items()}


def pose(
    kernel: Kernel, variant: Variant, size: Size, inputs: Tensors, want: Tensors, *, multiplier: Multiplier | None
) -> Problem:
    """Return the problem that bounds look at, but for the outputs' dtypes. `inputs` and `want` are float64."""
    rounded = None if multiplier is None else rounded_inputs(inputs, multiplier)
    return Problem(
        variant=variant,
        size=size,
        inputs=inputs,
        want=want,
        oracle=kernel.oracle,
        rounded=None if rounded is None else kernel.oracle(rounded),
        rounding="" if rounded is None or multiplier is None else multiplier.words,
    )


def measured(kernel: Kernel, variant: Variant, device: str) -> Multiplier | None:
    """Send the canary through a variant; None where the kernel declares no product."""
    return None if kernel.dot is None else through(kernel, kernel.dot, variant, device)

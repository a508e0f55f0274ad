"""Operands rounded as the canary found: the tensors' way is the scalars' way, denormals included."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay.kernel import load
from assay.multiplier import Multiplier, round_operand, rounded_inputs
from assay.record import RoundingMode
from assay.rounding import MODES, PROBES, Rounding, round_to

modes = st.sampled_from(MODES)
widths = st.integers(1, 22)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.floats(1, 2, exclude_max=True, width=32), widths, modes, st.integers(-100, 100), st.sampled_from([1, -1]))
def test_a_tensor_is_rounded_as_its_elements_are(
    value: float, bits: int, mode: RoundingMode, power: int, sign: int
) -> None:
    scale = sign * 2.0**power
    rounded = round_operand(torch.tensor([value * scale], dtype=torch.float64), Rounding(mode, bits, 0.0))
    assert rounded.item() == round_to(value, bits, mode) * scale


@given(numbers)
def test_truncation_to_tf32_is_cutting_the_last_thirteen_bits(value: float) -> None:
    single = torch.tensor([value], dtype=torch.float32)
    cut = (single.view(torch.int32) & ~0x1FFF).view(torch.float32)
    rounded = round_operand(single.double(), Rounding("truncated", 10, 0.0))
    assert rounded.item() == cut.item()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.0])
def test_what_is_no_number_stays_what_it_is(value: float) -> None:
    for mode in MODES:
        rounded = round_operand(torch.tensor([value], dtype=torch.float64), Rounding(mode, 10, 0.0))
        assert torch.equal(rounded.isnan(), torch.tensor([value]).isnan())
        assert str(rounded.nan_to_num(7.0).item()) == str(torch.tensor([value]).double().nan_to_num(7.0).item())


def multiplier(left: list[float], right: list[float]) -> Multiplier:
    dot = load(Path(__file__).parents[1] / "kernels" / "matmul.py").dot
    assert dot is not None
    return Multiplier(dot, {"left": list(left), "right": list(right)})


def test_only_operands_of_a_fixed_width_are_rounded() -> None:
    exact, cut = list(PROBES), [round_to(probe, 10, "truncated") for probe in PROBES]
    inputs = {"a": torch.full((2, 2), PROBES[2]).double(), "b": torch.full((2, 2), PROBES[2]).double()}
    assert rounded_inputs(inputs, multiplier(exact, exact)) is None
    assert rounded_inputs(inputs, multiplier([p * (1 - 2.0**-17) for p in PROBES], exact)) is None
    found = rounded_inputs(inputs, multiplier(cut, exact))
    assert found is not None
    assert found["a"][0, 0] == round_to(PROBES[2], 10, "truncated")
    assert found["b"][0, 0] == PROBES[2]
    assert multiplier(cut, exact).words == "a truncated to 10 fraction bits, b kept exactly"

"""The canaries are told by precision where its configurations agree, and one by one where they do not."""

import math

import pytest
from records import MATMUL, SOFTMAX, device, evidence, gpu, interpreter, readings, replaced

from assay.operands import CanaryRow, canary_rows, reading
from assay.outcomes import FAILED, INAPPLICABLE, VERIFIED
from assay.record import Canary, number
from assay.rounding import PROBES, canary


def told(canaries: list[Canary]) -> list[CanaryRow]:
    return canary_rows(evidence("gpu", replaced(gpu(MATMUL, device()), canaries=canaries)))


def test_a_precision_whose_configurations_agree_has_a_row_for_each_operand() -> None:
    found = told(gpu(MATMUL, device()).canaries)
    assert [(row.variant, row.operand, row.readings) for row in found] == [
        ("ieee, all 2 configurations", "left", "1, 1.5, 3"),
        ("ieee, all 2 configurations", "right", "1, 1.5, 3"),
        ("tf32, all 2 configurations", "left", "2, 2, 4"),
        ("tf32, all 2 configurations", "right", "2, 2, 4"),
    ]
    assert [row.words for row in found[1:3]] == ["kept exactly", "rounded to nearest, ties away to 10 fraction bits"]
    assert {row.told.mark for row in found} == {VERIFIED}
    assert found[2].told.source.pointer == "/result/canaries/4"


def test_configurations_that_disagree_are_told_one_by_one() -> None:
    canaries = gpu(MATMUL, device()).canaries
    canaries[4] = canary(canaries[4].variant, "left", list(PROBES), gated=True)
    found = [row for row in told(canaries) if row.variant.startswith("tf32") and row.operand == "left"]
    assert [(row.variant, row.readings, row.told.mark) for row in found] == [
        ("tf32/64x64x32", "1, 1.5, 3", FAILED),
        ("tf32/128x64x64", "2, 2, 4", VERIFIED),
    ]


def test_a_probe_outside_the_classic_three_tells_configurations_apart_too() -> None:
    canaries = gpu(MATMUL, device()).canaries
    bent = [*readings("ieee")[:-1], 1.0]
    canaries[0] = canary(canaries[0].variant, "left", bent, gated=True)
    assert [row.variant for row in told(canaries)][:2] == ["ieee/64x64x32", "ieee/128x64x64"]


def test_under_the_interpreter_nothing_is_gated_and_a_kernel_without_a_product_has_none() -> None:
    found = canary_rows(evidence("interpreter", interpreter(MATMUL)))
    assert {(row.tier, row.told.mark) for row in found} == {("interpreter", INAPPLICABLE)}
    assert canary_rows(evidence("gpu", gpu(SOFTMAX, device()))) == []


@pytest.mark.parametrize(("value", "shown"), [(1 + 2**-11, "1"), (math.nan, "NaN"), (math.inf, "infinite")])
def test_a_reading_that_is_no_number_says_so(value: float, shown: str) -> None:
    assert reading(number(value)) == shown

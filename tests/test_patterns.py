"""Patterns that the harness imposes on inputs: each keeps shape and dtype, and is what its name says."""

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.patterns import PATTERNS, Pattern, PatternError, impose

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)
dtypes = st.sampled_from([torch.float16, torch.bfloat16, torch.float32])
patterns = st.sampled_from(get_args(Pattern))


def made(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)


@settings(max_examples=60)
@given(shapes, dtypes, patterns)
def test_each_keeps_shape_and_dtype_and_leaves_its_argument_alone(
    shape: tuple[int, ...], dtype: torch.dtype, pattern: Pattern
) -> None:
    values = made(shape, dtype)
    before = values.clone()
    found = PATTERNS[pattern](values)
    assert (found.shape, found.dtype) == (values.shape, dtype)
    assert torch.equal(values, before)
    # A result that shares memory would change with it.
    found.fill_(1)
    assert pattern == "positive" or torch.equal(values, before)


def test_every_pattern_that_can_be_named_is_there() -> None:
    assert set(PATTERNS) == set(get_args(Pattern))


@given(shapes, dtypes)
def test_positive_and_negative_keep_every_magnitude_and_have_one_sign(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    values = made(shape, dtype)
    positive, negative = PATTERNS["positive"](values), PATTERNS["negative"](values)
    assert torch.equal(positive, values.abs())
    assert torch.equal(negative, -positive)
    assert bool(negative.signbit().all())


@given(shapes, dtypes)
def test_denormals_are_not_zero_and_below_the_smallest_normal_number(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    found = PATTERNS["denormal"](made(shape, dtype)).double().abs()
    assert 0 < float(found.max()) < torch.finfo(dtype).tiny


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_product_of_two_large_or_tiny_values_stays_finite_and_normal(dtype: torch.dtype) -> None:
    values = made((64,), dtype)
    for pattern in ("large", "tiny"):
        found = PATTERNS[pattern](values).float()
        product = found * found
        assert bool(product.isfinite().all())
        assert float(product.max()) > torch.finfo(torch.float32).tiny


@given(shapes, st.sampled_from(["one-nan", "one-inf", "one-negative-inf"]))
def test_one_element_is_replaced_and_no_other(shape: tuple[int, ...], pattern: Pattern) -> None:
    values = made(shape, torch.float32)
    found = PATTERNS[pattern](values)
    changed = ~found.isfinite()
    assert int(changed.sum()) == 1
    assert torch.equal(found[~changed], values[~changed])


def test_a_whole_row_is_replaced_and_rows_can_be_made_equal() -> None:
    values = made((5, 4), torch.float32)
    lost = PATTERNS["row-negative-inf"](values).isneginf()
    assert lost.sum(dim=1).tolist() == [0, 0, 4, 0, 0]
    assert torch.equal(PATTERNS["equal"](values), values[:, :1].expand(5, 4))


def test_a_pattern_of_floats_is_refused_for_integers() -> None:
    refusal = (
        "^case one, input i: expected floating-point values for the pattern 'zero', found torch.int64; take it away$"
    )
    with pytest.raises(PatternError, match=refusal):
        impose("zero", torch.arange(3), "case one, input i")
    assert impose("zero", torch.ones(3), "").tolist() == [0, 0, 0]

"""Memory that torch hands out without a value: filled with a mark inside, and left to torch outside."""

from collections.abc import Callable

import pytest
import torch

from assay.buffers import UNCLEARED, bits_of
from assay.uncleared import ZEROS, filled_with, uncleared

BASE = torch.zeros(3, 4)
WAYS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "empty": lambda dtype: torch.empty(3, 4, dtype=dtype),
    "empty_like": lambda dtype: torch.empty_like(BASE, dtype=dtype),
    "empty_strided": lambda dtype: torch.empty_strided((3, 4), (9, 2), dtype=dtype),
    "empty_permuted": lambda dtype: torch.empty_permuted((3, 4), (1, 0), dtype=dtype),
    "new_empty": lambda dtype: BASE.new_empty(3, 4, dtype=dtype),
    "new_empty_strided": lambda dtype: BASE.new_empty_strided((3, 4), (4, 1), dtype=dtype),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64]
)
def test_every_way_to_allocate_without_a_value_gives_the_mark(way: str, dtype: torch.dtype) -> None:
    with uncleared():
        made = WAYS[way](dtype)
    assert (made.dtype, made.shape) == (dtype, (3, 4))
    assert bool((bits_of(made) == UNCLEARED[dtype.itemsize]).all())


@pytest.mark.parametrize("way", WAYS)
def test_it_can_be_filled_with_something_else(way: str) -> None:
    with uncleared(), filled_with(ZEROS):
        assert bool((WAYS[way](torch.float32) == 0).all())


def test_what_has_a_value_keeps_it() -> None:
    with uncleared():
        assert torch.zeros(3).tolist() == [0, 0, 0]
        assert torch.full((2,), 7).tolist() == [7, 7]
        assert torch.tensor([1.0]).new_zeros(2).tolist() == [0, 0]


def test_memory_around_a_tensor_that_is_handed_over_is_left_alone() -> None:
    base = torch.zeros(10)
    with uncleared():
        torch.empty(4, out=base[3:7])
    assert base[:3].tolist() == base[7:].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.complex64, torch.complex128])
def test_what_bears_no_mark_is_filled_by_torch(dtype: torch.dtype) -> None:
    with uncleared():
        made = torch.empty(3, dtype=dtype)
    if dtype.is_complex:
        assert bool(made.isnan().all())
    else:
        assert made.tolist() == [255 if dtype == torch.uint8 else True] * 3


def test_odd_tensors_are_made_as_ever() -> None:
    with uncleared():
        assert torch.empty(0).shape == (0,)
        assert torch.empty(3, device="meta").shape == (3,)
        assert torch.empty((2, 2), layout=torch.sparse_coo).layout == torch.sparse_coo
        assert torch.empty(3, requires_grad=True).requires_grad
        assert torch.empty_strided((3,), (0,)).stride() == (0,)


def test_nothing_of_it_stays_behind() -> None:
    with pytest.raises(ZeroDivisionError), uncleared():
        1 / 0  # noqa: B018
    assert not torch.are_deterministic_algorithms_enabled()
    torch.zeros(1000).fill_(1)
    assert not bool((bits_of(torch.empty(1000)) == UNCLEARED[4]).all())

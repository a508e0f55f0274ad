"""What a launch makes is found wherever torch makes it, while it lives; a view of what is guarded is nothing new."""

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay.addresses import Span, overlaps, storage_span
from assay.workspaces import Workspaces

MAKING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "empty": lambda x: torch.empty(5),
    "like": torch.empty_like,
    "of its kind": lambda x: x.new_empty(3),
    "written out": lambda x: torch.tensor([1, 2, 3]),
    "converted": lambda x: x.to(torch.float16),
    "copied": lambda x: x.clone(),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 1)),
    "padded, its middle": lambda x: torch.nn.functional.pad(x, (1, 1))[1:-1],
    "computed": lambda x: x + 1,
    "one of several": lambda x: torch.sort(x)[1],
    "made contiguous": lambda x: x[::2].contiguous(),
    "resized": lambda x: torch.empty(1).resize_(100),
}
VIEWING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": lambda x: x,
    "a slice": lambda x: x[2:],
    "contiguous already": lambda x: x.contiguous(),
    "of that dtype already": lambda x: x.to(torch.float32),
    "as integers": lambda x: x.view(torch.int32),
    "beyond its end": lambda x: x.as_strided((8,), (1,), 12),
    "detached": lambda x: x.detach(),
    "written in place": lambda x: x.zero_(),
    "through NumPy": lambda x: torch.from_numpy(x.numpy()),
    "one of its pieces": lambda x: torch.split(x, 2)[1],
}


def guarded() -> torch.Tensor:
    return torch.arange(32, dtype=torch.float32)[8:16]


def made_by(make: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Span, list[Span], torch.Tensor]:
    """Return the storage of what is made, those that were found meanwhile, and what is guarded."""
    workspaces, x = Workspaces(), guarded()
    with workspaces.allowed([x]):
        made = make(x)
    return storage_span(made), workspaces.spans(), x


@pytest.mark.parametrize("name", MAKING)
def test_all_of_what_is_made_is_found(name: str) -> None:
    storage, found, x = made_by(MAKING[name])
    assert storage in found
    assert not overlaps(storage_span(x), found)


@pytest.mark.parametrize("name", VIEWING)
def test_a_view_of_what_is_guarded_is_not_found(name: str) -> None:
    _, found, x = made_by(VIEWING[name])
    assert not overlaps(storage_span(x), found)


def test_what_is_gone_is_found_no_more_and_what_is_kept_is() -> None:
    workspaces, x = Workspaces(), guarded()
    with workspaces.allowed([x]):
        kept, gone = x.clone()[2:4], x.clone()
    assert len(workspaces.spans()) == 2
    del gone
    gc.collect()
    assert workspaces.spans() == [storage_span(kept)]
    with workspaces.allowed([guarded()]):
        pass
    assert workspaces.spans() == [storage_span(kept)]


def test_what_is_made_outside_is_not_found() -> None:
    workspaces = Workspaces()
    before = torch.zeros(3)
    with workspaces.allowed([guarded()]):
        pass
    after = torch.zeros(3)
    assert not overlaps(storage_span(before), workspaces.spans())
    assert not overlaps(storage_span(after), workspaces.spans())


SPANS = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))


@given(SPANS, st.lists(SPANS, max_size=3))
def test_spans_overlap_if_they_have_an_address_in_common(span: Span, others: list[Span]) -> None:
    taken = {address for other in others for address in range(*other)}
    assert overlaps(span, others) == bool(taken & set(range(*span)))


@given(st.integers(0, 4), st.integers(1, 5))
def test_the_span_of_a_storage_is_that_of_all_its_elements(first: int, length: int) -> None:
    whole = np.zeros(16, np.float32)
    span = storage_span(torch.from_numpy(whole)[first : first + length])
    assert span == (whole.ctypes.data, whole.ctypes.data + whole.nbytes)

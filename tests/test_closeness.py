"""Laws of the two errors of an output, however it is cut into pieces."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay import closeness as module
from assay.closeness import closeness, closeness_of_all, worst
from assay.record import Accuracy, NonFinite, as_float

FINITE = st.floats(-1e6, 1e6, allow_nan=False, width=32)
ROWS = st.integers(1, 9).flatmap(lambda width: st.lists(st.lists(FINITE, min_size=width, max_size=width), min_size=1))


@given(ROWS, ROWS.map(lambda rows: rows[0][0]), st.integers(1, 40))
def test_pieces_make_no_difference(rows: list[list[float]], moved: float, piece: int) -> None:
    want = torch.tensor(rows, dtype=torch.float64)
    got = want.clone()
    got[-1, 0] += moved
    error, size = (got - want).norm().item(), want.norm().item()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        found = closeness(got, want)
    assert as_float(found.normwise) == pytest.approx(error / size if size else error)
    most = want.abs().max().item()
    assert as_float(found.largest) == pytest.approx((got - want).abs().max().item() / (most or 1.0))


def test_each_error_by_hand() -> None:
    want = torch.tensor([[3.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    got = torch.tensor([[3.0, 1.0], [0.0, 4.0]])
    assert closeness(got, want) == Accuracy(normwise=0.2, largest=0.25)
    # A view that is not contiguous, and a single number.
    assert closeness(got.T, want.T) == Accuracy(normwise=0.2, largest=0.25)
    assert closeness(torch.tensor(2.0), torch.tensor(4.0).double()) == Accuracy(normwise=0.5, largest=0.5)


def test_where_0_is_wanted_it_is_the_error_itself() -> None:
    assert closeness(torch.tensor([0.25]), torch.zeros(1).double()) == Accuracy(normwise=0.25, largest=0.25)


def test_nothing_is_as_close_as_can_be() -> None:
    assert closeness(torch.ones(0, 3), torch.ones(0, 3).double()) == Accuracy(normwise=0.0, largest=0.0)


def test_a_nan_is_never_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 2)
    for place in range(6):
        got = torch.ones(6)
        got[place] = math.nan
        assert closeness(got, torch.ones(6).double()) == Accuracy(
            normwise=NonFinite(nonfinite="nan"), largest=NonFinite(nonfinite="nan")
        )
    good, bad = Accuracy(normwise=1.0, largest=9.0), Accuracy(normwise=NonFinite(nonfinite="nan"), largest=2.0)
    for order in ([good, bad], [bad, good]):
        assert worst(order) == Accuracy(normwise=NonFinite(nonfinite="nan"), largest=9.0)


def test_the_worst_output_counts() -> None:
    want = {"a": torch.ones(4).double(), "b": torch.ones(4).double()}
    assert closeness_of_all({"a": torch.ones(4), "b": torch.full((4,), 1.5)}, want).normwise == 0.5


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) stands where \(4,\) is wanted"):
        closeness(torch.ones(3), torch.ones(4).double())

"""Laws of rates and ceilings, and of what no rate can be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.artifact import canonical, decode
from assay.rates import MOST_SHARE, ceiling, goes_through_memory, over_ceiling, rate, shares
from assay.record import Ceiling, CeilingName, Inputs, Rate, Share, Unavailable
from assay.sampling import Problem
from assay.stopping import possible

TIMES = st.floats(1.0, 1e12)
NAMES: st.SearchStrategy[CeilingName] = st.sampled_from(["copy", "fp32", "tf32", "bf16"])
PROBLEM = Problem(size="2048", dimensions={"n": 2048}, flops=2 * 2048**3, bytes=12 * 2048**2)
COPY = ceiling("copy", "a copy", 4000, [1.0])
TF32 = ceiling("tf32", "a product", 400000, [1.0])


@given(TIMES)
def test_rate_times_time_is_the_declared_work(nanoseconds: float) -> None:
    found = rate(PROBLEM, nanoseconds)
    assert isinstance(found, Rate)
    assert found.unit == "GFLOP/s"
    assert math.isclose(found.value * nanoseconds, PROBLEM.flops)


@pytest.mark.parametrize(("flops", "unit"), [(0, "GB/s"), (10 * 4096, "GB/s"), (10 * 4096 + 1, "GFLOP/s")])
def test_unit_follows_operations_a_byte(flops: int, unit: str) -> None:
    found = rate(Problem(size="s", dimensions={}, flops=flops, bytes=4096), 2.0)
    assert found == Rate(value=(flops if unit == "GFLOP/s" else 4096) / 2.0, unit=unit)  # type: ignore[arg-type]


def test_no_declared_work_has_no_rate_and_no_share() -> None:
    idle = Problem(size="s", dimensions={}, flops=0, bytes=0)
    assert rate(idle, 2.0) == Unavailable(reason="the kernel declares no work for this size")
    assert list(shares(idle, 2.0, [COPY, TF32], ("tf32", 1), cold=True)) == []


@given(NAMES, st.integers(1, 2**50), st.lists(TIMES, min_size=1))
def test_a_ceiling_is_the_rate_of_the_fastest_sample(name: CeilingName, work: int, samples: list[float]) -> None:
    found = ceiling(name, "how", work, samples)
    assert found.rate == Rate(value=work / min(samples), unit="GB/s" if name == "copy" else "GFLOP/s")
    assert ceiling(found.name, found.how, found.work, found.samples_ns) == found


@given(NAMES, st.lists(TIMES), st.sampled_from([0.0, -1.0, math.nan, math.inf]))
def test_a_ceiling_with_an_impossible_sample_is_none(name: CeilingName, samples: list[float], odd: float) -> None:
    found = ceiling(name, "capability 8.0 is needed", 10, [*samples, odd])
    assert found.rate == Unavailable(reason="capability 8.0 is needed")
    assert found.samples_ns == []
    assert decode(canonical(found), Ceiling, "ceiling") == found
    assert possible(found.samples_ns)


@given(TIMES, st.integers(1, 6))
def test_shares_are_work_over_time_over_the_ceiling(nanoseconds: float, products: int) -> None:
    copy, arithmetic = shares(PROBLEM, nanoseconds, [COPY, TF32], ("tf32", products), cold=True)
    assert math.isclose(copy.fraction * 4000 * nanoseconds, PROBLEM.bytes)
    assert math.isclose(arithmetic.fraction * 400000 * nanoseconds, PROBLEM.flops * products)
    assert (copy.ceiling, arithmetic.ceiling) == ("copy", "tf32")


def test_a_share_needs_a_ceiling_that_was_measured_and_a_precision_that_runs_into_it() -> None:
    nothing = ceiling("tf32", "not here", 0, [])
    assert [one.ceiling for one in shares(PROBLEM, 5.0, [COPY, nothing], ("tf32", 1), cold=True)] == ["copy"]
    assert [one.ceiling for one in shares(PROBLEM, 5.0, [COPY, TF32], None, cold=True)] == ["copy"]
    assert [one.ceiling for one in shares(PROBLEM, 5.0, [TF32], ("tf32", 1), cold=True)] == ["tf32"]


@pytest.mark.parametrize("cold", [True, False])
def test_arithmetic_always_binds_and_a_copy_where_the_data_is_cold(cold: bool) -> None:
    copy, arithmetic = shares(PROBLEM, 5.0, [COPY, TF32], ("tf32", 1), cold)
    assert (copy.binding, arithmetic.binding) == (cold, True)


@pytest.mark.parametrize(
    ("set_bytes", "flush", "cache", "cold"),
    [(101, 1, 100, True), (100, 1, 100, False), (2**21, 0, 100, False), (2**30, 1, 2**21, False)],
)
def test_data_goes_through_memory_where_set_and_flush_exceed_the_cache(
    set_bytes: int, flush: int, cache: int, cold: bool
) -> None:
    inputs = Inputs(seed=1, sets=1, set_bytes=set_bytes, cache_bytes=cache, tensors=[])
    assert goes_through_memory(inputs, flush) == cold


def test_data_is_not_known_to_go_through_memory_where_the_cache_is_not_known() -> None:
    nothing = Unavailable(reason="not told")
    assert not goes_through_memory(nothing, 256)
    assert not goes_through_memory(Inputs(seed=1, sets=1, set_bytes=2**40, cache_bytes=nothing, tensors=[]), 256)


@given(st.floats(0, 10), st.booleans())
def test_a_rate_past_a_binding_ceiling_fails(fraction: float, binding: bool) -> None:
    found = over_ceiling([Share(ceiling="copy", fraction=fraction, binding=binding)])
    assert (found is not None) == (binding and fraction > MOST_SHARE)
    if found is not None:
        assert (found.outcome, found.cause) == ("failed", "over-ceiling")
        assert found.reason.startswith(f"{fraction:.4g} of the ceiling 'copy' that was measured in this run")


def test_a_share_that_is_no_number_fails() -> None:
    assert over_ceiling([Share(ceiling="tf32", fraction=math.nan, binding=True)]) is not None

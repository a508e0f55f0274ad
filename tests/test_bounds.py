"""The named bounds: their limits are what their words say, and hold for arithmetic done as they presume."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.bounds import (
    FLOAT32,
    TENSOR_CORES,
    Arithmetic,
    Bound,
    ComponentwiseBound,
    Problem,
    ReductionBound,
    UlpBound,
)

fewer = settings(max_examples=40)


@dataclass(frozen=True)
class Mode:
    precision: str


def product(inputs: Any) -> dict[str, torch.Tensor]:
    return {"c": inputs["a"] @ inputs["b"]}


def problem(a: torch.Tensor, b: torch.Tensor, precision: str = "ieee", rounded: Any = None) -> Problem:
    inputs = {"a": a.double(), "b": b.double()}
    size = {"m": a.shape[0], "k": a.shape[1], "n": b.shape[1]}
    return Problem(Mode(precision), size, inputs, product(inputs), product, rounded, "truncated")


def random(rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def terms(size: Any) -> int:
    return int(size["k"])


REDUCTION = ReductionBound(terms=terms, table={"ieee": 1e-5}, eps={"ieee": 2.0**-23})


@pytest.mark.parametrize(("k", "rtol"), [(1, 1e-5), (1024, 4 * 2.0**-23 * 32), (4096, 4 * 2.0**-23 * 64)])
def test_the_reduction_bound_is_the_references_rule(k: int, rtol: float) -> None:
    posed = problem(random(3, k, 1), random(k, 5, 2))
    want = posed.want["c"]
    expected = rtol * want.abs().max() + rtol * want.abs()
    assert torch.equal(REDUCTION.limit(posed, "c"), expected)
    words = REDUCTION.words(posed, "c")
    assert f"K = {k} terms" in words
    assert f"{rtol:.3g} |want|" in words
    assert f"{rtol * float(want.abs().max()):.3g} +" in words


def test_an_infinite_element_adds_to_no_others_bound() -> None:
    a = random(4, 6, 1)
    plain = REDUCTION.limit(problem(a, random(6, 3, 2)), "c")
    a[2, 3] = math.inf
    spoilt = REDUCTION.limit(problem(a, random(6, 3, 2)), "c")
    assert bool(spoilt[[0, 1, 3]].isfinite().all())
    assert float(spoilt[0].max()) <= 2 * float(plain.max())


@fewer
@given(st.integers(1, 300), st.integers(0, 100))
def test_float32_sums_keep_the_componentwise_bound(k: int, seed: int) -> None:
    a, b = random(5, k, seed), random(k, 4, seed + 1)
    got = np.zeros((5, 4), np.float32)
    for step in range(k):
        got = got + a.numpy()[:, step, None] * b.numpy()[None, step]
    posed = problem(a, b)
    error = (torch.from_numpy(got).double() - posed.want["c"]).abs()
    assert bool((error <= ComponentwiseBound(terms=terms).limit(posed, "c")).all())


@fewer
@given(st.integers(2, 200), st.integers(0, 100), st.data())
def test_a_lost_term_breaks_the_componentwise_bound(k: int, seed: int, data: st.DataObject) -> None:
    a, b = random(5, k, seed), random(k, 4, seed + 1)
    lost = data.draw(st.integers(0, k - 1))
    kept = a.clone()
    kept[:, lost] = 0
    posed = problem(a, b, "tf32")
    error = (product({"a": kept.double(), "b": b.double()})["c"] - posed.want["c"]).abs()
    assert bool((error > ComponentwiseBound(terms=terms).limit(posed, "c")).any())


def test_operands_that_the_multiplier_rounds_are_rounded_in_the_reference() -> None:
    a, b = random(3, 8, 1), random(8, 3, 2)
    rounded = {"c": torch.zeros(3, 3, dtype=torch.float64)}
    bound, posed = ComponentwiseBound(terms=terms), problem(a, b, "tf32", rounded)
    assert torch.equal(bound.reference(posed, "c"), rounded["c"])
    assert torch.equal(REDUCTION.reference(posed, "c"), posed.want["c"])
    assert bound.words(posed, "c").endswith("want is of operands truncated")
    assert "want is of operands" not in bound.words(problem(a, b, "tf32"), "c")


@given(st.integers(1, 10**6), st.sampled_from([FLOAT32, *TENSOR_CORES.values()]))
def test_tau_is_the_sum_that_its_words_name(k: int, arithmetic: Arithmetic) -> None:
    words = arithmetic.words(k).replace(f"sqrt({k})", f"* {math.sqrt(k)} *")
    total = sum(_value(part) for part in words.split(" + "))
    assert total == pytest.approx(arithmetic.tau(k), rel=1e-2)


def _value(part: str) -> float:
    value = 1.0
    for factor in part.split(" * "):
        over, _, under = factor.strip().partition("/")
        value *= float(over) / float(under or 1)
    return value


def test_pieces_drop_less_the_more_there_are_and_each_is_its_derivation() -> None:
    pieces = [TENSOR_CORES[precision].dropped for precision in ("bf16x6", "fp16x3", "tf32x3", "bf16x3")]
    assert pieces == sorted(set(pieces))
    assert TENSOR_CORES["tf32"].dropped == 0
    assert FLOAT32.tau(1024) == 4 * 32 * 2.0**-24


wanted = st.floats(1e-30, 1e30) | st.sampled_from([1.0, 2.0, 0.5])


@given(wanted, st.floats(0.25, 64))
def test_the_ulp_bound_counts_in_the_outputs_own_spacing(want: float, ulps: float) -> None:
    near = torch.tensor([want]).double()
    posed = Problem(Mode("f32"), {}, {}, {"y": near}, product)
    limit = float(UlpBound(ulps=lambda _: ulps, why="", floor=0.0).limit(posed, "y"))
    assert limit == ulps * float(np.spacing(np.float32(near.item())))


def test_where_nothing_is_wanted_the_floor_alone_is_left() -> None:
    posed = Problem(Mode("f32"), {}, {}, {"y": torch.tensor([0.0, 1.0]).double()}, product)
    bound = UlpBound(ulps=lambda _: torch.tensor([math.inf, 2.0]), why="because")
    assert bound.limit(posed, "y").tolist() == [2.0**-126, 2.0 * 2.0**-23 + 2.0**-126]
    assert bound.words(posed, "y") == (
        "|got - want| <= u ulp(want) + 1.18e-38, ulp at 23 fraction bits; u = 2: because"
    )


def test_a_bound_covers_what_it_names_or_all() -> None:
    assert UlpBound(ulps=lambda _: 1.0, why="").covers("any")
    named = UlpBound(ulps=lambda _: 1.0, why="", outputs=("y",))
    assert named.covers("y")
    assert not named.covers("z")


def test_an_authors_bound_must_say_its_limit_and_its_words() -> None:
    @dataclass(frozen=True)
    class Own(Bound):
        def limit(self, problem: Problem, output: str) -> torch.Tensor:
            return torch.ones(())

    with pytest.raises(TypeError, match=r"abstract method '?words'?"):
        Own()  # type: ignore[abstract]

    class Whole(Own):
        def words(self, problem: Problem, output: str) -> str:
            return "at most 1"

    assert (Whole().name, Whole().source) == ("Whole", "the kernel file")


@fewer
@given(st.integers(1, 60), st.integers(0, 100), st.sampled_from([torch.float16, torch.bfloat16]))
def test_a_result_stored_in_fewer_bits_keeps_the_componentwise_bound(k: int, seed: int, dtype: torch.dtype) -> None:
    a, b = random(5, k, seed), random(k, 4, seed + 1)
    posed = replace(problem(a, b), dtypes={"c": dtype})
    error = (posed.want["c"].to(dtype).double() - posed.want["c"]).abs()
    bound = ComponentwiseBound(terms=terms)
    assert bool((error <= bound.limit(posed, "c")).all())
    assert f"+ {torch.finfo(dtype).eps / 2:.3g} |want|" in bound.words(posed, "c")
    assert bool((bound.limit(posed, "c") > bound.limit(problem(a, b), "c")).all())

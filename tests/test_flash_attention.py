"""kernels/flash_attention.py: right on its cases in float16, its bound tight in both formats, planted faults caught."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trials import ROOT, Bench, bench, planted, verdict_of

from assay.kernel import Kernel, Problem, Size, Tensors, cast, load, widen
from assay.record import Cause, Check

KERNEL = ROOT / "kernels" / "flash_attention.py"
VARIANT = "fp16/128x64"
CASES = [case.name for case in load(KERNEL).cases]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("flash_attention") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return load(KERNEL)


@pytest.mark.parametrize("case", CASES)
def test_it_is_right(tried: Bench, case: str) -> None:
    check = tried.check(KERNEL, VARIANT, case, [20260901, 7])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason


def test_the_result_is_float16_and_its_log_sum_exp_float32(tried: Bench) -> None:
    check = tried.check(KERNEL, VARIANT, "ragged-2x100x77x64")
    assert isinstance(check, Check)
    assert {(c.output, c.dtype, c.rule) for c in check.comparisons} == {
        (output, dtype, rule)
        for output, dtype in (("o", "float16"), ("lse", "float32"))
        for rule in ("reduction", "attention")
    }


@pytest.mark.parametrize("case", CASES)
def test_it_is_right_in_bfloat16(tried: Bench, case: str) -> None:
    check = tried.check(KERNEL, "bf16/128x64", case, [20260901, 7])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed", check.verdict.reason
    assert {(c.output, c.dtype) for c in check.comparisons} == {("o", "bfloat16"), ("lse", "float32")}


V_MASK = "v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)"
O_STORE = "(sum_ / total[:, None]).to(o_ptr.dtype.element_ty), mask=present[:, None]"
PLANTED: list[tuple[str, tuple[str, str], str, Cause]] = [
    ("later keys seen", (" & (key[None, :] <= row[:, None] + reach)", ""), "causal-2x192x192x64", "wrong-value"),
    (
        "one later key seen",
        ("row[:, None] + reach)", "row[:, None] + reach + 1)"),
        "causal-sharp-2x150x150x32",
        "wrong-value",
    ),
    ("own key not seen", ("key[None, :] <= row", "key[None, :] < row"), "causal-ragged-2x131x131x32", "not-finite"),
    ("keys past the last seen", ("inside[None, :] & (key", "(key"), "ragged-2x100x77x64", "undefined-read"),
    ("no mask on V", (V_MASK, "v = tl.load(v_ptrs)"), "ragged-2x100x77x64", "poison-read"),
    ("lanes of V left undefined", (V_MASK, V_MASK.replace(", other=0.0", "")), "single-1x1x1x32", "undefined-read"),
    (
        "no store mask",
        (O_STORE, O_STORE.replace(", mask=present[:, None]", "")),
        "ragged-2x100x77x64",
        "out-of-bounds-write",
    ),
    ("the sum not rescaled", ("sum_ * shrink[:, None]", "sum_"), "sharp-2x70x200x64", "wrong-value"),
    ("the total not rescaled", ("total * shrink", "total"), "sharp-2x70x200x64", "wrong-value"),
    ("no maximum", ("tl.exp(scores - higher[:, None])", "tl.exp(scores)"), "sharp-2x70x200x64", "not-finite"),
    (
        "the maximum of one block only",
        ("tl.maximum(highest, tl.max(scores, axis=1))", "tl.max(scores, axis=1)"),
        "causal-2x192x192x64",
        "not-finite",
    ),
    (
        "the last block of keys left out",
        ("range(0, last, BLOCK_N)", "range(0, last - BLOCK_N + 1, BLOCK_N)"),
        "one-past-1x129x129x32",
        "wrong-value",
    ),
    (
        "keys up to the tile's first row",
        ("(tile + 1) * BLOCK_M + reach)\n    for", "tile * BLOCK_M + reach)\n    for"),
        "causal-2x192x192x64",
        "not-finite",
    ),
    ("no scale", ("tl.dot(q, k) * scale", "tl.dot(q, k)"), "ragged-2x100x77x64", "wrong-value"),
    ("lse without the maximum", ("highest + tl.log(total)", "tl.log(total)"), "positive-2x70x150x64", "wrong-value"),
    (
        "K as if dense",
        ("depth[:, None] * k_col + key[None, :] * k_row", "depth[:, None] + key[None, :] * DIM"),
        "strided-qk-2x70x90x32",
        "wrong-value",
    ),
    (
        "V with the strides of K",
        ("head * v_head + key[:, None] * v_row", "head * v_head + key[:, None] * k_row"),
        "strided-vo-2x70x90x32",
        "poison-read",
    ),
    (
        "O with the strides of Q",
        ("*v.stride(), *o.stride()", "*v.stride(), *q.stride()"),
        "strided-vo-2x70x90x32",
        "out-of-bounds-write",
    ),
    (
        "heads with offsets of 32 bits",
        ("tl.program_id(1).to(tl.int64)", "tl.program_id(1)"),
        "distant-3x5x7x32",
        "poison-read",
    ),
]


@pytest.mark.parametrize(("name", "change", "case", "cause"), PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_fault_is_caught(
    tried: Bench, tmp_path: Path, name: str, change: tuple[str, str], case: str, cause: Cause
) -> None:
    check = tried.check(planted(KERNEL, tmp_path, change), VARIANT, case)
    verdict = verdict_of(check, VARIANT.partition("/")[0])
    assert verdict.cause == cause, verdict.reason


sizes = st.fixed_dictionaries(
    {
        "heads": st.integers(1, 2),
        "queries": st.integers(1, 12),
        "keys": st.integers(1, 12),
        "dim": st.sampled_from([32, 64]),
        "reach": st.sampled_from([0, 5, 12]),
        "sharp": st.sampled_from([1, 60]),
    }
)


def inputs_of(kernel: Kernel, size: Size, seed: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    return cast(kernel.inputs(size, torch.Generator().manual_seed(seed)), dtype)


@given(sizes, st.integers(0, 2**32))
def test_the_oracle_is_torchs_attention(kernel: Kernel, size: Size, seed: int) -> None:
    wide = widen(inputs_of(kernel, size, seed))
    q, k, v = wide["q"], wide["k"], wide["v"]
    got = kernel.oracle(wide)
    seen = torch.ones(size["queries"], size["keys"], dtype=torch.bool).tril(size["reach"])
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    assert torch.allclose(got["o"], want, rtol=1e-9, atol=1e-9)
    scores = (q @ k.mT / math.sqrt(size["dim"])).masked_fill(~seen, -torch.inf)
    assert torch.allclose(got["lse"], torch.logsumexp(scores, dim=2), rtol=1e-9)


def rounded_attention(inputs: Tensors, weights: torch.dtype, result: torch.dtype) -> dict[str, torch.Tensor]:
    """Return attention in float32 with the weights and the result rounded as given; every query sees every key."""
    q, k, v = (inputs[name].float() for name in ("q", "k", "v"))
    scores = q @ k.mT / math.sqrt(q.shape[2])
    highest = scores.amax(dim=2, keepdim=True)
    p = torch.exp(scores - highest)
    total = p.sum(dim=2, keepdim=True)
    o = p.to(weights).float() @ v / total
    return {"o": o.to(result), "lse": (highest + torch.log(total))[:, :, 0]}


def outside(kernel: Kernel, variant: str, inputs: Tensors, size: Size, got: Tensors) -> list[str]:
    """Return the outputs of which some element is past the attention bound."""
    wide = widen(inputs)
    problem = Problem(kernel.variant(variant), size, wide, kernel.oracle(wide), kernel.oracle)
    limits = {name: kernel.bounds[1].limit(problem, name) for name in got}
    return [name for name, limit in limits.items() if not bool(((got[name] - problem.want[name]).abs() <= limit).all())]


FORMATS = {"fp16/128x64": torch.float16, "bf16/128x64": torch.bfloat16}


@pytest.mark.parametrize("variant", FORMATS)
@given(size=sizes, seed=st.integers(0, 2**32))
def test_weights_and_result_in_the_format_stay_within_the_bound(
    kernel: Kernel, variant: str, size: dict[str, int], seed: int
) -> None:
    size, form = {**size, "reach": size["keys"]}, FORMATS[variant]
    inputs = inputs_of(kernel, size, seed, form)
    assert outside(kernel, variant, inputs, size, rounded_attention(inputs, form, form)) == []


@pytest.mark.parametrize(
    ("weights", "result"), [(torch.bfloat16, torch.float16), (torch.float16, torch.bfloat16)], ids=["weights", "result"]
)
def test_three_bits_less_than_float16_do_not(kernel: Kernel, weights: torch.dtype, result: torch.dtype) -> None:
    size = {"heads": 1, "queries": 20, "keys": 8, "dim": 32}
    inputs = inputs_of(kernel, size, 1, torch.float16)
    assert outside(kernel, "fp16/128x64", inputs, size, rounded_attention(inputs, weights, result)) == ["o"]


def test_a_log_sum_exp_in_float16_does_not(kernel: Kernel) -> None:
    size = {"heads": 1, "queries": 20, "keys": 8, "dim": 32}
    inputs = inputs_of(kernel, size, 1, torch.float16)
    got = rounded_attention(inputs, torch.float16, torch.float16)
    assert outside(kernel, "fp16/128x64", inputs, size, {"lse": got["lse"].half()}) == ["lse"]


def test_the_words_carry_the_formats_numbers(kernel: Kernel) -> None:
    size = {"heads": 1, "queries": 2, "keys": 16, "dim": 64}
    wide = widen(inputs_of(kernel, size, 1))
    words = {
        variant: kernel.bounds[1].words(Problem(kernel.variant(variant), size, wide, {}, kernel.oracle), "o")
        for variant in FORMATS
    }
    assert f"v = {2.0**-11:.3g}, s = {2.0**-25:.3g}, " in words["fp16/128x64"]
    assert f"v = {2.0**-8:.3g}, s = {2.0**-134:.3g}, " in words["bf16/128x64"]
    assert all(f"tau(N) = 4 sqrt(16) {2.0**-24:.3g}" in line for line in words.values())


def test_both_formats_need_tensor_cores_of_8_0(kernel: Kernel) -> None:
    variants = kernel.declaration().variants
    assert [(v.id, v.minimum_capability) for v in variants] == [(name, "8.0") for name in FORMATS]


def test_the_library_is_timed_where_every_query_sees_every_key(kernel: Kernel) -> None:
    size = {"heads": 2, "queries": 5, "keys": 7, "dim": 32}
    inputs = inputs_of(kernel, size, 1)
    assert torch.allclose(kernel.peers[0].run(inputs)[0].double(), kernel.oracle(widen(inputs))["o"], atol=1e-5)
    assert not any("reach" in case.size for case in kernel.timed)


def test_the_work_is_two_products_and_each_tensor_once(kernel: Kernel) -> None:
    work = kernel.work({"heads": 3, "queries": 5, "keys": 7, "dim": 32})
    assert work.flops == 3 * 2 * (2 * 5 * 7 * 32)
    assert work.bytes == 3 * (2 * 32 * (5 + 7 + 7 + 5) + 4 * 5)

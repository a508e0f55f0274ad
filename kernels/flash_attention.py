"""Flash attention, forward: float16 or bfloat16 in and out, float32 softmax, with the log-sum-exp of each row."""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from assay.kernel import (
    Arithmetic,
    Bound,
    Case,
    Equivalent,
    Kernel,
    Output,
    Peer,
    Problem,
    ReductionBound,
    Size,
    Tensors,
    Variant,
    Work,
)


# snippet: flash-attention-kernel
@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    reach_ptr,
    o_ptr,
    lse_ptr,
    queries,
    keys,
    scale,
    q_head,
    q_row,
    q_col,
    k_head,
    k_row,
    k_col,
    v_head,
    v_row,
    v_col,
    o_head,
    o_row,
    o_col,
    lse_head,
    lse_row,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    # Offsets are 64 bits wide: heads times stride passes 2^31 on long sequences.
    tile = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    row = tile.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, DIM).to(tl.int64)
    present = row < queries
    reach = tl.load(reach_ptr)
    q_ptrs = q_ptr + head * q_head + row[:, None] * q_row + depth[None, :] * q_col
    # No `other`: each row is computed from its own query alone, and one that is not present is never stored.
    q = tl.load(q_ptrs, mask=present[:, None])

    highest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sum_ = tl.zeros((BLOCK_M, DIM), tl.float32)
    # No row of this tile sees a key at or past `last`.
    last = min(keys, (tile + 1) * BLOCK_M + reach)
    for start in range(0, last, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = key < keys
        # K is read transposed, as the product needs it. It has no `other`, for the scores of keys past the end become
        # -inf whatever they are; their weights are 0, but 0 times an undefined value of V could be NaN.
        k_ptrs = k_ptr + head * k_head + depth[:, None] * k_col + key[None, :] * k_row
        v_ptrs = v_ptr + head * v_head + key[:, None] * v_row + depth[None, :] * v_col
        k = tl.load(k_ptrs, mask=inside[None, :])
        v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)
        scores = tl.dot(q, k) * scale
        visible = inside[None, :] & (key[None, :] <= row[:, None] + reach)
        scores = tl.where(visible, scores, -float("inf"))
        # Every row sees key 0, so that from the first block on the maximum is a score and no row takes -inf from -inf.
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp(highest - higher)
        p = tl.exp(scores - higher[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        sum_ = tl.dot(p.to(v.dtype), v, sum_ * shrink[:, None])
        highest = higher

    o_ptrs = o_ptr + head * o_head + row[:, None] * o_row + depth[None, :] * o_col
    tl.store(o_ptrs, (sum_ / total[:, None]).to(o_ptr.dtype.element_ty), mask=present[:, None])
    tl.store(lse_ptr + head * lse_head + row * lse_row, highest + tl.log(total), mask=present)


# end snippet


def make_inputs(size: Size, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Standard normal Q, K and V, with Q times `sharp`: scores of size `sharp`, far past 88, where exp overflows.

    `reach` says how many keys past its own position a query sees: none under a causal mask, all of them by default. A
    launch sees tensors alone, not the size, so what differs from case to case must be one.
    """
    heads, queries, keys, dim = (size[name] for name in ("heads", "queries", "keys", "dim"))

    def normal(length: int) -> torch.Tensor:
        return torch.randn(heads, length, dim, generator=generator)

    return {
        "q": normal(queries) * size.get("sharp", 1),
        "k": normal(keys),
        "v": normal(keys),
        "reach": torch.tensor([size.get("reach", keys)], dtype=torch.int32),
    }


def declare_outputs(inputs: Tensors) -> dict[str, Output]:
    """The result has the shape and dtype of Q; there is one float32 log-sum-exp for each of its rows."""
    q = inputs["q"]
    return {"o": Output(tuple(q.shape), q.dtype), "lse": Output(tuple(q.shape[:2]))}


def scaled_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Q K^T / sqrt(dim)."""
    return q @ k.transpose(1, 2) / math.sqrt(q.shape[2])


def visible_scores(inputs: Tensors) -> torch.Tensor:
    """The scores, with -inf where a query does not see a key."""
    scores = scaled_scores(inputs["q"], inputs["k"])
    # Timed sizes are checked on the device.
    query, key = (torch.arange(size, device=scores.device) for size in scores.shape[1:])
    return scores.masked_fill(key[None, :] > query[:, None] + inputs["reach"], -math.inf)


def oracle(inputs: Tensors) -> dict[str, torch.Tensor]:
    """Softmax over all keys at once, in float64: no blocks, no running maximum."""
    scores = visible_scores(inputs)
    highest = scores.amax(dim=2, keepdim=True)
    p = torch.exp(scores - highest)
    total = p.sum(dim=2, keepdim=True)
    return {"o": (p / total) @ inputs["v"], "lse": (highest + torch.log(total))[:, :, 0]}


def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    """Start one program for each tile of queries of each head."""
    q, k, v, o, lse = inputs["q"], inputs["k"], inputs["v"], outputs["o"], outputs["lse"]
    heads, queries, dim = q.shape
    grid = (triton.cdiv(queries, variant.options["BLOCK_M"]), heads)
    strides = (*q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride())
    scale = 1 / math.sqrt(dim)
    attention_kernel[grid](
        q, k, v, inputs["reach"], o, lse, queries, k.shape[1], scale, *strides, DIM=dim, **variant.options
    )


def work(size: Size) -> Work:
    """Two products of 2 M N D operations a head, as if every query saw every key; each tensor moves once at least."""
    heads, queries, keys, dim = (size[name] for name in ("heads", "queries", "keys", "dim"))
    moved = 2 * dim * (2 * queries + 2 * keys) + 4 * queries
    return Work(flops=4 * heads * queries * keys * dim, bytes=heads * moved)


@dataclass(frozen=True)
class Format:
    """A 16-bit format: its unit roundoff, and the spacing of its numbers below the smallest normal one (IEEE 754)."""

    unit: float
    smallest: float


FORMATS = {"fp16": Format(2.0**-11, 2.0**-24), "bf16": Format(2.0**-8, 2.0**-133)}
SUMS = Arithmetic(aligned=8)
"""Products of 16-bit numbers are exact in float32; a tensor core adds eight of them or more at a time."""


def weights(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Return P, the softmax of the scores, and P d, the error of each weight before it is rounded."""
    inputs = problem.inputs
    scores, dim = visible_scores(inputs), inputs["q"].shape[2]
    size = scaled_scores(inputs["q"].abs(), inputs["k"].abs())
    highest = scores.amax(dim=2, keepdim=True)
    # exp(s - m) with s and m rounded: the error of the exponent is the relative error of the weight. A weight is scaled
    # again with every new maximum, by exponentials of which the same holds.
    exponent = SUMS.tau(dim) * size + 4 * SUMS.unit * (size + highest.abs())
    p = torch.softmax(scores, dim=2)
    # A weight of 0 has no error, however large its score, which may be infinite.
    return p, torch.where(p == 0, 0.0, p * (exponent + SUMS.tau(inputs["k"].shape[1])))


class AttentionBound(Bound):
    """|o - want| <= P (d + v) |V| + P d |want| + s (1 + sum|V|) + v |want|; |lse - want| <= P d + 8 w (1 + |want|).

    v is the unit roundoff of the 16-bit format, in which the weights meet V and the result is stored; w = 2^-24 is that
    of float32, in which all else is done. d is the relative error of a weight before it is rounded: its score errs by
    tau(D) |q||k| / sqrt(D), the argument of its exponential by a few w of its own size, and both sums over the N keys
    by tau(N); tau is that of a tensor core (see `Arithmetic`). The first term is the error of sum P V, the second that
    of the sum of P by which it is divided. s is half the spacing of the format's smallest numbers: the error of a
    weight, or of a result, that is too small for v. The eight w are those of a logarithm and an addition.
    """

    @property
    def name(self) -> str:
        """The rule's name."""
        return "attention"

    def limit(self, problem: Problem, output: str) -> torch.Tensor:
        """Return the bound of one output."""
        want = problem.want[output]
        p, p_d = weights(problem)
        off = p_d.sum(dim=2)
        if output == "lse":
            return off + 8 * SUMS.unit * (1 + want.abs())
        form, values = FORMATS[problem.variant.precision], problem.inputs["v"].abs()
        products = (p_d + p * form.unit) @ values + off[:, :, None] * want.abs()
        denormals = form.smallest / 2 * (1 + values.sum(dim=1, keepdim=True))
        return products + denormals + form.unit * want.abs()

    def words(self, problem: Problem, output: str) -> str:
        """Return the formula of this output with its numbers."""
        form, dim, keys = FORMATS[problem.variant.precision], problem.inputs["q"].shape[2], problem.inputs["k"].shape[1]
        d = (
            f"d = (tau(D) + 4 w) |q||k| / sqrt(D) + 4 w |m| + tau(N), m the row's largest score, w = 2^-24, "
            f"tau(D) = {SUMS.words(dim)}, tau(N) = {SUMS.words(keys)}"
        )
        if output == "lse":
            return f"|got - want| <= P d + 8 w (1 + |want|); {d}"
        return (
            f"|got - want| <= P (d + v) |V| + (P d) |want| + s (1 + sum|V|) + v |want|; v = {form.unit:.3g}, "
            f"s = {form.smallest / 2:.3g}, {d}"
        )


def torch_attention(inputs: Tensors) -> torch.Tensor:
    """The library's way, for the timed size, where every query sees every key. Its fast ways want a batch axis too."""
    q, k, v = (inputs[name][None] for name in ("q", "k", "v"))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def sized(heads: int, queries: int, keys: int, dim: int, **more: int) -> dict[str, int]:
    """Name the numbers of a size."""
    return {"heads": heads, "queries": queries, "keys": keys, "dim": dim, **more}


TILES = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}

KERNEL = Kernel(
    name="flash_attention",
    title="Flash attention forward, float16 and bfloat16",
    inputs=make_inputs,
    outputs=declare_outputs,
    oracle=oracle,
    launch=launch,
    variants=[
        Variant("fp16", "128x64", TILES, dtype=torch.float16, stack_bytes=0),
        Variant("bf16", "128x64", TILES, dtype=torch.bfloat16, stack_bytes=0),
    ],
    cases=[
        Case("aligned-4x128x128x64", sized(4, 128, 128, 64)),
        Case("causal-2x192x192x64", sized(2, 192, 192, 64, reach=0)),
        Case("ragged-2x100x77x64", sized(2, 100, 77, 64)),
        Case("causal-ragged-2x131x131x32", sized(2, 131, 131, 32, reach=0)),
        Case("one-past-1x129x129x32", sized(1, 129, 129, 32)),
        Case("one-short-1x127x127x64", sized(1, 127, 127, 64)),
        Case("single-1x1x1x32", sized(1, 1, 1, 32)),
        Case("ahead-2x70x150x32", sized(2, 70, 150, 32, reach=20)),
        # Keys that no query sees, and queries with no key of their own position.
        Case("causal-wide-2x40x150x32", sized(2, 40, 150, 32, reach=0)),
        Case("causal-tall-2x150x40x32", sized(2, 150, 40, 32, reach=0)),
        # Scores far past 88, where exp overflows float32, and a maximum that moves from block to block.
        Case("sharp-2x70x200x64", sized(2, 70, 200, 64, sharp=60)),
        Case("causal-sharp-2x150x150x32", sized(2, 150, 150, 32, sharp=60, reach=0)),
        Case("uniform-2x70x150x64", sized(2, 70, 150, 64), values={"q": "zero"}),
        Case("positive-2x70x150x64", sized(2, 70, 150, 64), values=dict.fromkeys(("q", "k", "v"), "positive")),
        Case("nan-in-q-2x70x90x32", sized(2, 70, 90, 32), values={"q": "one-nan"}),
        Case("nan-in-v-2x70x90x32", sized(2, 70, 90, 32), values={"v": "one-nan"}),
        # A row whose score with that key is inf becomes NaN, as in the oracle; one whose score is -inf goes without it.
        Case("inf-in-k-2x70x90x32", sized(2, 70, 90, 32), values={"k": "one-inf"}),
        # No two tensors have the same strides in both, so that taking one's for another's shows.
        Case("strided-qk-2x70x90x32", sized(2, 70, 90, 32), {"q": "padded", "k": "transposed"}),
        Case("strided-vo-2x70x90x32", sized(2, 70, 90, 32), {"v": "transposed", "o": "padded", "lse": "padded"}),
        Case("sliced-2x64x128x64", sized(2, 64, 128, 64), dict.fromkeys(("q", "k", "v", "o", "lse"), "sliced")),
        Case("distant-rows-1x5x7x32", sized(1, 5, 7, 32), dict.fromkeys(("q", "k", "v", "o"), "distant-rows")),
        Case("distant-columns-1x5x7x32", sized(1, 5, 7, 32), dict.fromkeys(("q", "k", "v", "o"), "distant-columns")),
        Case("distant-3x5x7x32", sized(3, 5, 7, 32), dict.fromkeys(("q", "k", "v", "o"), "distant")),
    ],
    # The oracle holds all scores in float64, half a gigabyte a copy: sixteen heads fill a device and spare the host.
    timed=[Case("16x2048x2048x64", sized(16, 2048, 2048, 64))],
    bound=[
        # Spacing at 1 of the format in which weights meet V, and a floor of two of them.
        ReductionBound(
            terms=lambda size: size["keys"],
            table={"fp16": 2e-3, "bf16": 2e-2},
            eps={"fp16": 2.0**-10, "bf16": 2.0**-7},
        ),
        AttentionBound(),
    ],
    work=work,
    peers=[Peer("torch attention fp16", "fp16", torch_attention)],
    # Below 8.0 Triton has no tensor-core instruction for these products: they become float32 arithmetic with 3 KiB of
    # stack for each thread.
    capability=(8, 0),
    equivalents=[
        Equivalent(
            operators=["change-initial"],
            source="total = tl.zeros((BLOCK_M,), tl.float32)",
            why="the first block scales what it starts from by exp(-inf - m), which is 0",
        ),
        Equivalent(
            operators=["change-initial"],
            source="sum_ = tl.zeros((BLOCK_M, DIM), tl.float32)",
            why="the first block scales what it starts from by exp(-inf - m), which is 0",
        ),
        Equivalent(
            operators=["min-to-max", "perturb-constant"],
            source="last = min(keys, (tile + 1) * BLOCK_M + reach)",
            why="blocks past the last key seen are all masked: their weights are 0, which is slower and not wrong",
        ),
    ],
)

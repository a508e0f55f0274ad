"""How large an error may be: named bounds, each printed so that a reader can derive it again."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch

from assay.errors import AssayError
from assay.record import CeilingName

Tensors = Mapping[str, torch.Tensor]
Size = Mapping[str, int]


class BoundError(AssayError):
    """A bound that does not know what it is asked about."""


class Precise(Protocol):
    """A variant, as far as a bound needs it."""

    @property
    def precision(self) -> str:
        """The precision mode."""


@dataclass(frozen=True)
class Problem:
    """What a bound may look at. `inputs` and `want`, the oracle's outputs for them, are float64.

    `rounded` are the outputs for the operands as the rounding canary saw the multiplier take them; None where it took
    them exactly, or the kernel declares no product. `dtypes` are those that the outputs are stored in.
    """

    variant: Precise
    size: Size
    inputs: Tensors
    want: Tensors
    oracle: Callable[[Tensors], Mapping[str, torch.Tensor]]
    rounded: Tensors | None = None
    rounding: str = ""
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)

    def storing(self, output: str) -> float:
        """Return the unit roundoff of the format that an output is stored in; 0 for float32 and wider, and integers."""
        dtype = self.dtypes.get(output, torch.float32)
        return torch.finfo(dtype).eps / 2 if dtype.is_floating_point and dtype.itemsize < 4 else 0.0


CEILINGS: Mapping[str, tuple[CeilingName, int]] = {
    "ieee": ("fp32", 1),
    "f32": ("fp32", 1),
    "tf32": ("tf32", 1),
    "tf32x3": ("tf32", 3),
    "f16": ("bf16", 1),
    "fp16": ("bf16", 1),
    "fp16x3": ("bf16", 3),
    "bf16": ("bf16", 1),
    "bf16x3": ("bf16", 3),
    "bf16x6": ("bf16", 6),
}
"""Which ceiling the arithmetic of a precision runs into, and how many products it takes for one.

Operands in pieces are multiplied piece by piece (Triton language reference, tl.dot, input_precision): of two pieces
each three products count, of three pieces six. Tensor cores multiply float16 and bfloat16 at one rate (NVIDIA H100
Tensor Core GPU Architecture, table of peak rates).
"""


@dataclass(frozen=True)
class Bound(ABC):
    """Base of the bounds. `outputs` limits one to some outputs; it covers them all where that is empty."""

    outputs: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def name(self) -> str:
        """The rule's name in records and reports."""
        return type(self).__name__

    @property
    def source(self) -> str:
        """Where the rule comes from, for who wants to derive it again."""
        return "the kernel file"

    def covers(self, output: str) -> bool:
        """Return whether this bound is for an output."""
        return not self.outputs or output in self.outputs

    def reference(self, problem: Problem, output: str) -> torch.Tensor:
        """Return what the result is compared with: float64, of the output's shape."""
        return problem.want[output]

    @abstractmethod
    def limit(self, problem: Problem, output: str) -> torch.Tensor:
        """Return the largest allowed |got - reference|: float64, of the output's shape or broadcastable to it."""

    @abstractmethod
    def words(self, problem: Problem, output: str) -> str:
        """Return the bound with its numbers, so that a reader can derive it again."""


def _largest(values: torch.Tensor) -> float:
    """Return the largest finite magnitude, or 0."""
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


@dataclass(frozen=True)
class ReductionBound(Bound):
    """|got - want| <= atol + rtol |want|, with rtol = max(table, 4 eps sqrt(K)) and atol = rtol max|want|.

    K is the number of terms that one output element sums and eps the spacing at 1 of the narrowest multiplier. Rounding
    errors of K independent additions grow like sqrt(K) (Higham & Mary, SIAM J. Sci. Comput. 41(5), 2019,
    doi:10.1137/18M1226312); the factor 4 is a margin of four standard deviations, and the table value a floor for
    short sums. This is the rule of the reference script; it is loose, because atol grows with the largest element.
    """

    terms: Callable[[Size], int]
    table: Mapping[str, float]
    eps: Mapping[str, float]

    @property
    def name(self) -> str:
        """The rule's name."""
        return "reduction"

    @property
    def source(self) -> str:
        """Where the rule comes from."""
        return "Higham & Mary, SIAM J. Sci. Comput. 41(5), 2019, doi:10.1137/18M1226312"

    def rtol(self, problem: Problem) -> float:
        """Return the relative tolerance for a variant at a size."""
        precision = problem.variant.precision
        if precision not in self.table or precision not in self.eps:
            known = ", ".join(sorted(self.table.keys() & self.eps.keys())) or "none"
            raise BoundError(
                f"ReductionBound: expected table and eps for precision {precision!r}, found them for {known}; "
                "add both to the kernel's bound"
            )
        return max(self.table[precision], 4.0 * self.eps[precision] * math.sqrt(self.terms(problem.size)))

    def limit(self, problem: Problem, output: str) -> torch.Tensor:
        """Return atol + rtol |want|; an infinite element, which must come out as it is, adds to no other's atol."""
        rtol, want = self.rtol(problem), problem.want[output]
        return rtol * _largest(want) + rtol * want.abs()

    def words(self, problem: Problem, output: str) -> str:
        """Return the rule with its numbers."""
        precision, terms = problem.variant.precision, self.terms(problem.size)
        eps, table, rtol = self.eps[precision], self.table[precision], self.rtol(problem)
        atol = rtol * _largest(problem.want[output])
        return (
            f"|got - want| <= {atol:.3g} + {rtol:.3g} |want|; K = {terms} terms, "
            f"rtol = max({table:g}, 4 * {eps:g} * sqrt({terms})) = {rtol:.3g}, atol = rtol * max|want|"
        )


@dataclass(frozen=True)
class Arithmetic:
    """How a precision multiplies and adds.

    `unit` is the unit roundoff of the accumulator. `aligned` is how many products a tensor core adds at once: it shifts
    them to the largest exponent and cuts off what is below the last place, an error of up to 2 `unit` in one direction
    (Fasi, Higham, Mikaitis & Pranesh, PeerJ Comput. Sci. 7:e330, 2021); 0 where every addition is rounded to nearest.
    `dropped` is the share of each product that is not computed at all.
    """

    unit: float = 2.0**-24
    aligned: int = 0
    dropped: float = 0.0

    def tau(self, terms: int) -> float:
        """Return the largest |got - want| / (|A||B|) for a sum of so many terms."""
        biased = 2 * self.unit * terms / self.aligned if self.aligned else 0.0
        return 4 * math.sqrt(terms) * self.unit + biased + self.dropped

    def words(self, terms: int) -> str:
        """Return that sum with its numbers."""
        parts = [f"4 sqrt({terms}) {self.unit:.3g}"]
        parts += [f"2 * {self.unit:.3g} * {terms}/{self.aligned}"] if self.aligned else []
        parts += [f"{self.dropped:.3g}"] if self.dropped else []
        return " + ".join(parts)


FLOAT32 = Arithmetic()
"""Products and sums in float32, each rounded to nearest."""

TENSOR_CORES: dict[str, Arithmetic] = {
    "tf32": Arithmetic(aligned=8),
    # What is left out: the product of the second pieces, and both operands' rests behind the last piece. A piece of p
    # significand bits leaves 2^-p of its operand, 2^(1-p) if it is truncated: p = 11 for tf32 and float16, the latter
    # rounded to nearest, 8 for bfloat16.
    "tf32x3": Arithmetic(aligned=8, dropped=3 * 2.0**-20),
    "bf16x3": Arithmetic(aligned=8, dropped=3 * 2.0**-16),
    "bf16x6": Arithmetic(aligned=8, dropped=4 * 2.0**-24),
    "fp16x3": Arithmetic(aligned=8, dropped=3 * 2.0**-22),
}
"""The named precisions that use them; tf32's own rounding is the canary's business, not the bound's."""

SMALLEST_NORMAL = 2.0**-126
SMALLEST_DENORMAL = 2.0**-149


@dataclass(frozen=True)
class ComponentwiseBound(Bound):
    """|got - want| <= tau (|A||B|), element by element, for sums of products.

    tau = 4 sqrt(K) u for K additions rounded to nearest with unit roundoff u, independent and four standard deviations
    wide (Ipsen & Zhou, SIAM J. Matrix Anal. Appl. 41(4), 2020, arXiv:1906.10465), plus what the arithmetic adds: see
    `Arithmetic`. |A||B| is the oracle's result for the absolute values of the inputs, or `magnitude` of the problem.
    The reference is the product of the operands as the rounding canary found that the multiplier takes them, so that
    tf32 is held to float32 accuracy.
    """

    terms: Callable[[Size], int]
    arithmetic: Mapping[str, Arithmetic] = field(default_factory=lambda: TENSOR_CORES)
    magnitude: Callable[[Problem], Tensors] | None = None

    @property
    def name(self) -> str:
        """The rule's name."""
        return "componentwise"

    @property
    def source(self) -> str:
        """Where the rule comes from."""
        sums = "Ipsen & Zhou, SIAM J. Matrix Anal. Appl. 41(4), 2020, arXiv:1906.10465"
        return f"{sums}; tensor cores: Fasi, Higham, Mikaitis & Pranesh, PeerJ Comput. Sci. 7:e330, 2021"

    def _arithmetic(self, problem: Problem) -> Arithmetic:
        return self.arithmetic.get(problem.variant.precision, FLOAT32)

    def _magnitude(self, problem: Problem, output: str) -> torch.Tensor:
        if self.magnitude is not None:
            return self.magnitude(problem)[output]
        positive = {name: v.abs() if v.is_floating_point() else v for name, v in problem.inputs.items()}
        return problem.oracle(positive)[output]

    def reference(self, problem: Problem, output: str) -> torch.Tensor:
        """Return the product of the operands as the multiplier takes them."""
        return (problem.want if problem.rounded is None else problem.rounded)[output]

    def limit(self, problem: Problem, output: str) -> torch.Tensor:
        """Return tau (|A||B|), half a denormal for each term, below which float32 has nothing, and the rounding of what
        is stored in fewer bits.
        """
        terms = self.terms(problem.size)
        tau, stored = self._arithmetic(problem).tau(terms), problem.storing(output)
        sums = tau * self._magnitude(problem, output) + terms * SMALLEST_DENORMAL
        if not stored:
            return sums
        smallest = torch.finfo(problem.dtypes[output]).smallest_normal
        return sums + stored * self.reference(problem, output).abs() + stored * smallest

    def words(self, problem: Problem, output: str) -> str:
        """Return the rule with its numbers."""
        arithmetic, terms = self._arithmetic(problem), self.terms(problem.size)
        against = f"; want is of operands {problem.rounding}" if problem.rounded is not None else ""
        stored = problem.storing(output)
        narrow = f" + {stored:.3g} |want|" if stored else ""
        said = f"K = {terms} terms, tau = {arithmetic.words(terms)} = {arithmetic.tau(terms):.3g}"
        return f"|got - want| <= tau (|A||B|){narrow}; {said}{against}"


@dataclass(frozen=True)
class UlpBound(Bound):
    """|got - want| <= u ulp(want), where ulp is the spacing of the output's format at |want|.

    `ulps` gives u for a problem: a number, or a tensor of the output's shape. Below the smallest normal number the
    spacing no longer shrinks, and a device may flush to 0: `floor` is added, the smallest normal float32 by default.
    `why` derives u in words.
    """

    ulps: Callable[[Problem], float | torch.Tensor]
    why: str
    fraction_bits: int = 23
    floor: float = SMALLEST_NORMAL

    @property
    def name(self) -> str:
        """The rule's name."""
        return "ulp"

    @property
    def source(self) -> str:
        """Where the rule comes from."""
        return "units in the last place: IEEE 754 and, for the device's approximations, the PTX ISA"

    def limit(self, problem: Problem, output: str) -> torch.Tensor:
        """Return u ulp(want) + floor."""
        want = problem.want[output]
        # frexp's significand lies in [1/2, 1), so the exponent of the leading bit is one less.
        _, exponent = torch.frexp(want.abs())
        spacing = torch.ldexp(torch.ones_like(want), exponent - 1 - self.fraction_bits)
        ulps = torch.as_tensor(self.ulps(problem), dtype=torch.float64)
        # Where nothing is wanted (0, of an infinite distance) there is no spacing to count in.
        return torch.where(want == 0, 0.0, ulps * spacing) + self.floor

    def words(self, problem: Problem, output: str) -> str:
        """Return the rule with its numbers."""
        ulps = torch.as_tensor(self.ulps(problem), dtype=torch.float64)
        finite = ulps[ulps.isfinite()]
        least, most = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
        said = f"u = {least:.3g}" if least == most else f"u from {least:.3g} to {most:.3g}"
        rule = f"|got - want| <= u ulp(want) + {self.floor:.3g}, ulp at {self.fraction_bits} fraction bits"
        return f"{rule}; {said}: {self.why}"

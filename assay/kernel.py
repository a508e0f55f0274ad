"""What a kernel file declares: one `KERNEL` value of type `Kernel`.

A kernel file states how to make inputs, a float64 oracle, how to launch, which variants and cases there are, and how
large an error may be. Everything else (buffers, child processes, time limits, comparing, hashing) is the harness's.
"""

import importlib.util
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from assay.errors import AssayError
from assay.record import Declaration, DeclaredVariant
from assay.targets import capability_text

Tensors = Mapping[str, torch.Tensor]
Size = Mapping[str, int]
Layout = Literal["contiguous", "padded", "transposed", "sliced"]
CaseTier = Literal["interpreter", "gpu"]


class KernelError(AssayError):
    """A kernel file that does not declare what it must."""


@dataclass(frozen=True)
class Variant:
    """A precision mode in one configuration. `options` reach the launch as they stand.

    `capability` is what this variant needs beyond its kernel, or None.
    """

    precision: str
    configuration: str
    options: Mapping[str, int | str] = field(default_factory=dict)
    capability: tuple[int, int] | None = None

    @property
    def id(self) -> str:
        """`<precision>/<configuration>`, as claims name it."""
        return f"{self.precision}/{self.configuration}"

    def declared(self, kernel: tuple[int, int] | None) -> DeclaredVariant:
        """Return what later stages need to know; the newer of the kernel's and the variant's capability counts."""
        needs = [need for need in (self.capability, kernel) if need is not None]
        return DeclaredVariant(
            id=self.id,
            precision=self.precision,
            configuration=self.configuration,
            minimum_capability=capability_text(max(needs)) if needs else None,
        )


@dataclass(frozen=True)
class Case:
    """One problem to check or time.

    `size` is handed to `inputs`. `layouts` says how the harness places a tensor (by its name, input or output) in
    memory: `padded` leaves a gap after each row, `transposed` makes the first axis the fast one, `sliced` starts one
    element into the allocation, so that the pointer is not 16-byte aligned. `tiers`: where the case runs; what is too
    slow for the interpreter is left to the GPU.
    """

    name: str
    size: Size
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    tiers: Sequence[CaseTier] = ("interpreter", "gpu")


@dataclass(frozen=True)
class Output:
    """Shape and dtype of one output, which the harness allocates, poisons and fences before every launch."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class Work:
    """Arithmetic and least memory traffic of one launch, from which every rate is derived."""

    flops: int
    bytes: int


class Bound(Protocol):
    """How large an error may be."""

    def limit(self, variant: Variant, size: Size, want: torch.Tensor, inputs: Tensors) -> torch.Tensor:
        """Return the largest allowed |got - want|, float64, of the shape of `want` (or broadcastable to it)."""

    def words(self, variant: Variant, size: Size, want: torch.Tensor) -> str:
        """Return the bound with its numbers, so that a reader can derive it again."""


@dataclass(frozen=True)
class ReductionBound:
    """|got - want| <= atol + rtol |want|, with rtol = max(table, 4 eps sqrt(K)) and atol = rtol max|want|.

    K is the number of terms that one output element sums and eps the spacing at 1 of the narrowest multiplier. Rounding
    errors of K independent additions grow like sqrt(K) (Higham & Mary, SIAM J. Sci. Comput. 41(5), 2019,
    doi:10.1137/18M1226312); the factor 4 is a margin of four standard deviations, and the table value a floor for
    short sums. This is the rule of the reference script; it is loose, because atol grows with the largest element.
    """

    terms: Callable[[Size], int]
    table: Mapping[str, float]
    eps: Mapping[str, float]

    def rtol(self, variant: Variant, size: Size) -> float:
        """Return the relative tolerance for a variant at a size."""
        scaled = 4.0 * self.eps[variant.precision] * math.sqrt(self.terms(size))
        return max(self.table[variant.precision], scaled)

    def limit(self, variant: Variant, size: Size, want: torch.Tensor, inputs: Tensors) -> torch.Tensor:
        """Return atol + rtol |want|."""
        rtol = self.rtol(variant, size)
        magnitude = want.abs()
        return rtol * magnitude.max() + rtol * magnitude

    def words(self, variant: Variant, size: Size, want: torch.Tensor) -> str:
        """Return the rule with its numbers."""
        terms, eps, table = self.terms(size), self.eps[variant.precision], self.table[variant.precision]
        rtol = self.rtol(variant, size)
        atol = rtol * float(want.abs().max())
        return (
            f"|got - want| <= {atol:.3g} + {rtol:.3g} |want|; K = {terms} terms, "
            f"rtol = max({table:g}, 4 * {eps:g} * sqrt({terms})) = {rtol:.3g}, atol = rtol * max|want|"
        )


@dataclass(frozen=True)
class Contrast:
    """Two precisions whose errors and times are set against each other: `lesser` must lose accuracy and win time."""

    reference: str
    lesser: str


@dataclass(frozen=True)
class Peer:
    """A library's way to the same result, timed in the same sweep. `run` returns its outputs and may allocate them."""

    name: str
    precision: str
    run: Callable[[Tensors], Any]


@dataclass(frozen=True)
class Kernel:
    """The declaration.

    `inputs(size, generator)` makes named CPU tensors; interpreter and GPU see the same bits. `outputs(inputs)` names
    what the harness must allocate. `oracle(inputs)` computes the outputs in float64 from float64 inputs.
    `launch(inputs, outputs, variant)` writes into `outputs` and returns nothing. The first case is the one that the
    compile stage launches. `capability` is what the kernel needs above the gate's minimum, or None.
    """

    name: str
    title: str
    inputs: Callable[[Size, torch.Generator], dict[str, torch.Tensor]]
    outputs: Callable[[Tensors], dict[str, Output]]
    oracle: Callable[[Tensors], dict[str, torch.Tensor]]
    launch: Callable[[Tensors, Tensors, Variant], Any]
    variants: Sequence[Variant]
    cases: Sequence[Case]
    bound: Bound
    work: Callable[[Size], Work]
    timed: Sequence[Case] = ()
    contrasts: Sequence[Contrast] = ()
    peers: Sequence[Peer] = ()
    capability: tuple[int, int] | None = None

    def variant(self, name: str) -> Variant:
        """Return the variant of that id."""
        return next(variant for variant in self.variants if variant.id == name)

    def case(self, name: str) -> Case:
        """Return the case, or timed size, of that name."""
        return next(case for case in (*self.cases, *self.timed) if case.name == name)

    def declaration(self) -> Declaration:
        """Return what later stages need to know."""
        return Declaration(
            title=self.title,
            variants=[variant.declared(self.capability) for variant in self.variants],
            cases=[case.name for case in self.cases],
            timed=[case.name for case in self.timed],
            contrasts=[(contrast.reference, contrast.lesser) for contrast in self.contrasts],
        )


def _repeated(names: Sequence[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def load(path: Path) -> Kernel:
    """Import a kernel file and return its declaration.

    Runs the file's code: call it in a child process only. Whatever the file raises passes through; KernelError where
    it declares no usable `KERNEL`.
    """
    spec = importlib.util.spec_from_file_location(f"kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise KernelError(f"{path}: not a Python file; a kernel file ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    kernel = getattr(module, "KERNEL", None)
    if not isinstance(kernel, Kernel):
        raise KernelError(f"{path}: expected KERNEL = Kernel(...) at module level, found {type(kernel).__name__}")
    if kernel.name != path.stem:
        raise KernelError(f"{path}: expected the name {path.stem!r}, as the file's, found {kernel.name!r}")
    if not kernel.variants or not kernel.cases:
        raise KernelError(f"{path}: expected at least one variant and one case")
    entrants = [*(v.id for v in kernel.variants), *(p.name for p in kernel.peers)]
    names = entrants, [c.name for c in (*kernel.cases, *kernel.timed)]
    if twice := _repeated(names[0]) | _repeated(names[1]):
        raise KernelError(f"{path}: declared twice: {', '.join(sorted(twice))}")
    return kernel

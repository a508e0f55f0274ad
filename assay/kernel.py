"""What a kernel file declares: one `KERNEL` value of type `Kernel`.

A kernel file states how to make inputs, a float64 oracle, how to launch, which variants and cases there are, and how
large an error may be. Everything else (buffers, child processes, time limits, comparing, hashing) is the harness's.
"""

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, overload

import torch

from assay.bounds import (
    CEILINGS,
    FLOAT32,
    TENSOR_CORES,
    Arithmetic,
    Bound,
    ComponentwiseBound,
    Problem,
    ReductionBound,
    Size,
    Tensors,
    UlpBound,
)
from assay.errors import AssayError
from assay.patterns import Pattern
from assay.record import CeilingName, Declaration, DeclaredVariant, Equivalent
from assay.targets import capability_text

# All that a kernel file needs comes from here.
__all__ = [
    "FLOAT32",
    "TENSOR_CORES",
    "Arithmetic",
    "Bound",
    "Case",
    "ComponentwiseBound",
    "Contrast",
    "Dot",
    "Equivalent",
    "Kernel",
    "KernelError",
    "Layout",
    "Output",
    "Peer",
    "Problem",
    "ReductionBound",
    "Size",
    "Space",
    "Tensors",
    "UlpBound",
    "Variant",
    "Work",
    "cast",
    "load",
    "widen",
]

Layout = Literal["contiguous", "padded", "transposed", "sliced", "distant", "distant-rows", "distant-columns"]
CaseTier = Literal["interpreter", "gpu"]


class KernelError(AssayError):
    """A kernel file that does not declare what it must."""


@dataclass(frozen=True)
class Variant:
    """A precision mode in one configuration. `options` reach the launch as they stand.

    `capability` is what this variant needs beyond its kernel, or None. `dtype`: the harness casts every floating-point
    input to it, and the oracle gets the values that were rounded so. `stack_bytes`: the largest stack that its code may
    use on any target, which is where spilled registers go; None sets no limit. `searched`: it comes from a `Space`.
    """

    precision: str
    configuration: str
    options: Mapping[str, int | str] = field(default_factory=dict)
    capability: tuple[int, int] | None = None
    dtype: torch.dtype | None = None
    stack_bytes: int | None = None
    searched: bool = False

    @property
    def id(self) -> str:
        """`<precision>/<configuration>`, as claims name it."""
        return f"{self.precision}/{self.configuration}"

    def declared(self, kernel: tuple[int, int] | None = None, newest: tuple[int, int] | None = None) -> DeclaredVariant:
        """Return what later stages need to know; the newer of the kernel's and the variant's capability counts."""
        needs = [need for need in (self.capability, kernel) if need is not None]
        return DeclaredVariant(
            id=self.id,
            precision=self.precision,
            configuration=self.configuration,
            minimum_capability=capability_text(max(needs)) if needs else None,
            maximum_capability=capability_text(newest) if newest else None,
            stack_budget_bytes=self.stack_bytes,
            searched=self.searched,
        )


Options = Mapping[str, int | str]


def _everything(options: Options) -> bool:
    """Keep every point of a space."""
    return True


def _short_names(options: Iterable[str]) -> dict[str, str]:
    """Return a short name for each option, such as `m` for BLOCK_M, `gm` for GROUP_M after it, `w` for num_warps.

    That is the first letter of the last word; where an option before has it, the first letters of all words; where one
    has those too, the whole name.
    """
    short: dict[str, str] = {}
    for option in options:
        words = [word for word in option.lower().split("_") if word]
        tries = [words[-1][0], "".join(word[0] for word in words)] if words else []
        free = [name for name in tries if name.isalpha() and name not in short.values()]
        short[option] = free[0] if free else option
    return short


@dataclass(frozen=True)
class Space(Sequence[Variant]):
    """A search space: the variants of each of `precisions` at every combination of `options` that `keep` keeps.

    It is the sequence of these variants, in the order of `itertools.product`, so `variants=Space(...)` declares it
    alone and `variants=[Variant(...), *Space(...)]` with others. A configuration is named after its options, such as
    m128n128k32w4s3. `capability`, `dtype` and `stack_bytes` are those of every variant. KernelError where nothing is
    kept.

    Each is a variant as any other: it is compiled for every target and checked on every case. Cases with `once` keep
    that affordable, since the first configuration alone is asked of them. Only timing thins a space out.
    """

    precisions: Sequence[str]
    options: Mapping[str, Sequence[int | str]]
    keep: Callable[[Options], bool] = _everything
    capability: tuple[int, int] | None = None
    dtype: torch.dtype | None = None
    stack_bytes: int | None = None

    @cached_property
    def _points(self) -> list[dict[str, int | str]]:
        points = [dict(zip(self.options, values, strict=True)) for values in itertools.product(*self.options.values())]
        kept = [point for point in points if self.keep(point)]
        if not kept:
            raise KernelError(
                f"Space: expected combinations of its options, found that none of {len(points)} is kept; "
                "let `keep` return True for some"
            )
        return kept

    def _variant(self, precision: str, point: dict[str, int | str], short: Mapping[str, str]) -> Variant:
        return Variant(
            precision,
            "".join(f"{short[option]}{value}" for option, value in point.items()),
            point,
            self.capability,
            self.dtype,
            self.stack_bytes,
            searched=True,
        )

    @cached_property
    def _variants(self) -> list[Variant]:
        short = _short_names(self.options)
        return [self._variant(precision, point, short) for precision in self.precisions for point in self._points]

    @overload
    def __getitem__(self, index: int) -> Variant: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Variant]: ...

    def __getitem__(self, index: int | slice) -> Variant | Sequence[Variant]:
        """Return one variant, or some."""
        return self._variants[index]

    def __len__(self) -> int:
        """Return how many variants there are."""
        return len(self._variants)


@dataclass(frozen=True)
class Case:
    """One problem to check or time.

    `size` is handed to `inputs`. `layouts` says how the harness places a tensor (by its name, input or output) in
    memory: `padded` leaves a gap after each row, `transposed` makes the first axis the fast one, `sliced` starts one
    element into the allocation, so that the pointer is not 16-byte aligned; `distant` lays what lies along the first
    axis, `distant-rows` along the last but one and `distant-columns` along the last, so far apart that offsets pass
    2^31 elements. `tiers`: where the case runs; what is too slow for the interpreter is left to the GPU. `values`: a
    pattern for an input, by its name, imposed on what `inputs` made (see `assay.patterns`); what must then come out is
    the oracle's word. `exempt`: precisions of which this case is not asked, each with the reason. `once`: only the
    first configuration of each precision is asked, since what the case shows does not depend on tiles. `vast`: the
    launch takes a workspace past 2^31 elements, so that few of them fit a device at a time.
    """

    name: str
    size: Size
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    tiers: Sequence[CaseTier] = ("interpreter", "gpu")
    values: Mapping[str, Pattern] = field(default_factory=dict)
    exempt: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    vast: bool = False

    @property
    def distant(self) -> bool:
        """Whether a tensor is spread past 2^31 elements, or a workspace reaches there."""
        return self.vast or any(layout.startswith("distant") for layout in self.layouts.values())


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


@dataclass(frozen=True)
class Dot:
    """A product of matrices that a rounding canary can be sent through: output = left @ right, all of two dimensions.

    At `size` the harness puts probes into one operand, the identity into the other and 0 into every other input, and
    reads off the output how the multiplier treats its operands. 32 rows and columns at least.
    """

    left: str
    right: str
    output: str
    size: Size


@dataclass(frozen=True)
class Contrast:
    """Two precisions whose errors and times are set against each other: `lesser` must lose accuracy and win time."""

    reference: str
    lesser: str


@dataclass(frozen=True)
class Peer:
    """A library's way to the same result, timed in the same sweep. `run` returns its outputs and may allocate them.

    A variant is set against the fastest peer of its precision. `rivals`: precisions that have no peer and are set
    against this one instead, such as products of bfloat16 planes that reach the accuracy of float32.
    """

    name: str
    precision: str
    run: Callable[[Tensors], Any]
    rivals: Sequence[str] = ()


@dataclass(frozen=True)
class Kernel:
    """The declaration.

    `inputs(size, generator)` makes named CPU tensors, several sets at a time in threads where it is asked for more than
    one; interpreter and GPU see the same bits. `outputs(inputs)` names what the harness must allocate. `oracle(inputs)`
    computes the outputs in float64 from float64 inputs. `launch(inputs, outputs, variant)` writes into `outputs` and
    returns nothing. The first case is the one that the compile stage launches. `bound` is one bound or several: each
    output is held to every bound that covers it. `dot` is the product at the kernel's heart, if it has one.
    `capability` is what the kernel needs above the gate's minimum, or None; `newest` the newest that can run it, for
    code of one architecture such as Hopper's wgmma, or None. `equivalents`: planted faults that change no result
    although they compile to other code, each with the reason. `variants`: a list, a `Space`, or both in one list.
    `ceilings`: by precision, the ceiling of the card that its arithmetic runs into, and how many products it takes for
    one; that of the usual ones is known (`assay.bounds.CEILINGS`).
    """

    name: str
    title: str
    inputs: Callable[[Size, torch.Generator], dict[str, torch.Tensor]]
    outputs: Callable[[Tensors], dict[str, Output]]
    oracle: Callable[[Tensors], dict[str, torch.Tensor]]
    launch: Callable[[Tensors, Tensors, Variant], Any]
    variants: Sequence[Variant]
    cases: Sequence[Case]
    bound: Bound | Sequence[Bound]
    work: Callable[[Size], Work]
    timed: Sequence[Case] = ()
    contrasts: Sequence[Contrast] = ()
    peers: Sequence[Peer] = ()
    capability: tuple[int, int] | None = None
    newest: tuple[int, int] | None = None
    dot: Dot | None = None
    equivalents: Sequence[Equivalent] = ()
    ceilings: Mapping[str, tuple[CeilingName, int]] = field(default_factory=dict)

    @property
    def bounds(self) -> Sequence[Bound]:
        """Every bound."""
        return [self.bound] if isinstance(self.bound, Bound) else self.bound

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
            variants=[variant.declared(self.capability, self.newest) for variant in self.variants],
            cases=[case.name for case in self.cases],
            timed=[case.name for case in self.timed],
            contrasts=[(contrast.reference, contrast.lesser) for contrast in self.contrasts],
            exemptions={case.name: dict(case.exempt) for case in self.cases if case.exempt},
            rules={bound.name: bound.source for bound in self.bounds},
            once=[case.name for case in self.cases if case.once],
            dot=self.dot is not None,
            equivalents=list(self.equivalents),
            ceilings=self._ceilings(),
            rivals={peer.name: list(peer.rivals) for peer in self.peers if peer.rivals},
            distant=[case.name for case in self.cases if case.distant],
        )

    def _ceilings(self) -> dict[str, tuple[CeilingName, int]]:
        """Return the ceiling of each precision that is timed, as far as one is known."""
        known = {**CEILINGS, **self.ceilings}
        precisions = [*(v.precision for v in self.variants), *(p.precision for p in self.peers)]
        return {precision: known[precision] for precision in precisions if precision in known}


def cast(values: Tensors, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    """Return the inputs with every float in the variant's dtype."""
    if dtype is None:
        return dict(values)
    return {name: v.to(dtype) if v.is_floating_point() else v for name, v in values.items()}


def widen(values: Tensors) -> dict[str, torch.Tensor]:
    """Return the inputs with every float in float64, as the oracle gets them."""
    return cast(values, torch.float64)


def _repeated(names: Sequence[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def _check_known(path: Path, where: str, found: str, known: Iterable[str]) -> None:
    if found not in set(known):
        raise KernelError(f"{path}: {where}: found {found!r}; allowed: {', '.join(sorted(known))}")


def _check_variants(path: Path, kernel: Kernel) -> None:
    """Refuse what is no variant, such as a space that was not unpacked, and a ceiling that no card has. KernelError."""
    for variant in kernel.variants:
        if not isinstance(variant, Variant):
            hint = "*Space(...) in a list" if isinstance(variant, Space) else "Variant(precision, configuration)"
            raise KernelError(f"{path}: variants: expected Variant(...), found {type(variant).__name__}; write {hint}")
    for precision, (ceiling, _) in kernel.ceilings.items():
        _check_known(path, f"ceilings, {precision}", ceiling, get_args(CeilingName))


def _check_peers(path: Path, kernel: Kernel) -> None:
    """Refuse a rival that is no variant's precision: it would do nothing, in silence. KernelError."""
    for peer in kernel.peers:
        for precision in peer.rivals:
            _check_known(path, f"peer {peer.name}, rivals", precision, {v.precision for v in kernel.variants})


def _check_case(path: Path, kernel: Kernel, case: Case) -> None:
    """Refuse a misspelt word in a case: it would do nothing, in silence. KernelError."""
    where = f"case {case.name}"
    for layout in case.layouts.values():
        _check_known(path, f"{where}, layouts", layout, get_args(Layout))
    for pattern in case.values.values():
        _check_known(path, f"{where}, values", pattern, get_args(Pattern))
    for tier in case.tiers:
        _check_known(path, f"{where}, tiers", tier, get_args(CaseTier))
    for precision in case.exempt:
        _check_known(path, f"{where}, exempt", precision, {variant.precision for variant in kernel.variants})


def load(path: Path) -> Kernel:
    """Import a kernel file and return its declaration.

    Runs the file's code: call it in a child process only. Whatever the file raises passes through; KernelError where
    it declares no usable `KERNEL`.
    """
    spec = importlib.util.spec_from_file_location(f"kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise KernelError(f"{path}: expected a Python file, found another; rename it to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    kernel = getattr(module, "KERNEL", None)
    if not isinstance(kernel, Kernel):
        raise KernelError(
            f"{path}: expected KERNEL = Kernel(...) at module level, found {type(kernel).__name__}; "
            "add it as docs/adding-a-kernel.md shows"
        )
    if kernel.name != path.stem:
        raise KernelError(
            f"{path}: expected the name {path.stem!r}, as the file's, found {kernel.name!r}; rename one of the two"
        )
    if not kernel.variants or not kernel.cases:
        raise KernelError(
            f"{path}: expected at least one variant and one case, found {len(kernel.variants)} and "
            f"{len(kernel.cases)}; declare them"
        )
    _check_variants(path, kernel)
    _check_peers(path, kernel)
    for case in (*kernel.cases, *kernel.timed):
        _check_case(path, kernel, case)
    entrants = [*(v.id for v in kernel.variants), *(p.name for p in kernel.peers)]
    names = entrants, [c.name for c in (*kernel.cases, *kernel.timed)]
    if twice := _repeated(names[0]) | _repeated(names[1]):
        raise KernelError(
            f"{path}: expected every name once, found {', '.join(sorted(twice))} declared twice; rename one of each"
        )
    return kernel

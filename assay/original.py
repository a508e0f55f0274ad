"""A kernel as it is, by its records: what a faulty version of it is held against. Pure.

Only what the kernel itself passes is asked of a faulty version, so that a fault of its own catches nothing.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from assay.findings import kept_promises
from assay.record import (
    Build,
    Check,
    Compile,
    Declaration,
    DeclaredVariant,
    Device,
    Digest,
    Gpu,
    Interpreter,
    Teeth,
    Verdict,
)
from assay.targets import multiplies

TierName = Literal["interpreter", "compile", "gpu"]
TIERS: tuple[TierName, ...] = ("interpreter", "compile", "gpu")
Asked = tuple[DeclaredVariant, str]
"""A variant, and the case that it is tried on."""


PART_TRIALS = 8
"""So many trials at least are made of a faulty version at a time, where it has so many: each time takes a process."""

LAUNCH = "launch"
"""Stands for a build where it is the launch that differs, and not the code."""

UNCOMPARED = "uncompared"
"""Stands for a build that differs until all are compared, which a device that looks first can spare."""


def code_of(build: Build) -> list[Digest]:
    """Return the digests of what a launch was compiled to, in order."""
    return [binary.binary_sha256 for binary in build.binaries]


def parts_of(asked: Sequence[Asked], least: int = PART_TRIALS) -> list[list[Asked]]:
    """Return trials in parts of so many at least, in order; those of one case, which come together, stay together."""
    parts: list[list[Asked]] = []
    for at, one in enumerate(asked):
        if not parts or (len(parts[-1]) >= least and one[1] != asked[at - 1][1]):
            parts.append([])
        parts[-1].append(one)
    return parts


def build_place(variant: str, target: str, case: str) -> str:
    """Return how a record names a build."""
    return f"{variant} {target} {case}"


def _elements(check: Check) -> int:
    return sum(comparison.elements for comparison in check.comparisons)


@dataclass(frozen=True)
class Original:
    """The records of one kernel, of which `gpu` may say that no device ran."""

    interpreter: Interpreter
    compiled: Compile
    gpu: Gpu

    @property
    def loading(self) -> Verdict:
        """Whether faults can be planted: whether the kernel file itself could be loaded."""
        for loading in (self.interpreter.loading, self.compiled.loading):
            if loading.outcome != "passed":
                return loading
        return self.interpreter.loading

    @property
    def declaration(self) -> Declaration:
        """What the kernel declares; there is one where loading passed."""
        assert self.compiled.declaration is not None
        return self.compiled.declaration

    @cached_property
    def variants(self) -> Mapping[str, DeclaredVariant]:
        """The declared variants by id."""
        return {variant.id: variant for variant in self.declaration.variants}

    def _checks(self, tier: TierName) -> Sequence[Check]:
        of: dict[TierName, Sequence[Check]] = {"interpreter": self.interpreter.checks, "gpu": self.gpu.checks}
        return [check for check in of.get(tier, ()) if check.verdict.outcome == "passed"]

    @property
    def tiers(self) -> list[TierName]:
        """The tiers that can look at a faulty version: those that the kernel passed something at."""
        found = {tier: bool(self.builds if tier == "compile" else self._checks(tier)) for tier in TIERS}
        return [tier for tier in TIERS if found[tier]]

    @property
    def device(self) -> Device | None:
        """The device that the gpu tier runs on."""
        return self.gpu.device if "gpu" in self.tiers else None

    def trials(self, tier: TierName) -> list[Asked]:
        """Return the variants and cases that a faulty version is tried on, case by case: small ones first under the
        interpreter, which takes as long as they are large, and as declared on a device, which takes as long for each.
        """
        return [*self.near(tier), *self.distant(tier)]

    def near(self, tier: TierName) -> list[Asked]:
        """Return those whose tensors are no larger than what is in them, so that many can be tried at a time."""
        return self._trials(tier, distant=False)

    def distant(self, tier: TierName) -> list[Asked]:
        """Return those whose tensors are spread past 2^31 elements."""
        return self._trials(tier, distant=True)

    def _trials(self, tier: TierName, *, distant: bool) -> list[Asked]:
        passed = {(check.variant, check.case): _elements(check) for check in self._checks(tier)}
        far = self.declaration.distant
        size = {case: elements for (_, case), elements in passed.items() if (case in far) == distant}
        declared = self.declaration.cases.index
        cases = sorted(size, key=lambda case: (0 if tier == "gpu" else size[case], declared(case)))
        # Case by case, because what is wrong in one variant alone would else have to wait for all cases of the others.
        return [
            (variant, case) for case in cases for variant in self.declaration.variants if (variant.id, case) in passed
        ]

    def using(self, kernels: Set[str] | None) -> frozenset[str]:
        """Return the variants that launch one of these kernels, by what was compiled, or may: those of which nothing
        was compiled, and all where none is known to, or where it may be any kernel (None).
        """
        launched: dict[str, set[str]] = {}
        for build in self.builds:
            launched.setdefault(build.variant, set()).update(binary.function for binary in build.binaries)
        found = {variant for variant, names in launched.items() if kernels is not None and names & kernels}
        return frozenset(found | (self.variants.keys() - launched.keys()) if found else self.variants)

    @cached_property
    def builds(self) -> list[Build]:
        """The builds that compiled, quick ones first: products are unrolled for targets without tensor cores.

        Of the others those for the device come first, which will launch the same code.
        """
        here = None if self.gpu.device is None else self.gpu.device.target
        return sorted(
            [build for build in self.compiled.builds if build.compiled.outcome == "passed"],
            key=lambda build: (not multiplies(build.target, "tf32"), build.target != here),
        )

    @cached_property
    def rebuilds(self) -> list[tuple[DeclaredVariant, str, str]]:
        """Return variant, target and case of the builds that must all be the same code for a change to be no fault:
        every one that was compiled ahead, and for the first target every variant on every case that it passes, because
        shapes, strides and alignment decide which code is launched.
        """
        ahead = [(self.variants[build.variant], build.target, build.case) for build in self.builds]
        target, first = ahead[0][1:]
        on_target = {variant.id for variant, of, _ in ahead if of == target}
        passed = {(check.variant, check.case) for tier in TIERS for check in self._checks(tier)}
        more = [
            (variant, target, case)
            for case in self.cases
            for variant in self.declaration.variants
            if case != first and variant.id in on_target and (variant.id, case) in passed
        ]
        return [*ahead, *more]

    def samples(self) -> list[Build]:
        """Return one build of each precision for one target: enough to see which instructions a fault multiplies with.

        Their configuration is the first where a precision has it, so that precisions can be set side by side.
        """
        first = self.declaration.variants[0].configuration
        builds = [build for build in self.builds if build.target == self.builds[0].target]
        of: dict[str, Build] = {}
        for build in sorted(builds, key=lambda build: self.variants[build.variant].configuration != first):
            of.setdefault(self.variants[build.variant].precision, build)
        return list(of.values())

    @cached_property
    def kept(self) -> set[tuple[str, str]]:
        """The precisions whose promise the kernel keeps, each with the target."""
        return kept_promises(self.declaration, self.compiled.builds)

    @property
    def cases(self) -> list[str]:
        """The cases that the kernel passes somewhere, as declared."""
        passed = {check.case for tier in TIERS for check in self._checks(tier)}
        return [case for case in self.declaration.cases if case in passed]

    def plain(self, tier: TierName) -> tuple[str, list[str]]:
        """Return the case and the variants that the reference script's way takes: the first case, and the first
        configuration of each precision, or of the first two that are set against each other where some are.
        """
        passed = {(check.variant, check.case) for check in self._checks(tier)}
        case = next(case for case in self.declaration.cases if any(case == of for _, of in passed))
        pairs = self.declaration.contrasts
        chosen: dict[str, str] = {}
        for variant in self.declaration.variants:
            if (variant.id, case) in passed and (not pairs or variant.precision in pairs[0]):
                chosen.setdefault(variant.precision, variant.id)
        return case, list(chosen.values())


def nothing_planted(loading: Verdict) -> Teeth:
    """Return the record of a kernel in which no fault was planted, for the reason that `loading` gives."""
    return Teeth(loading=loading, device=None, tiers=[], mutants=[])

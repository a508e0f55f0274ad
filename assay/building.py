"""What the compile and teeth stages share: one build asked of a child process, and what its figures call for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import field

from assay.child import Asked, Fault, ask
from assay.diagnosis import diagnose
from assay.findings import built, misplaced, unbuilt
from assay.judgement import asked, exempt
from assay.record import Binary, Build, Cause, Compilations, Declaration, DeclaredVariant, Record
from assay.targets import multiplies

NOTHING_COMPILED = Compilations(made=0, reused=0)


class Built(Record, frozen=True, kw_only=True):
    """A child's answer to `build`; how much it compiled for that, and what was odd about what earlier runs had."""

    binaries: list[Binary]
    compilations: Compilations = NOTHING_COMPILED
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Made:
    """One build, how much was compiled for it, and what was odd about what earlier runs had compiled."""

    build: Build
    compilations: Compilations = NOTHING_COMPILED
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """One build to make: a variant for a target, launched as `case`."""

    variant: DeclaredVariant
    target: str
    case: str

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.target} {self.variant.id}"


def make(child: Asked, wanted: Wanted, limit_s: float) -> Made:
    """Ask a child for one build; a fault is its verdict."""
    variant, target, case = wanted.variant.id, wanted.target, wanted.case
    misfit = misplaced(wanted.variant, target)
    if misfit is not None:
        return Made(unbuilt(variant, target, case, misfit))
    request = {"do": "build", "variant": variant, "target": target, "case": case}
    answer = ask(child, request, Built, limit_s)
    if isinstance(answer, Fault):
        return Made(unbuilt(variant, target, case, diagnose(answer, wanted.variant.precision)))
    return Made(built(wanted.variant, target, case, answer.binaries), answer.compilations, answer.notes)


REFUSED: tuple[Cause, ...] = ("compile-error", "launch-failed")
"""Causes that a launch of another case has here and on a device alike."""


class Others(Record, frozen=True, kw_only=True):
    """A child's answer to `others`: the cases that launch other code than those before them."""

    cases: list[str]


class Translated(Record, frozen=True, kw_only=True):
    """A child's answer to `translate`, which is nothing but that it went well."""


@dataclass(frozen=True)
class Rest:
    """A variant on the declared cases that it is asked of, of which the first alone is built."""

    variant: DeclaredVariant
    target: str
    cases: tuple[str, ...]

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.target} {self.variant.id}, other cases"


def rest_of(declaration: Declaration, variant: DeclaredVariant, targets: Sequence[str]) -> Rest | None:
    """Return what is left of a variant, for the first target that it suits, with tensor cores if any; None without."""
    suited = [target for target in targets if misplaced(variant, target) is None]
    target = next((target for target in suited if multiplies(target, "tf32")), next(iter(suited), None))
    cases = [case for case in declaration.cases if variant in asked(declaration, case)]
    first, left = declaration.cases[0], [case for case in cases if exempt(declaration, case, variant.precision) is None]
    return None if target is None else Rest(variant, target, (first, *(case for case in left if case != first)))


def refused(child: Asked, rest: Rest, limit_s: float) -> Iterator[Build]:
    """Yield a build without binaries for each case whose launch differs and which is refused: by Triton's front end, or
    for its grid.

    Only what is wrong with the kernel's source or its grid counts. A launch can fail here for want of a device.
    """
    request = {"variant": rest.variant.id, "target": rest.target}
    others = ask(child, {**request, "do": "others", "cases": list(rest.cases)}, Others, limit_s)
    for case in [] if isinstance(others, Fault) else others.cases:
        answer = ask(child, {**request, "do": "translate", "case": case}, Translated, limit_s)
        verdict = diagnose(answer, rest.variant.precision) if isinstance(answer, Fault) else None
        if verdict is not None and verdict.cause in REFUSED:
            yield unbuilt(rest.variant.id, rest.target, case, verdict)


def build(child: Asked, wanted: Wanted, limit_s: float) -> Build:
    """Return one build, where nobody asks how it came about."""
    return make(child, wanted, limit_s).build

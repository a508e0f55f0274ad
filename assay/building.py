"""What the compile and teeth stages share: one build asked of a child process, and what its figures call for."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import field

from assay.child import Asked, Fault, ask
from assay.diagnosis import diagnose
from assay.findings import built, misplaced, unbuilt
from assay.record import Binary, Build, Compilations, DeclaredVariant, Record

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


def build(child: Asked, wanted: Wanted, limit_s: float) -> Build:
    """Return one build, where nobody asks how it came about."""
    return make(child, wanted, limit_s).build

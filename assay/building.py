"""What the compile and teeth stages share: one build asked of a child process, and what its figures call for."""

from dataclasses import dataclass

from assay.child import Asked, Fault, ask
from assay.diagnosis import diagnose
from assay.findings import built, misplaced, unbuilt
from assay.record import Binary, Build, DeclaredVariant, Record


class Built(Record, frozen=True, kw_only=True):
    """A child's answer to `build`."""

    binaries: list[Binary]


@dataclass(frozen=True)
class Wanted:
    """One build to make: a variant for a target, launched as `case`."""

    variant: DeclaredVariant
    target: str
    case: str

    def __str__(self) -> str:
        """Name it for the terminal."""
        return f"{self.target} {self.variant.id}"


def build(child: Asked, wanted: Wanted, limit_s: float) -> Build:
    """Ask a child for one build; a fault is its verdict."""
    variant, target, case = wanted.variant.id, wanted.target, wanted.case
    misfit = misplaced(wanted.variant, target)
    if misfit is not None:
        return unbuilt(variant, target, case, misfit)
    request = {"do": "build", "variant": variant, "target": target, "case": case}
    answer = ask(child, request, Built, limit_s)
    if isinstance(answer, Fault):
        return unbuilt(variant, target, case, diagnose(answer, wanted.variant.precision))
    return built(wanted.variant, target, case, answer.binaries)

"""Whether a compile record holds every build, and says of each what its figures call for. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from assay.building import rest_of
from assay.chain import place, settings_of
from assay.diagnosis import diagnose_again
from assay.discrepancy import Faults, Spot
from assay.findings import built, findings, misplaced, unbuilt
from assay.instructions import local_accesses
from assay.opening import Opened
from assay.record import Binary, Build, Compile, Declaration, DeclaredVariant
from assay.sound_checks import loading_faults
from assay.targets import TARGETS


def _binary(binary: Binary, target: str) -> Binary:
    """Return a binary with what follows from its target and its instructions."""
    stores, loads = local_accesses(binary.instructions)
    return replace(
        binary,
        shared_limit_bytes=TARGETS[target].shared_limit_bytes,
        local_store_instructions=stores,
        local_load_instructions=loads,
    )


def _build(found: Build, variant: DeclaredVariant, target: str, case: str) -> Build:
    """Return the build of a variant for a target that follows from the binaries found, or from why there are none."""
    misfit = misplaced(variant, target)
    if misfit is not None:
        return unbuilt(variant.id, target, case, misfit)
    if found.binaries or found.compiled.outcome == "passed":
        return built(variant, target, case, [_binary(binary, target) for binary in found.binaries])
    failed = found.compiled.outcome == "failed"
    why = found.compiled if failed else diagnose_again(found.compiled, variant.precision)
    return unbuilt(variant.id, target, case, why)


def _others(
    declaration: Declaration, targets: Sequence[str], firsts: Sequence[Build], found: Sequence[Build]
) -> list[Build]:
    """Return those of the builds after the first case's that can be: another case, once each, that did not compile."""
    compiled = {(build.variant, build.target) for build in firsts if build.compiled.outcome == "passed"}
    possible: dict[tuple[str, str], list[str]] = {}
    for variant in declaration.variants:
        rest = rest_of(declaration, variant, targets)
        if rest is not None and (variant.id, rest.target) in compiled:
            possible[variant.id, rest.target] = list(rest.cases[1:])
    kept = []
    for build in found:
        cases = possible.get((build.variant, build.target), [])
        if build.case in cases and build.compiled.cause == "compile-error":
            # In the order in which they are declared.
            possible[build.variant, build.target] = cases[cases.index(build.case) + 1 :]
            kept.append(build)
    return kept


def _builds(spot: Spot, declaration: Declaration, targets: Sequence[str], found: list[Build]) -> Faults:
    wanted = [(variant, target) for target in targets for variant in declaration.variants]
    others = _others(declaration, targets, found[: len(wanted)], found[len(wanted) :])
    if len(wanted) + len(others) != len(found):
        expected = f"every declared variant for each target in its settings ({len(wanted)} builds)"
        yield spot.fault(expected, str(len(found)))
        return
    for at, ((variant, target), build) in enumerate(zip(wanted, found, strict=False)):
        yield from spot.at(at).differ(_build(build, variant, target, declaration.cases[0]), build)
    for at, build in enumerate(others, len(wanted)):
        yield from spot.at(at).differ(unbuilt(build.variant, build.target, build.case, build.compiled), build)


def compile_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's compile record does not follow from its binaries and the targets' limits."""
    spot = Spot(place("compile", kernel))
    record = opened.records[spot.path]
    found: Compile = record.result
    yield from loading_faults(spot.at("loading"), found.loading)
    if found.declaration is None or found.loading.outcome != "passed":
        yield from spot.differ(replace(found, declaration=None, builds=[], findings=[]), found)
        if found.loading.outcome == "passed":
            yield spot.at("declaration").fault("what the kernel declares, since it was loaded", "none")
        return
    yield from _builds(spot.at("builds"), found.declaration, settings_of(record).targets, found.builds)
    variants = {variant.id for variant in found.declaration.variants}
    if all(build.variant in variants and build.target in TARGETS for build in found.builds):
        yield from spot.at("findings").differ(findings(found.declaration, found.builds), found.findings)

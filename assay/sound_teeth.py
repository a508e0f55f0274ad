"""Whether a teeth record holds every fault that can be planted, and says of each what its tiers saw. Pure.

The faults are planted again, in the kernel file's text: nothing of it runs.
"""

from collections.abc import Sequence
from typing import get_args

from assay.catching import EVERYWHERE, UNTRIED, acceptances, accepted_places, fate, looking, outcome, saw_nothing
from assay.chain import place
from assay.discrepancy import Faults, Spot, shown
from assay.mutation import Mutation, mutants
from assay.opening import Opened
from assay.original import LAUNCH, UNCOMPARED, Original, TierName, build_place, nothing_planted
from assay.record import Exposure, Mutant, Operand, Teeth
from assay.sound_machine import card_faults, is_unlisted

LARGEST_SOURCE_BYTES = 2**18
"""Of a kernel file in which faults are planted again: each takes a parse of the whole."""


def _planted(spot: Spot, source: bytes) -> list[Mutation] | str:
    """Return the faults that can be planted in a kernel file, or the fault of one in which none can."""
    if len(source) > LARGEST_SOURCE_BYTES:
        return spot.fault(f"faults in a kernel file of at most {LARGEST_SOURCE_BYTES} bytes", f"one of {len(source)}")
    try:
        return mutants(source.decode("utf-8"))
    except (SyntaxError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        return spot.fault("faults in a kernel file that can be parsed", type(error).__name__)


def _mutants(spot: Spot, planted: Sequence[Mutation], found: Sequence[Mutant], original: Original) -> Faults:
    """Yield where the faults are not those that can be planted, in order, or one does not follow from what was seen."""
    # What stands in the source's place is spelt differently by different releases of Python.
    expected = [[mutation.operator, mutation.line, mutation.source] for mutation in planted]
    yield from spot.differ(expected, [[mutant.operator, mutant.line, mutant.source] for mutant in found])
    accepted = accepted_places(acceptances(original.declaration.equivalents, planted))
    for at, (mutant, mutation) in enumerate(zip(found, planted, strict=False)):
        became = outcome(fate(mutant.exposures, mutant.differs), mutant.baseline, at in accepted)
        yield from spot.at(at, "outcome").differ(became, mutant.outcome)
        yield from _mutant(spot.at(at), mutant, mutation, original)


def _places(original: Original, tier: TierName) -> set[str]:
    """Return where a tier can see something."""
    if tier == "compile":
        builds = {build_place(build.variant, build.target, build.case) for build in original.samples()}
        return builds | {f"{precision} {target}" for precision, target in original.kept}
    places = {f"{case} {variant.id}" for variant, case in original.trials(tier)}
    if tier == "gpu":
        operands = get_args(Operand)
        places |= {f"{variant} canary, {operand} operand" for variant in original.variants for operand in operands}
        places |= {f"{c.case} {c.lesser}/{c.configuration} against {c.reference}" for c in original.gpu.contrasts}
    return places


def _exposure(spot: Spot, exposure: Exposure, original: Original) -> Faults:
    tier, verdict, passed = exposure.tier, exposure.verdict, exposure.passed
    asked = len(original.samples() if tier == "compile" else original.trials(tier))
    if passed > asked:
        yield spot.at("passed").fault(f"at most the {asked} that the tier looks at", str(passed))
    if passed and verdict.outcome not in ("passed", "failed"):
        yield spot.at("passed").fault(f"0 beside the outcome {verdict.outcome}", str(passed))
    if verdict.outcome == "passed":
        yield from spot.at("verdict").differ(saw_nothing(tier, passed), verdict)
        yield from spot.at("place").differ(EVERYWHERE, exposure.place)
    elif exposure.place not in _places(original, tier) and (passed or verdict.outcome == "failed"):
        yield spot.at("place").fault("a place where the kernel itself passed", shown(exposure.place))
    if verdict.outcome == "failed" and verdict.cause is None:
        yield spot.at("verdict", "cause").fault("the cause of the failure", "none")


def _mutant(spot: Spot, mutant: Mutant, planted: Mutation, original: Original) -> Faults:
    # A device looks before all code is compared; what it sees of code that is the kernel's own is left out.
    differs = None if mutant.outcome == "equivalent" else UNCOMPARED
    tiers = looking(original.tiers, mutant.exposures, differs)
    yield from spot.at("exposures").differ(tiers, [exposure.tier for exposure in mutant.exposures])
    for at, exposure in enumerate(mutant.exposures):
        if exposure.tier in original.tiers:
            yield from _exposure(spot.at("exposures", at), exposure, original)
    if planted.place == "launch" and mutant.outcome == "equivalent":
        yield spot.at("outcome").fault("no equivalence of a change in the launch, which no code shows", "equivalent")
    if mutant.differs is not None:
        known = {build_place(variant.id, target, case) for variant, target, case in original.rebuilds}
        known |= {LAUNCH} if planted.place == "launch" else set()
        if mutant.outcome not in ("survived", "accepted") or mutant.differs not in known:
            yield spot.at("differs").fault("a build of a fault that survived, or none", shown(mutant.differs))
    tried = {"interpreter", "gpu"} & set(original.tiers)
    if not tried:
        yield from spot.at("baseline").differ(UNTRIED, mutant.baseline)
    elif mutant.baseline.outcome not in ("passed", "failed"):
        yield spot.at("baseline", "outcome").fault("passed or failed", mutant.baseline.outcome)


def teeth_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's teeth record, if there is one, does not follow from its source and earlier records."""
    spot = Spot(place("teeth", kernel))
    if spot.path not in opened.records:
        return
    found: Teeth = opened.records[spot.path].result
    of = [opened.records[place(stage, kernel)].result for stage in ("interpreter", "compile", "gpu")]
    original = Original(*of)
    if original.loading.outcome != "passed":
        yield from spot.differ(nothing_planted(original.loading), found)
        return
    if is_unlisted(found.loading):
        yield from spot.differ(nothing_planted(found.loading), found)
        return
    if original.compiled.declaration is None:
        # Its own rule says so.
        return
    yield from spot.at("loading").differ(original.loading, found.loading)
    yield from spot.at("tiers").differ(original.tiers, found.tiers)
    if original.device is None:
        yield from spot.at("device").differ(None, found.device)
    else:
        yield from card_faults(spot.at("device"), opened, found.device)
    planted = _planted(spot.at("mutants"), opened.payload[f"kernels/{kernel}.py"])
    if isinstance(planted, str):
        yield planted
    else:
        yield from _mutants(spot.at("mutants"), planted, found.mutants, original)
        words = acceptances(original.declaration.equivalents, planted)
        yield from spot.at("acceptances").differ(words, found.acceptances)

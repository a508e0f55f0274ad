"""Whether the checks of the interpreter and gpu records follow from their comparisons, and are all there. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import get_args

from msgspec.structs import replace

from assay.admission import availability, chosen_device, without_device
from assay.chain import place, settings_of
from assay.diagnosis import diagnose_again
from assay.discrepancy import Faults, Spot, shown
from assay.judgement import asked, contrasts, exempt, honoured, is_within, judge_all, judge_repeat, normalised
from assay.opening import Opened
from assay.prediction import Key, predicted, predictions
from assay.record import (
    Canary,
    Check,
    Comparison,
    Compile,
    Declaration,
    DeclaredVariant,
    Device,
    Digest,
    Gpu,
    Interpreter,
    Operand,
    StageName,
    Unavailable,
    Verdict,
    Worst,
    as_float,
    number,
)
from assay.rounding import PROBES, canary
from assay.sound_machine import card_faults, is_unlisted
from assay.targets import unsuited

LOADED: tuple[StageName, ...] = ("interpreter", "compile", "gpu")
"""Stages that load the kernel file and say what it declares."""

LARGEST_COUNT = 2**53 - 1

JUDGED = ("wrong-value", "not-finite")
"""Causes of a failure that comparisons alone decide."""

STRAYED = ("poison-read", "undefined-read", "stale-result")
"""Causes of a failure that comparisons show and the bits of the result explain."""


def declared(opened: Opened, kernel: str) -> Declaration | None:
    """Return what a kernel declares, from whichever record could load it."""
    results = [opened.records[place(stage, kernel)].result for stage in LOADED]
    return next((result.declaration for result in results if result.declaration is not None), None)


def _names(spot: Spot, declaration: Declaration) -> Faults:
    ids = [variant.id for variant in declaration.variants]
    expected = [f"{variant.precision}/{variant.configuration}" for variant in declaration.variants]
    yield from spot.at("variants", "id").differ(expected, ids)
    for field, names in (("variants", ids), ("cases", declaration.cases), ("timed", declaration.timed)):
        if len(names) != len(set(names)):
            yield spot.at(field).fault("each name once", shown(names))
        elif not names and field != "timed":
            yield spot.at(field).fault("at least one", "none")


def declaration_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's records do not hold one and the same declaration, or where it contradicts itself."""
    declaration = declared(opened, kernel)
    for stage in LOADED:
        spot = Spot(place(stage, kernel)).at("declaration")
        found = opened.records[spot.path].result.declaration
        if found is not None:
            yield from spot.differ(declaration, found)
            yield from _names(spot, found)


def loading_faults(spot: Spot, loading: Verdict) -> Faults:
    """Yield where a kernel file neither loaded nor failed to."""
    if loading.outcome not in ("passed", "failed"):
        yield spot.at("outcome").fault("passed or failed", loading.outcome)


# One comparison, one check


def _error(got: float, want: float) -> float:
    """|got - want|, and 0 where both are the same infinity or both NaN, as stage gpu and interpreter compute it."""
    same = got == want or (math.isnan(got) and math.isnan(want))
    return 0.0 if same else abs(got - want)


def _elements(shape: Sequence[int]) -> int:
    """Return how many elements there are, or the largest number that a record can hold."""
    elements = int(0 not in shape)
    for size in shape:
        elements *= size
        if elements > LARGEST_COUNT:
            return LARGEST_COUNT
    return elements


def _derived(comparison: Comparison) -> Comparison:
    """Return a comparison with what follows from its other figures."""
    worst = comparison.worst
    return replace(
        comparison,
        elements=_elements(comparison.shape),
        normalised_error=normalised(as_float(comparison.largest_error), as_float(comparison.largest_reference)),
        worst=replace(worst, error=number(_error(as_float(worst.got), as_float(worst.want)))),
    )


def _comparison(spot: Spot, comparison: Comparison) -> Faults:
    yield from spot.differ(_derived(comparison), comparison)
    worst, shape, past = comparison.worst, comparison.shape, comparison.past_bound
    error, bound = as_float(worst.error), as_float(worst.bound)
    if not comparison.elements:
        yield from spot.at("worst").differ(Worst(index=[], got=0.0, want=0.0, error=0.0, bound=0.0), worst)
    elif len(worst.index) != len(shape) or any(at >= size for at, size in zip(worst.index, shape, strict=False)):
        yield spot.at("worst", "index").fault(f"a place in shape {shape}", str(worst.index))
    if past > comparison.elements:
        yield spot.at("past_bound").fault(f"at most {comparison.elements} elements", str(past))
    within = is_within(worst)
    if within != (past == 0):
        expected = "none" if within else "at least 1"
        yield spot.at("past_bound").fault(f"{expected}, by the worst element's error {error:g} of {bound:g}", str(past))
    if as_float(comparison.largest_error) < error:
        largest = as_float(comparison.largest_error)
        yield spot.at("largest_error").fault(f"at least the worst element's {error:g}", f"{largest:g}")


def _verdict(check: Check, free: Verdict | None) -> Verdict:
    """Return the verdict that a check's launches call for; its own where something else decides."""
    verdict = check.verdict
    if free is not None or verdict.cause == "policy":
        return free or Verdict(outcome="untested", cause="not-measured", reason="the kernel exempts it from nothing")
    changing = judge_repeat(check.repeat)
    if changing is not None:
        return changing
    if verdict.outcome == "passed" or verdict.cause in JUDGED:
        missing = Verdict(outcome="untested", cause="not-measured", reason="nothing was compared")
        return judge_all(check.comparisons) if check.comparisons else missing
    if verdict.cause in STRAYED and check.comparisons and judge_all(check.comparisons).outcome == "passed":
        return judge_all(check.comparisons)
    if verdict.outcome == "failed" or verdict.cause == "capability":
        return verdict
    return diagnose_again(verdict, check.variant.partition("/")[0])


def _check(spot: Spot, check: Check, free: Verdict | None) -> Faults:
    for at, comparison in enumerate(check.comparisons):
        yield from _comparison(spot.at("comparisons", at), comparison)
    yield from spot.at("verdict").differ(_verdict(check, free), check.verdict)
    if check.comparisons and check.verdict.outcome not in ("passed", "failed"):
        found = str(len(check.comparisons))
        yield spot.at("comparisons").fault(f"none beside the outcome {check.verdict.outcome}", found)


def _repeat(spot: Spot, check: Check, on_device: bool) -> Faults:
    """Yield where a check that came to its end was not launched again, or one that cannot be was."""
    repeat = check.repeat
    if isinstance(repeat, Unavailable):
        if on_device and check.verdict.outcome == "passed":
            yield spot.fault("a second launch of what passed", shown(repeat))
        return
    if not on_device:
        yield spot.fault("no second launch under the interpreter", shown(repeat))
    if repeat.differing > repeat.elements:
        yield spot.at("differing").fault(f"at most {repeat.elements} elements", str(repeat.differing))
    if not repeat.differing and not repeat.settled:
        yield spot.at("settled").fault("true, since nothing differs", "false")


def _canaries(
    spot: Spot, declaration: Declaration, checks: Sequence[Check], found: Sequence[Canary], gated: bool
) -> Faults:
    """Yield where a canary does not follow from its readings, or is missing of a variant that passed a case."""
    for at, one in enumerate(found):
        if len(one.readings) != len(PROBES):
            yield spot.at(at, "readings").fault(f"{len(PROBES)} readings, one for each probe", str(len(one.readings)))
            return
        yield from spot.at(at).differ(canary(one.variant, one.operand, one.readings, gated), one)
    passed = {check.variant for check in checks if check.verdict.outcome == "passed"} if declaration.dot else set()
    sent = [(one.variant, one.operand) for one in found]
    asked = {variant for variant, _ in sent}
    expected = [(v.id, operand) for v in declaration.variants if v.id in asked for operand in get_args(Operand)]
    missing = sorted(passed - asked)
    if missing:
        yield spot.fault(f"a canary of {missing[0]}, which passed a case of a product", "none")
    elif sorted(sent) != sorted(expected) or (sent and not declaration.dot):
        yield spot.fault("both operands of declared variants, once each", shown(sent))


def _misfit(variant: DeclaredVariant, device: Device | None) -> str | None:
    """Return why the device cannot run the variant; None where it can, or where there is no device."""
    if device is None:
        return None
    return unsuited(device.name, device.target, variant.minimum_capability, variant.maximum_capability)


def _capable(spot: Spot, check: Check, variant: DeclaredVariant, device: Device | None) -> Faults:
    """Yield where a check says otherwise than the device's capability and the variant's need."""
    misfit = _misfit(variant, device)
    if misfit:
        yield from spot.differ(Verdict(outcome="inapplicable", cause="capability", reason=misfit), check.verdict)
    elif check.verdict.cause == "capability":
        yield spot.fault("no want of capability here", shown(check.verdict))


def _all_tried(spot: Spot, declaration: Declaration, checks: Sequence[Check]) -> Faults:
    """Yield where the checks are not every variant on each of some declared cases, in order."""
    cases = {check.case for check in checks}
    tried_on = {case: asked(declaration, case) for case in declaration.cases if case in cases}
    expected = [(variant.id, case) for case, variants in tried_on.items() for variant in variants]
    found = [(check.variant, check.case) for check in checks]
    tried = set(found)
    missing = [" on ".join(pair) for pair in expected if pair not in tried]
    if missing:
        yield spot.fault("every variant that is asked of each case that was tried", f"none of {shown(missing)}")
    else:
        yield from spot.differ(expected, found)


def _checks(
    spot: Spot, declaration: Declaration, checks: Sequence[Check], seeds: list[int], device: Device | None
) -> Faults:
    yield from _all_tried(spot, declaration, checks)
    variants = {variant.id: variant for variant in declaration.variants}
    for at, check in enumerate(checks):
        variant = variants.get(check.variant)
        if variant is None:
            continue
        free = None if _misfit(variant, device) else exempt(declaration, check.case, variant.precision)
        yield from spot.at(at, "seeds").differ(seeds, check.seeds)
        yield from _check(spot.at(at), check, free)
        yield from _repeat(spot.at(at, "repeat"), check, device is not None)


def _all_capable(spot: Spot, declaration: Declaration, checks: Sequence[Check], device: Device | None) -> Faults:
    variants = {variant.id: variant for variant in declaration.variants}
    for at, check in enumerate(checks):
        if check.variant in variants:
            yield from _capable(spot.at(at, "verdict"), check, variants[check.variant], device)


# Records


def interpreter_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's interpreter record does not follow from its comparisons."""
    spot = Spot(place("interpreter", kernel))
    record = opened.records[spot.path]
    found: Interpreter = record.result
    declaration = found.declaration
    checks = [] if declaration is None else found.checks
    gaps = contrasts(declaration, checks, gated=False)
    derived = replace(found, checks=checks, contrasts=gaps, precision_honoured=honoured(gaps))
    yield from spot.differ(derived, found)
    yield from loading_faults(spot.at("loading"), found.loading)
    if (found.loading.outcome == "passed") != (declaration is not None):
        yield spot.at("loading").fault(
            "a declaration of a kernel that was loaded, and of no other", shown(found.loading)
        )
    elif declaration is not None:
        yield from _checks(spot.at("checks"), declaration, checks, settings_of(record).seeds, None)
        yield from _canaries(spot.at("canaries"), declaration, checks, found.canaries, gated=False)
        yield from _all_capable(spot.at("checks"), declaration, checks, None)


def _executions(spot: Spot, found: Gpu, expected: Mapping[Key, list[Digest]]) -> Faults:
    """Yield where executed binaries are not set against those compiled ahead, or are left out."""
    derived = [
        replace(one, predicted=predicted(one.binary_sha256, expected.get((one.variant, one.case))))
        for one in found.executions
    ]
    yield from spot.differ(derived, found.executions)
    listed = [(one.variant, one.case) for one in found.executions]
    ran = set(listed)
    tried = {(check.variant, check.case): check.verdict.outcome for check in found.checks}
    if listed != [pair for pair in tried if pair in ran]:
        yield spot.fault("at most one for each check, in the order of the checks", shown(listed))
    for pair, outcome in tried.items():
        if outcome == "passed" and pair in expected and pair not in ran:
            yield spot.fault(
                f"the binary that {' launched for case '.join(pair)}, without which it ran nowhere", "none"
            )


def _on_device(spot: Spot, opened: Opened, found: Gpu, device: Device) -> Faults:
    yield from card_faults(spot.at("device"), opened, found.device)
    declaration = found.declaration
    if declaration is None:
        yield spot.at("declaration").fault("what the kernel declares, since it ran", "none")
        return
    yield from spot.at("contrasts").differ(contrasts(declaration, found.checks, gated=True), found.contrasts)
    record = opened.records[spot.path]
    yield from _checks(spot.at("checks"), declaration, found.checks, settings_of(record).seeds, device)
    yield from _canaries(spot.at("canaries"), declaration, found.checks, found.canaries, gated=True)
    yield from _all_capable(spot.at("checks"), declaration, found.checks, device)
    compiled: Compile = opened.records[place("compile", record.kernel)].result
    yield from _executions(spot.at("executions"), found, predictions(compiled, device.target))


def gpu_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's gpu record does not follow from gate, device, comparisons and compiled binaries."""
    spot = Spot(place("gpu", kernel))
    found: Gpu = opened.records[spot.path].result
    device = chosen_device(opened.records[place("environment")].result)
    may = availability(opened.records[place("gate")].result, device)
    if may.outcome != "passed" or device is None:
        yield from spot.differ(without_device(may), found)
    elif found.availability.outcome == "failed" or is_unlisted(found.availability):
        # The kernel file could not be loaded on the device, or the job was given a card that is none of these.
        yield from spot.differ(without_device(found.availability), found)
    else:
        yield from spot.at("availability").differ(may, found.availability)
        yield from _on_device(spot, opened, found, device)

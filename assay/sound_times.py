"""Whether a timing record follows from its raw samples, and from what the earlier stages let be timed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.admission import bar, refusal
from assay.chain import place, settings_of
from assay.config import TimingSettings
from assay.diagnosis import diagnose_again
from assay.discrepancy import Faults, Spot, shown
from assay.opening import Opened
from assay.record import Check, Declaration, DeclaredVariant, Gpu, Row, Sweep, Timing, Verdict
from assay.sampling import Entrant, Problem
from assay.speeds import best, how, row, speedup


@dataclass(frozen=True)
class Terms:
    """What decides who is timed and how: the declaration, the checks on the device, and the settings."""

    declaration: Declaration
    checks: Sequence[Check]
    settings: TimingSettings

    def barred(self, variant: str) -> Verdict | None:
        """Return why a variant is not timed, or None."""
        return bar([check for check in self.checks if check.variant == variant])


def _entrant(found: Row, variant: DeclaredVariant | None) -> Entrant:
    """Return the entrant that a row is about: a declared variant, or a peer of the library."""
    if variant is None:
        return Entrant(name=found.entrant, kind="peer", precision=found.precision, configuration=None)
    return Entrant(name=variant.id, kind="variant", precision=variant.precision, configuration=variant.configuration)


def _verdict(found: Row, barred: Verdict | None, timed: Verdict) -> Verdict:
    """Return the verdict that a row must have: that of all that were `timed`, or its own where the device decided."""
    if barred is not None:
        return barred
    if found.verdict.outcome in ("inapplicable", "untested"):
        return diagnose_again(found.verdict, found.precision)
    return timed if found.verdict.outcome == "passed" else found.verdict


def _row(spot: Spot, found: Row, entrant: Entrant, verdict: Verdict, sweep: Sweep) -> Faults:
    taken, rounds = len(found.samples_ns), len(sweep.rounds)
    # JSON has no NaN: a row with an impossible sample keeps none.
    if taken != rounds and (taken or found.verdict.outcome == "passed"):
        yield spot.at("samples_ns").fault(f"one sample for each of {rounds} rounds", str(taken))
        return
    problem = Problem(size=sweep.size, dimensions=sweep.dimensions, flops=sweep.flops, bytes=sweep.bytes)
    yield from spot.differ(row(entrant, verdict, found.samples_ns, problem, found.cubin_sha256), found)


def _rows(spot: Spot, sweep: Sweep, terms: Terms) -> Faults:
    variants = {variant.id: variant for variant in terms.declaration.variants}
    timed = Verdict(outcome="passed", reason=how(terms.settings, sweep.rounds))
    for at, found in enumerate(sweep.rows):
        variant = variants.get(found.entrant) if at < len(variants) else None
        barred = None if variant is None else terms.barred(variant.id)
        if barred is not None and (found.samples_ns or found.cubin_sha256):
            yield spot.at(at).fault("no samples of what is not to be timed", f"{len(found.samples_ns)}")
        verdict = _verdict(found, barred, timed)
        yield from _row(spot.at(at), found, _entrant(found, variant), verdict, sweep)


def _sweep(spot: Spot, sweep: Sweep, terms: Terms) -> Faults:
    variants = [variant.id for variant in terms.declaration.variants]
    timed = [found.entrant for found in sweep.rows]
    if timed[: len(variants)] != variants or len(timed) != len(set(timed)):
        yield spot.at("rows").fault("every declared variant, in order, then each peer once", shown(timed))
        return
    if len(sweep.rounds) > terms.settings.rounds:
        yield spot.at("rounds").fault(f"at most {terms.settings.rounds}, as set", str(len(sweep.rounds)))
        return
    wrong = list(_rows(spot.at("rows"), sweep, terms))
    yield from wrong
    if wrong:
        return
    fastest = best(sweep.rows)
    yield from spot.at("best").differ(fastest, sweep.best)
    times = {one.precision: one.median_ns for one in fastest}
    gains = [speedup(reference, lesser, times) for reference, lesser in terms.declaration.contrasts]
    yield from spot.at("speedups").differ(gains, sweep.speedups)


def _sweeps(spot: Spot, found: Timing, gpu: Gpu, settings: TimingSettings) -> Faults:
    if gpu.declaration is None:
        yield spot.at("availability").fault("nothing timed of a kernel that stage 'gpu' did not load", "a time")
        return
    terms = Terms(gpu.declaration, gpu.checks, settings)
    yield from spot.at("device").differ(gpu.device, found.device)
    yield from spot.at("sweeps", "size").differ(gpu.declaration.timed, [sweep.size for sweep in found.sweeps])
    for at, sweep in enumerate(found.sweeps):
        yield from _sweep(spot.at("sweeps", at), sweep, terms)


def timing_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's timing record does not follow from gate, checks and samples."""
    spot = Spot(place("timing", kernel))
    record = opened.records[spot.path]
    found: Timing = record.result
    gpu: Gpu = opened.records[place("gpu", kernel)].result
    refused = refusal(opened.records[place("gate")].result, gpu)
    if refused is not None:
        yield from spot.differ(Timing(availability=refused, device=None, sweeps=[]), found)
    elif found.availability.outcome != "passed":
        yield from spot.at("sweeps").differ([], found.sweeps)
        if found.device is not None:
            yield from spot.at("device").differ(gpu.device, found.device)
    else:
        yield from _sweeps(spot, found, gpu, settings_of(record).timing)

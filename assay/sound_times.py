"""Whether a timing record follows from its raw samples, and from what the earlier stages let be timed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.admission import refusal, untimed
from assay.chain import place, settings_of
from assay.config import Settings
from assay.diagnosis import diagnose_again
from assay.discrepancy import Faults, Spot, shown
from assay.opening import Opened
from assay.rates import ceiling
from assay.record import (
    Build,
    Check,
    Compile,
    Declaration,
    DeclaredVariant,
    Device,
    Gpu,
    Row,
    Sweep,
    Timing,
    Unavailable,
    Verdict,
)
from assay.sampling import AGAIN, Entrant, Problem, twin_of
from assay.sound_machine import card_faults
from assay.speeds import Entry, Measured, Terms, derive, launch_cost, nothing_timed, pruned

DERIVED = ("throttled", "over-ceiling", "not-measured")
"""Causes that follow from the samples of a row that was timed."""


@dataclass(frozen=True)
class Premises:
    """What decides who is timed and how: declaration, checks on the device, code for its target, settings."""

    declaration: Declaration
    checks: Sequence[Check]
    builds: Sequence[Build]
    target: str
    settings: Settings
    terms: Terms

    def barred(self) -> dict[str, Verdict]:
        """Return the variants that are not timed, each with the reason."""
        found = {one.id: untimed(one, self.checks, self.builds, self.target) for one in self.declaration.variants}
        return {name: verdict for name, verdict in found.items() if verdict is not None}


def _of_variant(variant: DeclaredVariant) -> Entrant:
    return Entrant(
        name=variant.id,
        kind="variant",
        precision=variant.precision,
        configuration=variant.configuration,
        searched=variant.searched,
    )


def _entrants(sweep: Sweep, declaration: Declaration) -> list[Entrant]:
    """Return the entrants that the rows must be about: the declared variants, peers, and last the twin if any."""
    found = [_of_variant(variant) for variant in declaration.variants]
    for at, row in enumerate(sweep.rows[len(found) :], len(found)):
        first = next((one for one in found if one.name + AGAIN == row.entrant), None)
        if row.kind == "twin" and at == len(sweep.rows) - 1 and first is not None:
            found.append(twin_of(first))
        else:
            found.append(Entrant(name=row.entrant, kind="peer", precision=row.precision, configuration=None))
    return found


@dataclass(frozen=True)
class Lists:
    """Whom the rows of a size are about, who never went onto the device, and whom the short round left out."""

    entrants: Sequence[Entrant]
    barred: Mapping[str, Verdict]
    screened: Mapping[str, Verdict]


def _lists(sweep: Sweep, premises: Premises) -> Lists:
    entrants = _entrants(sweep, premises.declaration)
    screens = {found.entrant: found.screen_ns for found in sweep.rows}
    return Lists(entrants, premises.barred(), pruned(entrants, screens, premises.terms.settings))


def _verdict(found: Row, decided: Mapping[str, Verdict]) -> Verdict:
    """Return what a row's verdict goes back to: passed where its samples decide, else what was `decided` before, or
    what the device made of it.
    """
    if found.entrant in decided:
        return decided[found.entrant]
    if found.verdict.outcome in ("inapplicable", "untested"):
        return diagnose_again(found.verdict, found.precision)
    if found.verdict.outcome == "passed" or (found.verdict.cause in DERIVED and found.samples_ns):
        return Verdict(outcome="passed", reason="timed")
    return found.verdict


def _samples(spot: Spot, found: Row, rounds: int) -> Faults:
    """Yield where a row does not have one sample a round, or none at all."""
    taken = len(found.samples_ns)
    # JSON has no NaN: a row with an impossible sample keeps none.
    if taken != rounds and (taken or found.verdict.outcome == "passed"):
        yield spot.at("samples_ns").fault(f"one sample for each of {rounds} rounds", str(taken))
    if not isinstance(found.replays_ns, Unavailable) and len(found.replays_ns) != rounds:
        yield spot.at("replays_ns").fault(f"one replay for each of {rounds} rounds", str(len(found.replays_ns)))


def _untimed(spot: Spot, found: Row) -> Faults:
    """Yield where there are samples of what was left out by then."""
    replays = [] if isinstance(found.replays_ns, Unavailable) else found.replays_ns
    if found.samples_ns or replays:
        taken = max(len(found.samples_ns), len(replays))
        yield spot.fault("no samples of what is not to be timed", str(taken))


def _untouched(spot: Spot, found: Row) -> Faults:
    """Yield where there is anything of what never went onto the device in this stage."""
    yield from _untimed(spot, found)
    if found.screen_ns or found.binary_sha256 or not isinstance(found.accuracy, Unavailable):
        yield spot.fault("nothing measured of what is not to be timed", "a short round, binaries or an accuracy")


def _screen(spot: Spot, found: Row, entrant: Entrant, rounds: int) -> Faults:
    """Yield where the short round is not of what is searched, or is of another length."""
    if found.screen_ns and not entrant.searched:
        yield spot.at("screen_ns").fault("no short round of what no search space holds", str(len(found.screen_ns)))
    elif len(found.screen_ns) not in (0, rounds):
        yield spot.at("screen_ns").fault(f"{rounds} samples, or none", str(len(found.screen_ns)))


def _rows(spot: Spot, sweep: Sweep, lists: Lists, premises: Premises) -> Faults:
    """Yield where rows are not about whom they must be, or hold samples that they cannot."""
    for at, (found, entrant) in enumerate(zip(sweep.rows, lists.entrants, strict=True)):
        here = spot.at(at)
        yield from here.at("kind").differ(entrant.kind, found.kind)
        yield from _samples(here, found, len(sweep.rounds))
        yield from _screen(here, found, entrant, premises.terms.settings.screen_rounds)
        if found.entrant in lists.barred:
            yield from _untouched(here, found)
        elif found.entrant in lists.screened:
            yield from _untimed(here, found)


def _roll(spot: Spot, sweep: Sweep, premises: Premises) -> Faults:
    """Yield where the rows are not those of the declared variants, or there are more rounds than set."""
    variants = [variant.id for variant in premises.declaration.variants]
    timed = [found.entrant for found in sweep.rows]
    if timed[: len(variants)] != variants or len(timed) != len(set(timed)):
        yield spot.at("rows").fault("every declared variant, in order, then each peer once", shown(timed))
    most = premises.terms.settings.rounds
    if len(sweep.rounds) > most:
        yield spot.at("stretches").fault(f"at most {most}, as set", str(len(sweep.rounds)))


def _ended(spot: Spot, sweep: Sweep, premises: Premises) -> Faults:
    """Yield where sampling cannot have ended as the record says."""
    settings, here = premises.terms.settings, spot.at("ended")
    rounds, good = len(sweep.rounds), len(sweep.rounds) - len(sweep.outside)
    passed = any(row.verdict.outcome == "passed" for row in sweep.rows)
    if sweep.ended == "rounds" and rounds != settings.rounds:
        yield here.fault(f"another reason to stop than the most rounds, {settings.rounds}, after {rounds}", "it")
    if sweep.ended == "precise":
        if good < settings.fewest_rounds:
            yield here.fault(f"{settings.fewest_rounds} good rounds before it is precise", str(good))
        if not isinstance(sweep.widest, Unavailable) and not (sweep.widest <= settings.half_width):
            yield here.fault(f"no interval wider than {settings.half_width:g}, as set", f"{sweep.widest:g}")
    if sweep.ended == "nothing" and rounds:
        yield here.fault("no rounds where there was nothing to sample", str(rounds))
    if sweep.ended == "fault" and passed:
        yield here.fault("no passed row where a fault ended sampling", "one")


def _measured(sweep: Sweep, lists: Lists) -> Measured:
    """Return the raw part of a size's record."""
    entries = [
        Entry(
            entrant=entrant,
            verdict=_verdict(found, {**lists.screened, **lists.barred}),
            samples_ns=found.samples_ns,
            replays_ns=found.replays_ns,
            screen_ns=found.screen_ns,
            accuracy=found.accuracy,
            binary_sha256=found.binary_sha256,
            launches=found.launches,
        )
        for found, entrant in zip(sweep.rows, lists.entrants, strict=True)
    ]
    problem = Problem(size=sweep.size, dimensions=sweep.dimensions, flops=sweep.flops, bytes=sweep.bytes)
    return Measured(problem, sweep.inputs, entries, sweep.rounds, sweep.ended, sweep.cost)


def _sweep(spot: Spot, sweep: Sweep, premises: Premises) -> Faults:
    wrong = list(_roll(spot, sweep, premises))
    if not wrong:
        lists = _lists(sweep, premises)
        wrong = list(_rows(spot.at("rows"), sweep, lists, premises))
        wrong = wrong or list(spot.differ(derive(_measured(sweep, lists), premises.terms), sweep))
    yield from wrong or _ended(spot, sweep, premises)
    if not isinstance(sweep.inputs, Unavailable):
        yield from spot.at("inputs", "seed").differ(premises.settings.seeds[0], sweep.inputs.seed)


def _limits(spot: Spot, found: Timing) -> Faults:
    """Yield where the cost of a launch or a ceiling does not follow from its samples."""
    launch = launch_cost(found.launches_ns)
    if not (isinstance(launch, Unavailable) and isinstance(found.launch, Unavailable)):
        yield from spot.at("launch").differ(launch, found.launch)
    names = [one.name for one in found.ceilings]
    if len(names) != len(set(names)):
        yield spot.at("ceilings").fault("each ceiling once", shown(names))
    for at, one in enumerate(found.ceilings):
        yield from spot.at("ceilings", at).differ(ceiling(one.name, one.how, one.work, one.samples_ns), one)


def _premises(found: Timing, gpu: Gpu, compiled: Compile, settings: Settings, declaration: Declaration) -> Premises:
    device: Device | None = found.device
    terms = Terms(
        settings=settings.timing,
        maximum_sm_clock_mhz=Unavailable(reason="no device") if device is None else device.maximum_sm_clock_mhz,
        launch=found.launch,
        ceilings=found.ceilings,
        runs_into=declaration.ceilings,
        contrasts=declaration.contrasts,
        rivals=declaration.rivals,
    )
    target = "" if gpu.device is None else gpu.device.target
    return Premises(declaration, gpu.checks, compiled.builds, target, settings, terms)


def _sweeps(spot: Spot, opened: Opened, found: Timing, gpu: Gpu, compiled: Compile) -> Faults:
    if gpu.declaration is None:
        yield spot.at("availability").fault("nothing timed of a kernel that stage 'gpu' did not load", "a time")
        return
    yield from card_faults(spot.at("device"), opened, found.device)
    yield from _limits(spot, found)
    yield from spot.at("sweeps", "size").differ(gpu.declaration.timed, [sweep.size for sweep in found.sweeps])
    premises = _premises(found, gpu, compiled, settings_of(opened.records[spot.path]), gpu.declaration)
    for at, sweep in enumerate(found.sweeps):
        yield from _sweep(spot.at("sweeps", at), sweep, premises)


def timing_faults(opened: Opened, kernel: str) -> Faults:
    """Yield where a kernel's timing record does not follow from gate, code, checks and samples."""
    spot = Spot(place("timing", kernel))
    found: Timing = opened.records[spot.path].result
    gpu: Gpu = opened.records[place("gpu", kernel)].result
    compiled: Compile = opened.records[place("compile", kernel)].result
    refused = refusal(opened.records[place("gate")].result, gpu)
    if refused is not None:
        yield from spot.differ(nothing_timed(refused), found)
    elif found.availability.outcome != "passed":
        yield from spot.differ(nothing_timed(found.availability, found.device, found.precompiled), found)
        if found.device is not None:
            yield from card_faults(spot.at("device"), opened, found.device)
    else:
        yield from _sweeps(spot, opened, found, gpu, compiled)

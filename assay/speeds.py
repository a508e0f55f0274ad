"""What the timing stage derives from samples, for each entrant and for a size as a whole. Pure.

The stage makes its record with `derive`, and who verifies a record makes it again from the samples in it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from assay.conditions import disturbances
from assay.config import TimingSettings
from assay.rates import goes_through_memory, over_ceiling, rate, shares
from assay.record import (
    Accuracy,
    Ceiling,
    CeilingName,
    Conditions,
    Cost,
    Count,
    Device,
    Digest,
    Ended,
    Estimate,
    Inputs,
    Precompiled,
    Row,
    Stretch,
    Sweep,
    Timing,
    Unavailable,
    Verdict,
)
from assay.resampling import FEWEST_ROUNDS, drift, estimate, half_width
from assay.sampling import Entrant, Problem
from assay.stopping import host_bound, possible
from assay.versus import Field, best, floor_of, null, speedup, versus


@dataclass(frozen=True)
class Entry:
    """One entrant's raw part of a row.

    `verdict` is passed where it was timed and what it wrote is right (its reason is written by `derive`), and says
    else why not. `samples_ns` and `replays_ns` hold one sample a round, `screen_ns` those of the short round before.
    """

    entrant: Entrant
    verdict: Verdict
    samples_ns: Sequence[float]
    replays_ns: Sequence[float] | Unavailable
    screen_ns: Sequence[float]
    accuracy: Accuracy | Unavailable
    binary_sha256: Sequence[Digest]
    launches: int | UnsetType


@dataclass(frozen=True)
class Measured:
    """One size as measured. `entries`: the variants in order, the peers in order, then at most one twin."""

    problem: Problem
    inputs: Inputs | Unavailable
    entries: Sequence[Entry]
    rounds: Sequence[Conditions]
    ended: Ended
    cost: Cost


@dataclass(frozen=True)
class Terms:
    """What decides what samples show. `runs_into`: by precision, the ceiling of its arithmetic, and the products that
    one takes there. `rivals`: by peer, other precisions that are set against it.
    """

    settings: TimingSettings
    maximum_sm_clock_mhz: Count | Unavailable
    launch: Estimate | Unavailable
    ceilings: Sequence[Ceiling]
    runs_into: Mapping[str, tuple[CeilingName, Count]]
    contrasts: Sequence[tuple[str, str]]
    rivals: Mapping[str, Sequence[str]] = field(default_factory=dict)


def in_band(state: Conditions, settings: TimingSettings, maximum_sm_clock_mhz: int | Unavailable) -> bool:
    """Return whether a round may be used: its SM clock lies in the band, or one of the two is not known."""
    clock, (low, high) = state.sm_clock_mhz, settings.clock_band
    if isinstance(clock, Unavailable) or isinstance(maximum_sm_clock_mhz, Unavailable):
        return True
    return low * maximum_sm_clock_mhz <= clock <= high * maximum_sm_clock_mhz


def nothing_timed(availability: Verdict, device: Device | None = None, ahead: Precompiled | None = None) -> Timing:
    """Return the record of a kernel that was not timed, for the reason that `availability` gives."""
    return Timing(
        availability=availability,
        device=device,
        precompiled=ahead,
        launch=Unavailable(reason=availability.reason),
        ceilings=[],
        sweeps=[],
    )


def launch_cost(samples_ns: Sequence[float]) -> Estimate | Unavailable:
    """Return what an empty kernel takes by events, in ns."""
    if not samples_ns or not possible(samples_ns):
        return Unavailable(reason="an empty kernel could not be timed")
    return estimate(samples_ns)


def pruned(
    entrants: Sequence[Entrant], screens: Mapping[str, Sequence[float]], settings: TimingSettings
) -> dict[str, Verdict]:
    """Return, of a search space, the variants that a first short round leaves out, each with the reason.

    `screens`: their samples by name, in ns. One without a possible sample is neither left out nor a measure for others.
    """
    precisions = {one.name: one.precision for one in entrants if one.searched}
    times = {name: median(screens[name]) for name in precisions if screens.get(name) and possible(screens[name])}
    found = {}
    for name, time in times.items():
        rival = min((other for other in times if precisions[other] == precisions[name]), key=times.__getitem__)
        if time > settings.screen_factor * times[rival]:
            reason = (
                f"left out of the search after {settings.screen_rounds} rounds: {time / 1e3:.4g} us, "
                f"more than {settings.screen_factor:g} times the {times[rival] / 1e3:.4g} us of {rival}"
            )
            found[name] = Verdict(outcome="inapplicable", cause="pruned", reason=reason)
    return found


def _band(terms: Terms) -> str:
    (low, high), most = terms.settings.clock_band, terms.maximum_sm_clock_mhz
    if isinstance(most, Unavailable):
        return "the clock band"
    return f"the clock band of {low * most:.0f} to {high * most:.0f} MHz"


def _each(entry: Entry, measured: Measured, terms: Terms) -> str:
    """Say what a sample is."""
    if entry.launches is UNSET:
        sets = 1 if isinstance(measured.inputs, Unavailable) else measured.inputs.sets
        return f"the middle of {max(terms.settings.repeats, sets)} launches"
    return "one launch" if entry.launches == 1 else f"the middle of {entry.launches} launches or more"


def how(entry: Entry, measured: Measured, terms: Terms, good: int) -> str:
    """Return how an entrant was timed and what may have disturbed it, in words."""
    settings, taken = terms.settings, len(measured.rounds)
    words = [f"timed in {taken} interleaved rounds, each {_each(entry, measured, terms)}"]
    if good < taken:
        words.append(f"{taken - good} rounds outside {_band(terms)} are left out")
    wanted = f"every median's interval was within {100 * settings.half_width:g}% of it"
    ends = {
        "precise": f"until {wanted}",
        "rounds": f"the most that are taken, before {wanted}",
        "time": f"no more of {settings.rounds} fit in {settings.limit_s:g} s, before {wanted}",
    }
    words += [ends[measured.ended]] if measured.ended in ends else []
    return "; ".join(words + disturbances(measured.rounds))


def plausible(samples: Sequence[float]) -> Verdict:
    """Return passed where there are enough samples and each is a time that something can take, else cantTell."""
    wrong = [sample for sample in samples if not possible([sample])]
    if wrong:
        reason = f"{len(wrong)} of {len(samples)} samples are no possible time; the first is {wrong[0]:g} ns"
        return Verdict(outcome="cantTell", cause="not-measured", reason=reason)
    if len(samples) < FEWEST_ROUNDS:
        reason = f"{len(samples)} rounds were taken; an interval of the median needs {FEWEST_ROUNDS}"
        return Verdict(outcome="cantTell", cause="not-measured", reason=reason)
    return Verdict(outcome="passed", reason=f"{len(samples)} possible times")


def _standing(entry: Entry, measured: Measured, terms: Terms, good: Sequence[int]) -> Verdict:
    """Return whether figures can be derived for an entrant: as the entry says, and then as its samples allow."""
    if entry.verdict.outcome != "passed":
        return entry.verdict
    taken, fewest = len(measured.rounds), terms.settings.fewest_rounds
    if len(entry.samples_ns) != taken:
        reason = f"{len(entry.samples_ns)} samples were taken in {taken} rounds"
        return Verdict(outcome="cantTell", cause="not-measured", reason=reason)
    if entry.samples_ns and (found := plausible(entry.samples_ns)).outcome != "passed":
        return found
    if len(good) >= fewest:
        return Verdict(outcome="passed", reason=how(entry, measured, terms, len(good)))
    if len(good) == taken:
        reason = f"{taken} rounds were taken; a figure needs {fewest}"
        return Verdict(outcome="cantTell", cause="not-measured", reason=reason)
    reason = f"{len(good)} of {taken} rounds lie within {_band(terms)}; a figure needs {fewest}"
    return Verdict(outcome="cantTell", cause="throttled", reason=reason)


def _blank(entry: Entry, verdict: Verdict) -> Row:
    """Return a row of which nothing is derived."""
    nothing, replays = Unavailable(reason=verdict.reason), entry.replays_ns
    if not isinstance(replays, Unavailable):
        replays = list(replays) if possible(replays) else Unavailable(reason="not every replay took a possible time")
    entrant = entry.entrant
    return Row(
        entrant=entrant.name,
        kind=entrant.kind,
        precision=entrant.precision,
        configuration=entrant.configuration,
        verdict=verdict,
        # JSON has no NaN; the verdict says that there was one.
        samples_ns=list(entry.samples_ns) if all(map(math.isfinite, entry.samples_ns)) else [],
        replays_ns=replays,
        screen_ns=list(entry.screen_ns) if possible(entry.screen_ns) else [],
        events=nothing,
        replay=nothing,
        launch_bound=nothing,
        time_ns=nothing,
        drift=nothing,
        rate=nothing,
        shares=[],
        accuracy=entry.accuracy,
        binary_sha256=list(entry.binary_sha256),
        launches=entry.launches,
    )


def _launch_bound(events: Estimate, replay: Estimate | Unavailable, terms: Terms) -> bool | Unavailable:
    if isinstance(replay, Unavailable):
        return replay
    if isinstance(terms.launch, Unavailable):
        return terms.launch
    return host_bound(events, replay, terms.launch.median)


def _filled(blank: Row, measured: Measured, terms: Terms, good: Sequence[int]) -> Row:
    """Return the row with what its samples of good rounds show."""
    samples, replays = [blank.samples_ns[at] for at in good], blank.replays_ns
    if not isinstance(replays, Unavailable):
        replays = [replays[at] for at in good]
    replay = replays if isinstance(replays, Unavailable) else estimate(replays)
    events = estimate(samples)
    launch_bound = _launch_bound(events, replay, terms)
    counting = replays if launch_bound is True and not isinstance(replays, Unavailable) else samples
    time_ns, runs_into = estimate(counting), terms.runs_into.get(blank.precision)
    cold = goes_through_memory(measured.inputs, terms.settings.flush_mebibytes)
    return replace(
        blank,
        events=events,
        replay=replay,
        launch_bound=launch_bound,
        time_ns=time_ns,
        drift=drift(counting, terms.settings.margin),
        rate=rate(measured.problem, time_ns.median),
        shares=list(shares(measured.problem, time_ns.median, terms.ceilings, runs_into, cold)),
    )


def row(entry: Entry, measured: Measured, terms: Terms, good: Sequence[int]) -> Row:
    """Return an entrant's row. Without a passed verdict, or with a rate that cannot be, no figure is given."""
    verdict = _standing(entry, measured, terms, good)
    blank = _blank(entry, verdict)
    if verdict.outcome != "passed":
        return blank
    filled = _filled(blank, measured, terms, good)
    wrong = over_ceiling(filled.shares)
    return filled if wrong is None else _blank(entry, wrong)


def stretches(rounds: Sequence[Conditions]) -> list[Stretch]:
    """Return the card's state beside each round, those in a row that read the same together."""
    return [Stretch(rounds=len(list(same)), conditions=one) for one, same in groupby(rounds)]


def _widest(rows: Sequence[Row]) -> float | Unavailable:
    widths = [half_width(one.time_ns) for one in rows if isinstance(one.time_ns, Estimate)]
    return max(widths) if widths else Unavailable(reason="nothing was timed")


def derive(measured: Measured, terms: Terms) -> Sweep:
    """Return the record of one size, from what was measured."""
    settings, problem = terms.settings, measured.problem
    good = [at for at, one in enumerate(measured.rounds) if in_band(one, settings, terms.maximum_sm_clock_mhz)]
    rows = [row(entry, measured, terms, good) for entry in measured.entries]
    contest = Field(rows, good, settings.margin, terms.rivals)
    equals = null(contest)
    floor = floor_of(equals, settings.margin)
    return Sweep(
        size=problem.size,
        dimensions=problem.dimensions,
        flops=problem.flops,
        bytes=problem.bytes,
        inputs=measured.inputs,
        rows=rows,
        stretches=stretches(measured.rounds),
        outside=sorted(set(range(len(measured.rounds))) - set(good)),
        ended=measured.ended,
        widest=_widest(rows),
        null=equals,
        versus=list(versus(contest, floor)),
        best=best(rows),
        speedups=[speedup(contest, floor, reference, lesser) for reference, lesser in terms.contrasts],
        cost=measured.cost,
    )

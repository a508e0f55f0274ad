"""How one size was sampled, in words: rounds, inputs, the null experiment, cost, and the card meanwhile. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_

from assay.conditions import disturbances
from assay.formats import distinct, interval, listing, mebibytes, numeral, percent, ratio, runs, seconds, shown, spread
from assay.record import Conditions, Cost, Ended, Inputs, Null, Sweep, TimedInput, Unavailable

ENDED: Mapping[Ended, str] = {
    "precise": "ended as soon as every median was known precisely enough",
    "rounds": "ended at the most rounds that are taken",
    "time": "ended because the time was up",
    "fault": "ended by a fault",
    "nothing": "nothing could be sampled",
}
MOST_NAMED = 4
LONGEST_LIST = 60
"""Characters that the numbers of rounds may take."""

Fact = tuple[str, str]
"""What it is called, and what it is."""


def _rounds(sweep: Sweep) -> str:
    good = len(sweep.rounds) - len(sweep.outside)
    return f"{len(sweep.rounds)}, of which {good} are good; {ENDED[sweep.ended]}"


def _outside(sweep: Sweep) -> str:
    if not sweep.outside:
        return "no round"
    clocks = [sweep.rounds[place].sm_clock_mhz for place in sweep.outside if place < len(sweep.rounds)]
    every = runs(sweep.outside)
    where = every if len(every) <= LONGEST_LIST else f"some from {min(sweep.outside)} to {max(sweep.outside)}"
    return f"{len(sweep.outside)} of {len(sweep.rounds)} rounds, kept and not used: {where}; {spread(clocks, 'MHz')}"


def _sets(inputs: Inputs) -> str:
    cache = mebibytes(inputs.cache_bytes)
    turn = "one set" if inputs.sets == 1 else f"{inputs.sets} sets in turn"
    return f"{turn} of {mebibytes(inputs.set_bytes)} from seed {inputs.seed}; L2 cache {cache}"


def _input(tensor: TimedInput) -> str:
    zeros = f"{tensor.zeros} of {tensor.elements} are 0" if tensor.zeros else "none is 0"
    moments = f"mean {numeral(tensor.mean)}, deviation {numeral(tensor.deviation)}"
    return f"{'×'.join(map(str, tensor.shape))} {tensor.dtype}, {moments}, {zeros}"


def _fed(inputs: Inputs | Unavailable) -> Iterator[Fact]:
    if isinstance(inputs, Unavailable):
        yield "inputs", shown(inputs)
        return
    yield "inputs", _sets(inputs)
    for tensor in inputs.tensors:
        yield f"input {tensor.name}", _input(tensor)


def null_text(null: Null) -> str:
    """Return what the null experiment gave: the ratio of one entrant to itself, and the floor that follows."""
    if isinstance(null.ratio, Unavailable):
        return f"{shown(null.ratio)}; the declared margin is taken as the floor"
    floor = shown(null.floor) if isinstance(null.floor, Unavailable) else percent(null.floor, 2)
    return f"{null.entrant} over itself: {interval(null.ratio, ratio)}; nothing within {floor} of 1 is a difference"


def _without_replay(sweep: Sweep) -> Iterator[Fact]:
    """Yield for each reason the entrants that were timed and that no graph could replay."""
    rows = [row for row in sweep.rows if row.verdict.outcome == "passed" and row.kind != "twin"]
    reasons = {row.entrant: row.replays_ns.reason for row in rows if isinstance(row.replays_ns, Unavailable)}
    for reason in distinct(reasons.values()):
        names = listing((name for name, why in reasons.items() if why == reason), MOST_NAMED, "entrants")
        yield "not replayed", f"{names}: {reason}"


def _cost(cost: Cost) -> str:
    if cost.sampling_ns == 0:
        return f"{seconds(cost.device_ns)} of the device"
    return (
        f"{seconds(cost.device_ns)} of the device, {seconds(cost.peers_ns)} of it preparing libraries and "
        f"{seconds(cost.sampling_ns)} sampling: {numeral((cost.device_ns - cost.peers_ns) / cost.sampling_ns)} times, "
        "the libraries left out"
    )


def sampling_facts(sweep: Sweep) -> list[Fact]:
    """Return how a size was sampled, fact by fact."""
    widest = sweep.widest
    return [
        ("rounds", _rounds(sweep)),
        (
            "widest interval",
            shown(widest) if isinstance(widest, Unavailable) else f"±{percent(widest, 2)} of its median",
        ),
        ("outside the clock band", _outside(sweep)),
        ("A/A", null_text(sweep.null)),
        *_fed(sweep.inputs),
        *_without_replay(sweep),
        ("cost", _cost(sweep.cost)),
    ]


def _event_reasons(rounds: Sequence[Conditions]) -> str:
    """Return NVML's bit masks of all rounds, joined; what they mean for the clocks is said by `disturbances`."""
    masks = [state.event_reasons for state in rounds if not isinstance(state.event_reasons, Unavailable)]
    return f"{reduce(or_, masks):#x} over all rounds" if masks else spread([s.event_reasons for s in rounds], "")


def card_facts(rounds: Sequence[Conditions]) -> list[Fact]:
    """Return how the card was over all rounds, fact by fact."""
    return [
        ("SM clock", spread((state.sm_clock_mhz for state in rounds), "MHz")),
        ("memory clock", spread((state.memory_clock_mhz for state in rounds), "MHz")),
        ("temperature", spread((state.temperature_celsius for state in rounds), "°C")),
        ("power", spread((state.power_milliwatts for state in rounds), "W", 1000)),
        ("event reasons", _event_reasons(rounds)),
        ("other processes", spread((state.other_processes for state in rounds), "on the card")),
        ("disturbed by", "; ".join(disturbances(rounds)) or "nothing that was seen"),
    ]

"""When sampling ends: a state machine over rounds, with no device and no clock in it. Pure.

It never looks at what comes out, only at how precisely: stopping when a difference shows would make one show.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.config import TimingSettings
from assay.record import Estimate
from assay.resampling import estimate, half_width
from assay.sampling import Round

State = Literal["sampling", "precise", "rounds", "time"]

GROWTH = 1.05
"""How much good rounds must grow before the intervals are looked at again: they narrow with the square root."""


SHORTEST_NS, LONGEST_NS = 1.0, 1e15
"""Samples are whole nanoseconds, and no limit on a round is longer than a day (8.64e13 ns)."""


def possible(samples: Sequence[float]) -> bool:
    """Return whether each sample is a time that something can take."""
    return all(SHORTEST_NS <= sample <= LONGEST_NS for sample in samples)


def host_bound(events: Estimate, replay: Estimate, launch_ns: float) -> bool:
    """Return whether events around a launch take longer than its replay by more than what an empty kernel takes.

    The ends of the two intervals that face each other count: where a power cap moves the clock, a median of one mode
    lies above the other's by chance.
    """
    return events.low - replay.high > launch_ns


def _counting(good: Sequence[Round], launch_ns: float | None) -> Iterator[Estimate]:
    """Yield, for each entrant that has a time at all, the estimate that will count: by events, or by replays."""
    for name in good[0].samples_ns:
        samples = [one.samples_ns[name] for one in good]
        replays = [one.replays_ns[name] for one in good if name in one.replays_ns]
        if possible(samples):
            events = replay = estimate(samples)
            if len(replays) == len(samples) and possible(replays):
                replay = estimate(replays)
            yield replay if launch_ns is not None and host_bound(events, replay, launch_ns) else events


def precise(good: Sequence[Round], launch_ns: float | None, widest: float) -> bool:
    """Return whether no entrant's interval is wider than `widest`; one without a possible time has none."""
    widths = [half_width(found) for found in _counting(good, launch_ns)] if good else []
    return bool(widths) and all(width <= widest for width in widths)


@dataclass(frozen=True)
class Sampler:
    """Where sampling stands. `launch_ns`: what an empty kernel takes by events, or None where that is not known.

    `look_at`: the number of good rounds at which the intervals are looked at next.
    """

    settings: TimingSettings
    launch_ns: float | None = None
    state: State = "sampling"
    look_at: int = 0

    def after(self, taken: int, good: Sequence[Round], elapsed_s: float) -> "Sampler":
        """Return where sampling stands after `taken` rounds, of which `good` may be used, and so many seconds."""
        settings, count = self.settings, len(good)
        if self.state != "sampling":
            return self
        ripe = count >= max(settings.fewest_rounds, self.look_at) and elapsed_s >= settings.minimum_s
        if ripe and precise(good, self.launch_ns, settings.half_width):
            return replace(self, state="precise")
        if taken >= settings.rounds:
            return replace(self, state="rounds")
        if elapsed_s > settings.limit_s:
            return replace(self, state="time")
        return replace(self, look_at=math.ceil(count * GROWTH)) if ripe else self

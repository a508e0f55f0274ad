"""Where a series of readings changed its level for good, and whether the newest reading stands apart. Pure.

The stretches are those of optimal partitioning (Jackson et al., An algorithm for optimal partitioning of data on an
interval, IEEE Signal Processing Letters 12, 2005) under a loss that is bounded, so that one reading far off makes no
stretch of its own (Fearnhead and Rigaill, Changepoint detection in the presence of outliers, JASA 114, 2019). What the
partition proposes counts only where the levels' intervals clear the noise between them. All is done on logarithms:
times are compared by their ratios.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from assay.record import Count, Record, Unavailable

FEWEST = 5
"""Readings without which no change point is looked for: two stretches, and one to tell an outlier from them."""

LASTING = 2
"""Readings of a stretch at least: one alone is an outlier."""

SETTLED = 3
"""Readings after which a stretch is what the newest reading is set against: till then a regression stays one."""

SIGMAS = 3.0
"""Standard deviations within which one reading of 370 does not lie by chance, were they normal."""

PENALTY = 3.0
"""Times the logarithm of the number of readings, for each change point (Zhang and Siegmund, A modified Bayes
information criterion, Biometrics 63, 2007, for changes that lie far apart)."""

SMALLEST = 1e-9
"""Difference of two logarithms at least that can say anything; no figure here has that many digits."""

NORMAL_QUARTILE = 0.6745
"""Half of a normal distribution lies within so many standard deviations of its mean."""

Movement = Literal["up", "down", "same", "inconclusive"]


class Reading(NamedTuple):
    """A positive figure with its interval, and how far from 1 a ratio must be to say anything in its run."""

    low: float
    middle: float
    high: float
    floor: float


class Level(Record, frozen=True, kw_only=True):
    """The middle of some readings, as the medians of their lows, middles and highs."""

    low: float
    middle: float
    high: float


class Stretch(Record, frozen=True, kw_only=True):
    """Readings at one level: the numbers, from 0, of the first and the last. `moved`: from the stretch before."""

    first: Count
    last: Count
    level: Level
    moved: Literal["up", "down"] | None


class Newest(Record, frozen=True, kw_only=True, tag_field="kind", tag="newest"):
    """The newest reading against a level before it, of `count` readings: by the `ratio`, from `low` to `high`."""

    moved: Movement
    ratio: float
    low: float
    high: float
    noise: float
    count: Count


class Study(Record, frozen=True, kw_only=True):
    """What a series shows. `noise`: how far from 1 the ratio of two levels, or readings, must be to say anything.

    `outliers`: readings that far from the level of their stretch, the newest apart.
    """

    noise: float
    stretches: list[Stretch] | Unavailable
    outliers: list[Count]
    newest: Newest | Unavailable


def scatter(readings: Sequence[Reading]) -> float:
    """Return the standard deviation of one reading, relative, from what neighbours differ by; 0 of fewer than `FEWEST`.

    Few neighbours stand on two sides of a step, and a median disregards few.
    """
    if len(readings) < FEWEST:
        return 0.0
    apart = [abs(math.log(b.middle / a.middle)) for a, b in pairwise(readings)]
    return median(apart) / (NORMAL_QUARTILE * math.sqrt(2))


def noise_of(readings: Sequence[Reading], margin: float) -> float:
    """Return how far from 1 a ratio must be to say anything: the margin, the runs' own floor, or their scatter."""
    floor = median(reading.floor for reading in readings)
    return max(margin, floor, math.expm1(SIGMAS * scatter(readings)))


def _unit(readings: Sequence[Reading], noise: float) -> float:
    """Return what counts as one standard deviation of a logarithm, so that `SIGMAS` of them are noise."""
    width = median(math.log(reading.high / reading.low) / 2 for reading in readings)
    return max(math.log1p(noise), width, SMALLEST) / SIGMAS


def loss(values: Sequence[float]) -> float:
    """Return what it costs to say that these values, in standard deviations, lie at one level; an outlier is capped."""
    middle = median(values)
    return sum(min((value - middle) ** 2, SIGMAS**2) for value in values)


def partition(values: Sequence[float], penalty: float) -> list[int]:
    """Return where the stretches of the cheapest partition begin: the loss of each and a penalty for each but one.

    Each has `LASTING` values at least. Values are in standard deviations. Of partitions that cost the same, the one
    with the longest last stretch.
    """
    count = len(values)
    if count < LASTING:
        return [0]
    cost, begins = [-penalty, *[math.inf] * count], [0] * (count + 1)
    for end in range(LASTING, count + 1):
        for begin in range(end - LASTING + 1):
            found = cost[begin] + penalty + loss(values[begin:end])
            if found < cost[end] - 1e-9:
                cost[end], begins[end] = found, begin
    starts, end = [], count
    while end > 0:
        end = begins[end]
        starts.append(end)
    return starts[::-1]


def level(readings: Sequence[Reading]) -> Level:
    """Return the level of some readings."""
    low, middle, high = (median(reading[at] for reading in readings) for at in range(3))
    return Level(low=low, middle=middle, high=high)


def movement(before: Level, after: Level, noise: float) -> Movement:
    """Return how a level stands to one before: `up` or `down` where all of their ratio's interval clears the noise."""
    low, high = after.low / before.high, after.high / before.low
    if low > 1 + noise:
        return "up"
    if high < 1 / (1 + noise):
        return "down"
    return "same" if 1 / (1 + noise) <= low and high <= 1 + noise else "inconclusive"


def _spans(starts: Sequence[int], count: int) -> list[tuple[int, int]]:
    return list(pairwise([*starts, count]))


def _clear(readings: Sequence[Reading], starts: Sequence[int], noise: float) -> list[int]:
    """Return the starts of stretches whose levels clear the noise: the pair least apart is joined until all do."""
    kept = list(starts)
    while len(kept) > 1:
        levels = [level(readings[first:end]) for first, end in _spans(kept, len(readings))]
        unclear = [
            (abs(math.log(after.middle / before.middle)), at)
            for at, (before, after) in enumerate(pairwise(levels), 1)
            if movement(before, after, noise) in ("same", "inconclusive")
        ]
        if not unclear:
            break
        kept.pop(min(unclear)[1])
    return kept


def _proposed(readings: Sequence[Reading], noise: float) -> list[int]:
    middles = [reading.middle for reading in readings]
    if max(middles) <= min(middles) * (1 + noise):
        # No two levels in there could clear the noise, so nothing need be partitioned.
        return [0]
    unit = _unit(readings, noise)
    return partition([math.log(middle) / unit for middle in middles], PENALTY * math.log(len(middles)))


def find_stretches(readings: Sequence[Reading], noise: float) -> list[Stretch]:
    """Return the stretches of a series, of one reading at least, in order."""
    starts = _clear(readings, _proposed(readings, noise), noise)
    found: list[Stretch] = []
    for first, end in _spans(starts, len(readings)):
        here = level(readings[first:end])
        moved: Literal["up", "down"] | None = None
        if found:
            moved = "up" if here.middle > found[-1].level.middle else "down"
        found.append(Stretch(first=first, last=end - 1, level=here, moved=moved))
    return found


def _outliers(readings: Sequence[Reading], stretches: Sequence[Stretch], noise: float) -> list[int]:
    return [
        at
        for one in stretches
        for at in range(one.first, min(one.last + 1, len(readings) - 1))
        if movement(one.level, level([readings[at]]), noise) in ("up", "down")
    ]


def _settled(earlier: Sequence[Reading], margin: float) -> Sequence[Reading]:
    """Return the readings that the newest is set against: the latest stretch that has settled, or all before it."""
    if len(earlier) < FEWEST:
        return earlier
    stretches = find_stretches(earlier, noise_of(earlier, margin))
    long = [one for one in stretches if one.last - one.first + 1 >= SETTLED]
    return earlier[long[-1].first : long[-1].last + 1] if long else earlier


def newest(readings: Sequence[Reading], margin: float) -> Newest | Unavailable:
    """Set the last reading against the level before it."""
    if len(readings) < 2:
        return Unavailable(reason="one point alone; nothing was before it")
    *earlier, last = readings
    noise, settled = noise_of(earlier, margin), _settled(earlier, margin)
    before, after = level(settled), level([last])
    return Newest(
        moved=movement(before, after, noise),
        ratio=after.middle / before.middle,
        low=after.low / before.high,
        high=after.high / before.low,
        noise=noise,
        count=len(settled),
    )


def study(readings: Sequence[Reading], margin: float) -> Study:
    """Return what readings, oldest first, show. `margin`: within which a ratio says nothing (0.02 is 2 %)."""
    noise, latest = noise_of(readings, margin), newest(readings, margin)
    if len(readings) < FEWEST:
        few = Unavailable(reason=f"too few points for change points: {len(readings)} of {FEWEST}")
        return Study(noise=noise, stretches=few, outliers=[], newest=latest)
    stretches = find_stretches(readings, noise)
    return Study(noise=noise, stretches=stretches, outliers=_outliers(readings, stretches, noise), newest=latest)

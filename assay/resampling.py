"""Estimates from samples, whatever their distribution: medians with intervals, and drift. Pure.

scipy is imported where it is used, since importing it takes longer than most stages take to run.
"""

from collections.abc import Sequence
from functools import cache
from statistics import median

from assay.record import Drift, Estimate

FEWEST_ROUNDS = 6
"""Of five samples even the whole range covers the median with 93.75% only (1 - 2/2^5)."""

OUTSIDE = 0.025
"""Probability on either side of a 95% interval."""

DRIFT_P = 0.01
"""Of a hundred entrants that do not drift, one tends up or down this clearly by chance."""

LONGEST_SERIES = 128
"""Samples that the test for drift looks at, since it takes all pairs of them."""


@cache
def bootstrap_rank(count: int) -> int:
    """Return the k for which the k-th smallest to the k-th largest of `count` samples are the bootstrap's interval.

    Resampling draws `count` samples with replacement. The m-th smallest of these is no larger than the k-th smallest of
    all where at least m draws fall on the k smallest: with probability P(binomial(count, k/count) >= m). The least k
    that reaches 2.5% gives the percentile interval of infinitely many resamples (Efron, Bootstrap methods: another look
    at the jackknife, Annals of Statistics 7, 1979, section 3). So nothing has to be drawn, and the same samples give
    the same interval under every version of every library. An even number has two samples in the middle; there the
    interval reaches from the lower one's low to the upper one's high. Samples are taken as independent. Whatever their
    distribution the interval covers as often as one of order statistics: that takes the same rank, or the next lower.
    """
    import numpy as np
    from scipy.stats import binom

    ranks = np.arange(1, count + 1)
    reached = binom.sf((count + 1) // 2 - 1, count, ranks / count) >= OUTSIDE
    return int(ranks[reached][0])


def estimate(samples: Sequence[float]) -> Estimate:
    """Return the median and its 95% bootstrap interval. ValueError without samples."""
    if not samples:
        raise ValueError("no samples; an estimate needs one at least")
    rank, ordered = bootstrap_rank(len(samples)), sorted(samples)
    return Estimate(low=ordered[rank - 1], median=median(ordered), high=ordered[-rank])


def half_width(found: Estimate) -> float:
    """Return half the interval's width, relative to the median."""
    return (found.high - found.low) / 2 / found.median


def ratio(over: Sequence[float], under: Sequence[float]) -> Estimate:
    """Return the estimate of one entrant's time over another's, divided round by round: what slowed both cancels."""
    return estimate([a / b for a, b in zip(over, under, strict=True)])


def _blocks(samples: Sequence[float]) -> list[float]:
    """Return the medians of consecutive blocks of one length, few enough to look at all pairs of them."""
    length = -(-len(samples) // LONGEST_SERIES)
    return [median(samples[at : at + length]) for at in range(0, len(samples), length)]


def drift(samples: Sequence[float], margin: float) -> Drift:
    """Return how far samples move over the whole series, and whether that is more than chance and than `margin`.

    The slope is Theil and Sen's, the median of those between all pairs; `p`, to six decimals, is that of Kendall's test
    against order, in its normal approximation. A long series is taken as the medians of blocks.
    """
    from scipy.stats import kendalltau, theilslopes

    series = _blocks(samples)
    if len(series) < FEWEST_ROUNDS or len(set(series)) == 1:
        return Drift(change=0.0, p=1.0, drifting=False)
    places = range(len(series))
    change = float(theilslopes(series, places).slope) * len(series) / median(series)
    p = round(float(kendalltau(places, series, method="asymptotic").pvalue), 6)
    return Drift(change=change, p=p, drifting=p < DRIFT_P and abs(change) > margin)

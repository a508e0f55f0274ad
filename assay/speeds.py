"""What the timing stage derives from samples: medians with intervals, rates, the best of each precision, speed-ups."""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache

from assay.conditions import disturbances
from assay.config import TimingSettings
from assay.record import Best, Conditions, Digest, Rate, Row, Speedup, Unavailable, Verdict
from assay.sampling import Entrant, Problem

FEWEST_ROUNDS = 6
"""Of five samples even the whole range covers the median with 93.75% only."""

COMPUTE_BOUND = 10
"""Declared operations a byte above which a rate is given in GFLOP/s, and in GB/s otherwise."""


@cache
def interval_rank(count: int) -> int:
    """Return the largest k for which the k-th smallest to the k-th largest of `count` samples cover with 95%.

    The median lies below the k-th smallest only if fewer than k of the samples lie below the median, and that number
    is binomial(count, 1/2) whatever the distribution, so the interval covers with 1 - 2 P(B < k) or more (David &
    Nagaraja, Order Statistics, 3rd ed., Wiley 2003, section 7.1). Samples are taken as independent. Computed in
    integers. Returns 0 where even the whole range covers less.
    """
    rank = count // 2
    term = math.comb(count, rank)
    # `below` counts the outcomes with at most `rank` samples below the median: by symmetry half of all, at the middle.
    below = (2**count + (0 if count % 2 else term)) // 2
    while rank > 0 and 2 * 20 * (below - term) > 2**count:
        below -= term
        term = term * rank // (count - rank + 1)
        rank -= 1
    return rank


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return (low, median, high): the median and its 95% interval. ValueError below `FEWEST_ROUNDS` samples."""
    rank, ordered = interval_rank(len(samples)), sorted(samples)
    if rank == 0:
        raise ValueError(f"{len(samples)} samples; an interval of the median needs {FEWEST_ROUNDS}")
    return ordered[rank - 1], statistics.median(ordered), ordered[-rank]


def how(settings: TimingSettings, rounds: Sequence[Conditions]) -> str:
    """Return how an entrant was timed and what may have disturbed it, in words."""
    words = [f"timed in {len(rounds)} interleaved rounds, each the median of {settings.repeats} launches"]
    if len(rounds) < settings.rounds:
        words.append(f"no more of {settings.rounds} rounds fit in {settings.limit_s:g} s")
    return "; ".join(words + disturbances(rounds))


def rate(problem: Problem, median_ns: float) -> Rate | Unavailable:
    """Return declared work over time: GFLOP/s above 10 operations a byte, else GB/s (operations, or bytes, per ns).

    Ten is about where memory stops being what limits: float32 arithmetic over bandwidth is 9.6 on an A100 80GB and 14
    on an H200, by their data sheets.
    """
    if problem.flops > COMPUTE_BOUND * problem.bytes:
        return Rate(value=problem.flops / median_ns, unit="GFLOP/s")
    if problem.bytes > 0:
        return Rate(value=problem.bytes / median_ns, unit="GB/s")
    return Unavailable(reason="the kernel declares no work for this size")


def plausible(samples: Sequence[float]) -> Verdict:
    """Return passed where there are enough samples and each is a time that something can take, else cantTell."""
    wrong = [sample for sample in samples if not (0 < sample < math.inf)]
    if wrong:
        reason = f"{len(wrong)} of {len(samples)} samples are no possible time; the first is {wrong[0]:g} ns"
        return Verdict(outcome="cantTell", cause="not-measured", reason=reason)
    if interval_rank(len(samples)) == 0:
        reason = f"{len(samples)} rounds were taken; an interval of the median needs {FEWEST_ROUNDS}"
        return Verdict(outcome="cantTell", cause="not-measured", reason=reason)
    return Verdict(outcome="passed", reason=f"{len(samples)} possible times")


def _derived(
    verdict: Verdict, samples: Sequence[float], problem: Problem
) -> tuple[float | Unavailable, float | Unavailable, float | Unavailable, Rate | Unavailable]:
    if verdict.outcome != "passed":
        nothing = Unavailable(reason=verdict.reason)
        return nothing, nothing, nothing, nothing
    low, median, high = median_interval(samples)
    return low, median, high, rate(problem, median)


def row(
    entrant: Entrant, verdict: Verdict, samples: Sequence[float], problem: Problem, cubins: Sequence[Digest]
) -> Row:
    """Assemble an entrant's row. Without a passed `verdict`, or with impossible samples, nothing is derived."""
    if verdict.outcome == "passed" and (found := plausible(samples)).outcome != "passed":
        verdict = found
    low, median, high, speed = _derived(verdict, samples, problem)
    return Row(
        entrant=entrant.name,
        kind=entrant.kind,
        precision=entrant.precision,
        configuration=entrant.configuration,
        verdict=verdict,
        # JSON has no NaN; the verdict says that there was one.
        samples_ns=list(samples) if all(map(math.isfinite, samples)) else [],
        median_ns=median,
        low_ns=low,
        high_ns=high,
        rate=speed,
        cubin_sha256=list(cubins),
    )


def best(rows: Sequence[Row]) -> list[Best]:
    """Return the fastest variant of each precision that was timed, in the order of the rows; peers do not count."""
    fastest: dict[str, Best] = {}
    for one in rows:
        # A median stands in a row only where its verdict is passed.
        if one.kind == "variant" and not isinstance(one.median_ns, Unavailable):
            candidate = Best(precision=one.precision, entrant=one.entrant, median_ns=one.median_ns)
            known = fastest.setdefault(one.precision, candidate)
            fastest[one.precision] = min(known, candidate, key=lambda found: found.median_ns)
    return list(fastest.values())


def speedup(reference: str, lesser: str, fastest: Mapping[str, float]) -> Speedup:
    """Gate one contrast: the best time of `reference` over that of `lesser` (`fastest`, in ns) must exceed 1."""
    if missing := [precision for precision in (reference, lesser) if precision not in fastest]:
        reason = f"no variant was timed in {' or '.join(missing)}"
        verdict = Verdict(outcome="cantTell", cause="not-measured", reason=reason)
        return Speedup(reference=reference, lesser=lesser, ratio=Unavailable(reason=reason), verdict=verdict)
    ratio = fastest[reference] / fastest[lesser]
    said = f"the best {reference} variant takes {ratio:.3g} times as long as the best {lesser} variant"
    verdict = Verdict(outcome="passed", reason=said)
    if not (ratio > 1):
        verdict = Verdict(outcome="failed", cause="speed", reason=f"{said}; more than 1 is needed")
    return Speedup(reference=reference, lesser=lesser, ratio=ratio, verdict=verdict)

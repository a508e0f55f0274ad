"""How times changed: the ratio of two medians from their raw samples, with an interval and a verdict. Pure.

Samples are those of good rounds, in the mode that counts for both sides.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

from assay.conditions import disturbances
from assay.formats import numeral
from assay.record import Conditions, Mode, Number, Record, Row, Sweep, Unavailable, as_float, number
from assay.resampling import estimate
from assay.speeds import plausible
from assay.versus import common_mode, samples_of

Movement = Literal["faster", "slower", "same", "inconclusive"]

METHOD = (
    "Each median has its 95% bootstrap interval, from the good rounds of its own run. The ratio's interval is B's low "
    "over A's high to B's high over A's low: it covers with about 90% or more, and each verdict but 'inconclusive' is "
    "wrong about one time in 20 at most (Bonferroni). Samples count as independent, and what differs from one process "
    "to the next is not in the interval: run again before you act on a difference."
)


class Ratio(Record, frozen=True, kw_only=True, tag_field="kind", tag="ratio"):
    """The median time of B over that of A, from `low` to `high` (see `METHOD`)."""

    a_ns: float
    b_ns: float
    value: Number
    low: Number
    high: Number


class TimeChange(Record, frozen=True, kw_only=True):
    """One entrant at one size. A library peer's time says how the machine changed, and never counts as worse."""

    kernel: str
    size: str
    entrant: str
    peer: bool
    mode: Mode
    ratio: Ratio | Unavailable
    verdict: Movement
    reason: str
    worse: bool


def ratio_of(a: Sequence[float], b: Sequence[float]) -> Ratio | Unavailable:
    """Return the ratio of the median of `b` to that of `a` (samples in ns), or why there is none."""
    for name, samples in (("A", a), ("B", b)):
        found = plausible(samples)
        if found.outcome != "passed":
            return Unavailable(reason=f"{name}: {found.reason}")
    before, after = estimate(a), estimate(b)
    low, high = number(after.low / before.high), number(after.high / before.low)
    value = number(after.median / before.median)
    return Ratio(a_ns=before.median, b_ns=after.median, value=value, low=low, high=high)


def judge(ratio: Ratio | Unavailable, margin: float) -> tuple[Movement, str]:
    """Return what a ratio shows, given the `margin` (0.02 is 2 %) within which times count as the same.

    The limits are 1 + margin and its reciprocal, so that A and B change roles when they are swapped.
    """
    if isinstance(ratio, Unavailable):
        return "inconclusive", ratio.reason
    low, high, shown = as_float(ratio.low), as_float(ratio.high), f"{100 * margin:g} %"
    if low > 1 + margin:
        return "slower", f"the whole interval lies more than {shown} above 1"
    if high < 1 / (1 + margin):
        return "faster", f"the whole interval lies more than {shown} below 1"
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "same", f"the whole interval lies within {shown} of 1"
    return "inconclusive", f"the interval reaches across a limit, {shown} from 1"


def interval_text(ratio: Ratio) -> str:
    """Return the ratio with its interval, to four digits."""
    return f"{numeral(ratio.value, 4)} ({numeral(ratio.low, 4)} to {numeral(ratio.high, 4)})"


Timed = tuple[Sweep, Row]
"""An entrant's row, and the sweep that it stands in."""


def _mode(a: Timed | None, b: Timed | None) -> Mode:
    return "events" if a is None or b is None else common_mode(a[1], b[1])


def good_samples(timed: Timed, mode: Mode) -> list[float]:
    """Return an entrant's samples in one mode, from the rounds inside the clock band, in order."""
    sweep, row = timed
    return samples_of(row, mode, sorted(set(range(len(sweep.rounds))) - set(sweep.outside)))


def _ratio(a: Timed | None, b: Timed | None) -> Ratio | Unavailable:
    if a is None or b is None:
        return Unavailable(reason=f"not timed in {'A' if a is None else 'B'}")
    for name, (_, row) in (("A", a), ("B", b)):
        if row.verdict.outcome != "passed":
            return Unavailable(reason=f"{name}: {row.verdict.reason}")
    if a[0].dimensions != b[0].dimensions:
        return Unavailable(reason="the dimensions under this name differ")
    mode = _mode(a, b)
    return ratio_of(good_samples(a, mode), good_samples(b, mode))


def time_changes(kernel: str, a: Sequence[Sweep], b: Sequence[Sweep], margin: float) -> list[TimeChange]:
    """Return every entrant that was timed on either side, with the ratio B over A or why there is none.

    A twin is left out: it says how far to trust one run, and its entrant is compared already.
    """
    left, right = [
        {(s.size, r.kind, r.entrant): (s, r) for s in sweeps for r in s.rows if r.kind != "twin"} for sweeps in (a, b)
    ]
    changes = []
    for key in {**left, **right}:
        sides = left.get(key), right.get(key)
        if any(side is not None and side[1].verdict.outcome == "passed" for side in sides):
            size, kind, entrant = key
            ratio = _ratio(*sides)
            verdict, reason = judge(ratio, margin)
            changes.append(
                TimeChange(
                    kernel=kernel,
                    size=size,
                    entrant=entrant,
                    peer=kind == "peer",
                    mode=_mode(*sides),
                    ratio=ratio,
                    verdict=verdict,
                    reason=reason,
                    worse=verdict == "slower" and kind == "variant",
                )
            )
    return changes


def _clock(rounds: Sequence[Conditions]) -> str:
    known = [state.sm_clock_mhz for state in rounds if not isinstance(state.sm_clock_mhz, Unavailable)]
    return f"{median(known):.0f} MHz" if known else "unknown"


def condition_notes(kernel: str, a: Sequence[Sweep], b: Sequence[Sweep]) -> Iterator[str]:
    """Yield what to know before comparing the times of two runs: other clocks, and what may have disturbed either."""
    others = {sweep.size: sweep for sweep in b}
    for sweep in a:
        other = others.get(sweep.size)
        if other is None:
            continue
        clocks = _clock(sweep.rounds), _clock(other.rounds)
        if clocks[0] != clocks[1]:
            yield f"{kernel} {sweep.size}: the median SM clock was {clocks[0]} in A and {clocks[1]} in B"
        for name, one in (("A", sweep), ("B", other)):
            yield from (f"{kernel} {sweep.size}: in {name}, {what}" for what in disturbances(one.rounds))
            if one.outside:
                left_out = f"{len(one.outside)} of {len(one.rounds)} rounds lie outside the clock band"
                yield f"{kernel} {sweep.size}: in {name}, {left_out} and are left out"

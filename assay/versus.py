"""What comparing the entrants of one size shows: the null experiment, variants against peers, gated contrasts. Pure.

Everything is a ratio taken round by round, from good rounds, of rows whose verdict is passed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.record import (
    Best,
    Conclusion,
    Estimate,
    Mode,
    Null,
    Row,
    Speedup,
    Unavailable,
    Verdict,
    Versus,
    as_float,
)
from assay.resampling import ratio
from assay.sampling import AGAIN


def time_of(row: Row) -> float | None:
    """Return the median time that counts, in ns, or None where the row has none."""
    return row.time_ns.median if isinstance(row.time_ns, Estimate) else None


def fastest(rows: Sequence[Row], kind: str) -> dict[str, Row]:
    """Return the fastest timed row of each precision among those of one kind, in the order of the rows."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.kind == kind and (time := time_of(row)) is not None:
            known = time_of(found.setdefault(row.precision, row))
            if known is not None and time < known:
                found[row.precision] = row
    return found


def best(rows: Sequence[Row]) -> list[Best]:
    """Return the fastest variant of each precision that was timed, in the order of the rows; peers do not count."""
    return [
        Best(precision=precision, entrant=row.entrant, median_ns=row.time_ns.median)
        for precision, row in fastest(rows, "variant").items()
        if isinstance(row.time_ns, Estimate)
    ]


def common_mode(a: Row, b: Row) -> Mode:
    """Return the mode in which two rows are compared: the replay where either is launch-bound and both have one."""
    launch_bound = a.launch_bound is True or b.launch_bound is True
    both = isinstance(a.replay, Estimate) and isinstance(b.replay, Estimate)
    return "replay" if launch_bound and both else "events"


def samples_of(row: Row, mode: Mode, good: Sequence[int]) -> list[float]:
    """Return an entrant's samples of good rounds in one mode, in the order taken."""
    samples = row.samples_ns if mode == "events" else row.replays_ns
    if isinstance(samples, Unavailable):
        return []
    return [samples[at] for at in good]


@dataclass(frozen=True)
class Field:
    """The rows of one size, the numbers of its good rounds, and the margin within which times are the same.

    `rivals`: by peer, the precisions that are set against it where no peer has them.
    """

    rows: Sequence[Row]
    good: Sequence[int]
    margin: float
    rivals: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def ratio(self, over: Row, under: Row, mode: Mode) -> Estimate:
        """Return one row's time over another's."""
        return ratio(samples_of(over, mode, self.good), samples_of(under, mode, self.good))


def null(field: Field) -> Null:
    """Return what the twin's time over that of the entrant it repeats shows: how far apart equals are."""
    rows = {row.entrant: row for row in field.rows}
    twin = next((row for row in field.rows if row.kind == "twin"), None)
    if twin is None:
        nothing = Unavailable(reason="no entrant was sampled under a second name")
        return Null(entrant=None, ratio=nothing, floor=nothing)
    first = rows[twin.entrant.removesuffix(AGAIN)]
    for row in (first, twin):
        if row.verdict.outcome != "passed":
            nothing = Unavailable(reason=f"{row.entrant}: {row.verdict.reason}")
            return Null(entrant=first.entrant, ratio=nothing, floor=nothing)
    found = field.ratio(twin, first, "events")
    return Null(entrant=first.entrant, ratio=found, floor=max(abs(found.low - 1), abs(found.high - 1)))


def floor_of(found: Null, margin: float) -> float:
    """Return how far from 1 a ratio must lie to say anything; without a null experiment that is the margin."""
    return margin if isinstance(found.floor, Unavailable) else found.floor


def conclude(found: Estimate, floor: float, margin: float) -> tuple[Conclusion, str]:
    """Return what a ratio of times shows, and why.

    Limits below 1 are reciprocals of those above it, so that two entrants change roles when they are swapped.
    """
    if 1 / (1 + margin) <= found.low and found.high <= 1 + margin:
        return "same", f"the interval lies within {100 * margin:g}% of 1"
    if found.high < 1 / (1 + floor):
        return "faster", f"the interval lies below 1 by more than the noise floor, {100 * floor:.2g}%"
    if found.low > 1 + floor:
        return "slower", f"the interval lies above 1 by more than the noise floor, {100 * floor:.2g}%"
    return (
        "inconclusive",
        f"the interval neither clears the noise floor, {100 * floor:.2g}%, nor stays within the margin",
    )


def _mode_words(a: Row, b: Row, mode: Mode) -> str:
    if mode == "replay":
        return "; both replayed, since events measured the host"
    if a.launch_bound is True or b.launch_bound is True:
        return "; by events, which measured the host, since there are no replays of both"
    return ""


def opponents(field: Field) -> dict[str, Row]:
    """Return, by precision, the peer that variants are set against: the fastest of that precision, or else the fastest
    that is declared its rival.
    """
    others: dict[str, Row] = {}
    timed = [(time, peer) for peer in field.rows if peer.kind == "peer" and (time := time_of(peer)) is not None]
    for _, peer in sorted(timed, key=lambda one: one[0]):
        for precision in field.rivals.get(peer.entrant, ()):
            others.setdefault(precision, peer)
    return {**others, **fastest(field.rows, "peer")}


def tempered(row: Row, peer: Row, conclusion: Conclusion, reason: str) -> tuple[Conclusion, str]:
    """Return a conclusion that counts accuracy in: what errs more than a peer of another precision does not beat it."""
    if row.precision == peer.precision:
        return conclusion, reason
    if isinstance(row.accuracy, Unavailable) or isinstance(peer.accuracy, Unavailable):
        errors, within = f"how much it and {peer.entrant} err is not known", False
    else:
        ours, theirs = as_float(row.accuracy.normwise), as_float(peer.accuracy.normwise)
        errors, within = f"its error is {ours:.2g}, that of {peer.entrant} {theirs:.2g}", ours <= theirs
    # Written so that NaN is not within.
    if not within and conclusion in ("faster", "same"):
        return "inconclusive", f"{reason}, but {errors}"
    return conclusion, f"{reason}; {errors}"


def versus(field: Field, floor: float) -> Iterator[Versus]:
    """Yield how each timed variant compares with the peer that it is set against, where there is one."""
    peers = opponents(field)
    for row in field.rows:
        peer = peers.get(row.precision)
        if row.kind == "variant" and row.verdict.outcome == "passed" and peer is not None:
            mode = common_mode(row, peer)
            found = field.ratio(row, peer, mode)
            conclusion, reason = tempered(row, peer, *conclude(found, floor, field.margin))
            yield Versus(
                entrant=row.entrant,
                against=peer.entrant,
                mode=mode,
                ratio=found,
                conclusion=conclusion,
                reason=reason + _mode_words(row, peer, mode),
            )


def _gated(found: Estimate, floor: float, said: str) -> Verdict:
    if found.low > 1 + floor:
        return Verdict(outcome="passed", reason=said)
    needed = f"more than {1 + floor:.4f} is needed, the noise floor counted in"
    if found.high < 1 + floor:
        return Verdict(outcome="failed", cause="speed", reason=f"{said}; {needed}")
    return Verdict(outcome="cantTell", cause="noise", reason=f"{said}; {needed}, and the interval reaches across")


def speedup(field: Field, floor: float, reference: str, lesser: str) -> Speedup:
    """Gate one contrast: the best time of `reference` over that of `lesser` must exceed 1 by more than the floor."""
    timed = fastest(field.rows, "variant")
    if missing := [precision for precision in (reference, lesser) if precision not in timed]:
        reason = f"no variant was timed in {' or '.join(missing)}"
        verdict = Verdict(outcome="cantTell", cause="not-measured", reason=reason)
        return Speedup(reference=reference, lesser=lesser, ratio=Unavailable(reason=reason), verdict=verdict)
    slow, quick = timed[reference], timed[lesser]
    found = field.ratio(slow, quick, common_mode(slow, quick))
    span = f"{found.median:.4f} ({found.low:.4f} to {found.high:.4f})"
    said = f"the best {reference} variant takes {span} times as long as the best {lesser} variant"
    return Speedup(reference=reference, lesser=lesser, ratio=found, verdict=_gated(found, floor, said))

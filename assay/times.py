"""What the stage `timing` found, as rows of the report's tables. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from assay.charts import BarChart, bar_chart
from assay.evidence import Evidence, Reference, Told
from assay.formats import (
    ABSENT,
    distinct,
    interval,
    milliseconds,
    percent,
    rate,
    ratio,
    scientific,
    seconds,
    shown,
)
from assay.outcomes import VERIFIED
from assay.picture import Picture
from assay.picture_ceilings import ceilings_picture
from assay.picture_samples import samples_picture
from assay.picture_tradeoff import tradeoff_picture
from assay.record import (
    Ceiling,
    Drift,
    Estimate,
    Precompiled,
    Row,
    Share,
    Speedup,
    Sweep,
    Timing,
    Unavailable,
    Versus,
)
from assay.sampled import Fact, card_facts, sampling_facts
from assay.scatter import ScatterChart, scatter_chart

UNKNOWN_FLOOR = 0.01
"""How far apart two rates must be to be called different where no null experiment says so."""

KINDS = {"variant": "", "peer": "library", "twin": "again"}


@dataclass(frozen=True)
class TimeRow:
    """One entrant of a sweep. `against`: its time over that of the library peer that it is set against, and what
    follows; `why` is the reason.
    """

    entrant: str
    precision: str
    time: str
    mode: str
    rate: str
    shares: str
    against: str
    why: str
    error: str
    samples: str
    best: bool
    told: Told


@dataclass(frozen=True)
class LeftOut:
    """One variant that is not timed at this size, with the time of the short round where it took part in it."""

    entrant: str
    time: str
    told: Told


@dataclass(frozen=True)
class SpeedupRow:
    """The best time of one precision over that of another."""

    pair: str
    ratio: str
    told: Told


@dataclass(frozen=True)
class CeilingRow:
    """The most that the card gave of one resource."""

    name: str
    rate: str
    fastest: str
    samples: int
    how: str


@dataclass(frozen=True)
class SweepSection:
    """One size: who was timed, how (`said` of all that were), how fast, and how the card was meanwhile."""

    size: str
    work: str
    said: list[str]
    rows: list[TimeRow]
    left_out: list[LeftOut]
    peers: str
    chart: BarChart | None
    scatter: ScatterChart | None
    pictures: list[Picture | Unavailable]
    speedups: list[SpeedupRow]
    sampling: list[Fact]
    conditions: list[Fact]
    source: Reference


@dataclass(frozen=True)
class Times:
    """One kernel's section. `obstacle` says why nothing was timed; `facts` and `ceilings` are of the whole run."""

    kernel: str
    obstacle: Told | None
    device: str
    facts: list[Fact]
    ceilings: list[CeilingRow]
    picture: Picture | Unavailable
    sweeps: list[SweepSection]
    source: Reference


def mode_text(row: Row) -> str:
    """Return the mode that counts; where events measured the host, their figure too."""
    if isinstance(row.time_ns, Unavailable):
        return ABSENT
    if row.launch_bound is not True:
        return "events"
    by_events = ABSENT if isinstance(row.events, Unavailable) else milliseconds(row.events.median)
    return f"replay (launch-bound: {by_events} by events)"


def interval_or_absent(time: Estimate | Unavailable) -> str:
    """Return a time in ms with its interval, where there is one."""
    return ABSENT if isinstance(time, Unavailable) else interval(time, milliseconds)


def _shares(shares: Sequence[Share]) -> str:
    return ", ".join(f"{percent(share.fraction)} of {share.ceiling}" for share in shares) or ABSENT


def against_text(versus: Versus | None) -> str:
    """Return a variant's time over its library's, and what follows."""
    if versus is None:
        return ABSENT
    if isinstance(versus.ratio, Unavailable):
        return f"{ABSENT} {versus.conclusion}"
    by = " by replay" if versus.mode == "replay" else ""
    return f"{interval(versus.ratio, ratio)}{by}, {versus.conclusion}"


def _samples(row: Row) -> str:
    drift: Drift | Unavailable = row.drift
    if isinstance(drift, Unavailable):
        return str(len(row.samples_ns))
    mark = f", drifting (p {drift.p:.1g})" if drift.drifting else ""
    return f"{len(row.samples_ns)}; {100 * drift.change:+.2f} %{mark}"


def _time_row(row: Row, versus: Versus | None, best: bool, told: Told) -> TimeRow:
    kind = KINDS[row.kind]
    return TimeRow(
        entrant=row.entrant,
        precision=f"{row.precision}, {kind}" if kind else row.precision,
        time=interval_or_absent(row.time_ns),
        mode=mode_text(row),
        rate=rate(row.rate),
        shares=_shares(row.shares),
        against=against_text(versus),
        why="" if versus is None else versus.reason,
        error=ABSENT if isinstance(row.accuracy, Unavailable) else scientific(row.accuracy.normwise),
        samples=_samples(row),
        best=best,
        told=told,
    )


def _speedup_row(speedup: Speedup, told: Told) -> SpeedupRow:
    found = speedup.ratio
    said = shown(found) if isinstance(found, Unavailable) else f"{interval(found, ratio)}"
    return SpeedupRow(f"{speedup.lesser} over {speedup.reference}", said, told)


def _work(sweep: Sweep) -> str:
    dimensions = ", ".join(f"{name} = {size}" for name, size in sorted(sweep.dimensions.items()))
    amounts = [f"{sweep.flops:,} floating-point operations"] if sweep.flops else []
    return "; ".join([dimensions, *amounts, f"{sweep.bytes:,} bytes read and written at least"])


def _peers(sweep: Sweep) -> str:
    """Return which library each precision is set against, in words; nothing where none is."""
    precisions = {row.entrant: row.precision for row in sweep.rows}
    pairs = distinct((precisions.get(one.entrant, one.entrant), one.against) for one in sweep.versus)
    return ", ".join(f"{precision} against {peer}" for precision, peer in pairs)


def _told(evidence: Evidence, pointer: str, sweep: Sweep) -> list[tuple[Row, Told]]:
    return [(row, evidence.tell(row.verdict, f"{pointer}/rows/{number}")) for number, row in enumerate(sweep.rows)]


def _left_out(told: Sequence[tuple[Row, Told]]) -> Iterator[LeftOut]:
    for row, verdict in told:
        if row.verdict.outcome == "inapplicable":
            yield LeftOut(row.entrant, milliseconds(median(row.screen_ns)) if row.screen_ns else ABSENT, verdict)


def _rows(sweep: Sweep, best: Sequence[str], told: Sequence[tuple[Row, Told]]) -> list[TimeRow]:
    versus: Mapping[str, Versus] = {one.entrant: one for one in sweep.versus}
    return [
        _time_row(row, versus.get(row.entrant), row.entrant in best, verdict)
        for row, verdict in told
        if row.verdict.outcome != "inapplicable"
    ]


def _sweep_section(kernel: str, evidence: Evidence, place: int, sweep: Sweep) -> SweepSection:
    pointer = f"/result/sweeps/{place}"
    best = [fastest.entrant for fastest in sweep.best]
    told = _told(evidence, pointer, sweep)
    floor = sweep.null.floor
    scatter = scatter_chart(sweep.rows, best, UNKNOWN_FLOOR if isinstance(floor, Unavailable) else floor)
    speedups = [
        _speedup_row(speedup, evidence.tell(speedup.verdict, f"{pointer}/speedups/{number}"))
        for number, speedup in enumerate(sweep.speedups)
    ]
    return SweepSection(
        size=sweep.size,
        work=_work(sweep),
        said=distinct(verdict.reason for _, verdict in told if verdict.mark == VERIFIED),
        rows=_rows(sweep, best, told),
        left_out=list(_left_out(told)),
        peers=_peers(sweep),
        chart=bar_chart(sweep.rows, best),
        scatter=scatter,
        pictures=[
            samples_picture(f"samples-{evidence.number}-{place}", kernel, sweep),
            tradeoff_picture(f"tradeoff-{evidence.number}-{place}", kernel, sweep, scatter),
        ],
        speedups=speedups,
        sampling=sampling_facts(sweep),
        conditions=card_facts(sweep.rounds),
        source=evidence.at(pointer),
    )


def _ceiling_row(ceiling: Ceiling) -> CeilingRow:
    return CeilingRow(
        name=ceiling.name,
        rate=shown(ceiling.rate) if isinstance(ceiling.rate, Unavailable) else rate(ceiling.rate),
        fastest=milliseconds(min(ceiling.samples_ns)) if ceiling.samples_ns else ABSENT,
        samples=len(ceiling.samples_ns),
        how=ceiling.how,
    )


def _precompiled(found: Precompiled | None) -> str:
    if found is None:
        return "nothing"
    return f"{found.launches} launches by {found.workers} processes in {seconds(found.duration_ns)}"


def _facts(result: Timing) -> list[Fact]:
    launch = shown(result.launch) if isinstance(result.launch, Unavailable) else interval_or_absent(result.launch)
    return [
        ("compiled beforehand", _precompiled(result.precompiled)),
        ("an empty kernel", launch if isinstance(result.launch, Unavailable) else f"{launch} ms by events"),
    ]


def build_times(kernel: str, evidence: Evidence) -> Times:
    """Return the section of one kernel from its `timing` record."""
    result: Timing = evidence.artifact.result
    available = evidence.tell(result.availability, "/result/availability")
    timed = result.availability.outcome == "passed"
    return Times(
        kernel=kernel,
        obstacle=None if timed else available,
        device=result.device.name if result.device else ABSENT,
        facts=_facts(result) if timed else [],
        ceilings=[_ceiling_row(ceiling) for ceiling in result.ceilings],
        picture=ceilings_picture(f"ceilings-{evidence.number}", kernel, result),
        sweeps=[_sweep_section(kernel, evidence, place, sweep) for place, sweep in enumerate(result.sweeps)],
        source=evidence.at("/result/ceilings"),
    )

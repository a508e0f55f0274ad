"""What the stage `timing` found, as rows of the report's tables. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from assay.charts import BarChart, bar_chart
from assay.conditions import disturbances
from assay.evidence import Evidence, Reference, Told
from assay.formats import ABSENT, distinct, milliseconds, numeral, rate, shown, spread
from assay.outcomes import VERIFIED
from assay.record import Conditions, Row, Speedup, Sweep, Unavailable


@dataclass(frozen=True)
class TimeRow:
    """One entrant of a sweep. `against`: its median over that of the fastest library peer of its precision."""

    entrant: str
    kind: str
    precision: str
    median: str
    interval: str
    rate: str
    against: str
    samples: int
    best: bool
    told: Told


@dataclass(frozen=True)
class SpeedupRow:
    """The best time of one precision over that of another."""

    pair: str
    ratio: str
    told: Told


@dataclass(frozen=True)
class SweepSection:
    """One size: who was timed, how (`said` of all that were), how fast, and how the card was meanwhile."""

    size: str
    work: str
    said: list[str]
    rows: list[TimeRow]
    chart: BarChart | None
    speedups: list[SpeedupRow]
    conditions: list[tuple[str, str]]
    source: Reference


@dataclass(frozen=True)
class Times:
    """One kernel's section. `obstacle` says why nothing was timed."""

    kernel: str
    obstacle: Told | None
    device: str
    sweeps: list[SweepSection]


def _against(row: Row, rows: Sequence[Row]) -> str:
    peers = [
        peer.median_ns
        for peer in rows
        if peer.kind == "peer" and peer.precision == row.precision and isinstance(peer.median_ns, float)
    ]
    if row.kind == "peer" or not peers or isinstance(row.median_ns, Unavailable) or not min(peers) > 0:
        return ABSENT
    return numeral(row.median_ns / min(peers))


def _time_row(row: Row, sweep: Sweep, best: Sequence[str], told: Told) -> TimeRow:
    absent = isinstance(row.median_ns, Unavailable)
    return TimeRow(
        entrant=row.entrant,
        kind="library" if row.kind == "peer" else "variant",
        precision=row.precision,
        median=ABSENT if absent else milliseconds(row.median_ns),
        interval=ABSENT if absent else f"{milliseconds(row.low_ns)} to {milliseconds(row.high_ns)}",
        rate=rate(row.rate),
        against=_against(row, sweep.rows),
        samples=len(row.samples_ns),
        best=row.entrant in best,
        told=told,
    )


def _speedup_row(speedup: Speedup, told: Told) -> SpeedupRow:
    ratio = speedup.ratio
    shown_ratio = shown(ratio) if isinstance(ratio, Unavailable) else f"{numeral(ratio, 4)}x"
    return SpeedupRow(f"{speedup.lesser} over {speedup.reference}", shown_ratio, told)


def _event_reasons(rounds: Sequence[Conditions]) -> str:
    """Return NVML's bit masks of all rounds, joined; what they mean for the clocks is said by `disturbances`."""
    masks = [state.event_reasons for state in rounds if not isinstance(state.event_reasons, Unavailable)]
    return f"{reduce(or_, masks):#x} over all rounds" if masks else spread([s.event_reasons for s in rounds], "")


def _conditions(rounds: Sequence[Conditions]) -> list[tuple[str, str]]:
    return [
        ("SM clock", spread((state.sm_clock_mhz for state in rounds), "MHz")),
        ("memory clock", spread((state.memory_clock_mhz for state in rounds), "MHz")),
        ("temperature", spread((state.temperature_celsius for state in rounds), "°C")),
        ("power", spread((state.power_milliwatts for state in rounds), "W", 1000)),
        ("event reasons", _event_reasons(rounds)),
        ("other processes", spread((state.other_processes for state in rounds), "on the card")),
        ("disturbed by", "; ".join(disturbances(rounds)) or "nothing that was seen"),
    ]


def _work(sweep: Sweep) -> str:
    dimensions = ", ".join(f"{name} = {size}" for name, size in sorted(sweep.dimensions.items()))
    amounts = [f"{sweep.flops:,} floating-point operations"] if sweep.flops else []
    return "; ".join([dimensions, *amounts, f"{sweep.bytes:,} bytes read and written at least"])


def _sweep_section(evidence: Evidence, place: int, sweep: Sweep) -> SweepSection:
    pointer = f"/result/sweeps/{place}"
    best = [fastest.entrant for fastest in sweep.best]
    rows = [
        _time_row(row, sweep, best, evidence.tell(row.verdict, f"{pointer}/rows/{number}"))
        for number, row in enumerate(sweep.rows)
    ]
    speedups = [
        _speedup_row(speedup, evidence.tell(speedup.verdict, f"{pointer}/speedups/{number}"))
        for number, speedup in enumerate(sweep.speedups)
    ]
    return SweepSection(
        size=sweep.size,
        work=_work(sweep),
        said=distinct(row.told.reason for row in rows if row.told.mark == VERIFIED),
        rows=rows,
        chart=bar_chart(sweep.rows, best),
        speedups=speedups,
        conditions=_conditions(sweep.rounds),
        source=evidence.at(f"{pointer}/rounds"),
    )


def build_times(kernel: str, evidence: Evidence) -> Times:
    """Return the section of one kernel from its `timing` record."""
    result = evidence.artifact.result
    available = evidence.tell(result.availability, "/result/availability")
    return Times(
        kernel=kernel,
        obstacle=None if result.availability.outcome == "passed" else available,
        device=result.device.name if result.device else ABSENT,
        sweeps=[_sweep_section(evidence, place, sweep) for place, sweep in enumerate(result.sweeps)],
    )

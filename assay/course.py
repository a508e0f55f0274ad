"""The course of claims and their figures over several bundles: series, oldest first, and what each shows. Pure.

The same for the same bundles in any order: a series is ordered by when its records were begun. What came of one record
counts once, in however many bundles the record is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from msgspec import field

from assay.changepoints import Newest, Reading, Stretch, Study, study
from assay.differences import got_worse, place_of
from assay.formats import short
from assay.merging import contribution, sources_of
from assay.opening import Opened
from assay.outcomes import mark_of
from assay.record import (
    Claim,
    Count,
    Device,
    Digest,
    Estimate,
    Instant,
    NonFinite,
    Record,
    Row,
    StageName,
    Sweep,
    Tier,
    Timing,
    Unavailable,
)

MOST_POINTS = 200
"""Newest points of a series that are looked at: the partition takes all pairs of them."""

ERROR_MARGIN = 1.0
"""An error's last digits depend on the processor and the library; what loses one bit of precision doubles it."""

SMALLEST_ERROR = 2.0**-60
"""Errors below this are taken as this: a ratio needs a positive figure, and no format here has as many bits."""

UNKNOWN_FLOOR = 0.01
"""How far from 1 a ratio must be where no null experiment says so."""

ERROR = "largest_normalised_error"
STATED = ("registers", "stack_bytes", "shared_bytes", "binary_sha256")
"""Figures of a build: they follow from source and compiler and have no noise, so that every change is one."""

RECORDED: dict[Tier, StageName] = {
    "interpreted": "interpreter",
    "compiled": "compile",
    "fits": "compile",
    "gated": "gate",
    "ran": "gpu",
    "accurate": "gpu",
    "timed": "timing",
    "teeth": "teeth",
}
ANYWHERE: tuple[Tier, ...] = ("interpreted", "compiled", "fits")
"""Tiers that need no device: what they show does not depend on which one there is."""


class Key(NamedTuple):
    """What a series is of. `place`: the device, where the tier depends on it; `size`: of a time alone.

    Another shape under the name of a size is another series.
    """

    kernel: str
    variant: str
    tier: Tier
    target: str
    place: str
    size: str
    dimensions: str
    figure: str


class Occasion(Record, frozen=True, kw_only=True):
    """When, and from what, the figures of one record were made: `setting` holds what could have changed them."""

    started: Instant
    record: Digest
    bundle: str
    commit: str
    setting: dict[str, str]


@dataclass(frozen=True)
class Time:
    """A median by events and, where there is one, by replay; `floor` is that of the run's null experiment."""

    events: Estimate
    replay: Estimate | None
    launch_bound: bool
    floor: float


class Words(NamedTuple):
    """What a record states, and why; `claim` where it is an outcome, `amount` where it is a number."""

    word: str
    reason: str = ""
    claim: Claim | None = None
    amount: float | None = None


Told = tuple[Key, Occasion, Reading | Time | Words]
"""One figure of one record."""


class Point(Record, frozen=True, kw_only=True):
    """One reading, in the figure's own unit."""

    occasion: Occasion
    low: float
    middle: float
    high: float


class About(Record, frozen=True, kw_only=True):
    """What a series is of. `counts`: getting worse in it is a regression.

    A library's time says how the machine changed, and the ratio to it how both did: neither counts. `live`: its newest
    point is from the newest record of that stage, at that place.
    """

    kernel: str
    variant: str
    tier: Tier
    target: str | None
    place: str | None
    size: str | None
    dimensions: str | None
    figure: str
    counts: bool
    live: bool


class Curve(Record, frozen=True, kw_only=True):
    """A figure that is measured, in ns where it is a time, and what its points show. `margin` as `study` has it."""

    about: About
    points: list[Point]
    margin: float
    study: Study

    @property
    def regressed(self) -> bool:
        """Whether the newest point stands apart for the worse: all measured figures are better when lower."""
        newest = self.study.newest
        return self.about.live and self.about.counts and isinstance(newest, Newest) and newest.moved == "up"

    @property
    def stretches(self) -> list[Stretch]:
        """The stretches, as far as there are enough points."""
        return [] if isinstance(self.study.stretches, Unavailable) else self.study.stretches


class Change(Record, frozen=True, kw_only=True):
    """Where a stated figure, or an outcome, became another. `at`: the number of the point, from 0."""

    at: Count
    before: str
    after: str
    reason: str
    worse: bool


class Statement(Record, frozen=True, kw_only=True):
    """A figure, or the outcome of a claim, that follows from its record without noise, and where it changed."""

    about: About
    occasions: list[Occasion]
    words: list[str]
    changes: list[Change]

    @property
    def regressed(self) -> bool:
        """Whether the newest point is a change for the worse."""
        newest = len(self.words) - 1
        return self.about.live and any(change.worse and change.at == newest for change in self.changes)


class Source(Record, frozen=True, kw_only=True):
    """One bundle that was read."""

    name: str
    sha256: Digest
    device: str
    first: Instant
    last: Instant


class Course(Record, frozen=True, kw_only=True):
    """All series of several bundles: `history.json`. `left_out` says of each bundle that was not used why not."""

    schema: Literal["assay/history/1"] = "assay/history/1"
    margin: float
    bundles: list[Source]
    left_out: list[str] = field(default_factory=list)
    curves: list[Curve]
    statements: list[Statement]

    @property
    def regressions(self) -> list[Curve | Statement]:
        """The series whose newest point is a regression."""
        every: list[Curve | Statement] = [*self.curves, *self.statements]
        return [series for series in every if series.regressed]


# What one bundle tells


def source_of(opened: Opened) -> Source:
    """Return what is said of a bundle as a whole."""
    brought = contribution(opened)
    device = place_of(opened.one("environment").result)
    return Source(name=brought.name, sha256=brought.sha256, device=device, first=brought.first, last=brought.last)


class _Bundle:
    """One bundle, with what is asked of it again and again."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.place = place_of(opened.one("environment").result)
        self._brought, self._sources = contribution(opened), sources_of(opened)

    def occasion(self, stage: StageName, kernel: str) -> Occasion | None:
        """Return the occasion of a kernel's record, or of the only one of a stage; None where there is none."""
        of = (None, kernel)
        found = [record for record in self.opened.of_stage(stage).values() if record.kernel in of]
        if not found:
            return None
        commit = self._brought.source.commit
        return Occasion(
            started=found[0].run.started,
            record=found[0].content_sha256,
            bundle=self._brought.name,
            commit=short(commit) if isinstance(commit, str) else "",
            setting=self._setting(kernel, getattr(found[0].result, "device", None)),
        )

    def _setting(self, kernel: str, device: Device | None) -> dict[str, str]:
        driver, source = self._brought.driver, self._sources.get(kernel)
        of_kernel = {} if source is None else {f"kernels/{kernel}.py": short(source)}
        # Cards of one kind share a place; which of them it was may be what changed.
        card = {} if device is None or not isinstance(device.uuid_hash, str) else {"card": short(device.uuid_hash)}
        of_driver = {"driver": driver} if isinstance(driver, str) else {}
        return {**of_kernel, **self._brought.versions, **of_driver, **card}


def _at(bundle: _Bundle, claim: Claim, figure: str) -> Key:
    place = "" if claim.tier in ANYWHERE else bundle.place
    return Key(claim.kernel, claim.variant, claim.tier, claim.target or "", place, "", "", figure)


def _claimed(bundle: _Bundle) -> Iterator[Told]:
    """Yield the outcome of every claim, its error, and what was stated of its build."""
    for claim in bundle.opened.one("claims").result.claims:
        occasion = bundle.occasion(RECORDED[claim.tier], claim.kernel)
        if occasion is None:
            continue
        yield (
            _at(bundle, claim, "outcome"),
            occasion,
            Words(mark_of(claim.outcome, claim.cause).word, claim.reason, claim),
        )
        error = claim.figures.get(ERROR)
        if error is not None and not isinstance(error, (str, NonFinite)):
            size = max(error, SMALLEST_ERROR)
            yield _at(bundle, claim, "error"), occasion, Reading(size, size, size, 0.0)
        for name in STATED:
            value = claim.figures.get(name)
            if isinstance(value, str):
                yield _at(bundle, claim, name), occasion, Words(value)
            elif isinstance(value, (int, float)):
                yield _at(bundle, claim, name), occasion, Words(f"{value:.0f}", amount=value)


def _time(row: Row, sweep: Sweep) -> Time | None:
    if row.verdict.outcome != "passed" or isinstance(row.events, Unavailable) or not row.events.low > 0:
        return None
    floor = UNKNOWN_FLOOR if isinstance(sweep.null.floor, Unavailable) else sweep.null.floor
    replay = row.replay if isinstance(row.replay, Estimate) and row.replay.low > 0 else None
    return Time(row.events, replay, row.launch_bound is True, floor)


def _swept(kernel: str, target: str, place: str, sweep: Sweep) -> Iterator[tuple[Key, Reading | Time]]:
    dimensions = ", ".join(f"{name} = {size}" for name, size in sorted(sweep.dimensions.items()))
    at: tuple[Tier, str, str, str, str] = ("timed", target, place, sweep.size, dimensions)
    for row in sweep.rows:
        figure = "library time" if row.kind == "peer" else "time"
        time = None if row.kind == "twin" else _time(row, sweep)
        if time is not None:
            yield Key(kernel, row.entrant, *at, figure), time
    floor = UNKNOWN_FLOOR if isinstance(sweep.null.floor, Unavailable) else sweep.null.floor
    for one in sweep.versus:
        if isinstance(one.ratio, Estimate) and one.ratio.low > 0:
            key = Key(kernel, one.entrant, *at, f"time over {one.against} by {one.mode}")
            yield key, Reading(one.ratio.low, one.ratio.median, one.ratio.high, floor)


def _timed(bundle: _Bundle) -> Iterator[Told]:
    for record in bundle.opened.of_stage("timing").values():
        result: Timing = record.result
        occasion = bundle.occasion("timing", str(record.kernel))
        if result.device is None or occasion is None:
            continue
        place = f"{result.device.name} ({result.device.target})"
        for sweep in result.sweeps:
            for key, value in _swept(str(record.kernel), result.device.target, place, sweep):
                yield key, occasion, value


def told_by(opened: Opened) -> list[Told]:
    """Return every figure and outcome of a sound bundle; UnsoundError where a kernel's source is not in it."""
    bundle = _Bundle(opened)
    return [*_claimed(bundle), *_timed(bundle)]


# All of them


def _by_key(told: Iterable[Told]) -> dict[Key, list[tuple[Occasion, Any]]]:
    """Return each series, oldest first: one point for each record, as the first of its bundles by name has it."""
    found: dict[Key, dict[Digest, tuple[Occasion, Any]]] = defaultdict(dict)
    for key, occasion, value in sorted(told, key=lambda one: one[1].bundle):
        found[key].setdefault(occasion.record, (occasion, value))
    order = {key: sorted(of.values(), key=lambda pair: (pair[0].started, pair[0].record)) for key, of in found.items()}
    return {key: order[key][-MOST_POINTS:] for key in sorted(order)}


def _by_one_mode(times: Sequence[Time]) -> tuple[str, list[Reading]]:
    """Return all times in one mode: by replay where any was bound by the host and all have it, else by events."""
    replays = [time.replay for time in times if time.replay is not None]
    if len(replays) == len(times) and any(time.launch_bound for time in times):
        mode, estimates = "replay", replays
    else:
        mode, estimates = "events", [time.events for time in times]
    pairs = zip(estimates, times, strict=True)
    return mode, [Reading(one.low, one.median, one.high, time.floor) for one, time in pairs]


def _about(key: Key, figure: str, live: bool) -> About:
    return About(
        kernel=key.kernel,
        variant=key.variant,
        tier=key.tier,
        target=key.target or None,
        place=key.place or None,
        size=key.size or None,
        dimensions=key.dimensions or None,
        figure=figure,
        counts=not key.figure.startswith(("library", "time over")),
        live=live,
    )


def _curve(key: Key, pairs: Sequence[tuple[Occasion, Any]], live: bool, margin: float) -> Curve:
    values, figure = [value for _, value in pairs], key.figure
    if isinstance(values[0], Time):
        mode, readings = _by_one_mode(values)
        figure = f"{figure} by {mode}"
    else:
        readings = values
    allowed = ERROR_MARGIN if figure == "error" else margin
    points = [
        Point(occasion=occasion, low=one.low, middle=one.middle, high=one.high)
        for (occasion, _), one in zip(pairs, readings, strict=True)
    ]
    return Curve(about=_about(key, figure, live), points=points, margin=allowed, study=study(readings, allowed))


def _worse(figure: str, before: Words, after: Words) -> bool:
    """Return whether a change is for the worse: an outcome, or a stack that grew, where registers spill to."""
    if figure == "stack_bytes" and before.amount is not None and after.amount is not None:
        return after.amount > before.amount
    return figure == "outcome" and got_worse(before.claim, after.claim)


def _statement(key: Key, pairs: Sequence[tuple[Occasion, Any]], live: bool) -> Statement:
    values: list[Words] = [value for _, value in pairs]
    changes = [
        Change(
            at=at,
            before=values[at - 1].word,
            after=values[at].word,
            reason=values[at].reason,
            worse=_worse(key.figure, values[at - 1], values[at]),
        )
        for at in range(1, len(values))
        if values[at].word != values[at - 1].word
    ]
    occasions = [occasion for occasion, _ in pairs]
    return Statement(
        about=_about(key, key.figure, live), occasions=occasions, words=[v.word for v in values], changes=changes
    )


def _newest(series: Mapping[Key, Sequence[tuple[Occasion, Any]]]) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Map kernel, tier and place to the newest record there is."""
    latest: dict[tuple[str, str, str], tuple[str, str]] = {}
    for key, pairs in series.items():
        last, at = pairs[-1][0], (key.kernel, key.tier, key.place)
        latest[at] = max(latest.get(at, ("", "")), (last.started, last.record))
    return latest


def follow(sources: Sequence[Source], told: Iterable[Told], margin: float, left_out: Sequence[str] = ()) -> Course:
    """Return the course of all figures. `margin`: within which two times count as the same (0.02: 2 %)."""
    series = _by_key(told)
    latest = _newest(series)
    curves, statements = [], []
    for key, pairs in series.items():
        last = pairs[-1][0]
        live = (last.started, last.record) == latest[key.kernel, key.tier, key.place]
        if isinstance(pairs[-1][1], Words):
            statements.append(_statement(key, pairs, live))
        else:
            curves.append(_curve(key, pairs, live, margin))
    once = {source.sha256: source for source in sorted(sources, key=lambda one: one.name)}
    bundles = sorted(once.values(), key=lambda one: (one.last, one.sha256))
    return Course(margin=margin, bundles=bundles, left_out=sorted(left_out), curves=curves, statements=statements)


def beside(before: Occasion, after: Occasion) -> list[str]:
    """Return what else is not the same on two occasions, in words: the kernel's file, Triton, the driver."""
    left, right = before.setting, after.setting
    names = [*right, *(name for name in left if name not in right)]
    changed = [
        f"{n}: {left.get(n, 'absent')} -> {right.get(n, 'absent')}" for n in names if left.get(n) != right.get(n)
    ]
    commits = [f"commit: {before.commit} -> {after.commit}"] if before.commit != after.commit else []
    return [*changed, *commits]

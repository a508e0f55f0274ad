"""One sweep of the timing stage, from the asking side: prepare the entrants, sample them in rounds, check, derive.

Everything that touches the device happens in a child process (`assay.stopwatch`); whatever becomes of it is an answer
or a fault, and a fault is some row's verdict.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from assay.child import Asked, Fault, Message, ask
from assay.config import TimingSettings
from assay.diagnosis import diagnose
from assay.progress import Progress
from assay.record import Cost, Ended, Estimate, Inputs, Sweep, Unavailable, Verdict
from assay.sampling import AGAIN, Checked, Entrant, Prepared, Problem, Round, schedule, twin_of
from assay.speeds import Entry, Measured, Terms, derive, in_band, pruned
from assay.stopping import Sampler

TIMED = Verdict(outcome="passed", reason="timed")


@dataclass(frozen=True)
class Bench:
    """What every step of one sweep needs."""

    child: Asked
    problem: Problem
    entrants: Sequence[Entrant]
    terms: Terms
    seed: int
    progress: Progress

    @property
    def settings(self) -> TimingSettings:
        """How long and how often to sample."""
        return self.terms.settings

    def ask(self, do: str, kind: type[Message], limit_s: float, **more: Any) -> Message | Fault:
        """Ask about this size. Each request says all that a child started a moment ago must know."""
        return ask(self.child, {"do": do, "size": self.problem.size, "seed": self.seed, **more}, kind, limit_s)

    def show(self, what: str) -> None:
        """Show what runs now."""
        self.progress.running(f"{self.problem.size} {what}")


@dataclass(frozen=True)
class Field:
    """Who is ready to be timed, and why the others are not. `peers_ns`: how long preparing the peers took."""

    ready: Mapping[str, Prepared]
    failed: Mapping[str, Verdict] = field(default_factory=dict)
    peers_ns: int = 0


@dataclass(frozen=True)
class Taken:
    """Rounds, in order, why there are no more, and how long they took; `stopped` says which fault ended them."""

    rounds: Sequence[Round]
    ended: Ended
    spent_ns: int = 0
    stopped: Verdict | None = None


def _prepare(bench: Bench, entrant: Entrant) -> Prepared | Verdict | Fault:
    bench.show(f"preparing {entrant.name}")
    again = entrant.name.removesuffix(AGAIN) if entrant.kind == "twin" else None
    settings = bench.settings
    answer = bench.ask(
        "prepare",
        Prepared,
        settings.prepare_limit_s,
        entrant=entrant.name,
        again=again,
        warmup=settings.warmup,
        repeats=settings.repeats,
    )
    return answer if isinstance(answer, Fault) or answer.refused is None else answer.refused


def prepare(bench: Bench, entrants: Sequence[Entrant]) -> Field:
    """Compile, warm up and record.

    A fault ends the child, and with it what was prepared there, so the rest prepare once more (from Triton's cache).
    Who is prepared already is so at once.
    """
    failed, peers_ns = dict[str, Verdict](), 0
    while True:
        found = dict[str, tuple[Entrant, Prepared | Verdict | Fault]]()
        for entrant in entrants:
            if entrant.name not in failed:
                start = time.monotonic_ns()
                found[entrant.name] = entrant, _prepare(bench, entrant)
                peers_ns += time.monotonic_ns() - start if entrant.kind == "peer" else 0
        faults = {n: diagnose(one, e.precision) for n, (e, one) in found.items() if isinstance(one, Fault)}
        # A refusal spoils nothing.
        failed |= faults | {name: one for name, (_, one) in found.items() if isinstance(one, Verdict)}
        if not faults:
            ready = {name: one for name, (_, one) in found.items() if isinstance(one, Prepared)}
            return Field(ready, failed, peers_ns)


def supply(bench: Bench, entrants: Sequence[Entrant]) -> tuple[Inputs | Unavailable, Field]:
    """Have the inputs made, and prepare; without inputs nobody can be."""
    bench.show("making inputs")
    answer = bench.ask("inputs", Inputs, bench.settings.prepare_limit_s)
    if isinstance(answer, Fault):
        failed = {entrant.name: diagnose(answer, entrant.precision) for entrant in entrants}
        return Unavailable(reason=answer.reason), Field({}, failed)
    return answer, prepare(bench, entrants)


def _round(bench: Bench, turn: int, order: Sequence[str], ready: Mapping[str, Prepared]) -> Round | Fault:
    settings = bench.settings
    answer = bench.ask("round", Round, settings.limit_s, turn=turn, order=list(order))
    if isinstance(answer, Fault):
        return answer
    replayed = {name for name in order if ready[name].no_replay is None}
    if set(answer.samples_ns) != set(order) or set(answer.replays_ns) != replayed:
        return Fault("crash", "the answer's entrants are not those that were asked for")
    return answer


def _take(
    bench: Bench, field: Field, names: Sequence[str], rounds: int, end: Callable[[list[Round]], Ended | None]
) -> Taken:
    """Take at most `rounds` rounds, until `end` names a reason to stop after one."""
    taken, spent_ns = list[Round](), 0
    for turn, order in enumerate(schedule(rounds, names, bench.seed)):
        bench.show("sampling in rounds")
        start = time.monotonic_ns()
        answer = _round(bench, turn, order, field.ready)
        spent_ns += time.monotonic_ns() - start
        if isinstance(answer, Fault):
            reason = f"sampling stopped after {len(taken)} of {rounds} rounds: {answer.reason}"
            return Taken(taken, "fault", spent_ns, Verdict(outcome="cantTell", cause=answer.cause, reason=reason))
        taken.append(answer)
        if (ended := end(taken)) is not None:
            return Taken(taken, ended, spent_ns)
    return Taken(taken, "rounds", spent_ns)


def screen(bench: Bench, field: Field) -> tuple[Taken, Mapping[str, Verdict]]:
    """Take a short round of what is searched; return it, and who is left out for it, each with the reason."""
    names = [entrant.name for entrant in bench.entrants if entrant.searched and entrant.name in field.ready]
    if not names:
        return Taken([], "nothing"), {}
    taken = _take(bench, field, names, bench.settings.screen_rounds, lambda _: None)
    return taken, pruned(bench.entrants, screens_of(taken), bench.settings)


def screens_of(taken: Taken) -> dict[str, list[float]]:
    """Return the samples of a short round by entrant, none where it did not end well."""
    if taken.stopped is not None or not taken.rounds:
        return {}
    return {name: [one.samples_ns[name] for one in taken.rounds] for name in taken.rounds[0].samples_ns}


def pair(bench: Bench, field: Field, out: Mapping[str, Verdict]) -> tuple[Field, list[Entrant]]:
    """Return who is left of the field once those `out` are gone, with a twin of the first, and the entrants of both."""
    kept = [entrant for entrant in bench.entrants if entrant.name in field.ready and entrant.name not in out]
    if not kept:
        return Field({}, field.failed, field.peers_ns), list(bench.entrants)
    twin = twin_of(next((entrant for entrant in kept if entrant.kind == "variant"), kept[0]))
    found = prepare(bench, [*kept, twin])
    failed, peers_ns = {**field.failed, **found.failed}, field.peers_ns + found.peers_ns
    return Field(found.ready, failed, peers_ns), [*bench.entrants, twin]


def sample(bench: Bench, field: Field) -> Taken:
    """Take interleaved rounds of all who are ready, until the stopping rule says why to end."""
    if not field.ready:
        return Taken([], "nothing")
    terms, good, start = bench.terms, list[Round](), time.monotonic()
    launch_ns = terms.launch.median if isinstance(terms.launch, Estimate) else None
    sampler = Sampler(bench.settings, launch_ns)

    def end(taken: list[Round]) -> Ended | None:
        nonlocal sampler
        if in_band(taken[-1].conditions, bench.settings, terms.maximum_sm_clock_mhz):
            good.append(taken[-1])
        bench.progress.step()
        sampler = sampler.after(len(taken), good, time.monotonic() - start)
        return None if sampler.state == "sampling" else sampler.state

    return _take(bench, field, list(field.ready), bench.settings.rounds, end)


def check(bench: Bench, name: str) -> Checked:
    """Return the verdict on what an entrant's timed launches wrote, a fast wrong result being no result."""
    bench.show(f"checking what {name} wrote")
    answer = bench.ask("check", Checked, bench.settings.prepare_limit_s, entrant=name)
    if not isinstance(answer, Fault):
        return answer
    reason = f"what it wrote could not be checked after timing: {answer.reason}"
    return Checked(
        verdict=Verdict(outcome="cantTell", cause=answer.cause, reason=reason), accuracy=Unavailable(reason=reason)
    )


def _judge(bench: Bench, entrant: Entrant, taken: Taken) -> Checked:
    """Return the verdict on one that took part in the rounds; nothing is claimed of what a peer returned."""
    if taken.stopped is not None or not taken.rounds:
        verdict = taken.stopped or TIMED
        return Checked(verdict=verdict, accuracy=Unavailable(reason="nothing was checked: sampling did not end well"))
    found = check(bench, entrant.name)
    return Checked(verdict=TIMED, accuracy=found.accuracy) if entrant.kind == "peer" else found


def _unmatched(failed: Verdict) -> Checked:
    """Return the verdict on a twin whose entrant could not be prepared again: there is nothing to compare it with."""
    return Checked(verdict=failed, accuracy=Unavailable(reason=failed.reason))


def judge(bench: Bench, field: Field, entrants: Sequence[Entrant], taken: Taken) -> dict[str, Checked]:
    """Return the verdicts of all who took part; the twin, which writes where the entrant it repeats does, has its."""
    found = {e.name: _judge(bench, e, taken) for e in entrants if e.name in field.ready and e.kind != "twin"}
    twins = {e.name: e.name.removesuffix(AGAIN) for e in entrants if e.name in field.ready and e.kind == "twin"}
    return found | {twin: found.get(name) or _unmatched(field.failed[name]) for twin, name in twins.items()}


@dataclass(frozen=True)
class Outcome:
    """What became of a size: `first` are all that were ready before the search was thinned out, `left` those after."""

    first: Field
    left: Field
    screened: Taken
    taken: Taken
    verdicts: Mapping[str, Verdict]
    judged: Mapping[str, Checked]

    def verdict(self, name: str) -> Verdict:
        """Return why an entrant has no samples, or what became of those it has."""
        checked = self.judged.get(name)
        return self.verdicts.get(name) or (TIMED if checked is None or checked.verdict is None else checked.verdict)

    def replays(self, name: str) -> list[float] | Unavailable:
        """Return an entrant's replays, one a round."""
        prepared = self.left.ready.get(name)
        if prepared is None:
            return Unavailable(reason=self.verdict(name).reason)
        return prepared.no_replay or [one.replays_ns[name] for one in self.taken.rounds]

    def entry(self, entrant: Entrant) -> Entry:
        """Return an entrant's raw part of its row."""
        name, checked = entrant.name, self.judged.get(entrant.name)
        prepared = self.left.ready.get(name) or self.first.ready.get(name)
        nothing = Unavailable(reason=self.verdict(name).reason)
        return Entry(
            entrant=entrant,
            verdict=self.verdict(name),
            samples_ns=[one.samples_ns[name] for one in self.taken.rounds] if name in self.left.ready else [],
            replays_ns=self.replays(name),
            screen_ns=screens_of(self.screened).get(name, []),
            accuracy=nothing if checked is None else checked.accuracy,
            binary_sha256=[] if prepared is None else prepared.binary_sha256,
            launches=UNSET if prepared is None else prepared.launches,
        )


def sweep(bench: Bench, barred: Mapping[str, Verdict]) -> Sweep:
    """Time all entrants of one size side by side, but for those `barred` beforehand, whose verdict is given."""
    start = time.monotonic_ns()
    inputs, first = supply(bench, [entrant for entrant in bench.entrants if entrant.name not in barred])
    screened, out = screen(bench, first)
    if screened.stopped is None:
        left, entrants = pair(bench, first, out)
        taken = sample(bench, left)
    else:
        # Its rounds are no rounds of the sweep.
        left, entrants, taken = first, list(bench.entrants), Taken([], "fault", 0, screened.stopped)
    judged = judge(bench, left, entrants, taken)
    spent_ns = time.monotonic_ns() - start
    found = Outcome(first, left, screened, taken, {**left.failed, **out, **barred}, judged)
    measured = Measured(
        problem=bench.problem,
        inputs=inputs,
        entries=[found.entry(entrant) for entrant in entrants],
        rounds=[one.conditions for one in taken.rounds],
        ended=taken.ended,
        cost=Cost(device_ns=spent_ns, sampling_ns=screened.spent_ns + taken.spent_ns, peers_ns=left.peers_ns),
    )
    return derive(measured, bench.terms)

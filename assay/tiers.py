"""Derives claims from records, tier by tier: pure functions, so that anyone can derive them again and compare."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from assay.admission import usable
from assay.catching import Score, beside, on_word, score, told, wrong_words
from assay.formats import interval, milliseconds, ratio, short
from assay.judgement import error_of
from assay.record import (
    Build,
    Canary,
    Cause,
    Check,
    Claim,
    Compile,
    Declaration,
    Device,
    Digest,
    Environment,
    Execution,
    Gate,
    Gpu,
    Interpreter,
    Link,
    Mutant,
    Number,
    Outcome,
    Row,
    StageName,
    Sweep,
    Teeth,
    Tier,
    Timing,
    Unavailable,
    Verdict,
    Versus,
    as_float,
    number,
)
from assay.targets import is_amd, unsuited

ALL = "*"
"""Stands for every kernel, or every variant of one: a gate guards them all, a file that does not load has none."""

RAN_NOT: tuple[Cause, ...] = (
    "crash",
    "timeout",
    "exception",
    "launch-failed",
    "compile-error",
    "import-error",
    "declaration",
)
"""Causes for which a check did not even run to its end; any other failure is one of accuracy."""


DEVICE_STAGES: tuple[StageName, ...] = ("gpu", "timing")


@dataclass(frozen=True)
class Held:
    """A record's result with the path and digest it was read from, and whether its materials are those at hand."""

    path: str
    sha256: Digest
    result: Any
    freshness: Literal["current", "stale"]
    changed: str = ""

    def link(self, pointer: str) -> Link:
        """Return a link to one place in this record."""
        return Link(artifact=self.path, sha256=self.sha256, pointer=pointer)


@dataclass(frozen=True)
class Machine:
    """What the records of one machine say beside the kernels: environment and gate."""

    environment: Held
    gate: Held

    @property
    def device(self) -> Device | None:
        """The device that kernels run on, if any."""
        found: Environment = self.environment.result
        devices = [] if isinstance(found.devices, Unavailable) else found.devices
        return next((device for device in devices if device.visible), None)


@dataclass(frozen=True)
class Subject:
    """One kernel: its name and its records by stage."""

    name: str
    records: Mapping[StageName, Held]

    @property
    def declaration(self) -> Declaration | None:
        """What the kernel declares, from whichever stage could load it."""
        for stage in ("interpreter", "compile"):
            held = self.records.get(stage)
            if held is not None and held.result.declaration is not None:
                found: Declaration = held.result.declaration
                return found
        return None

    def span(self, variant: str) -> tuple[str | None, str | None]:
        """The oldest and the newest compute capability that can run a variant, None where any can."""
        variants = [] if self.declaration is None else self.declaration.variants
        return next(((v.minimum_capability, v.maximum_capability) for v in variants if v.id == variant), (None, None))


@dataclass(frozen=True)
class About:
    """What a claim is about, without yet saying how it came out."""

    kernel: str
    variant: str
    tier: Tier
    target: str | None = None


_SENTENCES: dict[Tier, str] = {
    "interpreted": "{of} gives the oracle's results under Triton's interpreter",
    "compiled": "{of} compiles for {target} within its stack budget, with the instructions that its precision promises",
    "fits": "{of} fits what one block may have on {target}",
    "gated": "the gate admits exactly the devices that it should",
    "ran": "{of} ran on {target} to its end, from the binary compiled ahead where there is one",
    "accurate": "{of} is within its error bounds on {target}, by the multiplier of its precision",
    "timed": "{of} was timed on {target}",
    "teeth": "every planted fault in {of} that is not equivalent is caught",
}


Figures = Mapping[str, Number | str]


def _claim(about: About, verdict: Verdict, sources: Sequence[tuple[Held, str]], figures: Figures) -> Claim:
    of = about.kernel if about.variant == ALL else f"{about.kernel}/{about.variant}"
    stale = [held for held, _ in sources if held.freshness == "stale"]
    reason = f"{verdict.reason} (stale: {stale[0].changed} has changed since)" if stale else verdict.reason
    return Claim(
        kernel=about.kernel,
        variant=about.variant,
        tier=about.tier,
        target=about.target,
        sentence=_SENTENCES[about.tier].format(of=of, target=about.target),
        outcome=verdict.outcome,
        cause=verdict.cause,
        reason=reason,
        figures=dict(figures),
        freshness="stale" if stale else "current",
        links=[held.link(pointer) for held, pointer in sources],
    )


DECIDING: tuple[Outcome, ...] = ("failed", "cantTell", "passed", "untested", "inapplicable")
"""Of several outcomes the first of these that occurs is that of all."""


def _gathered(verdicts: Sequence[Verdict], passed: str) -> Verdict:
    """Return the verdict of several: the first failure, else the first doubt, else passed if any passed."""
    for outcome in DECIDING:
        found = [verdict for verdict in verdicts if verdict.outcome == outcome]
        if found and outcome == "passed":
            return Verdict(outcome="passed", reason=passed)
        if found:
            return found[0]
    return Verdict(outcome="untested", cause="not-measured", reason="no case was tried")


def _named(check: Check) -> Verdict:
    verdict = check.verdict
    return Verdict(outcome=verdict.outcome, cause=verdict.cause, reason=f"{check.case}: {verdict.reason}")


def _figures(checks: Sequence[Check]) -> dict[str, Number | str]:
    errors = [as_float(c.normalised_error) for check in checks for c in check.comparisons]
    passed = sum(check.verdict.outcome == "passed" for check in checks)
    asked = sum(check.verdict.outcome != "inapplicable" for check in checks)
    counted: dict[str, Number | str] = {"cases_passed": float(passed), "cases": float(asked)}
    # max() would pass over a NaN, depending on where it stands.
    worst = next((error for error in errors if math.isnan(error)), max(errors, default=0.0))
    return {**counted, "largest_normalised_error": number(worst)} if errors else counted


def _summary(checks: Sequence[Check]) -> str:
    figures = _figures(checks)
    error = figures.get("largest_normalised_error")
    said = f"{figures['cases_passed']:.0f} of {figures['cases']:.0f} cases passed"
    return said if error is None or isinstance(error, str) else f"{said}, largest error {as_float(error):.3g}"


def _of(checks: Iterable[Check], variant: str) -> list[tuple[int, Check]]:
    return [(index, check) for index, check in enumerate(checks) if check.variant == variant]


def _largest(check: Check) -> tuple[bool, float]:
    """Return a sort key by the error of a check, under which NaN is above all and a check without errors below."""
    error = error_of(check)
    return (False, -1.0) if error is None else (math.isnan(error), 0.0 if math.isnan(error) else error)


def _pointers(held: Held, found: Sequence[tuple[int, Check]], verdicts: Sequence[Verdict]) -> list[tuple[Held, str]]:
    """Point at the check that decides, and at all checks: the first of the outcome, or of passed ones the least exact.

    `verdicts` are what the checks say at the tier in question.
    """
    everything = [(held, "/result/checks")]
    for outcome in DECIDING:
        of = [pair for pair, verdict in zip(found, verdicts, strict=True) if verdict.outcome == outcome]
        if of:
            index, _ = max(of, key=lambda pair: _largest(pair[1])) if outcome == "passed" else of[0]
            return [(held, f"/result/checks/{index}"), *everything]
    return everything


def interpreted(subject: Subject, variant: str) -> Claim:
    """Claim what the interpreter showed of a variant."""
    held, about = subject.records["interpreter"], About(subject.name, variant, "interpreted")
    result: Interpreter = held.result
    found = _of(result.checks, variant)
    checks = [check for _, check in found]
    if result.loading.outcome != "passed":
        return _claim(about, result.loading, [(held, "/result/loading")], {})
    verdicts = [_named(check) for check in checks]
    return _claim(about, _gathered(verdicts, _summary(checks)), _pointers(held, found, verdicts), _figures(checks))


def _build(held: Held, variant: str, target: str) -> tuple[int, Build] | None:
    result: Compile = held.result
    for index, build in enumerate(result.builds):
        if (build.variant, build.target) == (variant, target):
            return index, build
    return None


def _of_other_cases(held: Held, build: Build) -> list[tuple[int, Build]]:
    """Return the builds of the same variant and target that another case shows cannot be made."""
    result: Compile = held.result
    of = build.variant, build.target
    return [(i, b) for i, b in enumerate(result.builds) if (b.variant, b.target) == of and b.case != build.case]


def _of_case(build: Build) -> Verdict:
    verdict = build.compiled
    return Verdict(outcome=verdict.outcome, cause=verdict.cause, reason=f"{build.case}: {verdict.reason}")


def _uncompiled(subject: Subject, about: About) -> Claim:
    held = subject.records["compile"]
    loading: Verdict = held.result.loading
    if loading.outcome == "passed":
        loading = Verdict(outcome="untested", cause="not-measured", reason="it was not compiled for this target")
    elif about.variant == ALL:
        # The interpreted claim names the fault once; seven targets need not fail for it again.
        loading = Verdict(
            outcome="untested", cause="upstream", reason=f"the kernel file does not load: {loading.reason}"
        )
    return _claim(about, loading, [(held, "/result/loading")], {})


def compiled(subject: Subject, variant: str, target: str) -> Claim:
    """Claim that a variant compiles for a target, and to the instructions that its precision promises."""
    held, about = subject.records["compile"], About(subject.name, variant, "compiled", target)
    found = _build(held, variant, target)
    if found is None:
        return _uncompiled(subject, about)
    index, build = found
    precision = variant.split("/", maxsplit=1)[0]
    promises = [(i, f) for i, f in enumerate(held.result.findings) if (f.precision, f.target) == (precision, target)]
    sources = [(held, f"/result/builds/{index}"), *((held, f"/result/findings/{i}") for i, _ in promises)]
    others = _of_other_cases(held, build)
    sources += [(held, f"/result/builds/{i}") for i, _ in others]
    said = "; ".join([build.compiled.reason, *(finding.statement for _, finding in promises)])
    shown = [_of_case(other) for _, other in others] + [f.verdict for _, f in promises]
    verdicts = [build.compiled] if build.compiled.outcome != "passed" else shown
    verdict = _gathered(verdicts or [build.compiled], said)
    figures: dict[str, Number | str] = {}
    if build.binaries:
        figures = {
            "registers": float(max(binary.registers for binary in build.binaries)),
            "stack_bytes": float(max(binary.stack_bytes for binary in build.binaries)),
            "binary_sha256": build.binaries[0].binary_sha256,
        }
    return _claim(about, verdict, sources, figures)


def fits(subject: Subject, variant: str, target: str) -> Claim:
    """Claim that a variant's binary can be launched on a target."""
    held, about = subject.records["compile"], About(subject.name, variant, "fits", target)
    found = _build(held, variant, target)
    if found is None:
        return _uncompiled(subject, about)
    index, build = found
    shared = {"shared_bytes": float(max(b.shared_bytes for b in build.binaries))} if build.binaries else {}
    return _claim(about, build.fits, [(held, f"/result/builds/{index}/fits")], shared)


def gated(machine: Machine) -> Claim:
    """Claim that the gate answered as the captured device calls for."""
    gate: Gate = machine.gate.result
    exit_code = {"exit_code": float(gate.exit_code)}
    return _claim(About(ALL, ALL, "gated"), gate.verdict, [(machine.gate, "/result")], exit_code)


Barred = tuple[Verdict, list[tuple[Held, str]]]
"""Why nothing could be shown, and where that stands."""


def _barred(subject: Subject, machine: Machine, about: About, minimum: str) -> Barred | None:
    """Return why no device of this target can show anything here: too old, does not fit, or none is here."""
    variant, target = about.variant, str(about.target)
    # The gate's minimum is of CUDA devices; what another vendor's may run is up to the kernel.
    everywhere = None if is_amd(target) else minimum
    for oldest, newest in ((everywhere, None), subject.span(variant)):
        misfit = unsuited(target, target, oldest, newest)
        if misfit is not None:
            return Verdict(outcome="inapplicable", cause="capability", reason=misfit), [(machine.gate, "/result/argv")]
    built = _build(subject.records["compile"], variant, target)
    if built is not None and built[1].fits.outcome == "inapplicable":
        return built[1].fits, [(subject.records["compile"], f"/result/builds/{built[0]}/fits")]
    gate: Gate = machine.gate.result
    if gate.protects.outcome == "untested":
        return gate.protects, [(machine.gate, "/result/protects")]
    if machine.device is None or machine.device.target != target:
        here = "no device" if machine.device is None else f"{machine.device.name} ({machine.device.target})"
        reason = f"no {target} device here, only {here}" if machine.device else f"no {target} device here"
        return Verdict(outcome="untested", cause="no-device", reason=reason), [(machine.environment, "/result/devices")]
    return None


def _unmeasured(held: Held, target: str) -> Barred | None:
    """Return why a record of stage `gpu` or `timing` shows nothing of a target: nothing ran, or on another one."""
    result: Gpu | Timing = held.result
    if result.availability.outcome != "passed":
        return result.availability, [(held, "/result/availability")]
    device = result.device
    if device is None or device.target != target:
        of = "names no device" if device is None else f"is of {device.name} ({device.target})"
        reason = f"the record {of}, where an {target} device is needed"
        return Verdict(outcome="untested", cause="no-device", reason=reason), [(held, "/result/device")]
    return None


def _running(check: Check) -> Verdict:
    """Return what a check says of running: whatever it gave, it ran to its end unless its cause says otherwise."""
    if check.verdict.cause in RAN_NOT or check.verdict.outcome == "inapplicable":
        return _named(check)
    return Verdict(outcome="passed", reason="ran to its end")


def _ran_pointers(held: Held, variant: str, found: Sequence[tuple[int, Check]]) -> list[tuple[Held, str]]:
    """Point at the check that decides and at all, and at the binary that was not compiled ahead, if any, or at all."""
    result: Gpu = held.result
    other = [
        f"/result/executions/{index}"
        for index, execution in enumerate(result.executions)
        if execution.variant == variant and execution.predicted == "different"
    ]
    checked = _pointers(held, found, [_running(check) for _, check in found])
    return [*checked, (held, [*other, "/result/executions"][0])]


def _ran_verdict(checks: Sequence[Check], executed: Sequence[Execution]) -> Verdict:
    obstacles = [_named(c) for c in checks if c.verdict.cause in RAN_NOT]
    asked = [check for check in checks if check.verdict.outcome != "inapplicable"]
    if obstacles or not asked:
        return _gathered(obstacles or [_named(check) for check in checks], "")
    differing = [execution.case for execution in executed if execution.predicted == "different"]
    if differing:
        reason = f"{differing[0]}: the executed binary is not the one that the compile stage made"
        return Verdict(outcome="failed", cause="binary-differs", reason=reason)
    same = sum(execution.predicted == "identical" for execution in executed)
    said = f"{len(asked)} cases ran to their end; {same} executed binaries were compiled ahead, and are identical"
    return Verdict(outcome="passed", reason=said)


def ran(subject: Subject, variant: str, target: str) -> Claim:
    """Claim that a variant ran on the device at hand, from the binaries that were compiled ahead."""
    held, about = subject.records["gpu"], About(subject.name, variant, "ran", target)
    result: Gpu = held.result
    barred = _unmeasured(held, target)
    if barred is not None:
        return _claim(about, *barred, {})
    found = _of(result.checks, variant)
    executed = [execution for execution in result.executions if execution.variant == variant]
    verdict = _ran_verdict([check for _, check in found], executed)
    same = float(sum(execution.predicted == "identical" for execution in executed))
    ended = float(sum(check.verdict.outcome != "inapplicable" for _, check in found))
    return _claim(about, verdict, _ran_pointers(held, variant, found), {"cases": ended, "binaries_identical": same})


def _accuracy(check: Check) -> Verdict:
    """Return what a check says of accuracy: one that did not run to its end says nothing."""
    if check.verdict.cause in RAN_NOT:
        return Verdict(outcome="cantTell", cause="upstream", reason=f"{check.case} did not run to its end")
    return _named(check)


def _with_rounding(said: str, canaries: Sequence[Canary]) -> str:
    """Add to a reason how the multiplier was found to treat its operands."""
    found = list(dict.fromkeys(canary.verdict.reason for canary in canaries))
    return "; ".join([said, *found])


def _changing(checks: Sequence[Check]) -> dict[str, Number | str]:
    """Return how many cases gave the same bits again, of those that were launched again."""
    repeats = [check.repeat for check in checks if not isinstance(check.repeat, Unavailable)]
    same = sum(repeat.differing == 0 for repeat in repeats)
    return {"cases_repeatable": float(same), "cases_repeated": float(len(repeats))} if repeats else {}


def accurate(subject: Subject, variant: str, target: str) -> Claim:
    """Claim that every case was within its bound on the device, and that the precision asked for was used."""
    held, about = subject.records["gpu"], About(subject.name, variant, "accurate", target)
    result: Gpu = held.result
    barred = _unmeasured(held, target)
    if barred is not None:
        return _claim(about, *barred, {})
    found = _of(result.checks, variant)
    checks = [check for _, check in found]
    precision, _, configuration = variant.partition("/")
    swapped = [
        (index, contrast)
        for index, contrast in enumerate(result.contrasts)
        if (contrast.lesser, contrast.configuration) == (precision, configuration)
    ]
    sent = [(index, canary) for index, canary in enumerate(result.canaries) if canary.variant == variant]
    verdicts = [_accuracy(check) for check in checks]
    verdict = _gathered(verdicts, _summary(checks))
    if verdict.outcome == "passed":
        # Canary and contrast can take away what the cases show, and add nothing where they show nothing.
        others = [*(canary.verdict for _, canary in sent), *(contrast.verdict for _, contrast in swapped)]
        verdict = _gathered([verdict, *others], _with_rounding(verdict.reason, [canary for _, canary in sent]))
    sources = [
        *_pointers(held, found, verdicts),
        *((held, f"/result/canaries/{index}") for index, _ in sent),
        # A pair that is not gated decides nothing.
        *((held, f"/result/contrasts/{index}") for index, pair in swapped if pair.verdict.outcome != "inapplicable"),
    ]
    figures = {**_figures(checks), **_changing(checks)}
    return _claim(about, verdict, sources, figures)


def _timed_rows(timing: Timing, variant: str) -> list[tuple[Sweep, str, Row]]:
    return [
        (sweep, f"/result/sweeps/{s}/rows/{r}", row)
        for s, sweep in enumerate(timing.sweeps)
        for r, row in enumerate(sweep.rows)
        if row.kind == "variant" and row.entrant == variant
    ]


def _ungained(timing: Timing, variant: str) -> list[tuple[str, Verdict]]:
    """Return the speed-up gates, of the precision of which this variant is the fastest, that failed or drowned."""
    return [
        (f"/result/sweeps/{s}/speedups/{g}", gain.verdict)
        for s, sweep in enumerate(timing.sweeps)
        for g, gain in enumerate(sweep.speedups)
        if (gain.verdict.outcome == "failed" or gain.verdict.cause == "noise")
        and any(best.entrant == variant and best.precision == gain.lesser for best in sweep.best)
    ]


def _versus(sweep: Sweep, row: Row) -> Versus | None:
    return next((one for one in sweep.versus if one.entrant == row.entrant), None)


def _time_words(sweep: Sweep, row: Row) -> list[str]:
    """Return size, time, interval and mode in words, and what follows against the library; nothing without a time."""
    if isinstance(row.time_ns, Unavailable):
        return []
    mode = "replay, launch-bound by events" if row.launch_bound is True else "events"
    said = f"{sweep.size} in {interval(row.time_ns, milliseconds)} ms by {mode}"
    versus = _versus(sweep, row)
    if versus is None:
        return [said]
    if isinstance(versus.ratio, Unavailable):
        return [f"{said}, {versus.conclusion} against {versus.against}"]
    return [f"{said}, {interval(versus.ratio, ratio)} times {versus.against}: {versus.conclusion}"]


def _time_figures(sweep: Sweep, row: Row) -> dict[str, Number | str]:
    if isinstance(row.time_ns, Unavailable):
        return {}
    mode = "replay" if row.launch_bound is True else "events"
    found: dict[str, Number | str] = {f"median_ns at {sweep.size}": row.time_ns.median, f"mode at {sweep.size}": mode}
    versus = _versus(sweep, row)
    if versus is None:
        return found
    known = {} if isinstance(versus.ratio, Unavailable) else {f"ratio at {sweep.size}": versus.ratio.median}
    return {**found, **known, f"conclusion at {sweep.size}": versus.conclusion}


def timed(subject: Subject, variant: str, target: str) -> Claim:
    """Claim that a variant was timed, and that its precision won the time it should."""
    held, about = subject.records["timing"], About(subject.name, variant, "timed", target)
    result: Timing = held.result
    barred = _unmeasured(held, target)
    if barred is not None:
        return _claim(about, *barred, {})
    rows, ungained = _timed_rows(result, variant), _ungained(result, variant)
    if not rows:
        nothing = Verdict(outcome="inapplicable", cause="policy", reason="the kernel declares no size to time")
        return _claim(about, nothing, [(held, "/result/sweeps")], {})
    said = "; ".join(words for sweep, _, row in rows for words in _time_words(sweep, row))
    verdict = _gathered([*(row.verdict for _, _, row in rows), *(v for _, v in ungained)], f"median: {said}")
    pointers = [*(pointer for _, pointer, _ in rows), *(pointer for pointer, _ in ungained)]
    figures = {name: value for sweep, _, row in rows for name, value in _time_figures(sweep, row).items()}
    return _claim(about, verdict, [(held, pointer) for pointer in pointers], figures)


def _with_card(claim: Claim, device: Device | None) -> Claim:
    """Have a claim say which of several cards of a kind it is about, by the beginning of the card's salted hash."""
    if device is None or not isinstance(device.uuid_hash, str):
        return claim
    return msgspec.structs.replace(claim, reason=f"{claim.reason}, on card {short(device.uuid_hash)}")


def _device_claims(subject: Subject, machine: Machine, variant: str, target: str, minimum: str) -> Iterator[Claim]:
    barred = _barred(subject, machine, About(subject.name, variant, "ran", target), minimum)
    if barred is None:
        several = len(usable(machine.environment.result)) > 1
        checked_on, timed_on = (subject.records[stage].result.device if several else None for stage in DEVICE_STAGES)
        yield _with_card(ran(subject, variant, target), checked_on)
        yield _with_card(accurate(subject, variant, target), checked_on)
        yield _with_card(timed(subject, variant, target), timed_on)
        return
    tiers: tuple[Tier, ...] = ("ran", "accurate", "timed")
    for tier in tiers:
        yield _claim(About(subject.name, variant, tier, target), barred[0], barred[1], {})


def _toothless(teeth: Teeth) -> str | None:
    """Say why nothing is known of planted faults; None where something is."""
    if teeth.loading.outcome != "passed":
        return f"the kernel file does not load: {teeth.loading.reason}"
    return None if teeth.tiers else "no tier could look: the kernel itself passes nothing at any"


def _survived(mutants: Sequence[Mutant], total: Score) -> str:
    first = next(mutant for mutant in mutants if mutant.outcome == "survived")
    return (
        f"{total.survived} of {total.faults} survived, the first in line {first.line}: "
        f"{first.replacement} for {first.source} ({first.operator})"
    )


def _bite(teeth: Teeth, total: Score) -> Verdict:
    """Judge whether all was caught; an author who is wrong of one fault may be wrong of others that are left out."""
    if toothless := _toothless(teeth):
        return Verdict(outcome="untested", cause="upstream", reason=toothless)
    wrong, all_caught = wrong_words(teeth), f"{told(total, teeth.tiers)}; {beside(total)}"
    if total.survived:
        said = "; ".join([_survived(teeth.mutants, total), *wrong])
        return Verdict(outcome="cantTell", cause="survivors", reason=said)
    if wrong:
        return Verdict(outcome="cantTell", cause="declaration", reason="; ".join([all_caught, *wrong]))
    if not total.faults:
        nothing = f"no change in it makes a fault that could be caught{on_word(total)}"
        return Verdict(outcome="inapplicable", cause="policy", reason=nothing)
    return Verdict(outcome="passed", reason=all_caught)


def bitten(subject: Subject) -> Claim:
    """Claim that the evidence would have caught every fault that was planted; its record must be there."""
    held, about = subject.records["teeth"], About(subject.name, ALL, "teeth")
    teeth: Teeth = held.result
    total = score(teeth.mutants)
    survivors = [at for at, mutant in enumerate(teeth.mutants) if mutant.outcome == "survived"]
    pointers = ["/result/loading"] if teeth.loading.outcome != "passed" else ["/result/mutants"]
    pointers += [f"/result/mutants/{at}" for at in survivors[:1]]
    figures: dict[str, Number | str] = {
        "caught": float(total.caught),
        "survived": float(total.survived),
        "equivalent": float(total.equivalent),
        "accepted": float(total.accepted),
        "invalid": float(total.invalid),
        "baseline": float(total.baseline),
    }
    return _claim(about, _bite(teeth, total), [(held, pointer) for pointer in pointers], figures)


def derive(machine: Machine, subjects: Sequence[Subject], targets: Sequence[str], minimum: str) -> list[Claim]:
    """Return every claim: for each kernel and variant, each tier, on each configured target and the device's own.

    Of planted faults there is one for each kernel that has a record of them.
    """
    here = [] if machine.device is None else [machine.device.target]
    everywhere = list(dict.fromkeys([*targets, *here]))
    claims = [gated(machine)]
    for subject in subjects:
        declaration = subject.declaration
        for variant in [ALL] if declaration is None else [v.id for v in declaration.variants]:
            claims.append(interpreted(subject, variant))
            claims += [tier(subject, variant, target) for target in targets for tier in (compiled, fits)]
            for target in everywhere:
                claims += _device_claims(subject, machine, variant, target, minimum)
        claims += [bitten(subject)] if "teeth" in subject.records else []
    return claims

"""Hypothesis strategies for whole machines with their records: any mixture of outcomes that the stages can leave."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import records
from hypothesis import strategies as st
from records import PASSED, replaced

from assay.artifact import canonical, sha256_bytes
from assay.overall import Setting
from assay.record import (
    Build,
    Canary,
    Cause,
    Check,
    Compile,
    Conclusion,
    Contrast,
    Declaration,
    DeclaredVariant,
    Device,
    Environment,
    Estimate,
    Execution,
    Finding,
    Gate,
    Gpu,
    Interpreter,
    Mode,
    Row,
    StageName,
    Sweep,
    Teeth,
    Timing,
    Unavailable,
    Verdict,
    Versus,
)
from assay.speeds import nothing_timed
from assay.tiers import Held, Machine, Subject

TARGETS = ("sm_75", "sm_80", "sm_90")
CASES = ("first", "second")
causes = st.sampled_from(get_args(Cause))
nonfinite_errors = st.sampled_from([0.0, 1e-7, 3e-3])


@st.composite
def verdicts(draw: Any, *outcomes: str) -> Verdict:
    outcome = draw(st.sampled_from(outcomes or ("passed", "failed", "cantTell", "inapplicable", "untested")))
    if outcome == "passed":
        return PASSED
    return Verdict(outcome=outcome, cause=draw(causes), reason=draw(st.sampled_from(["because", "for no reason"])))


def card(target: str, visible: bool = True) -> Device:
    found: Device = replaced(
        records.device(f"a card of {target}"),
        target=target,
        compute_capability=f"{target[3]}.{target[4]}",
        visible=visible,
    )
    return found


@dataclass(frozen=True)
class World:
    """One machine, its kernels, and what the claims are to be about."""

    machine: Machine
    subjects: Sequence[Subject]
    targets: Sequence[str]
    minimum: str

    @property
    def device(self) -> Device | None:
        return self.machine.device

    @property
    def setting(self) -> Setting:
        return Setting(self.machine.environment.result, self.machine.gate.result, ["2026-11-29", "2026-12-01"])

    def held(self) -> list[Held]:
        """Return every record."""
        own = [held for subject in self.subjects for held in subject.records.values()]
        return [self.machine.environment, self.machine.gate, *own]


@st.composite
def hold(draw: Any, path: str, result: Any) -> Held:
    stale = draw(st.integers(0, 5)) == 0
    changed = "assay/trial.py" if stale else ""
    return Held(path, sha256_bytes(canonical(result)), result, "stale" if stale else "current", changed)


MOSTLY_PASSED = ("passed", "passed", "passed", "passed")


@st.composite
def environments(draw: Any) -> Environment:
    """Usually one card that kernels run on."""
    here: Environment = records.environment(records.device())
    cards = st.builds(card, st.sampled_from([*TARGETS, "sm_86"]), st.booleans())
    none = Unavailable(reason="NVML says: Not Supported")
    usual = st.sampled_from(["sm_90", "sm_80"]).map(lambda target: [card(target)])
    found = draw(st.one_of(usual, usual, usual, st.lists(cards, max_size=2), st.just(none), st.none()))
    without: Environment = records.environment(None)
    return without if found is None else replaced(here, devices=found)


@st.composite
def gates(draw: Any) -> Gate:
    shut = st.just(records.NO_DRIVER) | verdicts("untested", "inapplicable")
    protects = draw(st.one_of(st.just(PASSED), st.just(PASSED), st.just(PASSED), shut))
    gate: Gate = replaced(records.gate(None), verdict=draw(verdicts("passed", "failed")), protects=protects)
    return gate


@st.composite
def declarations(draw: Any) -> Declaration:
    needs = st.sampled_from([None, None, "8.0", "9.0"])
    variants = [
        DeclaredVariant(
            id=f"{p}/{c}",
            precision=p,
            configuration=c,
            minimum_capability=draw(needs),
            maximum_capability=draw(needs),
        )
        for p in draw(st.sampled_from([("ieee", "tf32"), ("f32",)]))
        for c in draw(st.sampled_from([("small",), ("small", "large")]))
    ]
    return Declaration(
        title="A kernel", variants=variants, cases=list(CASES), timed=["big"], contrasts=[("ieee", "tf32")]
    )


@st.composite
def checks(draw: Any, declared: Declaration, *outcomes: str) -> list[Check]:
    return [
        Check(
            variant=v.id,
            case=case,
            seeds=[1],
            verdict=draw(verdicts(*outcomes)),
            comparisons=draw(st.lists(st.builds(records.comparison, nonfinite_errors), max_size=2)),
            repeat=draw(st.sampled_from([records.ONCE, records.SAME_BITS])),
        )
        for v in declared.variants
        for case in CASES
        if draw(st.integers(0, 9))
    ]


@st.composite
def canaries(draw: Any, declared: Declaration) -> list[Canary]:
    made = records.canaries(records.MATMUL, on_device=True)[:2]
    return [
        replaced(one, variant=v.id, verdict=draw(verdicts("passed", "passed", "passed", "failed", "inapplicable")))
        for v in declared.variants
        for one in made
    ]


OF_A_CHECK = (*MOSTLY_PASSED, *MOSTLY_PASSED, "failed", "inapplicable", "cantTell")
LOADING = (*MOSTLY_PASSED, "failed")


@st.composite
def interpreters(draw: Any, declared: Declaration) -> Interpreter:
    loading = draw(verdicts(*LOADING))
    if loading.outcome != "passed":
        declaration, found = None, []
    else:
        declaration, found = declared, draw(checks(declared, *OF_A_CHECK))
    return Interpreter(
        loading=loading,
        declaration=declaration,
        checks=found,
        canaries=[],
        contrasts=[],
        precision_honoured=Unavailable(reason="no"),
    )


@st.composite
def builds(draw: Any, variant: DeclaredVariant, target: str) -> Build:
    build = records.build(variant, target, CASES[0])
    compiled = draw(verdicts(*MOSTLY_PASSED, "failed", "inapplicable"))
    fits = (
        draw(verdicts(*MOSTLY_PASSED, "inapplicable")) if compiled.outcome == "passed" else draw(verdicts("untested"))
    )
    left = build.binaries if compiled.outcome == "passed" else []
    found: Build = replaced(build, compiled=compiled, fits=fits, binaries=left)
    return found


@st.composite
def compiles(draw: Any, declared: Declaration, targets: Sequence[str]) -> Compile:
    loading = draw(verdicts(*LOADING))
    if loading.outcome != "passed":
        return Compile(loading=loading, declaration=None, builds=[], findings=[])
    made = [draw(builds(v, t)) for t in targets for v in declared.variants if draw(st.integers(0, 9))]
    pairs = dict.fromkeys((build.variant.split("/")[0], build.target) for build in made)
    findings = [
        Finding(precision=p, target=t, statement=f"{p} on {t}", verdict=draw(verdicts("passed", "passed", "failed")))
        for p, t in pairs
    ]
    return Compile(loading=loading, declaration=declared, builds=made, findings=findings)


@st.composite
def gpus(draw: Any, declared: Declaration, gate: Gate, device: Device | None) -> Gpu:
    if gate.protects.outcome != "passed" or device is None:
        return replaced(records.gpu(records.MATMUL, None), availability=draw(verdicts("untested", "inapplicable")))  # type: ignore[no-any-return]
    availability = draw(verdicts(*LOADING))
    if availability.outcome != "passed":
        return replaced(records.gpu(records.MATMUL, None), availability=availability)  # type: ignore[no-any-return]
    # Sometimes the record is of another machine than the environment.
    used = draw(st.sampled_from([device, device, device, card("sm_90")]))
    found = draw(checks(declared, *OF_A_CHECK))
    predictions = st.sampled_from(["identical", "identical", "identical", "different", "not-compiled-ahead"])
    return Gpu(
        availability=availability,
        device=used,
        declaration=declared,
        checks=found,
        canaries=draw(canaries(declared)),
        contrasts=[
            replaced(c, verdict=draw(verdicts("passed", "failed", "inapplicable"))) for c in contrasts(declared)
        ],
        executions=[
            Execution(variant=c.variant, case=c.case, binary_sha256=["a" * 64], predicted=draw(predictions))
            for c in found
            if c.verdict.outcome == "passed"
        ],
    )


def contrasts(declared: Declaration) -> list[Contrast]:
    made = records.contrasts(records.MATMUL, 594.0)[0]
    configurations = dict.fromkeys(v.configuration for v in declared.variants if v.precision == "tf32")
    return [replaced(made, configuration=configuration, case=CASES[0]) for configuration in configurations]


@st.composite
def rows(draw: Any, variant: DeclaredVariant) -> Row:
    """Return a timed entrant, launch-bound or not, or one that says why it has no time."""
    host = draw(st.sampled_from([2e3, 2e3, 1e5]))
    row: Row = records.row(variant.id, "variant", variant.precision, draw(st.sampled_from([4e5, 5e5])), host)
    verdict = draw(verdicts(*MOSTLY_PASSED, "failed", "cantTell", "untested", "inapplicable"))
    nothing = Unavailable(reason="not timed")
    derived = ("events", "replay", "launch_bound", "time_ns", "drift", "rate")
    without = {} if verdict.outcome == "passed" else {**dict.fromkeys(derived, nothing), "shares": []}
    found: Row = replaced(row, verdict=verdict, **without)
    return found


@st.composite
def versus(draw: Any, row: Row) -> Versus:
    known = Estimate(low=0.97, median=0.98, high=0.99)
    return Versus(
        entrant=row.entrant,
        against="cuBLAS",
        mode=draw(st.sampled_from(get_args(Mode))),
        ratio=draw(st.sampled_from([known, known, Unavailable(reason="the library failed")])),
        conclusion=draw(st.sampled_from(get_args(Conclusion))),
        reason="as the world has it",
    )


@st.composite
def timings(draw: Any, declared: Declaration, gpu: Gpu) -> Timing:
    if gpu.availability.outcome != "passed":
        return nothing_timed(draw(verdicts("untested")))
    found = [draw(rows(v)) for v in declared.variants]
    made = records.timing(records.MATMUL, gpu.device)
    sweep = made.sweeps[0]
    best = [replaced(sweep.best[0], precision=p, entrant=f"{p}/small") for p in ("ieee", "tf32")]
    gains = [replaced(gain, verdict=draw(verdicts("passed", "failed", "cantTell"))) for gain in sweep.speedups]
    compared = [draw(versus(row)) for row in found if row.verdict.outcome == "passed" and draw(st.booleans())]
    changed: Sweep = replaced(sweep, rows=found, best=best, speedups=gains, versus=compared)
    timing: Timing = replaced(made, sweeps=[changed])
    return timing


@st.composite
def teeth(draw: Any) -> Teeth:
    mutants = draw(st.lists(st.sampled_from(records.teeth().mutants), max_size=6))
    loading = draw(verdicts(*LOADING))
    if loading.outcome != "passed":
        return Teeth(loading=loading, device=None, tiers=[], mutants=[])
    looked = draw(st.sampled_from([["interpreter", "compile"], ["compile"], []]))
    return Teeth(loading=loading, device=None, tiers=looked, mutants=mutants)


@st.composite
def subjects(draw: Any, name: str, machine: Machine, targets: Sequence[str]) -> Subject:
    declared = draw(declarations())
    gpu = draw(gpus(declared, machine.gate.result, machine.device))
    results: dict[StageName, Any] = {
        "interpreter": draw(interpreters(declared)),
        "compile": draw(compiles(declared, targets)),
        "gpu": gpu,
        "timing": draw(timings(declared, gpu)),
    }
    # A kernel need not have a record of planted faults.
    results |= {"teeth": draw(teeth())} if draw(st.booleans()) else {}
    return Subject(name, {s: draw(hold(f"results/{name}/{s}.json", result)) for s, result in results.items()})


@st.composite
def worlds(draw: Any) -> World:
    machine = Machine(
        draw(hold("results/environment.json", draw(environments()))), draw(hold("results/gate.json", draw(gates())))
    )
    targets = draw(st.lists(st.sampled_from(TARGETS), min_size=1, unique=True))
    names = ["matmul", "softmax"][: draw(st.integers(1, 2))]
    found = [draw(subjects(name, machine, targets)) for name in names]
    return World(machine, found, targets, draw(st.sampled_from(["8.0", "8.0", "7.0", "9.0"])))

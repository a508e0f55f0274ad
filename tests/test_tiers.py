"""Claims from records. Laws over any machine and any mixture of outcomes; then each cause by an example of its own."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import records
from hypothesis import HealthCheck, given, settings
from records import MATMUL, replaced
from worlds import World, card, worlds

from assay.artifact import canonical, sha256_bytes
from assay.record import (
    Cause,
    Claim,
    Compile,
    Estimate,
    NonFinite,
    Outcome,
    StageName,
    Teeth,
    Tier,
    Unavailable,
    Verdict,
    as_float,
)
from assay.rounding import PROBES, canary
from assay.targets import capability_of, parse_capability
from assay.tiers import ALL, Held, Machine, Subject, derive

DEVICE_TIERS = ("ran", "accurate", "timed")

laws = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def claims_of(world: World) -> list[Claim]:
    return derive(world.machine, world.subjects, world.targets, world.minimum)


def of_device(claims: list[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.tier in DEVICE_TIERS]


@laws
@given(worlds())
def test_every_question_is_answered_once(world: World) -> None:
    here = [] if world.device is None else [world.device.target]
    expected: set[tuple[str, str, str, str | None]] = {(ALL, ALL, "gated", None)}
    for subject in world.subjects:
        declared = subject.declaration
        for variant in [ALL] if declared is None else [v.id for v in declared.variants]:
            expected.add((subject.name, variant, "interpreted", None))
            expected |= {(subject.name, variant, tier, t) for tier in ("compiled", "fits") for t in world.targets}
            expected |= {(subject.name, variant, tier, t) for tier in DEVICE_TIERS for t in [*world.targets, *here]}
        expected |= {(subject.name, ALL, "teeth", None)} if "teeth" in subject.records else set()
    found = [(c.kernel, c.variant, c.tier, c.target) for c in claims_of(world)]
    assert len(found) == len(set(found))
    assert set(found) == expected


@laws
@given(worlds())
def test_what_passed_has_evidence_and_every_link_leads_to_a_place_in_a_record(world: World) -> None:
    known = {held.path: held for held in world.held()}
    for claim in claims_of(world):
        assert claim.links or claim.outcome != "passed"
        for link in claim.links:
            held = known[link.artifact]
            assert link.sha256 == held.sha256
            follow({"result": msgspec.to_builtins(held.result)}, link.pointer)


def follow(tree: Any, pointer: str) -> Any:
    """Return what a JSON pointer leads to; LookupError where that is nothing."""
    for part in pointer.split("/")[1:]:
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    return tree


@laws
@given(worlds())
def test_a_claim_has_a_cause_unless_it_passed_and_always_a_reason(world: World) -> None:
    for claim in claims_of(world):
        assert (claim.cause is None) == (claim.outcome == "passed")
        assert claim.reason
        assert claim.sentence


@laws
@given(worlds())
def test_without_a_device_of_the_target_nothing_is_shown_on_it(world: World) -> None:
    for claim in of_device(claims_of(world)):
        if world.device is None or world.device.target != claim.target:
            assert claim.outcome in ("untested", "inapplicable")


@laws
@given(worlds())
def test_nothing_passes_on_another_target_than_that_of_the_device_that_was_measured(world: World) -> None:
    subjects = {subject.name: subject for subject in world.subjects}
    for claim in of_device(claims_of(world)):
        if claim.outcome == "passed":
            measured = subjects[claim.kernel].records["timing" if claim.tier == "timed" else "gpu"].result.device
            assert measured.target == claim.target


@laws
@given(worlds())
def test_behind_a_shut_gate_nothing_is_shown(world: World) -> None:
    if world.machine.gate.result.protects.outcome != "passed":
        assert {claim.outcome for claim in of_device(claims_of(world))} <= {"untested", "inapplicable"}


@laws
@given(worlds())
def test_a_check_that_did_not_pass_leaves_no_passed_claim_of_its_values(world: World) -> None:
    stages: dict[Tier, StageName] = {"interpreted": "interpreter", "accurate": "gpu"}
    subjects = {subject.name: subject for subject in world.subjects}
    for claim in claims_of(world):
        if claim.tier in stages:
            result = subjects[claim.kernel].records[stages[claim.tier]].result
            outcomes = [check.verdict.outcome for check in result.checks if check.variant == claim.variant]
            if claim.outcome == "passed":
                assert set(outcomes) <= {"passed", "inapplicable"}
                assert "passed" in outcomes
            if "failed" in outcomes and claim.outcome != "untested" and claim.tier == "interpreted":
                assert claim.outcome == "failed"


@laws
@given(worlds())
def test_a_target_outside_a_variants_span_is_inapplicable_whatever_the_records_say(world: World) -> None:
    subjects = {subject.name: subject for subject in world.subjects}
    for claim in of_device(claims_of(world)):
        oldest, newest = subjects[claim.kernel].span(claim.variant)
        least = max(map(parse_capability, (world.minimum, oldest or world.minimum)))
        here = capability_of(str(claim.target))
        if here is None:
            # What the gate asks for is of CUDA devices; a kernel that asks for the same asks for one.
            asks = oldest is not None or newest is not None
            assert (claim.cause == "capability") == asks
            continue
        if here < least or (newest is not None and here > parse_capability(newest)):
            assert (claim.outcome, claim.cause) == ("inapplicable", "capability")


@laws
@given(worlds())
def test_a_claim_is_as_fresh_as_the_records_that_it_rests_on(world: World) -> None:
    known = {held.path: held for held in world.held()}
    for claim in claims_of(world):
        stale = any(known[link.artifact].freshness == "stale" for link in claim.links)
        assert claim.freshness == ("stale" if stale else "current")
        assert claim.reason.endswith("(stale: assay/trial.py has changed since)") == stale


@laws
@given(worlds())
def test_deriving_twice_gives_the_same_bytes(world: World) -> None:
    assert canonical(claims_of(world)) == canonical(claims_of(world))


# by example


def held(path: str, result: Any, changed: str = "") -> Held:
    return Held(path, sha256_bytes(canonical(result)), result, "stale" if changed else "current", changed)


class Here:
    """A machine with an H200 on which everything passed; what differs is given by stage."""

    def __init__(self, **results: Any) -> None:
        device = records.device()
        usual = {
            "environment": records.environment(device),
            "gate": records.gate(device),
            "interpreter": records.interpreter(MATMUL),
            "compile": records.compilation(MATMUL, ("sm_75", "sm_90")),
            "gpu": records.gpu(MATMUL, device),
            "timing": records.timing(MATMUL, device),
        } | results
        self.machine = Machine(held("environment.json", usual["environment"]), held("gate.json", usual["gate"]))
        stages: tuple[StageName, ...] = ("interpreter", "compile", "gpu", "timing", "teeth")
        there = [stage for stage in stages if stage in usual]
        self.subject = Subject("matmul", {stage: held(f"matmul/{stage}.json", usual[stage]) for stage in there})

    def claim(self, tier: Tier, target: str | None = None, variant: str = "tf32/64x64x32") -> Claim:
        claims = derive(self.machine, [self.subject], ("sm_75", "sm_90"), "8.0")
        (found,) = [c for c in claims if (c.tier, c.target, c.variant) == (tier, target, variant)]
        return found


def verdict(cause: Cause, outcome: Outcome = "failed") -> Verdict:
    return Verdict(outcome=outcome, cause=cause, reason=f"it was {cause}")


def gpu_with(**changes: Any) -> Any:
    return replaced(records.gpu(MATMUL, records.device()), **changes)


def checked(cause: Cause, outcome: Outcome = "failed", case: int = 0) -> list[Any]:
    """Return the device's checks, of which one of tf32/64x64x32 came out otherwise."""
    checks = records.gpu(MATMUL, records.device()).checks
    at = [index for index, check in enumerate(checks) if check.variant == "tf32/64x64x32"][case]
    return [replaced(c, verdict=verdict(cause, outcome)) if i == at else c for i, c in enumerate(checks)]


def unrounded() -> list[Any]:
    """Return canaries of tf32 that came out as they went in."""
    found = records.gpu(MATMUL, records.device()).canaries
    return [canary(one.variant, one.operand, list(PROBES), gated=True) for one in found]


def all_checked(cause: Cause, outcome: Outcome) -> list[Any]:
    """Return the device's checks, all of which came out otherwise."""
    return [replaced(c, verdict=verdict(cause, outcome)) for c in records.gpu(MATMUL, records.device()).checks]


def executions(predicted: str) -> list[Any]:
    return [replaced(e, predicted=predicted) for e in records.gpu(MATMUL, records.device()).executions]


def compiled_as(**changes: Any) -> Compile:
    found = records.compilation(MATMUL, ("sm_75", "sm_90"))
    builds = [
        replaced(b, **changes) if (b.variant, b.target) == ("tf32/64x64x32", "sm_90") else b for b in found.builds
    ]
    made: Compile = replaced(found, builds=builds)
    return made


def refused_case(target: str) -> Compile:
    """Return builds of which one more, of a later case for a target, could not be made."""
    found = compiled_as()
    build = next(b for b in found.builds if (b.variant, b.target) == ("tf32/64x64x32", target))
    late = replaced(build, case="narrow-33x8", compiled=verdict("compile-error"), binaries=[])
    made: Compile = replaced(found, builds=[*found.builds, late])
    return made


def timed_as(**changes: Any) -> Any:
    timing = records.timing(MATMUL, records.device())
    return replaced(timing, sweeps=[replaced(timing.sweeps[0], **changes)])


def slower(cause: Cause = "speed", outcome: Outcome = "failed") -> Any:
    """Return a sweep in which tf32 did not win; its best is 128x64x64 or 64x64x32, whichever was faster."""
    sweep = records.timing(MATMUL, records.device()).sweeps[0]
    best = [replaced(b, entrant=f"{b.precision}/64x64x32") for b in sweep.best]
    return timed_as(best=best, speedups=[replaced(g, verdict=verdict(cause, outcome)) for g in sweep.speedups])


def row_as(outcome: Outcome, cause: Cause) -> Any:
    """Return a sweep in which tf32/64x64x32 has no time, for this cause."""
    nothing = Unavailable(reason=f"it was {cause}")
    changes = {"verdict": verdict(cause, outcome), "events": nothing, "replay": nothing, "time_ns": nothing}
    rows = records.timing(MATMUL, records.device()).sweeps[0].rows
    return timed_as(rows=[replaced(r, **changes) if r.entrant == "tf32/64x64x32" else r for r in rows])


def swapped() -> Any:
    return gpu_with(contrasts=[replaced(c, verdict=verdict("precision")) for c in records.contrasts(MATMUL, 1.0)])


WITHOUT = {"environment": records.environment(None), "gate": records.gate(None)}
PATHS: list[tuple[str, Callable[[], Here], Tier, str | None, Outcome, Cause | None, str]] = [
    ("interpreted", Here, "interpreted", None, "passed", None, "2 of 2 cases passed, largest error 5.5e-08"),
    ("compiled", Here, "compiled", "sm_90", "passed", None, "within the bound; tf32 on sm_90 takes the tensor cores"),
    ("fits", Here, "fits", "sm_90", "passed", None, "73728 of 232448 B"),
    ("ran", Here, "ran", "sm_90", "passed", None, "2 cases ran to their end; 2 executed binaries were compiled ahead"),
    ("accurate", Here, "accurate", "sm_90", "passed", None, "2 of 2 cases passed, largest error 0.00081"),
    ("timed", Here, "timed", "sm_90", "passed", None, "median: 2048x2048x2048 in "),
    ("too old", Here, "ran", "sm_75", "inapplicable", "capability", "sm_75 is 7.5; 8.0 or newer is needed"),
    ("too large", Here, "fits", "sm_75", "inapplicable", "does-not-fit", "kernel needs 73728 B"),
    (
        "too large for this device",
        lambda: Here(compile=compiled_as(fits=verdict("does-not-fit", "inapplicable"))),
        "timed",
        "sm_90",
        "inapplicable",
        "does-not-fit",
        "it was does-not-fit",
    ),
    ("no driver", lambda: Here(**WITHOUT), "ran", "sm_90", "untested", "no-driver", "no NVIDIA driver: libcuda.so.1"),
    (
        "no device",
        lambda: Here(environment=records.environment(None)),
        "accurate",
        "sm_90",
        "untested",
        "no-device",
        "no sm_90 device here",
    ),
    (
        "another device",
        lambda: Here(environment=replaced(records.environment(records.device()), devices=[card("sm_80")])),
        "accurate",
        "sm_90",
        "untested",
        "no-device",
        "no sm_90 device here, only a card of sm_80 (sm_80)",
    ),
    (
        "a record of another device",
        lambda: Here(gpu=gpu_with(device=card("sm_80"))),
        "ran",
        "sm_90",
        "untested",
        "no-device",
        "the record is of a card of sm_80 (sm_80), where an sm_90 device is needed",
    ),
    (
        "another binary",
        lambda: Here(gpu=gpu_with(executions=executions("different"))),
        "ran",
        "sm_90",
        "failed",
        "binary-differs",
        "aligned-256x256x1024: the executed binary is not the one that the compile stage made",
    ),
    (
        "no binary ahead",
        lambda: Here(gpu=gpu_with(executions=executions("not-compiled-ahead"))),
        "ran",
        "sm_90",
        "passed",
        None,
        "2 cases ran to their end; 0 executed binaries",
    ),
    ("precision not used", lambda: Here(gpu=swapped()), "accurate", "sm_90", "failed", "precision", "it was precision"),
    ("not faster", lambda: Here(timing=slower()), "timed", "sm_90", "failed", "speed", "it was speed"),
    (
        "faster or not, it cannot be told",
        lambda: Here(timing=slower("noise", "cantTell")),
        "timed",
        "sm_90",
        "cantTell",
        "noise",
        "it was noise",
    ),
    (
        "nothing to be faster than",
        lambda: Here(timing=slower("not-measured", "cantTell")),
        "timed",
        "sm_90",
        "passed",
        None,
        "median: 2048x2048x2048 in ",
    ),
    (
        "too few good rounds",
        lambda: Here(timing=row_as("cantTell", "throttled")),
        "timed",
        "sm_90",
        "cantTell",
        "throttled",
        "it was throttled",
    ),
    (
        "faster than can be",
        lambda: Here(timing=row_as("failed", "over-ceiling")),
        "timed",
        "sm_90",
        "failed",
        "over-ceiling",
        "it was over-ceiling",
    ),
    (
        "left out of the search",
        lambda: Here(timing=row_as("inapplicable", "pruned")),
        "timed",
        "sm_90",
        "inapplicable",
        "pruned",
        "it was pruned",
    ),
    (
        "wrong value",
        lambda: Here(gpu=gpu_with(checks=checked("wrong-value", case=1))),
        "accurate",
        "sm_90",
        "failed",
        "wrong-value",
        "ragged-197x131x77: it was wrong-value",
    ),
    (
        "a wrong value ran",
        lambda: Here(gpu=gpu_with(checks=checked("wrong-value"))),
        "ran",
        "sm_90",
        "passed",
        None,
        "2 cases ran to their end",
    ),
    ("crash", lambda: Here(gpu=gpu_with(checks=checked("crash"))), "ran", "sm_90", "failed", "crash", "it was crash"),
    (
        "crash says nothing of values",
        lambda: Here(gpu=gpu_with(checks=checked("crash"))),
        "accurate",
        "sm_90",
        "cantTell",
        "upstream",
        "aligned-256x256x1024 did not run to its end",
    ),
    (
        "one case exempt",
        lambda: Here(gpu=gpu_with(checks=checked("policy", "inapplicable"))),
        "ran",
        "sm_90",
        "passed",
        None,
        "1 cases ran to their end",
    ),
    (
        "another multiplier",
        lambda: Here(gpu=gpu_with(canaries=unrounded())),
        "accurate",
        "sm_90",
        "failed",
        "rounding",
        "operands are kept exactly, which is not what tf32 does",
    ),
    (
        "unsupported precision",
        lambda: Here(gpu=gpu_with(checks=all_checked("unsupported-precision", "inapplicable"))),
        "ran",
        "sm_90",
        "inapplicable",
        "unsupported-precision",
        "it was unsupported-precision",
    ),
    (
        "does not load on the device",
        lambda: Here(gpu=replaced(records.gpu(MATMUL, None), availability=verdict("import-error"))),
        "ran",
        "sm_90",
        "failed",
        "import-error",
        "it was import-error",
    ),
    (
        "does not compile",
        lambda: Here(compile=compiled_as(compiled=verdict("compile-error"), binaries=[])),
        "compiled",
        "sm_90",
        "failed",
        "compile-error",
        "it was compile-error",
    ),
    (
        "does not compile in another case",
        lambda: Here(compile=refused_case("sm_90")),
        "compiled",
        "sm_90",
        "failed",
        "compile-error",
        "narrow-33x8: it was compile-error",
    ),
    (
        "compiles here, and for another target not in another case",
        lambda: Here(compile=refused_case("sm_75")),
        "compiled",
        "sm_90",
        "passed",
        None,
        "tf32 on sm_90 takes the tensor cores",
    ),
    (
        "breaks its promise",
        lambda: Here(
            compile=replaced(
                records.compilation(MATMUL, ("sm_75", "sm_90")),
                findings=[replaced(records.finding("tf32", "sm_90"), verdict=verdict("instructions"))],
            )
        ),
        "compiled",
        "sm_90",
        "failed",
        "instructions",
        "it was instructions",
    ),
    (
        "not compiled for this",
        lambda: Here(compile=records.compilation(MATMUL, ("sm_75",))),
        "fits",
        "sm_90",
        "untested",
        "not-measured",
        "it was not compiled for this target",
    ),
    (
        "nothing to time",
        lambda: Here(timing=timed_as(rows=[])),
        "timed",
        "sm_90",
        "inapplicable",
        "policy",
        "no size to time",
    ),
    (
        "gate crashed",
        lambda: Here(gate=replaced(records.gate(None), protects=verdict("crash", "untested"))),
        "timed",
        "sm_90",
        "untested",
        "crash",
        "it was crash",
    ),
]


@pytest.mark.parametrize(
    ("name", "here", "tier", "target", "outcome", "cause", "reason"), PATHS, ids=[path[0] for path in PATHS]
)
def test_each_way_to_come_out(
    name: str,
    here: Callable[[], Here],
    tier: Tier,
    target: str | None,
    outcome: Outcome,
    cause: Cause | None,
    reason: str,
) -> None:
    claim = here().claim(tier, target)
    assert (claim.outcome, claim.cause) == (outcome, cause)
    assert reason in claim.reason


def times_as(**changes: Any) -> Claim:
    """Return the claim about the time of tf32/64x64x32 whose comparison with its library has other values."""
    sweep = records.timing(MATMUL, records.device()).sweeps[0]
    time = Estimate(low=49900.0, median=50500.0, high=50600.0)
    rows = [replaced(r, time_ns=time) if r.entrant == "tf32/64x64x32" else r for r in sweep.rows]
    known = next(one for one in sweep.versus if one.entrant == "tf32/64x64x32")
    return Here(timing=timed_as(rows=rows, versus=[replaced(known, **changes)])).claim("timed", "sm_90")


def test_a_time_is_claimed_with_interval_mode_and_what_follows_against_the_library() -> None:
    ratio = Estimate(low=0.9681, median=0.97, high=0.9702)
    claim = times_as(ratio=ratio, conclusion="faster", mode="events")
    assert claim.reason == (
        "median: 2048x2048x2048 in 0.05050 (0.04990 to 0.05060) ms by events, "
        "0.9700 (0.9681 to 0.9702) times cuBLAS tf32: faster"
    )
    assert claim.figures == {
        "median_ns at 2048x2048x2048": 50500.0,
        "mode at 2048x2048x2048": "events",
        "ratio at 2048x2048x2048": 0.97,
        "conclusion at 2048x2048x2048": "faster",
    }


def test_without_a_ratio_the_conclusion_is_claimed_alone() -> None:
    claim = times_as(ratio=Unavailable(reason="the library failed"), conclusion="inconclusive")
    assert claim.reason.endswith(" ms by events, inconclusive against cuBLAS tf32")
    assert "ratio at 2048x2048x2048" not in claim.figures


def test_a_launch_bound_time_is_claimed_by_replay() -> None:
    sweep = records.timing(MATMUL, records.device()).sweeps[0]
    rows = [replaced(row, launch_bound=True) for row in sweep.rows]
    claim = Here(timing=timed_as(rows=rows, versus=[])).claim("timed", "sm_90")
    assert claim.reason.endswith(" ms by replay, launch-bound by events")
    assert claim.figures["mode at 2048x2048x2048"] == "replay"


def test_at_one_size_timed_and_left_out_at_another_is_timed() -> None:
    whole, part = records.timing(MATMUL, records.device()), row_as("inapplicable", "pruned")
    other = replaced(part.sweeps[0], size="other")
    claim = Here(timing=replaced(whole, sweeps=[other, *whole.sweeps])).claim("timed", "sm_90")
    assert claim.outcome == "passed"
    assert "other" not in claim.reason


def teeth_with(*outcomes: str, **changes: Any) -> Teeth:
    """Return a record of planted faults that met these fates."""
    of = {mutant.outcome: mutant for mutant in records.teeth().mutants}
    changes = {"acceptances": [], **changes}
    found: Teeth = replaced(records.teeth(), mutants=[of[outcome] for outcome in outcomes], **changes)  # type: ignore[index]
    return found


FATES = ("caught", "survived", "equivalent", "accepted", "invalid")
BITTEN: list[tuple[str, Teeth, Outcome, Cause | None, str]] = [
    ("all caught", teeth_with("caught", "equivalent", "invalid"), "passed", None, "1 of 1 planted faults caught"),
    (
        "one accepted",
        teeth_with("caught", "accepted", acceptances=[records.acceptance("change-initial", 1)]),
        "passed",
        None,
        ", 1 accepted as equivalent on the author's word;",
    ),
    (
        "one word that is wrong",
        teeth_with("caught", acceptances=[records.acceptance("wrong-axis", 0)]),
        "cantTell",
        "declaration",
        "the kernel file accepts wrong-axis in 'x = load(x_ptr, wrong-axis=1)', where no such fault is planted",
    ),
    (
        "one survived, and a word on another that is wrong",
        teeth_with("survived", acceptances=[records.acceptance("drop-mask", 9)]),
        "cantTell",
        "survivors",
        "where no such fault is planted",
    ),
    (
        "one survived",
        teeth_with("caught", "survived"),
        "cantTell",
        "survivors",
        "1 of 2 survived, the first in line 11: ",
    ),
    (
        "nothing to catch",
        teeth_with("equivalent", "invalid"),
        "inapplicable",
        "policy",
        "no change in it makes a fault",
    ),
    ("no tier", teeth_with("survived", tiers=[]), "untested", "upstream", "no tier could look"),
    (
        "not loaded",
        teeth_with(loading=verdict("import-error"), tiers=[]),
        "untested",
        "upstream",
        "the kernel file does not load: it was import-error",
    ),
]


@pytest.mark.parametrize(("name", "teeth", "outcome", "cause", "reason"), BITTEN, ids=[row[0] for row in BITTEN])
def test_a_survivor_is_a_doubt_and_no_failure(
    name: str, teeth: Teeth, outcome: Outcome, cause: Cause | None, reason: str
) -> None:
    claim = Here(teeth=teeth).claim("teeth", None, ALL)
    assert (claim.outcome, claim.cause) == (outcome, cause)
    assert reason in claim.reason
    assert claim.sentence == "every planted fault in matmul that is not equivalent is caught"
    assert sum(claim.figures[fate] for fate in FATES) == len(teeth.mutants)  # type: ignore[misc]


def test_the_first_survivor_is_the_evidence_of_a_doubt() -> None:
    claim = Here(teeth=teeth_with("caught", "survived", "survived")).claim("teeth", None, ALL)
    assert [link.pointer for link in claim.links] == ["/result/mutants", "/result/mutants/1"]


def test_a_file_that_does_not_load_fails_once_and_leaves_the_rest_untested() -> None:
    broken = verdict("import-error")
    here = Here(
        interpreter=replaced(records.interpreter(MATMUL), loading=broken, declaration=None, checks=[], contrasts=[]),
        compile=Compile(loading=broken, declaration=None, builds=[], findings=[]),
        **WITHOUT,
        gpu=records.gpu(MATMUL, None),
        timing=records.timing(MATMUL, None),
    )
    claims = [c for c in derive(here.machine, [here.subject], ("sm_90",), "8.0") if c.tier != "gated"]
    assert [(c.variant, c.tier, c.outcome, c.cause) for c in claims] == [
        (ALL, "interpreted", "failed", "import-error"),
        (ALL, "compiled", "untested", "upstream"),
        (ALL, "fits", "untested", "upstream"),
        (ALL, "ran", "untested", "no-driver"),
        (ALL, "accurate", "untested", "no-driver"),
        (ALL, "timed", "untested", "no-driver"),
    ]
    assert claims[1].reason == "the kernel file does not load: it was import-error"


def test_a_file_that_loads_only_here_fails_where_it_does_not() -> None:
    broken = Compile(loading=verdict("import-error"), declaration=None, builds=[], findings=[])
    claim = Here(compile=broken).claim("compiled", "sm_90")
    assert (claim.outcome, claim.cause, claim.links[0].pointer) == ("failed", "import-error", "/result/loading")


def test_a_gate_that_refuses_as_it_should_has_passed_and_one_that_disagrees_has_failed() -> None:
    refused = Here(**WITHOUT).claim("gated", None, ALL)
    assert (refused.outcome, refused.figures, refused.kernel) == ("passed", {"exit_code": 1.0}, ALL)
    gate = replaced(records.gate(None), verdict=verdict("gate-disagrees"))
    assert Here(**{**WITHOUT, "gate": gate}).claim("gated", None, ALL).cause == "gate-disagrees"


def pointers(claim: Claim) -> list[str]:
    return [link.pointer for link in claim.links]


def test_a_claim_links_the_least_exact_check_where_all_passed_and_all_of_them() -> None:
    here = Here()
    own = [
        index for index, c in enumerate(records.gpu(MATMUL, records.device()).checks) if c.variant.startswith("tf32")
    ]
    # The second case has the larger error; the canaries are of both operands, and one pair of precisions is gated.
    assert pointers(here.claim("accurate", "sm_90"))[:2] == [f"/result/checks/{own[1]}", "/result/checks"]
    assert pointers(here.claim("accurate", "sm_90"))[2:] == [
        "/result/canaries/4",
        "/result/canaries/5",
        "/result/contrasts/0",
    ]
    assert pointers(here.claim("interpreted")) == [f"/result/checks/{own[1]}", "/result/checks"]
    assert pointers(here.claim("ran", "sm_90"))[1:] == ["/result/checks", "/result/executions"]


@pytest.mark.parametrize("case", [0, 1])
def test_a_claim_links_the_check_that_failed(case: int) -> None:
    checks = checked("wrong-value", case=case)
    (failed,) = [index for index, check in enumerate(checks) if check.verdict.outcome == "failed"]
    claim = Here(gpu=gpu_with(checks=checks)).claim("accurate", "sm_90")
    assert pointers(claim)[:2] == [f"/result/checks/{failed}", "/result/checks"]


def test_a_claim_links_the_binary_that_was_not_the_one_compiled_ahead() -> None:
    found = executions("identical")
    own = [index for index, execution in enumerate(found) if execution.variant == "tf32/64x64x32"]
    found[own[1]] = replaced(found[own[1]], predicted="different")
    claim = Here(gpu=gpu_with(executions=found)).claim("ran", "sm_90")
    assert pointers(claim)[-1] == f"/result/executions/{own[1]}"


def test_a_pair_of_precisions_that_is_not_gated_is_no_evidence() -> None:
    free = [replaced(c, verdict=verdict("policy", "inapplicable")) for c in records.contrasts(MATMUL, 1.0)]
    claim = Here(gpu=gpu_with(contrasts=free)).claim("accurate", "sm_90")
    assert not [pointer for pointer in pointers(claim) if "contrasts" in pointer]


def test_figures_keep_a_nan_wherever_it_stands() -> None:
    for place in range(2):
        checks = [replaced(c) for c in records.gpu(MATMUL, records.device()).checks]
        own = [index for index, check in enumerate(checks) if check.variant == "tf32/64x64x32"]
        bad = records.comparison(NonFinite(nonfinite="nan"))
        checks[own[place]] = replaced(checks[own[place]], verdict=verdict("not-finite"), comparisons=[bad])
        figures = Here(gpu=gpu_with(checks=checks)).claim("accurate", "sm_90").figures
        error = figures["largest_normalised_error"]
        assert not isinstance(error, str)
        assert math.isnan(as_float(error))
        assert (figures["cases_passed"], figures["cases"]) == (1.0, 2.0)


def test_a_device_that_no_target_names_is_claimed_about_too() -> None:
    device = card("sm_86")
    here = Here(
        environment=replaced(records.environment(device), devices=[device]),
        gpu=gpu_with(device=device),
        timing=replaced(records.timing(MATMUL, device), device=device),
    )
    assert here.claim("accurate", "sm_86").outcome == "passed"
    assert here.claim("accurate", "sm_90").cause == "no-device"


def test_a_case_that_cannot_be_compiled_is_pointed_at() -> None:
    found = Here(compile=refused_case("sm_90")).claim("compiled", "sm_90")
    last = len(refused_case("sm_90").builds) - 1
    assert f"/result/builds/{last}" in [link.pointer for link in found.links]

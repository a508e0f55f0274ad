"""A timing record follows from its raw samples, and times only what the earlier stages let be timed.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any

import pytest
from forge import H200, SETTINGS, T4, Forge, forge
from msgspec.structs import replace
from records import MATMUL, ROUNDS, conditions, entries_of, measured, terms

from assay.chain import place
from assay.record import Conditions, Device, Sweep, Unavailable, Verdict
from assay.soundness import faults
from assay.speeds import Entry, Measured, Terms, derive, nothing_timed, stretches

TIMING, GPU, COMPILE = (place(stage, "matmul") for stage in ("timing", "gpu", "compile"))
SWEEP = f"{TIMING}/result/sweeps/0"
SEARCHED = changed(MATMUL, searched=True)
UNSUPPORTED = Verdict(outcome="inapplicable", cause="unsupported-precision", reason="not on this machine")
CRASHED = Verdict(outcome="cantTell", cause="crash", reason="sampling stopped after 8 of 400 rounds: it crashed")
NOT_TOLD = Unavailable(reason="NVML: Not Supported")
SLOW = 900  # MHz: below 60% of 1980

Spoil = Callable[[Forge], object]
Change = Callable[[Measured], Measured]


def found_in(spoil: Spoil, device: Device | None = H200, subject: Any = MATMUL) -> list[str]:
    forged = forge(device, [subject])
    spoil(forged)
    return faults(forged.opened())


def put(place_: str, value: Any) -> Spoil:
    return lambda forged: forged.put(f"{SWEEP}/{place_}", value)


def decided() -> Terms:
    return terms(SETTINGS.timing, contrasts=MATMUL.contrasts)


def made(change: Change, subject: Any = MATMUL) -> Sweep:
    """Return the sweep of other measurements, from which all else is derived, as a careful forger would."""
    return derive(change(measured(entries_of(subject))), decided())


def remade(change: Change, subject: Any = MATMUL) -> Spoil:
    return lambda forged: forged.put(SWEEP, made(change, subject))


def with_entries(change: Callable[[list[Entry]], list[Entry]]) -> Change:
    return lambda found: changed(found, entries=change(list(found.entries)))


def first(**changes: Any) -> Change:
    """Change the first entrant."""
    return with_entries(lambda entries: [changed(entries[0], **changes), *entries[1:]])


def without_a_trace(entry: Entry, verdict: Verdict) -> Entry:
    nothing = Unavailable(reason=verdict.reason)
    return changed(entry, verdict=verdict, samples_ns=[], replays_ns=nothing, accuracy=nothing, binary_sha256=[])


def left_out(verdict: Verdict) -> Change:
    return with_entries(lambda entries: [without_a_trace(entries[0], verdict), *entries[1:]])


def all_with(verdict: Verdict) -> Change:
    return with_entries(lambda entries: [changed(entry, verdict=verdict) for entry in entries])


def unjudged(check: Any) -> Any:
    verdict = Verdict(outcome="failed", cause="crash", reason="the child process ended with signal 11")
    return replace(check, verdict=verdict, comparisons=[])


def crashed(forged: Forge) -> None:
    """A variant that crashed on the device, and is timed all the same."""
    forged.put(f"{GPU}/result/checks/0", unjudged)
    forged.put(f"{GPU}/result/contrasts", lambda found: found[1:])
    forged.put(f"{GPU}/result/executions", lambda found: found[1:])


BARRED = Verdict(
    outcome="untested",
    cause="upstream",
    reason=f"not timed: stage 'gpu' did not pass it on case '{MATMUL.cases[0]}': "
    "the child process ended with signal 11",
)


def crashed_and(change: Change) -> Spoil:
    def spoil(forged: Forge) -> None:
        crashed(forged)
        forged.put(SWEEP, made(change))

    return spoil


def calmer(forged: Forge) -> None:
    """Leave out of every reason that the power limit slowed the card beside each round."""
    forged.put(f"{SWEEP}/rows/0/verdict/reason", lambda said: said.partition("; power limit")[0])


def short(rounds: int, **changes: Any) -> Change:
    """Return a size of the first rounds alone."""

    def change(found: Measured) -> Measured:
        entries = [
            changed(one, samples_ns=one.samples_ns[:rounds], replays_ns=list(one.replays_ns)[:rounds])  # type: ignore[arg-type]
            for one in found.entries
        ]
        return changed(found, entries=entries, rounds=found.rounds[:rounds], **changes)

    return change


def cut(sweep: Sweep, rounds: int) -> Sweep:
    rows = [replace(one, samples_ns=one.samples_ns[:rounds], replays_ns=NOT_TOLD) for one in sweep.rows]
    return replace(sweep, rows=rows, stretches=stretches(sweep.rounds[:rounds]))


# What is derived


DERIVED: dict[str, tuple[Spoil, str]] = {
    "a faster median": (put("rows/0/time_ns/median", 1000.0), r"/rows/0/time_ns/median: expected 404000.0, found 1000"),
    "a narrower interval": (put("rows/0/events/high", 404001.0), r"/rows/0/events/high: expected \S+, found 404001"),
    "another replay": (put("rows/0/replay/low", 1.0), r"/rows/0/replay/low: expected \S+, found 1"),
    "bound by the host": (put("rows/0/launch_bound", True), r"/rows/0/launch_bound: expected false, found true"),
    "no drift": (put("rows/0/drift/p", 0.999), r"/rows/0/drift/p: expected \S+, found 0\.999"),
    "a better rate": (put("rows/0/rate/value", 1e6), r"/rows/0/rate/value: expected \S+, found 1000000"),
    "another unit": (put("rows/0/rate/unit", "GB/s"), r'/rows/0/rate/unit: expected "GFLOP/s", found "GB/s"'),
    "a better share": (put("rows/0/shares/1/fraction", 0.99), r"/rows/0/shares/1/fraction: expected \S+, found 0\.99"),
    "a share that does not bind": (put("rows/0/shares/1/binding", False), r"/rows/0/shares/1/binding: expected true"),
    "faster samples": (
        put("rows/0/samples_ns", lambda found: [390000.0] * 11 + found[11:]),
        r"/rows/0/events/low: expected 390000.0, found",
    ),
    "faster replays": (
        put("rows/0/replays_ns", lambda found: [390000.0] * 11 + found[11:]),
        r"/rows/0/replay/low: expected 390000.0, found",
    ),
    "more work": (put("flops", 10**15), r"/rows/0/verdict/outcome: expected \"failed\", found \"passed\""),
    "a little more work": (put("flops", 2**34 + 2**30), r"/rows/0/rate/value: expected"),
    "disturbances left out": (calmer, r'/rows/0/verdict/reason: expected ".*power limit.*", found ".*"'),
    "a good round more": (put("outside", [3]), r"/outside: expected 0 items, found 1"),
    "a narrower widest interval": (put("widest", 0.0001), r"/widest: expected \S+, found 0\.0001"),
    "a lower floor": (put("null/floor", 0.0), r"/null/floor: expected \S+, found 0"),
    "a null experiment that was none": (put("null/entrant", "tf32/64x64x32"), r"/null/entrant: expected \"ieee/64"),
    "a better ratio to a peer": (
        put("versus/0/ratio/median", 0.5),
        r"/versus/0/ratio/median: expected \S+, found 0",
    ),
    "another conclusion": (put("versus/0/conclusion", "faster"), r'/versus/0/conclusion: expected "slower", found "fa'),
    "a slower peer": (put("versus/0/against", "cuBLAS tf32"), r'/versus/0/against: expected "cuBLAS fp32", found'),
    "a conclusion left out": (put("versus", lambda found: found[1:]), r"/versus: expected 4 items, found 3"),
    "another best": (put("best/0/entrant", "ieee/128x64x64"), r'/best/0/entrant: expected "ieee/64x64x32", found'),
    "best left out": (put("best", []), r"/best: expected 2 items, found 0"),
    "a better speed-up": (put("speedups/0/ratio/low", 9.5), r"/speedups/0/ratio/low: expected \S+, found 9\.5"),
    "no speed-up": (put("speedups", []), r"/speedups: expected 1 items, found 0"),
    "another seed": (put("inputs/seed", 5), r"/inputs/seed: expected 20260901, found 5"),
    "throttled without being slow": (
        put("rows/0/verdict", Verdict(outcome="cantTell", cause="throttled", reason="the clock")),
        r"/rows/0/verdict/outcome: expected \"passed\", found \"cantTell\"",
    ),
    "over a ceiling without being fast": (
        put("rows/0/verdict", Verdict(outcome="failed", cause="over-ceiling", reason="too fast")),
        r"/rows/0/verdict/outcome: expected \"passed\", found \"failed\"",
    ),
    "passed though throttled": (
        put("stretches", lambda found: stretches([conditions(SLOW)] * 5) + found[5:]),
        r"/rows/0/verdict/outcome: expected \"cantTell\", found \"passed\"",
    ),
    "passed with too few samples": (
        lambda forged: forged.put(SWEEP, lambda sweep: cut(sweep, 3)),
        r'/rows/0/verdict/outcome: expected "cantTell", found "passed"',
    ),
    "passed with an impossible sample": (
        put("rows/0/samples_ns", lambda found: [-1.0, *found[1:]]),
        r'/rows/0/verdict/outcome: expected "cantTell", found "passed"',
    ),
}


@pytest.mark.parametrize("case", DERIVED)
def test_what_does_not_follow_is_refused(case: str) -> None:
    spoil, told = DERIVED[case]
    found = found_in(spoil)
    assert any(re.match(f"{TIMING}: /result/sweeps/0{told}", fault) for fault in found), found


# Who is timed, and how often


def screened(**times: float) -> Change:
    """Return a size of which the short round took these times, in us, of the variants by configuration."""

    def change(entries: list[Entry]) -> list[Entry]:
        found = []
        for entry in entries:
            name = entry.entrant.name.replace("/", "_")
            found.append(changed(entry, screen_ns=[times[name] * 1e3] * 3 if name in times else []))
        return found

    return with_entries(change)


def thinned(which: int, *, factor: str = "1.5", keep: bool = False) -> Change:
    """Return a size whose `which`-th entrant a short round left out: it took twice the time of the first."""
    reason = f"left out of the search after 3 rounds: 800 us, more than {factor} times the 400 us of ieee/64x64x32"
    verdict = Verdict(outcome="inapplicable", cause="pruned", reason=reason)

    def change(entries: list[Entry]) -> list[Entry]:
        out = entries[which] if keep else without_a_trace(entries[which], verdict)
        entries[which] = changed(out, verdict=verdict, binary_sha256=entries[which].binary_sha256)
        return entries

    times = {"ieee_64x64x32": 400.0, "ieee_128x64x64": 800.0}
    return lambda found: with_entries(change)(screened(**times)(found))


ROWS: dict[str, tuple[Spoil, str]] = {
    "a slow row left out": (
        remade(with_entries(lambda entries: entries[1:-1])),
        r"/rows: expected every declared variant, in order, then each peer once, found",
    ),
    "a row twice": (
        remade(with_entries(lambda entries: [*entries[:-1], entries[-2]])),
        r"/rows: expected every declared variant, in order, then each peer once",
    ),
    "a peer that is no variant": (put("rows/5/kind", "variant"), r'/rows/5/kind: expected "peer", found "variant"'),
    "a variant that is a peer": (put("rows/0/kind", "peer"), r'/rows/0/kind: expected "variant", found "peer"'),
    "another precision": (put("rows/0/precision", "tf32"), r'/rows/0/precision: expected "ieee", found "tf32"'),
    "a twin of nobody": (put("rows/6/entrant", "best (again)"), r'/rows/6/kind: expected "peer", found "twin"'),
    "a twin that is none": (put("rows/6/kind", "peer"), r"/rows/6/configuration: expected null, found"),
    "a twin in another precision": (
        put("rows/6/precision", "tf32"),
        r'/rows/6/precision: expected "ieee", found "tf32"',
    ),
    "a second twin": (
        put("rows", lambda rows: [*rows, replace(rows[-1], entrant="tf32/64x64x32 (again)")]),
        r'/rows/6/kind: expected "peer", found "twin"',
    ),
    "fewer rounds than samples": (
        put("stretches", lambda found: found[1:]),
        r"/rows/0/samples_ns: expected one sample for each of 20 rounds, found 21",
    ),
    "fewer replays than rounds": (
        put("rows/0/replays_ns", lambda found: found[1:]),
        r"/rows/0/replays_ns: expected one replay for each of 21 rounds, found 20",
    ),
    "samples withheld": (
        put("rows/0/samples_ns", []),
        r"/rows/0/samples_ns: expected one sample for each of 21 rounds",
    ),
    "more rounds than set": (
        put("stretches", lambda found: found * 150),
        r"/stretches: expected at most 3000, as set, found 3150",
    ),
    "a variant that is said not to apply": (
        remade(left_out(UNSUPPORTED)),
        r'/rows/0/verdict/outcome: expected "failed", found "inapplicable"',
    ),
    "a variant that nothing kept from being timed": (
        remade(left_out(replace(UNSUPPORTED, outcome="untested"))),
        r'/rows/0/verdict/outcome: expected "failed", found "untested"',
    ),
    "a variant that no search left out": (
        remade(left_out(replace(UNSUPPORTED, cause="pruned"))),
        r'/rows/0/verdict/outcome: expected "failed", found "inapplicable"',
    ),
    "timed though it crashed": (crashed, r"/rows/0: expected no samples of what is not to be timed, found 21"),
    "replayed though it crashed": (
        crashed_and(lambda found: first(replays_ns=[4e5] * ROUNDS)(left_out(BARRED)(found))),
        r"/rows/0: expected no samples of what is not to be timed, found 21",
    ),
    "prepared though it crashed": (
        crashed_and(lambda found: first(binary_sha256=["0" * 64])(left_out(BARRED)(found))),
        r"/rows/0: expected nothing measured of what is not to be timed",
    ),
    "a short round of what is no search": (
        remade(screened(ieee_64x64x32=400.0)),
        r"/rows/0/screen_ns: expected no short round of what no search space holds, found 3",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_are_of_the_entrants_and_rounds_that_there_were(case: str) -> None:
    spoil, told = ROWS[case]
    found = found_in(spoil)
    assert any(re.match(f"{TIMING}: /result/sweeps/0{told}", fault) for fault in found), found


# Why sampling ended


ENDS: dict[str, tuple[Change, str]] = {
    "at the most rounds": (
        lambda found: changed(found, ended="rounds"),
        "expected another reason to stop than the most rounds, 3000, after 21",
    ),
    "precise with too few good rounds": (
        lambda found: changed(found, rounds=[conditions(SLOW)] * 2 + list(found.rounds)[2:]),
        "expected 20 good rounds before it is precise, found 19",
    ),
    "precise with a wide interval": (
        first(samples_ns=[4e5 + 900 * (at % 3) for at in range(ROUNDS)]),
        "expected no interval wider than 0.0005, as set, found 0.0022",
    ),
    "with nothing to sample": (
        lambda found: changed(found, ended="nothing"),
        "expected no rounds where there was nothing to sample, found 21",
    ),
    "by a fault": (lambda found: changed(found, ended="fault"), "expected no passed row where a fault ended sampling"),
}


@pytest.mark.parametrize("case", ENDS)
def test_sampling_can_have_ended_as_the_record_says(case: str) -> None:
    change, told = ENDS[case]
    found = found_in(remade(change))
    assert any(fault.startswith(f"{TIMING}: /result/sweeps/0/ended: {told}") for fault in found), found


# Search spaces


def spilling(forged: Forge) -> None:
    """The second variant's code on the device's target spills."""
    at = next(
        at
        for at, build in enumerate(forged.results[COMPILE].builds)  # type: ignore[attr-defined]
        if (build.variant, build.target) == (MATMUL.variants[1].id, "sm_90")
    )
    binary = f"{COMPILE}/result/builds/{at}/binaries/0"
    forged.put(f"{binary}/local_store_instructions", 4)
    forged.put(f"{binary}/local_load_instructions", 5)
    forged.put(f"{binary}/instructions/machine", lambda sass: {**sass, "stl": 4, "ldl": 5})


SEARCHES: dict[str, tuple[Spoil, str]] = {
    "kept though slow": (
        remade(screened(ieee_64x64x32=400.0, ieee_128x64x64=800.0), SEARCHED),
        r"/rows/1: expected no samples of what is not to be timed, found 21",
    ),
    "sampled though left out": (
        remade(thinned(1, keep=True), SEARCHED),
        r"/rows/1: expected no samples of what is not to be timed, found 21",
    ),
    "left out by another rule": (
        remade(thinned(1, factor="1.2"), SEARCHED),
        r'/rows/1/verdict/reason: expected ".*1\.5 times.*", found ".*1\.2 times',
    ),
    "left out without being slow": (
        lambda forged: [
            remade(thinned(1), SEARCHED)(forged),
            forged.put(f"{SWEEP}/rows/1/screen_ns", [500000.0] * 3),
        ],
        r'/rows/1/verdict/outcome: expected "failed", found "inapplicable"',
    ),
    "a longer short round": (
        put("rows/1/screen_ns", [500000.0] * 4),
        r"/rows/1/screen_ns: expected 3 samples, or none, found 4",
    ),
    "timed though its code spills": (spilling, r"/rows/1: expected no samples of what is not to be timed, found 21"),
}


@pytest.mark.parametrize("case", SEARCHES)
def test_what_a_search_leaves_out_follows_from_code_and_short_round(case: str) -> None:
    spoil, told = SEARCHES[case]
    found = found_in(spoil, subject=SEARCHED)
    assert any(re.match(f"{TIMING}: /result/sweeps/0{told}", fault) for fault in found), found


# Ceilings, and the record as a whole


WHOLE: dict[str, tuple[Spoil, str]] = {
    "another size": (put("size", "64x64x64"), r'/sweeps/size/0: expected "2048x2048x2048", found "64x64x64"'),
    "a size left out": (
        lambda forged: forged.put(f"{TIMING}/result/sweeps", []),
        r"/sweeps/size: expected 1 items, found 0",
    ),
    "times of a T4 beside correctness of an H200": (
        lambda forged: forged.put(f"{TIMING}/result/device", T4),
        r'/device/name: expected "NVIDIA H200", found "Tesla T4"',
    ),
    "no device": (lambda forged: forged.put(f"{TIMING}/result/device", None), r"/device: expected .*, found null"),
    "unavailable, and timed": (
        lambda forged: forged.put(
            f"{TIMING}/result/availability", Verdict(outcome="failed", cause="crash", reason="it crashed")
        ),
        r"/launches_ns: expected 0 items, found 3",
    ),
    "a higher ceiling": (
        lambda forged: forged.put(f"{TIMING}/result/ceilings/2/rate/value", 1e9),
        r"/ceilings/2/rate/value: expected \S+, found 1000000000",
    ),
    "a ceiling without a sample": (
        lambda forged: forged.put(f"{TIMING}/result/ceilings/2/samples_ns", []),
        r'/ceilings/2/rate: expected ."kind":"unavailable"',
    ),
    "a ceiling twice": (
        lambda forged: forged.put(f"{TIMING}/result/ceilings", lambda found: [*found, found[0]]),
        r"/ceilings: expected each ceiling once, found",
    ),
    "a dearer launch": (
        lambda forged: forged.put(f"{TIMING}/result/launch/median", 90000.0),
        r"/launch/median: expected 2900.0, found 90000",
    ),
    "a launch without a sample": (
        lambda forged: forged.put(f"{TIMING}/result/launches_ns", []),
        r'/launch: expected ."kind":"unavailable"',
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_timing_record_is_of_the_kernel_and_the_device(case: str) -> None:
    spoil, told = WHOLE[case]
    found = found_in(spoil)
    assert any(re.match(f"{TIMING}: /result{told}", fault) for fault in found), found


@pytest.mark.parametrize("device", [None, T4], ids=["no device", "too old"])
def test_nothing_is_timed_behind_a_shut_gate(device: Device | None) -> None:
    timed = forge(H200, [MATMUL]).results[TIMING]
    found = found_in(lambda forged: forged.put(f"{TIMING}/result", timed), device)
    assert any(re.match(f'{TIMING}: /result/availability/outcome: expected ".*", found "passed"', one) for one in found)


# What is sound though it did not go well


def nothing_ready(found: Measured) -> Measured:
    """No entrant that could be prepared, so that no round was taken, and none has a twin."""
    verdict = Verdict(outcome="failed", cause="launch-failed", reason="out of memory")
    entries = [without_a_trace(entry, verdict) for entry in found.entries[:-1]]
    return changed(found, entries=entries, rounds=[], ended="nothing")


def unread(found: Measured) -> Measured:
    """A card that tells nothing of its state."""
    blank = Conditions(
        sm_clock_mhz=NOT_TOLD,
        memory_clock_mhz=NOT_TOLD,
        temperature_celsius=NOT_TOLD,
        power_milliwatts=NOT_TOLD,
        event_reasons=NOT_TOLD,
        other_processes=NOT_TOLD,
    )
    return changed(found, rounds=[blank] * ROUNDS)


def not_a_number(found: Measured) -> Measured:
    """One entrant's clock was broken."""
    return first(samples_ns=[float("nan"), *found.entries[0].samples_ns[1:]])(found)


def without_torch_device(forged: Forge) -> None:
    verdict = Verdict(outcome="inapplicable", cause="no-device", reason="torch 2.11 finds no CUDA device")
    forged.put(f"{TIMING}/result", nothing_timed(verdict, H200))


def without_ceilings(forged: Forge) -> None:
    """A child that could measure neither the cost of a launch nor a ceiling."""
    nothing = changed(decided(), launch=Unavailable(reason="it crashed"), ceilings=[])
    forged.put(f"{TIMING}/result/launches_ns", []).put(f"{TIMING}/result/launch", Unavailable(reason="it crashed"))
    forged.put(f"{TIMING}/result/ceilings", [])
    forged.put(SWEEP, derive(measured(entries_of(MATMUL)), nothing))


SOUND: dict[str, Spoil] = {
    "a variant that crashed before": crashed_and(left_out(BARRED)),
    "sampling that a crash ended": remade(lambda found: short(8, ended="fault")(all_with(CRASHED)(found))),
    "nobody ready": remade(nothing_ready),
    "a state that nobody tells": remade(unread),
    "throttled": remade(lambda found: changed(found, rounds=[conditions(SLOW)] * ROUNDS, ended="time")),
    "too few rounds": remade(short(7, ended="time")),
    "a time that is none": remade(not_a_number),
    "over a ceiling": remade(lambda found: changed(found, problem=replace(found.problem, flops=10**12))),
    "no replays": remade(first(replays_ns=Unavailable(reason="it synchronises"))),
    "a wrong result": remade(first(verdict=Verdict(outcome="failed", cause="wrong-value", reason="past its bound"))),
    "no twin": remade(with_entries(lambda entries: entries[:-1])),
    "no torch device": without_torch_device,
    "no ceilings": without_ceilings,
}


@pytest.mark.parametrize("case", SOUND)
def test_what_did_not_go_well_and_says_so_is_sound(case: str) -> None:
    assert found_in(SOUND[case]) == []


def without_spilled(forged: Forge) -> None:
    spilling(forged)
    reason = (
        "pruned before timing: on sm_90 kernel spills: 4 stores to and 5 loads from 0 B of local memory, "
        "with 168 registers a thread"
    )
    verdict = Verdict(outcome="inapplicable", cause="pruned", reason=reason)

    def change(entries: list[Entry]) -> list[Entry]:
        return [entries[0], without_a_trace(entries[1], verdict), *entries[2:]]

    remade(with_entries(change), SEARCHED)(forged)


@pytest.mark.parametrize("spoil", [remade(thinned(1), SEARCHED), without_spilled], ids=["short round", "code"])
def test_a_search_that_is_thinned_out_by_its_rules_is_sound(spoil: Spoil) -> None:
    assert found_in(spoil, subject=SEARCHED) == []

"""A timing record follows from its raw samples, and times only what the earlier stages let be timed.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from forge import H200, SETTINGS, T4, Forge, forge
from msgspec.structs import replace
from records import MATMUL, replaced

from assay.record import Conditions, Device, Row, Sweep, Unavailable, Verdict
from assay.sampling import Entrant, Problem
from assay.soundness import faults
from assay.speeds import best, how, row, speedup

TIMING, GPU = "results/matmul/timing.json", "results/matmul/gpu.json"
SWEEP = f"{TIMING}/result/sweeps/0"

UNSUPPORTED = Verdict(outcome="inapplicable", cause="unsupported-precision", reason="not on this machine")

Spoil = Callable[[Forge], object]


def put(place: str, value: Any) -> Spoil:
    return lambda forged: forged.put(f"{SWEEP}/{place}", value)


def found_in(spoil: Spoil, device: Device | None = H200) -> list[str]:
    forged = forge(device, [MATMUL])
    spoil(forged)
    return faults(forged.opened())


def derived(sweep: Sweep, rows: list[Row]) -> Sweep:
    """Return the sweep with other rows, and all that follows from those."""
    fastest = best(rows)
    times = {one.precision: one.median_ns for one in fastest}
    gains = [speedup(reference, lesser, times) for reference, lesser in MATMUL.contrasts]
    return replace(sweep, rows=rows, best=fastest, speedups=gains)


def resampled(sweep: Sweep, found: Row, samples: list[float], verdict: Verdict | None = None) -> Row:
    entrant = Entrant(name=found.entrant, kind=found.kind, precision=found.precision, configuration=found.configuration)
    problem = Problem(size=sweep.size, dimensions=sweep.dimensions, flops=sweep.flops, bytes=sweep.bytes)
    return row(entrant, verdict or found.verdict, samples, problem, found.cubin_sha256)


def with_rows(change: Callable[[Sweep], list[Row]]) -> Spoil:
    """Change the rows, and derive all else from what is left, as a careful forger would."""
    return lambda forged: forged.put(SWEEP, lambda sweep: derived(sweep, change(sweep)))


def calmer(forged: Forge) -> None:
    """Leave out of every reason that the power limit slowed the card beside each round."""
    said = Verdict(outcome="passed", reason=how(SETTINGS.timing, []).replace("0 interleaved", "8 interleaved"))
    with_rows(lambda sweep: [resampled(sweep, one, one.samples_ns, said) for one in sweep.rows])(forged)


def fewer_rounds(forged: Forge) -> None:
    forged.put(f"{SWEEP}/rounds", lambda rounds: rounds[1:])


def unjudged(check: Any) -> Any:
    verdict = Verdict(outcome="failed", cause="crash", reason="the child process ended with signal 11")
    return replace(check, verdict=verdict, comparisons=[])


def wrong_and_timed(forged: Forge) -> None:
    """A variant that crashed on the device, and is timed all the same."""
    forged.put(f"{GPU}/result/checks/0", unjudged)
    forged.put(f"{GPU}/result/contrasts", lambda found: found[1:])
    forged.put(f"{GPU}/result/executions", lambda found: found[1:])


def on_t4(forged: Forge) -> None:
    forged.put(f"{TIMING}/result/device", T4)


TIMES: dict[str, tuple[Spoil, str]] = {
    "a faster median": (put("rows/0/median_ns", 1000.5), r"/rows/0/median_ns: expected \S+, found 1000\.5"),
    "a narrower interval": (put("rows/0/high_ns", 404000.5), r"/rows/0/high_ns: expected \S+, found 404000\.5"),
    "a better rate": (put("rows/0/rate/value", 1e6), r"/rows/0/rate/value: expected \S+, found 1000000\.0"),
    "another unit": (put("rows/0/rate/unit", "GB/s"), r'/rows/0/rate/unit: expected "GFLOP/s", found "GB/s"'),
    "a faster sample": (
        put("rows/0/samples_ns", lambda found: [1.0, *found[1:]]),
        r"/rows/0/low_ns: expected 1\.0, found",
    ),
    "more work": (put("flops", 10**15), r"/rows/0/rate/value: expected"),
    "another best": (put("best/0/entrant", "ieee/128x64x64"), r'/best/0/entrant: expected "ieee/64x64x32", found'),
    "best left out": (put("best", []), r"/best: expected 2 items, found 0"),
    "a better speed-up": (put("speedups/0/ratio", 9.5), r"/speedups/0/ratio: expected \S+, found 9\.5"),
    "no speed-up": (put("speedups", []), r"/speedups: expected 1 items, found 0"),
    "a slow row left out": (
        with_rows(lambda sweep: sweep.rows[1:]),
        r"/rows: expected every declared variant, in order, then each peer once, found",
    ),
    "a row twice": (
        with_rows(lambda sweep: [*sweep.rows, sweep.rows[-1]]),
        r"/rows: expected every declared variant, in order, then each peer once",
    ),
    "a peer that is no variant": (
        with_rows(lambda sweep: [*sweep.rows[:-1], replace(sweep.rows[-1], kind="variant")]),
        r'/rows/5/kind: expected "peer", found "variant"',
    ),
    "another precision": (
        with_rows(lambda sweep: [replace(sweep.rows[0], precision="tf32"), *sweep.rows[1:]]),
        r'/rows/0/precision: expected "ieee", found "tf32"',
    ),
    "fewer rounds than samples": (
        fewer_rounds,
        r"/rows/0/samples_ns: expected one sample for each of 7 rounds, found 8",
    ),
    "more rounds than set": (
        put("rounds", lambda rounds: rounds * 13),
        r"/rounds: expected at most 100, as set, found 104",
    ),
    "disturbances left out": (calmer, r'/rows/0/verdict/reason: expected ".*power limit.*", found ".*launches.*"'),
    "passed with too few samples": (
        lambda forged: forged.put(
            SWEEP,
            lambda sweep: replace(
                sweep,
                rounds=sweep.rounds[:3],
                rows=[
                    replace(
                        one,
                        samples_ns=one.samples_ns[:3],
                        verdict=Verdict(outcome="passed", reason=how(SETTINGS.timing, sweep.rounds[:3])),
                    )
                    for one in sweep.rows
                ],
            ),
        ),
        r'/rows/0/verdict/outcome: expected "cantTell", found "passed"',
    ),
    "passed with an impossible sample": (
        put("rows/0/samples_ns", lambda found: [-1.0, *found[1:]]),
        r'/rows/0/verdict/outcome: expected "cantTell", found "passed"',
    ),
    "a variant that is said not to apply": (
        with_rows(
            lambda sweep: [
                resampled(sweep, replace(sweep.rows[0], cubin_sha256=[]), [], UNSUPPORTED),
                *sweep.rows[1:],
            ]
        ),
        r'/rows/0/verdict/outcome: expected "failed", found "inapplicable"',
    ),
    "a variant that nothing kept from being timed": (
        with_rows(
            lambda sweep: [
                resampled(sweep, replace(sweep.rows[0], cubin_sha256=[]), [], replace(UNSUPPORTED, outcome="untested")),
                *sweep.rows[1:],
            ]
        ),
        r'/rows/0/verdict/outcome: expected "failed", found "untested"',
    ),
    "timed though it crashed": (
        wrong_and_timed,
        r"/rows/0: expected no samples of what is not to be timed, found 8",
    ),
}


@pytest.mark.parametrize("case", TIMES)
def test_what_does_not_follow_is_refused(case: str) -> None:
    spoil, told = TIMES[case]
    found = found_in(spoil)
    assert any(re.match(f"{TIMING}: /result/sweeps/0{told}", fault) for fault in found), found


WHOLE: dict[str, tuple[Spoil, str]] = {
    "another size": (put("size", "64x64x64"), r'/result/sweeps/size/0: expected "2048x2048x2048", found "64x64x64"'),
    "a size left out": (
        lambda forged: forged.put(f"{TIMING}/result/sweeps", []),
        r"/result/sweeps/size: expected 1 items, found 0",
    ),
    "times of a T4 beside correctness of an H200": (
        on_t4,
        r'/result/device/name: expected "NVIDIA H200", found "Tesla T4"',
    ),
    "no device": (
        lambda forged: forged.put(f"{TIMING}/result/device", None),
        r"/result/device: expected .*, found null",
    ),
    "unavailable, and timed": (
        lambda forged: forged.put(
            f"{TIMING}/result/availability", Verdict(outcome="failed", cause="crash", reason="it crashed")
        ),
        r"/result/sweeps: expected 0 items, found 1",
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_timing_record_is_of_the_kernel_and_the_device(case: str) -> None:
    spoil, told = WHOLE[case]
    found = found_in(spoil)
    assert any(re.match(f"{TIMING}: {told}", fault) for fault in found), found


@pytest.mark.parametrize("device", [None, T4], ids=["no device", "too old"])
def test_nothing_is_timed_behind_a_shut_gate(device: Device | None) -> None:
    timed = forge(H200, [MATMUL]).results[TIMING]
    found = found_in(lambda forged: forged.put(f"{TIMING}/result", timed), device)
    assert any(re.match(f'{TIMING}: /result/availability/outcome: expected ".*", found "passed"', one) for one in found)


# What is sound though it did not go well


def barred(forged: Forge) -> None:
    """A variant that crashed on the device, and was not timed."""
    wrong_and_timed(forged)
    reason = (
        f"not timed: stage 'gpu' did not pass it on case '{MATMUL.cases[0]}': the child process ended with signal 11"
    )
    out = Verdict(outcome="untested", cause="upstream", reason=reason)

    def rows(sweep: Sweep) -> list[Row]:
        first = replace(sweep.rows[0], cubin_sha256=[])
        return [resampled(sweep, first, [], out), *sweep.rows[1:]]

    with_rows(rows)(forged)


def stopped(forged: Forge) -> None:
    """Sampling that a crash ended."""
    verdict = Verdict(outcome="cantTell", cause="crash", reason="sampling stopped after 8 of 100 rounds: it crashed")
    with_rows(lambda sweep: [resampled(sweep, one, one.samples_ns, verdict) for one in sweep.rows])(forged)


def nothing_ready(forged: Forge) -> None:
    """No entrant that could be prepared, so that no round was taken."""
    verdict = Verdict(outcome="failed", cause="launch-failed", reason="out of memory")

    def emptied(sweep: Sweep) -> Sweep:
        rows = [resampled(sweep, replace(one, cubin_sha256=[]), [], verdict) for one in sweep.rows]
        return derived(replace(sweep, rounds=[]), rows)

    forged.put(SWEEP, emptied)


def without_torch_device(forged: Forge) -> None:
    verdict = Verdict(outcome="inapplicable", cause="no-device", reason="torch 2.11 finds no CUDA device")
    forged.put(f"{TIMING}/result", lambda found: replaced(found, availability=verdict, sweeps=[]))


def unread(forged: Forge) -> None:
    """A card that tells nothing of its state."""
    nothing = Unavailable(reason="NVML: Not Supported")
    blank = Conditions(
        sm_clock_mhz=nothing,
        memory_clock_mhz=nothing,
        temperature_celsius=nothing,
        power_milliwatts=nothing,
        event_reasons=nothing,
        other_processes=nothing,
    )
    said = Verdict(outcome="passed", reason=how(SETTINGS.timing, [blank] * 8))

    def edit(sweep: Sweep) -> Sweep:
        rows = [resampled(sweep, one, one.samples_ns, said) for one in sweep.rows]
        return derived(replace(sweep, rounds=[blank] * 8), rows)

    forged.put(SWEEP, edit)


@pytest.mark.parametrize("spoil", [barred, stopped, nothing_ready, without_torch_device, unread])
def test_what_did_not_go_well_and_says_so_is_sound(spoil: Spoil) -> None:
    assert found_in(spoil) == []

"""The timing section has every entrant, sets variants against the library, and says where each figure comes from."""

from typing import Any

import pytest
from records import MATMUL, NO_DRIVER, device, evidence, replaced, row, timing

from assay.formats import ABSENT
from assay.outcomes import BLOCKED, FAILED
from assay.record import Estimate, NonFinite, Row, Share, Sweep, Timing, Unavailable, Verdict
from assay.speeds import nothing_timed
from assay.times import SweepSection, TimeRow, Times, build_times

UNREAD = Unavailable(reason="Not Supported")
NOT_TIMED = Verdict(outcome="failed", cause="crash", reason="killed by SIGSEGV")
PRUNED = Verdict(outcome="inapplicable", cause="pruned", reason="left out of the search after 3 rounds: 300 us")
DERIVED = ("events", "replay", "launch_bound", "time_ns", "drift", "rate", "accuracy")


def times_of(result: Timing) -> Times:
    return build_times("matmul", evidence("timing", result, "matmul"))


def section_of(sweep: Sweep) -> SweepSection:
    return times_of(replaced(timing(MATMUL, device()), sweeps=[sweep])).sweeps[0]


def sweep(*rows: Row, **changes: Any) -> Sweep:
    made = timing(MATMUL, device()).sweeps[0]
    found: Sweep = replaced(made, **({"rows": list(rows)} if rows else {}), **changes)
    return found


def first(**changes: Any) -> TimeRow:
    """Return the first variant as it is shown with other values."""
    return section_of(sweep(replaced(sweep().rows[0], **changes))).rows[0]


def without_figures(entrant: Row, verdict: Verdict, **changes: Any) -> Row:
    found: Row = replaced(entrant, verdict=verdict, shares=[], **dict.fromkeys(DERIVED, UNREAD), **changes)
    return found


def test_every_entrant_has_a_row_with_its_place() -> None:
    found = section_of(sweep())
    assert [entry.entrant for entry in found.rows] == [entry.entrant for entry in sweep().rows]
    assert [entry.told.source.pointer for entry in found.rows] == [
        f"/result/sweeps/0/rows/{place}" for place in range(len(found.rows))
    ]
    assert found.left_out == []
    assert found.source.pointer == "/result/sweeps/0"


def test_a_row_has_its_figures() -> None:
    entry = first(
        time_ns=Estimate(low=400000.0, median=404000.0, high=412100.0),
        shares=[
            Share(ceiling="copy", fraction=0.0293, binding=False),
            Share(ceiling="fp32", fraction=0.7731, binding=True),
        ],
    )
    assert entry.time == "0.4040 (0.4000 to 0.4121)"
    assert entry.mode == "events"
    assert entry.rate == "42.52 TFLOP/s"
    assert entry.shares == "2.93 % of copy, 77.3 % of fp32"
    assert entry.error == "3.10e-7"
    assert entry.precision == "ieee"


def test_the_second_name_and_the_libraries_are_told_from_variants() -> None:
    kinds = {entry.entrant: entry.precision for entry in section_of(sweep()).rows}
    assert kinds["cuBLAS tf32"] == "tf32, library"
    assert kinds["ieee/64x64x32 (again)"] == "ieee, again"


def test_of_a_launch_bound_entrant_both_figures_are_shown() -> None:
    launch_bound = row("a", "variant", "ieee", 478000.0, host_ns=78000.0)
    entry = section_of(sweep(launch_bound)).rows[0]
    assert entry.time.startswith("0.4000 (")
    assert entry.mode == "replay (launch-bound: 0.4780 by events)"


def test_a_drift_is_shown_and_one_that_counts_is_named() -> None:
    drift = sweep().rows[0].drift
    calm = first(drift=replaced(drift, change=0.00123, p=0.4, drifting=False))
    adrift = first(drift=replaced(drift, change=-0.0312, p=0.0004, drifting=True))
    assert calm.samples == f"{len(sweep().rounds)}; +0.12 %"
    assert adrift.samples == f"{len(sweep().rounds)}; -3.12 %, drifting (p 0.0004)"


def test_an_error_that_is_no_number_is_shown_as_such() -> None:
    accuracy = replaced(sweep().rows[0].accuracy, normwise=NonFinite(nonfinite="nan"))
    assert first(accuracy=accuracy).error == "NaN"


def test_the_best_of_each_precision_is_marked() -> None:
    assert [entry.entrant for entry in section_of(sweep()).rows if entry.best] == [b.entrant for b in sweep().best]


def test_a_variant_is_set_against_its_library_as_the_record_has_it() -> None:
    known = sweep().versus[0]
    ratio = Estimate(low=0.96815, median=0.97, high=0.97)
    versus = [replaced(known, mode="replay", ratio=ratio, conclusion="faster", reason="the interval lies below 1")]
    found = section_of(sweep(versus=versus))
    assert found.rows[0].against == "0.9700 (0.9681 to 0.9700) by replay, faster"
    assert found.rows[0].why == "the interval lies below 1"
    assert {entry.against for entry in found.rows[1:]} == {ABSENT}
    assert found.peers == "ieee against cuBLAS fp32"


def test_without_a_ratio_the_conclusion_stands_alone() -> None:
    versus = [replaced(sweep().versus[0], ratio=UNREAD, conclusion="inconclusive")]
    assert section_of(sweep(versus=versus)).rows[0].against == f"{ABSENT} inconclusive"


def test_an_entrant_that_was_not_timed_says_why_and_shows_no_figure() -> None:
    entry = section_of(sweep(without_figures(sweep().rows[0], NOT_TIMED, samples_ns=[]), versus=[])).rows[0]
    assert (entry.told.mark, entry.told.reason) == (FAILED, NOT_TIMED.reason)
    assert (entry.time, entry.mode, entry.rate, entry.shares, entry.against, entry.error) == (ABSENT,) * 6
    assert entry.samples == "0"


def test_what_a_search_left_out_is_listed_apart_with_the_time_of_its_short_round() -> None:
    made = sweep()
    pruned = without_figures(made.rows[1], PRUNED, screen_ns=[300000.0, 310000.0, 299000.0])
    unfit = without_figures(made.rows[2], replaced(PRUNED, reason="does not fit"), screen_ns=[])
    found = section_of(replaced(made, rows=[made.rows[0], pruned, unfit, *made.rows[3:]]))
    assert [(one.entrant, one.time, one.told.reason) for one in found.left_out] == [
        (made.rows[1].entrant, "0.3000", PRUNED.reason),
        (made.rows[2].entrant, ABSENT, "does not fit"),
    ]
    assert found.left_out[1].told.source.pointer == "/result/sweeps/0/rows/2"
    assert [entry.entrant for entry in found.rows] == [r.entrant for r in made.rows if r not in (made.rows[1:3])]


def test_both_pictures_are_there() -> None:
    found = section_of(sweep())
    assert found.chart is not None
    assert found.scatter is not None
    assert len(found.chart.bars) == len(sweep().rows) - 1
    assert "cuBLAS fp32 (no error: nothing is claimed of it)" in found.scatter.left_out


def test_a_speedup_has_its_interval() -> None:
    speedup = replaced(sweep().speedups[0], ratio=Estimate(low=1.8101, median=1.82, high=1.83))
    (found,) = section_of(sweep(speedups=[speedup])).speedups
    assert (found.pair, found.ratio) == ("tf32 over ieee", "1.8200 (1.8101 to 1.8300)")


def test_a_speedup_that_could_not_be_had_says_why() -> None:
    speedup = replaced(sweep().speedups[0], ratio=Unavailable(reason="tf32 was not timed"), verdict=NOT_TIMED)
    (found,) = section_of(sweep(speedups=[speedup])).speedups
    assert (found.pair, found.ratio, found.told.mark) == ("tf32 over ieee", "unavailable (tf32 was not timed)", FAILED)


def test_ceilings_say_how_they_were_found_or_why_not() -> None:
    made = timing(MATMUL, device())
    copy = replaced(made.ceilings[0], samples_ns=[505000.0, 504000.0])
    absent = replaced(copy, samples_ns=[], rate=UNREAD)
    found = times_of(replaced(made, ceilings=[copy, absent])).ceilings
    assert [(one.name, one.fastest, one.samples, one.how) for one in found] == [
        (copy.name, "0.5040", 2, copy.how),
        (copy.name, ABSENT, 0, copy.how),
    ]
    assert found[1].rate == "unavailable (Not Supported)"


def test_the_run_says_what_was_compiled_before_and_what_an_empty_kernel_takes() -> None:
    found = dict(times_of(timing(MATMUL, device())).facts)
    assert found["compiled beforehand"] == "4 launches by 2 processes in 8 s"
    assert found["an empty kernel"].endswith(" ms by events")
    without = dict(times_of(replaced(timing(MATMUL, device()), precompiled=None, launch=UNREAD)).facts)
    assert without == {"compiled beforehand": "nothing", "an empty kernel": "unavailable (Not Supported)"}


@pytest.mark.parametrize("flops", [0, 17179869184])
def test_the_work_is_as_declared(flops: int) -> None:
    found = section_of(sweep(flops=flops)).work
    assert found.startswith("k = 2048, m = 2048, n = 2048; ")
    assert ("17,179,869,184 floating-point operations" in found) == bool(flops)
    assert found.endswith("50,331,648 bytes read and written at least")


def test_without_a_device_the_section_says_why() -> None:
    found = times_of(nothing_timed(NO_DRIVER))
    assert (found.sweeps, found.facts, found.ceilings) == ([], [], [])
    assert found.obstacle is not None
    assert (found.obstacle.mark, found.obstacle.reason) == (BLOCKED, NO_DRIVER.reason)

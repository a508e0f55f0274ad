"""The timing section has every entrant, sets variants against the library, and shows how the card was."""

import pytest
from records import MATMUL, NO_DRIVER, conditions, device, evidence, replaced, row, timing

from assay.formats import ABSENT
from assay.outcomes import BLOCKED, FAILED
from assay.record import Row, Sweep, Timing, Unavailable, Verdict
from assay.times import SweepSection, build_times

UNREAD = Unavailable(reason="Not Supported")
NOT_TIMED = Verdict(outcome="failed", cause="crash", reason="killed by SIGSEGV")


def section_of(sweep: Sweep) -> SweepSection:
    result = replaced(timing(MATMUL, device()), sweeps=[sweep])
    return build_times("matmul", evidence("timing", result, "matmul")).sweeps[0]


def sweep(*rows: Row) -> Sweep:
    made = timing(MATMUL, device()).sweeps[0]
    found: Sweep = replaced(made, rows=list(rows)) if rows else made
    return found


def test_every_entrant_has_a_row_with_its_place() -> None:
    found = section_of(sweep())
    assert [entry.entrant for entry in found.rows] == [entry.entrant for entry in sweep().rows]
    assert [entry.told.source.pointer for entry in found.rows] == [
        f"/result/sweeps/0/rows/{place}" for place in range(len(found.rows))
    ]
    assert (found.rows[0].median, found.rows[0].interval) == ("0.4040", "0.4000 to 0.4121")
    assert found.rows[0].rate == "42524 GFLOP/s"
    assert found.said == ["timed in 3 interleaved rounds, each the median of 3 launches"]


def test_the_best_of_each_precision_is_marked() -> None:
    assert [entry.entrant for entry in section_of(sweep()).rows if entry.best] == [b.entrant for b in sweep().best]


def test_a_variant_is_set_against_the_fastest_peer_of_its_own_precision() -> None:
    rows = [
        row("ieee/a", "variant", "ieee", 400.0),
        row("bf16x3/a", "variant", "bf16x3", 400.0),
        row("slow", "peer", "ieee", 200.0),
        row("fast", "peer", "ieee", 100.0),
        row("other", "peer", "tf32", 10.0),
    ]
    assert [entry.against for entry in section_of(sweep(*rows)).rows] == ["4", ABSENT, ABSENT, ABSENT, ABSENT]


@pytest.mark.parametrize("median", [UNREAD, 0.0])
def test_a_peer_without_a_time_is_no_measure(median: float | Unavailable) -> None:
    rows = [row("ieee/a", "variant", "ieee", 400.0), replaced(row("peer", "peer", "ieee", 1.0), median_ns=median)]
    assert section_of(sweep(*rows)).rows[0].against == ABSENT


def test_an_entrant_that_was_not_timed_says_why_and_shows_no_figure() -> None:
    absent = {"median_ns": UNREAD, "low_ns": UNREAD, "high_ns": UNREAD, "rate": UNREAD, "samples_ns": []}
    entry = section_of(sweep(replaced(row("a", "variant", "ieee", 1.0), verdict=NOT_TIMED, **absent))).rows[0]
    assert (entry.told.mark, entry.told.reason) == (FAILED, NOT_TIMED.reason)
    assert (entry.median, entry.interval, entry.rate, entry.against) == (ABSENT,) * 4


def test_the_card_is_described_over_all_rounds() -> None:
    found = dict(section_of(sweep()).conditions)
    assert found["SM clock"] == "1950 MHz, from 1830 to 1980"
    assert found["power"] == "312.5 W, from 312.5 to 312.5"
    assert found["event reasons"] == "0x4 over all rounds"
    assert found["other processes"] == "unavailable (Not Supported)"
    assert found["disturbed by"] == "power limit beside 3 of 3 rounds"


def test_masks_of_several_rounds_are_joined() -> None:
    rounds = [replaced(conditions(), event_reasons=mask) for mask in (0x1, 0x20, UNREAD)]
    assert dict(section_of(replaced(sweep(), rounds=rounds)).conditions)["event reasons"] == "0x21 over all rounds"


def test_a_speedup_that_could_not_be_had_says_why() -> None:
    speedup = replaced(sweep().speedups[0], ratio=Unavailable(reason="tf32 was not timed"), verdict=NOT_TIMED)
    (found,) = section_of(replaced(sweep(), speedups=[speedup])).speedups
    assert (found.pair, found.ratio, found.told.mark) == ("tf32 over ieee", "unavailable (tf32 was not timed)", FAILED)


def test_without_a_device_the_section_says_why() -> None:
    found = build_times("matmul", evidence("timing", Timing(availability=NO_DRIVER, device=None, sweeps=[]), "matmul"))
    assert found.sweeps == []
    assert found.obstacle is not None
    assert (found.obstacle.mark, found.obstacle.reason) == (BLOCKED, NO_DRIVER.reason)

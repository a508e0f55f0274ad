"""The picture of ceilings: marks stand where work and time put them, and from the ridge follows what limits."""

import math
from typing import Any

import pytest
from records import MATMUL, NO_DRIVER, device, replaced, timing

from assay.picture import Line, Marks, Picture, Spot, Words
from assay.picture_ceilings import all_reached, ceilings_of, ceilings_picture, in_roofline
from assay.record import Rate, Timing, Unavailable
from assay.speeds import nothing_timed


def timed(**changes: Any) -> Timing:
    made = timing(MATMUL, device())
    found: Timing = replaced(made, sweeps=[replaced(made.sweeps[0], **changes)])
    return found


def memory_bound() -> Timing:
    """Return rates of memory: nothing is declared but bytes."""
    made = timed(flops=0)
    rows = [replaced(r, rate=Rate(value=1000.0, unit="GB/s"), shares=r.shares[:1]) for r in made.sweeps[0].rows]
    return timed(flops=0, rows=rows)


def picture_of(found: Timing) -> Picture:
    picture = ceilings_picture("ceilings-1", "matmul", found)
    assert isinstance(picture, Picture)
    return picture


def spots(picture: Picture) -> list[Spot]:
    return [spot for one in picture.panels[1].shown if isinstance(one, Marks) for spot in one.spots]


def test_marks_stand_at_intensity_and_rate() -> None:
    found = timed()
    sweep, picture = found.sweeps[0], picture_of(found)
    wanted = sorted(
        sweep.flops / row.time_ns.median / 1000  # type: ignore[union-attr]
        for row in sweep.rows
        if row.kind == "peer" or row.entrant in [best.entrant for best in sweep.best]
    )
    assert [10**spot.y for spot in sorted(spots(picture), key=lambda s: s.y)] == pytest.approx(wanted)
    assert [10**spot.x for spot in spots(picture)] == pytest.approx([sweep.flops / sweep.bytes] * len(wanted))


def test_the_roof_bends_where_copy_and_arithmetic_meet() -> None:
    found = timed()
    ceilings = ceilings_of(found)
    lines = [one for one in picture_of(found).panels[1].shown if isinstance(one, Line) and not one.dashed]
    starts = sorted(one.places[0][0] for one in lines[:-1] if one.places[0] is not None)
    wanted = sorted(math.log10(value / ceilings["copy"]) for name, value in ceilings.items() if name != "copy")
    assert starts == pytest.approx(wanted)
    (_, end) = lines[-1].places
    assert end is not None
    assert end[0] == pytest.approx(wanted[-1])


def test_who_comes_nearest_and_what_limits_it_is_told() -> None:
    picture = picture_of(timed())
    assert "at 2048x2048x2048: " in picture.said
    assert "it does 341 operations a byte, so arithmetic limits it" in picture.said
    assert picture.notes == ("Dashed, in operations a byte: 2048x2048x2048 at 341",)
    assert picture.title.startswith("Roofline of matmul")


def test_left_of_the_ridge_memory_limits() -> None:
    found = timed(bytes=2**32)
    assert "so memory limits it" in picture_of(found).said


def test_work_without_arithmetic_stands_beside_the_copy() -> None:
    picture = picture_of(memory_bound())
    assert picture.title.startswith("Rate of memory of matmul")
    assert "of the copy's rate" in picture.said
    sweep = memory_bound().sweeps[0]
    fastest = max(sweep.bytes / row.time_ns.median for row in sweep.rows)  # type: ignore[union-attr]
    assert max(spot.x for spot in spots(picture)) == pytest.approx(fastest)
    notes = [one.text for one in picture.panels[1].shown if isinstance(one, Words) and one.anchor == "end"]
    assert any("of the copy’s" in text for text in notes)


def test_without_ceilings_the_rates_stand_alone() -> None:
    picture = picture_of(replaced(timed(), ceilings=[]))
    assert [one for one in picture.panels[1].shown if isinstance(one, Line) and not one.dashed] == []
    bare = [replaced(row, shares=[]) for row in timed().sweeps[0].rows]
    assert picture_of(replaced(timed(rows=bare), ceilings=[])).said.startswith("No ceiling was measured")


def test_the_table_has_what_was_reached_and_the_ceilings() -> None:
    found = timed()
    rows = picture_of(found).table.rows
    reached = all_reached(found)
    assert all(map(in_roofline, reached))
    assert [row[1] for row in rows] == [*(one.row.entrant for one in reached), "copy", "fp32", "tf32", "bf16"]
    assert [row[6] for row in rows if row[1] == "copy"] == [ceilings_of(found)["copy"]]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (nothing_timed(NO_DRIVER), f"matmul was not timed: {NO_DRIVER.reason}"),
        (timed(bytes=0), "no entrant of matmul has a time and declared work"),
    ],
)
def test_without_figures_there_is_no_picture(found: Timing, told: str) -> None:
    assert ceilings_picture("ceilings-1", "matmul", found) == Unavailable(reason=told)

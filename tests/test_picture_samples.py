"""The picture of samples: every round counts in a stroke, the right samples are shown, and the clock is beside them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, ROUNDS, conditions, device, replaced, row, timing

from assay.charts import timed_rows
from assay.picture import Bar, Picture
from assay.picture_samples import MOST_BLOCKS, MOST_ENTRANTS, blocks, sampled, samples_picture
from assay.record import Stretch, Sweep, Unavailable


def sweep(**changes: Any) -> Sweep:
    found: Sweep = replaced(timing(MATMUL, device()).sweeps[0], **changes)
    return found


def picture_of(found: Sweep) -> Picture:
    picture = samples_picture("samples-1-0", "matmul", found)
    assert isinstance(picture, Picture)
    return picture


def stretches(*clocks: Any) -> list[Stretch]:
    return [Stretch(rounds=1, conditions=replaced(conditions(), sm_clock_mhz=clock)) for clock in clocks]


@given(st.integers(1, 100_000))
def test_every_round_is_in_one_block_and_there_are_not_too_many(rounds: int) -> None:
    found = blocks(rounds)
    assert [at for block in found for at in block] == list(range(rounds))
    assert len(found) <= MOST_BLOCKS
    assert len({len(block) for block in found[:-1]}) <= 1


def test_the_fastest_the_widest_and_the_clock_are_told() -> None:
    said = picture_of(sweep()).said
    assert said.startswith("Fastest is cuBLAS tf32 with 0.0")
    assert "scatter most, half of them within" in said
    assert said.endswith("the SM clock lay from 1910 to 1980 MHz.")


def test_a_clock_that_stayed_or_could_not_be_read_is_told_as_such() -> None:
    unread = Unavailable(reason="Not Supported")
    assert picture_of(sweep(stretches=stretches(*[1980] * ROUNDS))).said.endswith("the SM clock stayed at 1980 MHz.")
    silent = picture_of(sweep(stretches=stretches(*[unread] * ROUNDS)))
    assert silent.said.endswith("the clock of the card could not be read.")
    assert {row[-1] for row in silent.table.rows} == {None}


def test_the_table_has_medians_with_intervals_and_every_round() -> None:
    found = sweep()
    table = picture_of(found).table
    entrants = [one for one in found.rows if one.kind != "twin"]
    assert table.columns == ("rounds", "which", *(f"{one.entrant} (ns)" for one in entrants), "SM clock (MHz)")
    assert [r[:2] for r in table.rows[:3]] == [("median", ""), ("interval", "low"), ("interval", "high")]
    assert len(table.rows) == 3 + ROUNDS
    assert [r[2] for r in table.rows[3:]] == found.rows[0].samples_ns


def test_of_many_rounds_the_least_and_greatest_of_each_block_are_there_and_it_is_said() -> None:
    few = sweep()
    times = 5 * MOST_BLOCKS // ROUNDS + 1
    rows = [replaced(one, samples_ns=one.samples_ns * times) for one in few.rows]
    found = replaced(few, rows=rows, stretches=few.stretches * times)
    picture = picture_of(found)
    length = len(blocks(ROUNDS * times)[0])
    assert f"Each stroke is {length} rounds in a row, from their least sample to their greatest" in picture.notes
    least, greatest = picture.table.rows[3:5]
    assert (least[1], greatest[1]) == ("least", "greatest")
    assert (least[2], greatest[2]) == (min(rows[0].samples_ns[:length]), max(rows[0].samples_ns[:length]))


def test_of_a_launch_bound_entrant_the_replays_are_shown() -> None:
    bound = row("a", "variant", "ieee", 478000.0, host_ns=78000.0)
    (shown,) = sampled(timed_rows([bound]), [])
    assert shown.samples == bound.replays_ns


def test_rounds_outside_the_band_are_said_to_count_for_nothing() -> None:
    notes = picture_of(sweep(outside=[3, 4, 5])).notes
    assert "3 rounds outside the clock band are shown and count for nothing: 3 to 5" in notes


def test_of_too_many_entrants_the_rest_is_counted() -> None:
    base = sweep()
    more = [replaced(base.rows[0], entrant=f"ieee/{n}") for n in range(MOST_ENTRANTS)]
    picture = picture_of(replaced(base, rows=[*base.rows, *more]))
    assert len([one for one in picture.panels[0].shown if isinstance(one, Bar)]) == MOST_ENTRANTS
    assert picture.notes[0] == f"{len(base.rows) - 1} more entrants have a time in the table alone"


def test_without_a_time_there_is_no_picture() -> None:
    untimed = [replaced(one, time_ns=Unavailable(reason="crashed")) for one in sweep().rows]
    absent = samples_picture("samples-1-0", "matmul", sweep(rows=untimed))
    assert absent == Unavailable(reason="no entrant of matmul has a time at 2048x2048x2048")

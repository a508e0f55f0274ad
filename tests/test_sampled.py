"""What is said of how a size was sampled follows from its record, and what is not known is said with its reason."""

from typing import Any, get_args

import pytest
from records import MATMUL, conditions, device, replaced, timing

from assay.record import Cost, Ended, Estimate, Sweep, Unavailable
from assay.sampled import ENDED, LONGEST_LIST, card_facts, sampling_facts
from assay.speeds import stretches

UNREAD = Unavailable(reason="Not Supported")


def sweep(**changes: Any) -> Sweep:
    found: Sweep = replaced(timing(MATMUL, device()).sweeps[0], **changes)
    return found


def facts(**changes: Any) -> dict[str, str]:
    return dict(sampling_facts(sweep(**changes)))


@pytest.mark.parametrize("ended", get_args(Ended))
def test_rounds_are_counted_with_the_good_ones_and_why_they_ended(ended: Ended) -> None:
    rounds = [conditions()] * 9
    found = facts(stretches=stretches(rounds), outside=[2, 3], ended=ended)
    assert found["rounds"] == f"9, of which 7 are good; {ENDED[ended]}"


def test_the_widest_interval_is_shown_or_why_there_is_none() -> None:
    assert facts(widest=0.00093)["widest interval"] == "±0.093 % of its median"
    assert facts(widest=UNREAD)["widest interval"] == "unavailable (Not Supported)"


def test_rounds_outside_the_clock_band_are_listed_with_their_clocks() -> None:
    rounds = [conditions(1980), *[conditions(1100)] * 2, conditions(1980), conditions(1000)]
    assert facts(stretches=stretches(rounds), outside=[1, 2, 4])["outside the clock band"] == (
        "3 of 5 rounds, kept and not used: 1 to 2, 4; 1100 MHz, from 1000 to 1100"
    )
    assert facts()["outside the clock band"] == "no round"


def test_too_many_to_list_are_named_by_their_range() -> None:
    outside = list(range(0, 200, 2))
    found = facts(stretches=stretches([conditions(1000)] * 200), outside=outside)["outside the clock band"]
    assert "some from 0 to 198;" in found
    assert len(found) < LONGEST_LIST + 80


def test_the_null_experiment_gives_its_ratio_and_the_floor() -> None:
    null = replaced(sweep().null, ratio=Estimate(low=0.9996, median=1.0, high=1.0003), floor=0.0004)
    assert facts(null=null)["A/A"] == (
        "ieee/64x64x32 over itself: 1.0000 (0.9996 to 1.0003); nothing within 0.04 % of 1 is a difference"
    )
    without = replaced(null, entrant=None, ratio=UNREAD, floor=UNREAD)
    assert facts(null=without)["A/A"] == "unavailable (Not Supported); the declared margin is taken as the floor"


def test_inputs_say_what_they_are_and_how_many_are_zero() -> None:
    inputs = sweep().inputs
    assert not isinstance(inputs, Unavailable)
    tensor = replaced(inputs.tensors[0], name="a", zeros=3, mean=0.00012)
    found = facts(inputs=replaced(inputs, sets=5, tensors=[tensor, replaced(tensor, name="b", zeros=0)]))
    assert found["inputs"] == "5 sets in turn of 48 MiB from seed 20260901; L2 cache 60 MiB"
    assert found["input a"] == "2048×2048 float32, mean 0.00012, deviation 1, 3 of 4194304 are 0"
    assert found["input b"].endswith(", none is 0")
    assert facts(inputs=replaced(inputs, sets=1, cache_bytes=UNREAD))["inputs"] == (
        "one set of 48 MiB from seed 20260901; L2 cache unavailable (Not Supported)"
    )
    assert facts(inputs=UNREAD)["inputs"] == "unavailable (Not Supported)"


def test_what_no_graph_could_replay_is_named_with_the_reason() -> None:
    made = sweep()
    rows = [replaced(row, replays_ns=Unavailable(reason="it waits for the device")) for row in made.rows[:2]]
    assert facts(rows=[*rows, *made.rows[2:]])["not replayed"] == (
        "ieee/64x64x32, ieee/128x64x64: it waits for the device"
    )
    assert "not replayed" not in facts()


def test_cost_is_set_against_pure_sampling() -> None:
    whole = Cost(device_ns=13_000_000_000, sampling_ns=10_000_000_000)
    assert facts(cost=whole)["cost"] == (
        "13 s of the device, 0 s of it preparing libraries and 10 s sampling: 1.3 times, the libraries left out"
    )
    assert facts(cost=replaced(whole, peers_ns=2_000_000_000))["cost"] == (
        "13 s of the device, 2 s of it preparing libraries and 10 s sampling: 1.1 times, the libraries left out"
    )
    assert facts(cost=Cost(device_ns=2_000_000_000, sampling_ns=0))["cost"] == "2 s of the device"


def test_the_card_is_described_over_all_rounds() -> None:
    found = dict(card_facts([conditions(1980), conditions(1830), conditions(1950)]))
    assert found["SM clock"] == "1950 MHz, from 1830 to 1980"
    assert found["power"] == "312.5 W, from 312.5 to 312.5"
    assert found["event reasons"] == "0x4 over all rounds"
    assert found["other processes"] == "unavailable (Not Supported)"
    assert found["disturbed by"] == "power limit beside 3 of 3 rounds"


def test_masks_of_several_rounds_are_joined() -> None:
    rounds = [replaced(conditions(), event_reasons=mask) for mask in (0x1, 0x20, UNREAD)]
    assert dict(card_facts(rounds))["event reasons"] == "0x21 over all rounds"

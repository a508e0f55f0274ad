"""The entrants of one size on the host: what they are given, what is judged after timing, and how close it comes."""

from pathlib import Path

import pytest
import torch
from host_device import CachedDevice, HostDevice, Moment, RoomyDevice, UnrecordedDevice, write_toy

from assay.contest import Contest
from assay.kernel import load
from assay.record import Accuracy, Unavailable
from assay.sampling import AGAIN, Checked

PEER = 'Peer("torch", "ieee", lambda inputs: inputs["x"] * 2)'


def contest(
    folder: Path, *how: tuple[str, str], device: type[HostDevice] = HostDevice, peer: str = PEER, more: str = ""
) -> Contest:
    path = write_toy(folder, *how)
    path.write_text(path.read_text("utf-8").replace(PEER, peer) + more, "utf-8")
    kernel = load(path)
    return Contest(kernel, kernel.case("n64"), 7, device())


def timed(found: Contest, name: str, warmup: int = 1) -> Checked:
    """Prepare an entrant, take one round of three launches and as many replays, and check what is left."""
    found.enter(name, warmup, 3)
    found.take(0, [name])
    return found.check(name)


def outcome(found: Contest, name: str, warmup: int = 1) -> tuple[str, str | None, str]:
    verdict = timed(found, name, warmup).verdict
    assert verdict is not None
    return verdict.outcome, verdict.cause, verdict.reason


def test_sets_come_from_seeds_of_their_own(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=CachedDevice)
    assert len(found.values) == 4
    for index, values in enumerate(found.values):
        assert torch.equal(values["x"], torch.randn(64, generator=torch.Generator().manual_seed(7 + index)))


def test_every_set_is_launched_judged_and_kept_apart(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=CachedDevice)
    assert outcome(found, "ieee/right")[0] == "passed"
    for values, outputs in zip(found.values, found.outputs["ieee/right"], strict=True):
        assert torch.equal(outputs["y"].tensor, values["x"] * 2)


def test_sets_beyond_the_values_hold_them_again_elsewhere_in_memory(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=RoomyDevice)
    assert (len(found.values), len(found.sets), found.inputs().sets) == (4, 6, 6)
    assert outcome(found, "ieee/right")[0] == "passed"
    given = [found.given[None, index]["x"] for index in found.sets]
    assert torch.equal(given[4], given[0])
    assert torch.equal(given[5], given[1])
    outputs = [held["y"].tensor for held in found.outputs["ieee/right"]]
    assert len({tensor.data_ptr() for tensor in [*given, *outputs]}) == 12
    assert all(torch.equal(y, x * 2) for x, y in zip(given, outputs, strict=True))


class SlowDevice(RoomyDevice):
    """Says that everything takes a millisecond."""

    def elapsed_ns(self, start: Moment, end: Moment) -> float:
        """Return what two launches of a sample may take, halved."""
        return 1e6


def written(found: Contest) -> list[bool]:
    """Return of which sets the outputs are those that are wanted."""
    pairs = zip(found.sets, found.outputs["ieee/right"], strict=True)
    return [torch.equal(outputs["y"].tensor, found.given[None, index]["x"] * 2) for index, outputs in pairs]


def test_long_launches_are_sampled_two_sets_a_round_by_an_entrant_and_its_twin(tmp_path: Path) -> None:
    found, twin = contest(tmp_path, ("ieee", "right"), device=SlowDevice), f"ieee/right{AGAIN}"
    found.enter("ieee/right", 1, 1)
    found.enter_again(twin, "ieee/right")
    for name in ("ieee/right", twin):
        assert [list(heat.sets) for heat in found.lanes[name].heats] == [[0, 1], [2, 3], [4, 5]]
    seen = []
    for turn in (1, 5, 0):
        found.take(turn, ["ieee/right", twin])
        seen.append(written(found))
    assert seen == [
        [False, False, True, True, False, False],
        [False, False, True, True, True, True],
        [True] * 6,
    ]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_sets_that_no_round_came_to_are_launched_for_the_check(tmp_path: Path, rounds: int) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=SlowDevice)
    found.enter("ieee/right", 1, 1)
    for turn in range(rounds):
        found.take(turn, ["ieee/right"])
    checked = found.check("ieee/right")
    assert checked.verdict is not None
    assert checked.verdict.outcome == "passed"
    assert written(found) == [True] * 6


def test_a_set_that_only_the_check_launches_is_judged_too(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=SlowDevice)
    found.enter("ieee/right", 1, 1)
    found.take(0, ["ieee/right"])
    # Its oracle says otherwise of one set alone, to which no round came.
    wide, want = found._wanted(None, 3)
    found.wanted[None, 3] = wide, {"y": want["y"] + 1}
    checked = found.check("ieee/right")
    assert checked.verdict is not None
    assert checked.verdict.reason.startswith("launched once more after timing, 64 of 64 elements of 'y'")


def test_a_wrong_set_beyond_the_values_is_found(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=RoomyDevice)
    found.enter("ieee/right", 1, 3)
    found.take(0, ["ieee/right"])
    found.outputs["ieee/right"][5]["y"].tensor[5] += 1
    checked = found.check("ieee/right")
    assert checked.verdict is not None
    assert checked.verdict.reason.startswith("after timing, 1 of 64 elements of 'y'")


def test_one_wrong_set_of_four_is_found(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"), device=CachedDevice)
    found.enter("ieee/right", 1, 3)
    found.take(0, ["ieee/right"])
    found.outputs["ieee/right"][2]["y"].tensor[5] += 1
    checked = found.check("ieee/right")
    assert checked.verdict is not None
    assert (checked.verdict.outcome, checked.verdict.cause) == ("failed", "wrong-value")
    assert checked.verdict.reason.startswith("after timing, 1 of 64 elements of 'y'")


def test_what_the_warm_up_wrote_is_forgotten(tmp_path: Path) -> None:
    assert outcome(contest(tmp_path, ("ieee", "stops writing")), "ieee/stops-writing", 3)[:2] == (
        "failed",
        "not-finite",
    )


def test_what_timed_launches_wrote_is_checked(tmp_path: Path) -> None:
    found = outcome(contest(tmp_path, ("ieee", "wrong late")), "ieee/wrong-late")
    assert found[:2] == ("failed", "wrong-value")
    assert found[2].startswith("after timing, 64 of 64 elements of 'y' are past the reduction bound")


def test_a_mode_that_writes_nothing_is_found_behind_one_that_does(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "right"))
    found.enter("ieee/right", 1, 3)
    found.take(0, ["ieee/right"])
    # What a graph replays that did not get hold of the launch.
    (heat,) = found.lanes["ieee/right"].heats
    object.__setattr__(heat.recording, "play", lambda: None)
    checked = found.check("ieee/right")
    assert checked.verdict is not None
    assert (checked.verdict.outcome, checked.verdict.cause) == ("failed", "not-finite")
    assert checked.verdict.reason.startswith("replayed once more after timing, 64 of 64 elements")


def test_an_entrant_is_prepared_once(tmp_path: Path) -> None:
    found = contest(tmp_path, ("ieee", "stops writing"), device=UnrecordedDevice)
    for _ in range(5):
        found.enter("ieee/stops-writing", 1, 1)
    # One launch of one preparation, one of the round and one of the check are right: preparing again would use them up.
    found.take(0, ["ieee/stops-writing"])
    checked = found.check("ieee/stops-writing")
    assert checked.verdict is not None
    assert checked.verdict.outcome == "passed"


def test_accuracy_is_against_the_oracle(tmp_path: Path) -> None:
    assert timed(contest(tmp_path, ("ieee", "right")), "ieee/right").accuracy == Accuracy(normwise=0.0, largest=0.0)
    found = timed(contest(tmp_path, ("ieee", "wrong late")), "ieee/wrong-late").accuracy
    # It writes 3 x where 2 x is wanted.
    assert isinstance(found, Accuracy)
    assert found.normwise == pytest.approx(0.5)
    assert found.largest == pytest.approx(0.5)


def test_a_peer_has_an_accuracy_and_no_verdict(tmp_path: Path) -> None:
    found = timed(contest(tmp_path, ("ieee", "right"), peer=PEER.replace("* 2)", "* 2.5)")), "torch")
    assert found.verdict is None
    assert isinstance(found.accuracy, Accuracy)
    assert found.accuracy.normwise == pytest.approx(0.25)
    assert found.accuracy.largest == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ('(inputs["x"],)', "expected a tensor for y, found tuple"),
        ('{"z": inputs["x"]}', "expected a tensor for y, found dict"),
        ('inputs["x"][:8]', "an output of shape (8,) stands where (64,) is wanted"),
    ],
)
def test_what_a_peer_returns_and_is_no_output_has_a_reason(tmp_path: Path, returned: str, why: str) -> None:
    peer = PEER.replace('inputs["x"] * 2', returned)
    found = timed(contest(tmp_path, ("ieee", "right"), peer=peer), "torch")
    assert found.accuracy == Unavailable(reason=f"what it returned cannot be compared: {why}")


def test_a_peer_may_return_a_mapping(tmp_path: Path) -> None:
    peer = PEER.replace('inputs["x"] * 2', '{"y": inputs["x"] * 2, "more": None}')
    assert timed(contest(tmp_path, ("ieee", "right"), peer=peer), "torch").accuracy == Accuracy(
        normwise=0.0, largest=0.0
    )


def test_too_little_memory_is_a_refusal_that_leaves_the_others(tmp_path: Path) -> None:
    full = """
def _full(inputs, outputs, variant):
    if variant.options["how"] == "large":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 GiB.")
    outputs["y"].copy_(inputs["x"] * 2)

object.__setattr__(KERNEL, "launch", _full)
"""
    found = contest(tmp_path, ("ieee", "right"), ("ieee", "large"), more=full)
    found.enter("ieee/right", 1, 3)
    refused = found.enter("ieee/large", 1, 3).refused
    assert refused is not None
    assert (refused.outcome, refused.cause) == ("inapplicable", "does-not-fit")
    assert "Tried to allocate 64.00 GiB" in refused.reason
    assert set(found.outputs) == set(found.lanes) == {"ieee/right"}


def test_too_little_memory_to_check_is_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    found = contest(tmp_path, ("ieee", "right"))
    monkeypatch.setattr("assay.contest.compare_all", full)
    checked = timed(found, "ieee/right")
    assert checked.verdict is not None
    assert (checked.verdict.outcome, checked.verdict.cause) == ("cantTell", "does-not-fit")
    assert isinstance(checked.accuracy, Unavailable)

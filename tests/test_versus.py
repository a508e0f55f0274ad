"""Laws of comparing entrants round by round."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from records import ROUNDS, entry, measured, row, terms

from assay.record import Accuracy, Conclusion, Estimate, Null, Outcome, Row, Unavailable, Verdict, Versus, number
from assay.resampling import estimate
from assay.sampling import Entrant, twin_of
from assay.speeds import derive
from assay.versus import Field, best, common_mode, conclude, floor_of, null, samples_of, speedup, versus

TIMES = st.integers(100000, 10**9).map(float)
FLOORS = st.floats(0, 0.05)
GOOD = range(ROUNDS)
SWAPPED: dict[Conclusion, Conclusion] = {
    "faster": "slower",
    "slower": "faster",
    "same": "same",
    "inconclusive": "inconclusive",
}


def timed(name: str, nanoseconds: float, kind: str = "variant", outcome: Outcome = "passed", host: float = 2e3) -> Row:
    """Return a row; host-bound where the host takes more than an empty kernel's 2900 ns."""
    found = row(name, kind, name.partition("/")[0], nanoseconds, host)
    if outcome == "passed":
        return found
    nothing = Unavailable(reason="as the test says")
    return replace(found, verdict=Verdict(outcome=outcome, cause="crash", reason="as the test says"), time_ns=nothing)


def field(*rows: Row) -> Field:
    return Field(rows, GOOD, 0.01)


def estimates(draw: Any) -> Estimate:
    low, median, high = sorted(draw(st.tuples(*[st.floats(0.5, 2)] * 3)))
    return Estimate(low=low, median=median, high=high)


def inverse(found: Estimate) -> Estimate:
    return Estimate(low=1 / found.high, median=1 / found.median, high=1 / found.low)


# The best of each precision


@given(st.lists(st.tuples(st.sampled_from(["f", "g"]), TIMES), min_size=1, max_size=8))
def test_best_is_the_least_median_of_each_precision(given_rows: list[tuple[str, float]]) -> None:
    rows = [timed(f"{precision}/{place}", time) for place, (precision, time) in enumerate(given_rows)]
    least = {p: min(time for q, time in given_rows if q == p) for p, _ in given_rows}
    assert {one.precision: one.median_ns for one in best(rows)} == least
    assert [one.precision for one in best(rows)] == list(dict.fromkeys(p for p, _ in given_rows))


def test_neither_peer_nor_twin_nor_an_unproven_variant_is_best() -> None:
    others = [timed("f/p", 1e5, kind="peer"), timed("f/t", 1e5, kind="twin"), timed("f/b", 2e5, outcome="failed")]
    assert [one.entrant for one in best([timed("f/a", 9e5), *others])] == ["f/a"]


# The null experiment


@given(TIMES)
def test_identical_samples_show_no_difference_at_all(nanoseconds: float) -> None:
    first = timed("f/a", nanoseconds)
    found = null(field(first, replace(first, entrant="f/a (again)", kind="twin")))
    assert found == Null(entrant="f/a", ratio=Estimate(low=1.0, median=1.0, high=1.0), floor=0.0)
    assert conclude(Estimate(low=1.0, median=1.0, high=1.0), 0.0, 0.01)[0] == "same"
    assert conclude(Estimate(low=1.0, median=1.0, high=1.0), 0.0, 0.0)[0] == "same"


@pytest.mark.parametrize("apart", [(0.0, 0.002), (0.002, 0.0)])
def test_the_floor_is_how_far_equals_lie_apart(apart: tuple[float, float]) -> None:
    first = Entrant(name="f/a", kind="variant", precision="f", configuration="a")
    raw = [entry(first, 4e5, apart=apart[0]), entry(twin_of(first), 4e5, apart=apart[1])]
    found = derive(measured(raw), terms()).null
    assert isinstance(found.ratio, Estimate)
    assert found.ratio.low < 1 < found.ratio.high
    assert found.floor == max(1 - found.ratio.low, found.ratio.high - 1)
    assert math.isclose(floor_of(found, 0.01), 0.002, rel_tol=0.1)


def test_without_a_twin_the_margin_is_the_floor() -> None:
    found = null(field(timed("f/a", 5e5)))
    assert found.entrant is None
    assert found.ratio == found.floor == Unavailable(reason="no entrant was sampled under a second name")
    assert floor_of(found, 0.01) == 0.01


@pytest.mark.parametrize("failed", [0, 1])
def test_a_twin_shows_nothing_where_either_of_the_two_has_no_time(failed: int) -> None:
    names = ["f/a", "f/a (again)"]
    rows = [
        timed(name, 5e5, kind=kind, outcome="failed" if at == failed else "passed")
        for at, (name, kind) in enumerate(zip(names, ("variant", "twin"), strict=True))
    ]
    found = null(field(*rows))
    assert found.floor == Unavailable(reason=f"{names[failed]}: as the test says")
    assert found.entrant == "f/a"


# Conclusions


@given(st.data(), FLOORS, FLOORS)
def test_conclusions_change_roles_when_the_entrants_do(data: Any, floor: float, margin: float) -> None:
    found = estimates(data.draw)
    limits = [1 + floor, 1 + margin, 1 / (1 + floor), 1 / (1 + margin)]
    assume(all(abs(end - limit) > 1e-9 for end in (found.low, found.high) for limit in limits))
    assert conclude(inverse(found), floor, margin)[0] == SWAPPED[conclude(found, floor, margin)[0]]


@given(st.data(), FLOORS, FLOORS)
def test_a_conclusion_says_where_the_interval_lies(data: Any, floor: float, margin: float) -> None:
    found = estimates(data.draw)
    conclusion, _ = conclude(found, floor, margin)
    inside = 1 / (1 + margin) <= found.low and found.high <= 1 + margin
    assert (conclusion == "same") == inside
    if conclusion == "faster":
        assert found.high < 1 / (1 + floor)
    if conclusion == "slower":
        assert found.low > 1 + floor
    if conclusion == "inconclusive":
        assert found.low <= 1 + floor
        assert found.high >= 1 / (1 + floor)


@pytest.mark.parametrize(
    ("low", "high", "conclusion"),
    [
        (0.995, 0.999, "same"),
        (0.95, 0.98, "faster"),
        (1.03, 1.05, "slower"),
        (0.95, 1.001, "inconclusive"),
        (0.97, 0.995, "faster"),
        (1.001, 1.03, "inconclusive"),
    ],
)
def test_conclusions_at_a_floor_of_two_thousandths(low: float, high: float, conclusion: str) -> None:
    assert conclude(Estimate(low=low, median=(low + high) / 2, high=high), 0.002, 0.01)[0] == conclusion


def test_a_number_that_is_none_concludes_nothing() -> None:
    assert conclude(Estimate(low=math.nan, median=math.nan, high=math.nan), 0.0, 0.01)[0] == "inconclusive"


# Variants against peers


def test_each_timed_variant_is_held_against_the_fastest_peer_of_its_precision() -> None:
    peers = [timed("f/slow", 6e5, "peer"), timed("f/quick", 4e5, "peer"), timed("f/wrong", 1e5, "peer", "failed")]
    rows = [timed("f/a", 2e5), timed("f/b", 8e5), timed("f/c", 1e5, outcome="failed"), timed("g/a", 5e5), *peers]
    found = list(versus(field(*rows), 0.001))
    assert [(one.entrant, one.against, one.conclusion) for one in found] == [
        ("f/a", "f/quick", "faster"),
        ("f/b", "f/quick", "slower"),
    ]
    for one, median in zip(found, (0.5, 2.0), strict=True):
        assert isinstance(one.ratio, Estimate)
        assert math.isclose(one.ratio.median, median, rel_tol=1e-5)


@pytest.mark.parametrize(("hosts", "mode"), [((2e3, 2e3), "events"), ((9e3, 2e3), "replay"), ((2e3, 9e3), "replay")])
def test_two_are_compared_by_replays_where_events_measured_the_host_for_either(
    hosts: tuple[float, float], mode: str
) -> None:
    variant, peer = timed("f/a", 4e5, "variant", host=hosts[0]), timed("f/p", 4e5, "peer", host=hosts[1])
    [found] = versus(field(variant, peer), 0.001)
    samples = [samples_of(one, found.mode, GOOD) for one in (variant, peer)]
    assert found.mode == mode == common_mode(peer, variant)
    assert found.ratio == estimate([a / b for a, b in zip(*samples, strict=True)])
    assert found.reason.endswith("; both replayed, since events measured the host") == (mode == "replay")


def test_two_are_compared_by_events_where_one_has_no_replay_and_it_is_said() -> None:
    nothing = Unavailable(reason="it synchronises")
    peer = replace(timed("f/p", 4e5, "peer"), replays_ns=nothing, replay=nothing, launch_bound=nothing)
    [found] = versus(field(timed("f/a", 4e5, host=9e3), peer), 0.001)
    assert found.mode == "events"
    assert found.reason.endswith("; by events, which measured the host, since there are no replays of both")
    assert samples_of(peer, "replay", GOOD) == []


# Rivals of another precision


def erring(row: Row, error: float) -> Row:
    return replace(row, accuracy=Accuracy(normwise=error, largest=error))


def against(variant: Row, *peers: Row, rivals: Mapping[str, Sequence[str]]) -> list[Versus]:
    return list(versus(Field([variant, *peers], GOOD, 0.01, rivals), 0.001))


QUICK = erring(timed("planes/a", 2e5), 2e-7)
LIBRARY = erring(timed("f/p", 4e5, "peer"), 8e-7)


def test_without_a_peer_of_its_precision_a_variant_meets_the_fastest_declared_rival() -> None:
    slower, other = erring(timed("g/slow", 6e5, "peer"), 8e-7), erring(timed("g/quick", 1e5, "peer"), 1e-3)
    rivals = {"f/p": ["planes"], "g/slow": ["planes"]}
    [found] = against(QUICK, slower, LIBRARY, other, rivals=rivals)
    assert (found.against, found.conclusion) == ("f/p", "faster")
    assert found.reason.endswith("; its error is 2e-07, that of f/p 8e-07")
    assert against(QUICK, LIBRARY, other, rivals={}) == []


def test_a_peer_of_its_own_precision_comes_before_any_rival() -> None:
    own = timed("planes/p", 9e5, "peer")
    [found] = against(QUICK, own, LIBRARY, rivals={"f/p": ["planes"]})
    assert found.against == "planes/p"
    assert "error" not in found.reason


def test_a_rival_without_a_time_is_none() -> None:
    assert against(QUICK, timed("f/p", 4e5, "peer", "failed"), rivals={"f/p": ["planes"]}) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "time", "conclusion"),
    [
        (8e-7, 8e-7, 2e5, "faster"),
        (9e-7, 8e-7, 2e5, "inconclusive"),
        (9e-7, 8e-7, 4e5, "inconclusive"),
        (9e-7, 8e-7, 9e5, "slower"),
        (2e-7, 8e-7, 4e5, "same"),
        (number(math.nan), 8e-7, 2e5, "inconclusive"),
        (2e-7, number(math.nan), 2e5, "inconclusive"),
    ],
)
def test_what_errs_more_than_its_rival_does_not_beat_it(ours: Any, theirs: Any, time: float, conclusion: str) -> None:
    variant, peer = erring(timed("planes/a", time), ours), erring(LIBRARY, theirs)
    [found] = against(variant, peer, rivals={"f/p": ["planes"]})
    assert found.conclusion == conclusion


def test_errors_that_are_not_known_beat_nobody() -> None:
    unknown = replace(LIBRARY, accuracy=Unavailable(reason="it returned nothing"))
    [found] = against(QUICK, unknown, rivals={"f/p": ["planes"]})
    assert (found.conclusion, found.reason.endswith(", but how much it and f/p err is not known")) == (
        "inconclusive",
        True,
    )


# Contrasts


@given(TIMES, TIMES, FLOORS)
def test_a_contrast_is_gated_above_one_and_the_floor(reference: float, lesser: float, floor: float) -> None:
    found = speedup(field(timed("ref/a", reference), timed("les/a", lesser)), floor, "ref", "les")
    assert isinstance(found.ratio, Estimate)
    assert math.isclose(found.ratio.median, reference / lesser, rel_tol=1e-4)
    expected: dict[str, bool] = {
        "passed": found.ratio.low > 1 + floor,
        "failed": found.ratio.high < 1 + floor,
        "cantTell": found.ratio.low <= 1 + floor <= found.ratio.high,
    }
    assert [outcome for outcome, holds in expected.items() if holds] == [found.verdict.outcome]
    assert found.verdict.cause == {"passed": None, "failed": "speed", "cantTell": "noise"}[found.verdict.outcome]


def test_a_contrast_within_noise_cannot_be_told() -> None:
    first = Entrant(name="ref/a", kind="variant", precision="ref", configuration="a")
    second = Entrant(name="les/a", kind="variant", precision="les", configuration="a")
    raw = [entry(first, 4e5, apart=0.002), entry(second, 4e5)]
    found = derive(measured(raw), terms(contrasts=[("ref", "les")])).speedups[0]
    assert (found.verdict.outcome, found.verdict.cause) == ("failed", "speed")  # the margin, 1%, is the floor
    wide = speedup(field(*derive(measured(raw), terms()).rows), 0.0005, "ref", "les")
    assert (wide.verdict.outcome, wide.verdict.cause) == ("cantTell", "noise")
    assert "takes 1.0000 (0.9980 to 1.0020) times as long" in wide.verdict.reason
    assert "; more than 1.0005 is needed" in wide.verdict.reason


@pytest.mark.parametrize(("there", "missing"), [("ref", "les"), ("les", "ref"), ("other", "ref or les")])
def test_an_unmeasured_precision_cannot_be_told(there: str, missing: str) -> None:
    found = speedup(field(timed(f"{there}/a", 4e5)), 0.0, "ref", "les")
    assert (found.verdict.outcome, found.verdict.cause) == ("cantTell", "not-measured")
    assert found.ratio == Unavailable(reason=f"no variant was timed in {missing}")

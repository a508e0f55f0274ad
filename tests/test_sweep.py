"""A sweep from the asking side, against the real worker on the host; only its faults are made up."""

import io
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from host_device import HostDevice, InProcess, UnrecordedDevice, write_toy

from assay.child import Answer, Asked, Fault, ask
from assay.config import TimingSettings
from assay.progress import Progress
from assay.record import Accuracy, Estimate, Inputs, Row, Sweep, Unavailable, Verdict
from assay.sampling import Checked, Entrant, Prepared, Problem
from assay.speeds import Terms
from assay.sweep import Bench, sweep

SETTINGS = TimingSettings(rounds=8, fewest_rounds=6, minimum_s=0.0, repeats=1, warmup=1, flush_mebibytes=0)
NOTHING = Unavailable(reason="not measured here")
Change = Callable[[Answer, Answer | Fault], Answer | Fault]


class Changed:
    """Passes requests on, and lets a test change the answer."""

    def __init__(self, inner: Asked, change: Change) -> None:
        self.inner, self.change = inner, change

    def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
        return self.change(request, self.inner.ask(request, limit_s))


class Rounds:
    """Replaces the answer to the round of one number, and passes all others."""

    def __init__(self, number: int, replace: Callable[[Answer], Answer | Fault]) -> None:
        self.number, self.replace, self.seen = number, replace, 0

    def __call__(self, request: Answer, answer: Answer | Fault) -> Answer | Fault:
        if request["do"] != "round" or isinstance(answer, Fault):
            return answer
        self.seen += 1
        return self.replace(answer) if self.seen == self.number else answer


def terms(settings: TimingSettings, launch: Estimate | Unavailable = NOTHING) -> Terms:
    return Terms(
        settings=settings,
        maximum_sm_clock_mhz=NOTHING,
        launch=launch,
        ceilings=[],
        runs_into={},
        contrasts=[("ieee", "tf32")],
    )


def bench(child: Asked, names: list[str], settings: TimingSettings = SETTINGS, searched: bool = False) -> Bench:
    entrants = [
        Entrant(name=n, kind="variant", precision=n.split("/")[0], configuration=n.split("/")[1], searched=searched)
        for n in names
    ]
    peer = Entrant(name="torch", kind="peer", precision="ieee", configuration=None)
    problem = Problem(size="n64", dimensions={"n": 64}, flops=64, bytes=512)
    progress = Progress("test", settings.rounds, io.StringIO())
    return Bench(child, problem, [*entrants, peer], terms(settings), 7, progress)


def swept(
    folder: Path,
    *how: tuple[str, str],
    change: Change = lambda request, answer: answer,
    settings: TimingSettings = SETTINGS,
    barred: dict[str, Verdict] | None = None,
    searched: bool = False,
    device: type[HostDevice] = HostDevice,
) -> tuple[Sweep, InProcess]:
    child = InProcess(write_toy(folder, *how), device)
    names = [f"{precision}/{behaviour.replace(' ', '-')}" for precision, behaviour in how]
    return sweep(bench(Changed(child, change), names, settings, searched), barred or {}), child


def asked(child: InProcess, do: str) -> list[Answer]:
    return [request for request in child.requests if request["do"] == do]


def rows(found: Sweep) -> dict[str, Row]:
    return {row.entrant: row for row in found.rows}


def verdicts(found: Sweep) -> dict[str, tuple[str, str | None]]:
    return {row.entrant: (row.verdict.outcome, row.verdict.cause) for row in found.rows}


# a whole sweep


def test_all_entrants_are_timed_side_by_side(tmp_path: Path) -> None:
    found, child = swept(tmp_path, ("ieee", "right"), ("tf32", "right"))
    names = ["ieee/right", "tf32/right", "torch", "ieee/right (again)"]
    assert [row.entrant for row in found.rows] == names
    assert set(verdicts(found).values()) == {("passed", None)}
    for row in found.rows:
        assert isinstance(row.replays_ns, list)
        assert len(row.samples_ns) == len(row.replays_ns) == len(found.rounds) == 8
    assert [one.precision for one in found.best] == ["ieee", "tf32"]
    assert len(found.speedups) == 1
    orders = [request["order"] for request in asked(child, "round")]
    assert len(orders) == 8
    assert all(sorted(order) == sorted(names) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert [request["turn"] for request in asked(child, "round")] == list(range(8))
    how = "timed in 8 interleaved rounds, each one launch; "
    assert found.rows[0].verdict.reason.startswith(how)
    assert isinstance(found.inputs, Inputs)
    assert found.inputs.seed == 7
    assert 0 < found.cost.sampling_ns <= found.cost.device_ns


def test_preparing_peers_is_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0)

    def slow(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        # A library that tunes itself takes a second, and anything else a thousandth part of one.
        clock.now += 10**9 if request.get("entrant") == "torch" and request["do"] == "prepare" else 10**6
        return answer

    monkeypatch.setattr("assay.sweep.time", SimpleNamespace(monotonic=lambda: 0.0, monotonic_ns=lambda: clock.now))
    found, child = swept(tmp_path, ("ieee", "right"), change=slow)
    prepared = sum(request["entrant"] == "torch" for request in asked(child, "prepare"))
    assert found.cost.peers_ns == prepared * 10**9
    assert found.cost.device_ns - found.cost.peers_ns < 10**9


def test_the_twin_is_the_first_variant_once_more(tmp_path: Path) -> None:
    found, child = swept(tmp_path, ("tf32", "right"), ("ieee", "right"))
    twin = found.rows[-1]
    assert (twin.entrant, twin.kind, twin.precision) == ("tf32/right (again)", "twin", "tf32")
    assert found.null.entrant == "tf32/right"
    assert isinstance(found.null.ratio, Estimate)
    # It writes where the other does, so it is not looked at twice.
    assert [request["entrant"] for request in asked(child, "check")] == ["tf32/right", "ieee/right", "torch"]
    assert [request["entrant"] for request in asked(child, "prepare") if request["again"]] == [twin.entrant]


def test_without_a_variant_the_twin_is_the_peer(tmp_path: Path) -> None:
    wrong = Verdict(outcome="untested", cause="upstream", reason="wrong on the device")
    found, _ = swept(tmp_path, ("ieee", "right"), barred={"ieee/right": wrong})
    assert found.rows[-1].entrant == "torch (again)"


def test_a_twin_that_faults_leaves_the_others(tmp_path: Path) -> None:
    def refuse(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        if request["do"] == "prepare" and request["again"]:
            child.worker = type(child.worker)(child.path, child.device)
            return Fault("crash", "the process was killed by SIGSEGV")
        return answer

    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    found = sweep(bench(Changed(child, refuse), ["ieee/right"]), {})
    assert verdicts(found) == {
        "ieee/right": ("passed", None),
        "torch": ("passed", None),
        "ieee/right (again)": ("failed", "crash"),
    }
    assert isinstance(found.null.ratio, Unavailable)


def test_an_entrant_that_faults_only_beside_its_twin_has_the_fault_and_so_has_the_twin(tmp_path: Path) -> None:
    prepared: list[str] = []

    def refuse(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        if request["do"] == "prepare" and request["entrant"] == "ieee/right" and not request["again"]:
            prepared.append("ieee/right")
            return answer if len(prepared) == 1 else Fault("crash", "the process was killed by SIGSEGV")
        return answer

    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    found = sweep(bench(Changed(child, refuse), ["ieee/right"]), {})
    assert verdicts(found) == {
        "ieee/right": ("failed", "crash"),
        "torch": ("passed", None),
        "ieee/right (again)": ("failed", "crash"),
    }
    assert isinstance(found.null.ratio, Unavailable)


def test_what_cannot_be_recorded_has_no_replays_and_a_reason(tmp_path: Path) -> None:
    found, _ = swept(tmp_path, ("ieee", "right"), device=UnrecordedDevice)
    assert set(verdicts(found).values()) == {("passed", None)}
    assert {type(row.replays_ns) for row in found.rows} == {Unavailable}
    assert found.rows[0].replays_ns == Unavailable(reason="the host has no graphs")


def test_a_fault_while_preparing_is_one_rows_verdict(tmp_path: Path) -> None:
    found, child = swept(tmp_path, ("ieee", "right"), ("ieee", "too large"), ("tf32", "right"))
    assert verdicts(found) == {
        "ieee/right": ("passed", None),
        "ieee/too-large": ("inapplicable", "does-not-fit"),
        "tf32/right": ("passed", None),
        "torch": ("passed", None),
        "ieee/right (again)": ("passed", None),
    }
    assert "147456" in rows(found)["ieee/too-large"].verdict.reason
    assert rows(found)["ieee/too-large"].samples_ns == []
    prepared = [request["entrant"] for request in asked(child, "prepare")]
    # Those prepared before the fault died with their process and prepare again; the faulty one does not. The third time
    # is with the twin.
    assert prepared[:4] == ["ieee/right", "ieee/too-large", "tf32/right", "torch"]
    assert prepared[4:7] == ["ieee/right", "tf32/right", "torch"]
    assert prepared[7:] == ["ieee/right", "tf32/right", "torch", "ieee/right (again)"]


def test_a_refusal_while_preparing_spoils_nothing(tmp_path: Path) -> None:
    refused = Verdict(outcome="inapplicable", cause="does-not-fit", reason="the device has too little memory")

    def refuse(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        if request["do"] == "prepare" and request["entrant"] == "tf32/right":
            return dict(msgspec.to_builtins(Prepared(binary_sha256=[], refused=refused)))
        return answer

    found, child = swept(tmp_path, ("ieee", "right"), ("tf32", "right"), change=refuse)
    row = rows(found)["tf32/right"]
    assert (row.verdict, row.samples_ns) == (refused, [])
    prepared = [request["entrant"] for request in asked(child, "prepare")]
    assert prepared == ["ieee/right", "tf32/right", "torch", "ieee/right", "torch", "ieee/right (again)"]


def test_without_inputs_nobody_is_prepared(tmp_path: Path) -> None:
    fault = Fault("exception", "OutOfMemoryError: CUDA out of memory", "OutOfMemoryError")
    found, child = swept(tmp_path, ("ieee", "right"), change=lambda q, a: fault if q["do"] == "inputs" else a)
    assert set(verdicts(found).values()) == {("inapplicable", "does-not-fit")}
    assert found.inputs == Unavailable(reason="OutOfMemoryError: CUDA out of memory")
    assert (asked(child, "prepare"), found.ended) == ([], "nothing")


# search spaces


def screened(times: dict[str, float]) -> Change:
    """Replace the samples of those named, in every round."""

    def change(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        if request["do"] != "round" or isinstance(answer, Fault):
            return answer
        return {**answer, "samples_ns": {n: times.get(n, old) for n, old in answer["samples_ns"].items()}}

    return change


SPACE = [("ieee", "right"), ("ieee", "right slow"), ("tf32", "right")]


def test_a_search_space_is_thinned_out_by_a_short_round(tmp_path: Path) -> None:
    times = {"ieee/right": 1000.0, "ieee/right-slow": 1501.0, "tf32/right": 9000.0}
    found, child = swept(tmp_path, *SPACE, change=screened(times), searched=True)
    slow = rows(found)["ieee/right-slow"]
    assert (slow.verdict.outcome, slow.verdict.cause) == ("inapplicable", "pruned")
    assert "1.501 us" in slow.verdict.reason
    assert (slow.samples_ns, slow.screen_ns) == ([], [1501.0] * 3)
    assert rows(found)["ieee/right"].screen_ns == [1000.0] * 3
    assert rows(found)["torch"].screen_ns == []
    orders = [set(request["order"]) for request in asked(child, "round")]
    # The peer waits for the rounds that count, and what is left out takes no part in them.
    assert orders[:3] == [{"ieee/right", "ieee/right-slow", "tf32/right"}] * 3
    assert orders[3:] == [{"ieee/right", "tf32/right", "torch", "ieee/right (again)"}] * 8
    assert "ieee/right-slow" not in {request["entrant"] for request in asked(child, "check")}


def test_the_twin_is_one_that_the_short_round_left(tmp_path: Path) -> None:
    times = {"ieee/right": 9000.0, "ieee/right-slow": 1000.0}
    found, _ = swept(tmp_path, *SPACE[:2], change=screened(times), searched=True)
    assert verdicts(found)["ieee/right"] == ("inapplicable", "pruned")
    assert found.rows[-1].entrant == "ieee/right-slow (again)"


def test_a_fault_in_the_short_round_leaves_no_samples(tmp_path: Path) -> None:
    broken = Rounds(2, lambda answer: Fault("crash", "the process was killed by SIGSEGV"))
    found, child = swept(tmp_path, *SPACE, change=broken, searched=True)
    assert set(verdicts(found).values()) == {("cantTell", "crash")}
    assert found.rows[0].verdict.reason.startswith("sampling stopped after 1 of 3 rounds")
    assert {len(row.screen_ns) + len(row.samples_ns) for row in found.rows} == {0}
    assert (found.ended, found.rounds, asked(child, "check")) == ("fault", [], [])


# what keeps a row from having a time


def test_a_barred_variant_is_never_launched(tmp_path: Path) -> None:
    wrong = Verdict(outcome="untested", cause="upstream", reason="wrong on the device")
    found, child = swept(tmp_path, ("ieee", "right"), ("tf32", "right"), barred={"tf32/right": wrong})
    assert verdicts(found)["tf32/right"] == ("untested", "upstream")
    assert "tf32/right" not in {request.get("entrant") for request in child.requests}
    assert (found.speedups[0].verdict.outcome, found.speedups[0].verdict.cause) == ("cantTell", "not-measured")


def test_a_variant_that_goes_wrong_while_timed_has_samples_and_no_time(tmp_path: Path) -> None:
    found, _ = swept(tmp_path, ("ieee", "right"), ("ieee", "wrong late"))
    row = found.rows[1]
    assert (row.verdict.outcome, row.verdict.cause) == ("failed", "wrong-value")
    assert len(row.samples_ns) == 8
    assert isinstance(row.time_ns, Unavailable)
    assert isinstance(row.accuracy, Accuracy)
    assert [one.entrant for one in found.best] == ["ieee/right"]


def test_the_twin_of_a_wrong_one_is_wrong(tmp_path: Path) -> None:
    found, _ = swept(tmp_path, ("ieee", "wrong late"))
    assert verdicts(found) == {
        "ieee/wrong-late": ("failed", "wrong-value"),
        "torch": ("passed", None),
        "ieee/wrong-late (again)": ("failed", "wrong-value"),
    }


def test_a_fault_between_rounds_leaves_the_samples_and_no_verdict(tmp_path: Path) -> None:
    broken = Rounds(4, lambda answer: Fault("crash", "the process was killed by SIGSEGV"))
    found, child = swept(tmp_path, ("ieee", "right"), change=broken)
    assert set(verdicts(found).values()) == {("cantTell", "crash")}
    assert found.rows[0].verdict.reason == "sampling stopped after 3 of 8 rounds: the process was killed by SIGSEGV"
    assert len(found.rows[0].samples_ns) == 3
    assert "check" not in {request["do"] for request in child.requests}


@pytest.mark.parametrize("samples", [{}, {"ieee/right": 1.0}, {"ieee/right": 1.0, "torch": 1.0, "other": 1.0}])
def test_an_answer_about_other_entrants_is_a_fault(tmp_path: Path, samples: dict[str, float]) -> None:
    broken = Rounds(1, lambda answer: {**answer, "samples_ns": samples})
    found, _ = swept(tmp_path, ("ieee", "right"), change=broken)
    assert set(verdicts(found).values()) == {("cantTell", "crash")}
    assert "entrants are not those that were asked for" in found.rows[0].verdict.reason


def test_an_answer_without_a_replay_is_a_fault(tmp_path: Path) -> None:
    broken = Rounds(1, lambda answer: {**answer, "replays_ns": {}})
    found, _ = swept(tmp_path, ("ieee", "right"), change=broken)
    assert "entrants are not those that were asked for" in found.rows[0].verdict.reason


def test_an_impossible_time_is_inconclusive(tmp_path: Path) -> None:
    broken = Rounds(2, lambda answer: {**answer, "samples_ns": {**answer["samples_ns"], "torch": 0.0}})
    found, _ = swept(tmp_path, ("ieee", "right"), change=broken)
    assert verdicts(found)["torch"] == ("cantTell", "not-measured")
    assert verdicts(found)["ieee/right"] == ("passed", None)


def test_an_unchecked_output_is_inconclusive(tmp_path: Path) -> None:
    late = Fault("timeout", "no answer within the limit of 300 s")
    found, _ = swept(tmp_path, ("ieee", "right"), change=lambda q, answer: late if q["do"] == "check" else answer)
    reason = "what it wrote could not be checked after timing: no answer within the limit of 300 s"
    assert found.rows[0].verdict == Verdict(outcome="cantTell", cause="timeout", reason=reason)
    assert found.rows[0].accuracy == Unavailable(reason=reason)
    # Nothing is claimed of a peer's output.
    assert verdicts(found)["torch"] == ("passed", None)


# when sampling ends


def ticking() -> SimpleNamespace:
    """Return a clock on which every look takes one second."""
    seconds = itertools.count()
    return SimpleNamespace(monotonic=partial(next, seconds), monotonic_ns=lambda: 10**9 * next(seconds))


def test_rounds_end_at_the_limit_and_the_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.sweep.time", ticking())
    settings = TimingSettings(repeats=1, limit_s=20.0, fewest_rounds=6, minimum_s=1000.0)
    found, _ = swept(tmp_path, ("ieee", "right"), settings=settings)
    # Three looks at the clock a round: before and behind it, and for the rule.
    assert (len(found.rounds), found.ended) == (7, "time")
    assert found.rows[0].verdict.outcome == "passed"
    assert "fit in 20 s" in found.rows[0].verdict.reason
    assert found.cost.sampling_ns == 7 * 10**9


def test_sampling_ends_when_all_are_precise(tmp_path: Path) -> None:
    times = {"ieee/right": 1000.0, "torch": 2000.0, "ieee/right (again)": 1001.0}
    found, _ = swept(tmp_path, ("ieee", "right"), change=screened(times))
    assert (len(found.rounds), found.ended) == (6, "precise")


def test_rounds_outside_the_clock_band_do_not_make_it_precise(tmp_path: Path) -> None:
    times = {"ieee/right": 1000.0, "torch": 2000.0, "ieee/right (again)": 1001.0}

    def slow(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        changed = screened(times)(request, answer)
        if request["do"] != "round" or isinstance(changed, Fault):
            return changed
        return {**changed, "conditions": {**changed["conditions"], "sm_clock_mhz": 300}}

    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    made = bench(Changed(child, slow), ["ieee/right"])
    clocked = replace(made, terms=replace(made.terms, maximum_sm_clock_mhz=1000))
    found = sweep(clocked, {})
    assert (len(found.rounds), found.ended, found.outside) == (8, "rounds", list(range(8)))
    assert set(verdicts(found).values()) == {("cantTell", "throttled")}


def test_with_nobody_ready_there_is_a_sweep_without_rounds(tmp_path: Path) -> None:
    def refuse(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        return Fault("timeout", "no answer within the limit") if request["do"] == "prepare" else answer

    found, _ = swept(tmp_path, ("ieee", "right"), change=refuse)
    assert verdicts(found) == {"ieee/right": ("failed", "timeout"), "torch": ("failed", "timeout")}
    assert (found.rounds, found.best, found.ended) == ([], [], "nothing")


@pytest.mark.parametrize("kind", [Prepared, Checked])
def test_an_answer_that_is_none_is_a_fault_that_names_the_place(kind: type[Prepared | Checked]) -> None:
    class Scribble:
        def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
            return {"binary_sha256": ["not a digest"], "verdict": 3, "accuracy": 4}

    found = ask(Scribble(), {"do": "prepare"}, kind, 1.0)
    assert isinstance(found, Fault)
    assert found.cause == "declaration"
    assert found.reason.startswith("the answer to 'prepare': $")

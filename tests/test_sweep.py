"""A sweep from the asking side, against the real worker on the host; only its faults are made up."""

import io
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from host_device import InProcess, write_toy

from assay.child import Answer, Asked, Fault, ask
from assay.config import TimingSettings
from assay.progress import Progress
from assay.record import Sweep, Unavailable, Verdict
from assay.sampling import Checked, Entrant, Prepared, Problem
from assay.sweep import Bench, sweep

SETTINGS = TimingSettings(rounds=8, repeats=1, warmup=1, flush_mebibytes=0)
CONTRASTS = [("ieee", "tf32")]
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


def bench(child: Asked, names: list[str], settings: TimingSettings = SETTINGS) -> Bench:
    entrants = [
        Entrant(name=n, kind="variant", precision=n.split("/")[0], configuration=n.split("/")[1]) for n in names
    ]
    peer = Entrant(name="torch", kind="peer", precision="ieee", configuration=None)
    problem = Problem(size="n64", dimensions={"n": 64}, flops=64, bytes=512)
    return Bench(child, problem, [*entrants, peer], settings, 7, Progress("test", settings.rounds, io.StringIO()))


def swept(
    folder: Path,
    *how: tuple[str, str],
    change: Change = lambda request, answer: answer,
    settings: TimingSettings = SETTINGS,
    barred: dict[str, Verdict] | None = None,
) -> tuple[Sweep, InProcess]:
    child = InProcess(write_toy(folder, *how))
    names = [f"{precision}/{behaviour.replace(' ', '-')}" for precision, behaviour in how]
    return sweep(bench(Changed(child, change), names, settings), barred or {}, CONTRASTS), child


def verdicts(found: Sweep) -> dict[str, tuple[str, str | None]]:
    return {row.entrant: (row.verdict.outcome, row.verdict.cause) for row in found.rows}


def test_all_entrants_are_timed_side_by_side(tmp_path: Path) -> None:
    found, child = swept(tmp_path, ("ieee", "right"), ("tf32", "right"))
    assert set(verdicts(found).values()) == {("passed", None)}
    assert [row.entrant for row in found.rows] == ["ieee/right", "tf32/right", "torch"]
    assert {len(row.samples_ns) for row in found.rows} == {8} == {len(found.rounds)}
    assert [one.precision for one in found.best] == ["ieee", "tf32"]
    assert len(found.speedups) == 1
    orders = [request["order"] for request in child.requests if request["do"] == "round"]
    assert len(orders) == 8
    assert all(sorted(order) == ["ieee/right", "tf32/right", "torch"] for order in orders)
    assert found.rows[0].verdict.reason == "timed in 8 interleaved rounds, each the median of 1 launches"


def test_a_fault_while_preparing_is_one_rows_verdict(tmp_path: Path) -> None:
    found, child = swept(tmp_path, ("ieee", "right"), ("ieee", "too large"), ("tf32", "right"))
    assert verdicts(found) == {
        "ieee/right": ("passed", None),
        "ieee/too-large": ("inapplicable", "does-not-fit"),
        "tf32/right": ("passed", None),
        "torch": ("passed", None),
    }
    assert "147456" in found.rows[1].verdict.reason
    assert found.rows[1].samples_ns == []
    prepared = [request["entrant"] for request in child.requests if request["do"] == "prepare"]
    # Those prepared before the fault died with their process and prepare again; the faulty one does not.
    assert prepared == ["ieee/right", "ieee/too-large", "tf32/right", "torch", "ieee/right", "tf32/right", "torch"]


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
    assert isinstance(row.median_ns, Unavailable)
    assert [one.entrant for one in found.best] == ["ieee/right"]


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


def test_an_impossible_time_is_inconclusive(tmp_path: Path) -> None:
    broken = Rounds(2, lambda answer: {**answer, "samples_ns": {**answer["samples_ns"], "torch": 0.0}})
    found, _ = swept(tmp_path, ("ieee", "right"), change=broken)
    assert verdicts(found) == {"ieee/right": ("passed", None), "torch": ("cantTell", "not-measured")}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Fault("timeout", "no answer within the limit of 300 s"), "no answer within the limit of 300 s"),
        ({"verdicts": {}}, "the answer leaves it out"),
    ],
)
def test_an_unchecked_output_is_inconclusive(tmp_path: Path, reply: Answer | Fault, why: str) -> None:
    found, _ = swept(tmp_path, ("ieee", "right"), change=lambda q, answer: reply if q["do"] == "check" else answer)
    assert found.rows[0].verdict.outcome == "cantTell"
    assert found.rows[0].verdict.reason == f"what it wrote could not be checked after timing: {why}"
    # Nothing is claimed of a peer's output.
    assert verdicts(found)["torch"] == ("passed", None)


def ticking() -> SimpleNamespace:
    """Return a clock on which every look takes one second."""
    return SimpleNamespace(monotonic=partial(next, itertools.count()))


def test_rounds_end_at_the_limit_and_the_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.sweep.time", ticking())
    found, _ = swept(tmp_path, ("ieee", "right"), settings=TimingSettings(repeats=1, limit_s=7.0))
    row = found.rows[0]
    assert len(row.samples_ns) == len(found.rounds) == 7
    assert row.verdict.outcome == "passed"
    assert row.verdict.reason.startswith("timed in 7 interleaved rounds")
    assert "no more of 100 rounds fit in 7 s" in row.verdict.reason


def test_no_round_within_the_limit_is_inconclusive_and_no_wrong_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.sweep.time", ticking())
    found, child = swept(tmp_path, ("ieee", "right"), settings=TimingSettings(limit_s=0.5))
    assert set(verdicts(found).values()) == {("cantTell", "not-measured")}
    assert found.rows[0].verdict.reason == "0 rounds were taken; an interval of the median needs 6"
    assert "check" not in {request["do"] for request in child.requests}


def test_with_nobody_ready_there_is_a_sweep_without_rounds(tmp_path: Path) -> None:
    def refuse(request: Answer, answer: Answer | Fault) -> Answer | Fault:
        return Fault("timeout", "no answer within the limit") if request["do"] == "prepare" else answer

    found, _ = swept(tmp_path, ("ieee", "right"), change=refuse)
    assert verdicts(found) == {"ieee/right": ("failed", "timeout"), "torch": ("failed", "timeout")}
    assert (found.rounds, found.best) == ([], [])


@pytest.mark.parametrize("kind", [Prepared, Checked])
def test_an_answer_that_is_none_is_a_fault_that_names_the_place(kind: type[Prepared | Checked]) -> None:
    class Scribble:
        def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
            return {"cubin_sha256": ["not a digest"], "verdicts": 3}

    found = ask(Scribble(), {"do": "prepare"}, kind, 1.0)
    assert isinstance(found, Fault)
    assert found.cause == "declaration"
    assert found.reason.startswith("the answer to 'prepare': $")

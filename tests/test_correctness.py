"""Trying every variant on every case in children: the order, the faults, and what is not asked at all."""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH
from records import MATMUL, ONCE, PASSED, comparison, replaced

from assay.child import Child, Fault
from assay.correctness import (
    Place,
    Subject,
    Terms,
    Trial,
    Tried,
    describe,
    launched,
    put_notes,
    summary,
    try_all,
    try_one,
    undecided,
    worker,
)
from assay.progress import SHOWN_FAILURES
from assay.record import Cause, Check, Declaration, Outcome, Verdict

DECLARATION = MATMUL.declaration()
LIMIT_S = 120.0
"""Never reached."""


SCRIPT = """
import json, os, sys
from assay.child import serve
script, tried = json.loads(sys.argv[1]), []

def is_spoilt(variant):
    # What this process has tried before may be too much for a variant.
    others = [one for one in tried if one != variant or variant in script.get("spoilt by any", ())]
    return bool(others) and variant in (*script.get("spoilt by any", ()), *script.get("spoilt by others", ()))

def handler(request):
    if request["do"] == "describe":
        return script["describe"]
    answer = script["try"].get(request["variant"])
    if is_spoilt(request["variant"]):
        answer = script["wrong"]
    tried.append(request["variant"])
    if answer is None:
        os.abort()
    if isinstance(answer, str):
        raise AssertionError(answer)
    return {**answer, "check": {**answer["check"], "variant": request["variant"], "case": request["case"]}}

serve(handler)
"""


def tree(record: Any) -> Any:
    return msgspec.to_builtins(record)


CHECK = Check(variant="", case="", seeds=[1], verdict=PASSED, comparisons=[comparison()], repeat=ONCE)
GOOD = {"check": tree(CHECK), "binaries": ["a" * 64]}
DESCRIBED = {"declaration": tree(DECLARATION), "tiers": {"interpreter": list(MATMUL.cases), "gpu": ["only-this"]}}


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Child]]:
    """Return a function that makes a real child which answers from a script."""
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)
    made: list[Child] = []

    def make(**script: Any) -> Child:
        text = json.dumps({"describe": DESCRIBED, "try": {v.id: GOOD for v in DECLARATION.variants}} | script)
        child = Child([sys.executable, "-c", SCRIPT, text], dict(os.environ), tmp_path / f"{len(made)}.log")
        made.append(child.__enter__())
        return child

    yield make
    for child in made:
        child.stop()


def subject() -> Subject:
    return Subject(PASSED, DECLARATION, tuple(MATMUL.cases))


def test_what_a_kernel_declares_is_asked_of_the_child(scripted: Callable[..., Child]) -> None:
    loaded = Verdict(outcome="passed", reason="the kernel file was imported and declares a kernel")
    assert describe(scripted(), "interpreter", LIMIT_S) == Subject(loaded, DECLARATION, tuple(MATMUL.cases))
    assert describe(scripted(), "gpu", LIMIT_S).cases == ("only-this",)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"tiers": {}}, r"the answer to 'describe': \$: Object missing required field `declaration`"),
        (
            {**DESCRIBED, "declaration": {**DESCRIBED["declaration"], "title": 5}},
            r"\$\.declaration\.title: Expected `str`",
        ),
        ({**DESCRIBED, "tiers": {"interpreter": [7]}}, r"\$\.tiers\[\.\.\.\]\[0\]: Expected `str`, got `int`"),
    ],
)
def test_a_declaration_of_wrong_types_is_the_kernels_fault(
    scripted: Callable[..., Child], answer: Any, reason: str
) -> None:
    found = describe(scripted(describe=answer), "interpreter", LIMIT_S)
    assert (found.declaration, found.cases) == (None, ())
    assert (found.loading.outcome, found.loading.cause) == ("failed", "declaration")
    assert re.search(reason, found.loading.reason)


class Slow:
    """A child that never answers in time."""

    def ask(self, request: Any, limit_s: float) -> Fault:
        return Fault("timeout", "no answer")


def test_what_to_do_about_a_slow_trial_is_said_on_the_terms_that_have_it() -> None:
    trial = Trial(DECLARATION.variants[0], MATMUL.cases[0])
    verdicts = [
        try_one(Slow(), trial, terms, DECLARATION).check.verdict
        for terms in (Terms([1], 60), Terms([1], 60, too_slow="wait"))
    ]
    assert [(one.cause, one.reason) for one in verdicts] == [("timeout", "no answer"), ("timeout", "no answer; wait")]


WRONG = Verdict(outcome="failed", cause="wrong-value", reason="2 of 4 elements are wrong")


def answer(verdict: Verdict) -> Any:
    return {**GOOD, "check": tree(replaced(CHECK, verdict=verdict))}


def spoilt(tried: list[Tried]) -> dict[tuple[str, str], tuple[Cause | None, str]]:
    verdicts = {(t.check.variant, t.check.case): t.check.verdict for t in tried if t.check.verdict.outcome != "passed"}
    return {at: (found.cause, found.reason) for at, found in verdicts.items()}


def test_what_is_right_in_a_process_of_its_own_is_a_stale_result(scripted: Callable[..., Child]) -> None:
    (_, second), keeps = MATMUL.cases, DECLARATION.variants[1].id
    child = scripted(**{"spoilt by any": [keeps], "wrong": answer(WRONG)})
    declared: Declaration = replaced(DECLARATION, variants=[DECLARATION.variants[1]])
    found = spoilt(try_all([child], Subject(PASSED, declared, tuple(MATMUL.cases)), Terms([1, 2], 60), "interpreter"))
    words = "in a process of its own it is right, so that it depends on an earlier call: 2 of 4 elements are wrong"
    assert found == {(keeps, second): ("stale-result", words)}


def test_what_is_wrong_in_a_process_of_its_own_too_keeps_its_cause(scripted: Callable[..., Child]) -> None:
    script = {v.id: answer(WRONG) for v in DECLARATION.variants}
    found = spoilt(try_all([scripted(**{"try": script})], subject(), Terms([1], 60), "interpreter"))
    assert set(found.values()) == {("wrong-value", WRONG.reason)}


@pytest.mark.parametrize("count", [1, 4])
def test_what_one_variant_leaves_to_another_shows_with_any_number_of_processes(
    scripted: Callable[..., Child], count: int
) -> None:
    (_, second), last = MATMUL.cases, DECLARATION.variants[-1].id
    children = [scripted(**{"spoilt by others": [last], "wrong": answer(WRONG)}) for _ in range(count)]
    found = spoilt(try_all(children, subject(), Terms([1], 60), "interpreter"))
    assert {variant for variant, _ in found} == {last}
    cause, reason = found[last, second]
    assert cause == "stale-result"
    assert reason.endswith(
        f", so that it depends on {'an earlier call' if count == 1 else 'their calls'}: {WRONG.reason}"
    )


def test_on_a_device_what_fails_is_not_tried_again(scripted: Callable[..., Child]) -> None:
    keeps = DECLARATION.variants[1].id
    child = scripted(**{"spoilt by any": [keeps], "wrong": answer(WRONG)})
    found = spoilt(try_all([child], subject(), Terms([1], 60, Place("NVIDIA H200", "sm_90")), "gpu"))
    assert {cause for cause, _ in found.values()} == {"wrong-value"}


@pytest.mark.parametrize("count", [1, 3])
def test_every_variant_is_tried_on_every_case_in_order_and_a_fault_costs_one_trial(
    scripted: Callable[..., Child], count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    crashing, refused, wrong = "ieee/128x64x64", "tf32/64x64x32", "tf32/128x64x64"
    script = {v.id: GOOD for v in DECLARATION.variants} | {
        crashing: None,
        refused: "input_precision must be one of ('ieee',). Got tf32",
        wrong: {**GOOD, "binaries": ["not a digest"]},
    }
    tried = try_all([scripted(**{"try": script}) for _ in range(count)], subject(), Terms([1], 60), "gpu matmul")
    assert [(t.check.case, t.check.variant) for t in tried] == [
        (case, v.id) for case in MATMUL.cases for v in DECLARATION.variants
    ]
    causes = {t.check.variant: (t.check.verdict.outcome, t.check.verdict.cause) for t in tried}
    assert causes == {
        "ieee/64x64x32": ("passed", None),
        crashing: ("failed", "crash"),
        refused: ("inapplicable", "unsupported-precision"),
        wrong: ("failed", "declaration"),
    }
    assert [t.binaries for t in tried if t.check.variant == "ieee/64x64x32"] == [["a" * 64]] * 2
    *told, more, counts, note = capsys.readouterr().err.splitlines()[-6:]
    assert (more, counts) == ("gpu matmul: and 1 more", "gpu matmul: 4 failed, 2 inapplicable, 2 passed")
    unserved = next(t.check.verdict.reason for t in tried if t.check.variant == refused)
    assert note == f"gpu matmul: 2 inapplicable: unsupported-precision, {unserved}"
    failed = [t.check for t in tried if t.check.verdict.outcome == "failed"]
    assert told == [f"gpu matmul: {c.case} {c.variant}: {c.verdict.cause}, {c.verdict.reason}" for c in failed[:3]]


def with_verdict(outcome: Outcome, cause: Cause | None, reason: str) -> Tried:
    return Tried(check=replaced(CHECK, verdict=Verdict(outcome=outcome, cause=cause, reason=reason)))


def test_why_checks_neither_passed_nor_failed_is_told_once_a_reason_the_commonest_first() -> None:
    product = with_verdict("inapplicable", "unsupported-dtype", "bfloat16 in arithmetic")
    free = with_verdict("inapplicable", "policy", "it has too few bits")
    doubtful = with_verdict("cantTell", "timeout", "it has too few bits")
    tried = [free, Tried(check=CHECK), product, with_verdict("failed", "crash", "killed"), product, doubtful]
    assert undecided(tried) == [
        "2 inapplicable: unsupported-dtype, bfloat16 in arithmetic",
        "1 inapplicable: policy, it has too few bits",
        "1 cantTell: timeout, it has too few bits",
    ]


@given(st.lists(st.text(st.characters(), max_size=600), max_size=8))
def test_of_notes_the_first_few_are_printed_in_a_line_each_and_how_many_more_there_are(notes: list[str]) -> None:
    with contextlib.redirect_stderr(io.StringIO()) as log:
        put_notes("gpu matmul", notes)
    told, more = log.getvalue().split("\n")[:-1], len(notes) - SHOWN_FAILURES
    assert len(told) == min(len(notes), SHOWN_FAILURES) + (more > 0)
    assert told[SHOWN_FAILURES:] == ([f"gpu matmul: and {more} more"] if more > 0 else [])
    assert all(line.startswith("gpu matmul:") and len(line) <= 400 for line in told)


def test_a_variant_that_needs_a_newer_device_is_not_asked(scripted: Callable[..., Child]) -> None:
    needy = replaced(DECLARATION.variants[0], id="bf16x3/a", minimum_capability="8.0")
    declared: Declaration = replaced(DECLARATION, variants=[needy])
    terms = Terms([1], 60, Place("Tesla T4", "sm_75"))
    # The script knows no such variant: had it been asked, the child would have crashed.
    tried = try_all([scripted()], Subject(PASSED, declared, ("one",)), terms, "gpu matmul")
    assert [t.check.verdict for t in tried] == [
        Verdict(outcome="inapplicable", cause="capability", reason="Tesla T4 is 7.5; 8.0 or newer is needed")
    ]
    newer = Terms([1], 60, Place("NVIDIA A100", "sm_80"))
    tried = try_all([scripted()], Subject(PASSED, declared, ("one",)), newer, "gpu matmul")
    assert tried[0].check.verdict.cause == "crash"


def test_what_is_launched_is_what_is_asked_of_a_variant_that_suits_the_device() -> None:
    first, second, third, fourth = (v.id for v in DECLARATION.variants)
    one, two = MATMUL.cases
    newer = replaced(DECLARATION.variants[3], minimum_capability="10.0")
    declared: Declaration = replaced(
        DECLARATION,
        variants=[*DECLARATION.variants[:3], newer],
        once=[two],
        exemptions={one: {"tf32": "too coarse"}},
    )
    # The second of ieee is not asked of the case that is asked once; the first of tf32 is exempt from the other case.
    h200, b200 = Place("NVIDIA H200", "sm_90"), Place("NVIDIA B200", "sm_100")
    assert launched(declared, h200) == {first: [one, two], second: [one], third: [two]}
    assert launched(replaced(declared, exemptions={}), b200)[fourth] == [one]


def test_a_kernel_that_was_not_loaded_is_not_tried(
    scripted: Callable[..., Child], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Verdict(outcome="failed", cause="import-error", reason="SyntaxError: no")
    assert try_all([scripted()], Subject(broken), Terms([1], 60), "gpu matmul") == []
    assert capsys.readouterr().err == "gpu matmul: SyntaxError: no\n"
    assert summary([]) == "nothing to try"


def test_the_worker_is_the_module_that_serves_trials(tmp_path: Path) -> None:
    # A kernel file that is not there is a fault of loading, found by the real child.
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    with worker(tmp_path / "absent.py", "cpu", environ, tmp_path / "log", LIMIT_S) as child:
        found = describe(child, "interpreter", LIMIT_S)
    assert (found.loading.outcome, found.loading.cause) == ("failed", "import-error")
    assert "FileNotFoundError" in found.loading.reason

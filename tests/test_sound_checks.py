"""What interpreter and gpu records say follows from their comparisons, and nothing that was to be tried is left out.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from forge import H200, T4, Forge, checks, forge
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from records import MATMUL, replaced

from assay.judgement import contrasts, honoured, judge
from assay.opening import Opened
from assay.record import Check, Device, Execution, NonFinite, Verdict, Worst
from assay.sound_checks import interpreter_faults
from assay.soundness import faults
from assay.speeds import nothing_timed

INTERPRETER, GPU = "results/matmul/interpreter.json", "results/matmul/gpu.json"
COMPARISON = "result/checks/0/comparisons/0"
FAILED = Verdict(outcome="failed", cause="wrong-value", reason="2 of 65536 elements of 'c' are past the bound")
REFUSED = Verdict(outcome="inapplicable", cause="capability", reason="NVIDIA H200 is 9.0; 10.0 or newer is needed")

UNSUPPORTED = Verdict(outcome="inapplicable", cause="unsupported-precision", reason="not on this machine")

Spoil = Callable[[Forge], object]


def put(pointer: str, value: Any) -> Spoil:
    return lambda forged: forged.put(pointer, value)


def found_in(spoil: Spoil, device: Device | None = H200) -> list[str]:
    forged = forge(device, [MATMUL])
    spoil(forged)
    return faults(forged.opened())


def with_checks(path: str, change: Callable[[list[Check]], list[Check]]) -> Spoil:
    """Change the checks, and derive the contrasts from what is left, as a careful forger would."""

    def edit(result: Any) -> Any:
        changed = change(result.checks)
        gaps = contrasts(result.declaration, changed, gated=path == GPU)
        seen = {"precision_honoured": honoured(gaps)} if path == INTERPRETER else {}
        return replaced(result, checks=changed, contrasts=gaps, **seen)

    return put(f"{path}/result", edit)


def failing(check: Check) -> Check:
    """A check of which two elements are past the bound, honestly judged."""
    worst = Worst(index=[3, 5], got=2.0, want=1.0, error=1.0, bound=0.01)
    compared = replace(check.comparisons[0], past_bound=2, largest_error=1.0, normalised_error=1.0 / 120.5, worst=worst)
    return replace(check, verdict=judge(compared), comparisons=[compared])


def whitewashed(check: Check) -> Check:
    """The same with `failed` edited to `passed`."""
    compared = failing(check).comparisons[0]
    kind = Verdict(outcome="passed", reason=f"error {1.0 / 120.5:.3g} of the largest reference, within the bound")
    return replace(check, verdict=kind, comparisons=[compared])


def first(change: Callable[[Check], Check]) -> Callable[[list[Check]], list[Check]]:
    return lambda found: [change(found[0]), *found[1:]]


CHECKS: dict[str, tuple[Callable[[str], Spoil], str]] = {
    "failed edited to passed": (
        lambda path: with_checks(path, first(whitewashed)),
        r'/result/checks/0/verdict/outcome: expected "failed", found "passed"',
    ),
    "passed edited to failed": (
        lambda path: with_checks(path, first(lambda check: replace(check, verdict=FAILED))),
        r'/result/checks/0/verdict/outcome: expected "passed", found "failed"',
    ),
    "past the bound hidden": (
        lambda path: with_checks(
            path,
            first(
                lambda check: replace(
                    check,
                    comparisons=[replace(failing(check).comparisons[0], past_bound=0)],
                    verdict=judge(replace(failing(check).comparisons[0], past_bound=0)),
                )
            ),
        ),
        r"/result/checks/0/comparisons/0/past_bound: expected at least 1, by the worst element's error 1 of 0\.01",
    ),
    "another reason": (
        lambda path: put(f"{path}/result/checks/0/verdict/reason", "exact to the last bit"),
        r'/result/checks/0/verdict/reason: expected "error .*", found "exact to the last bit"',
    ),
    "passed, and nothing compared": (
        lambda path: with_checks(path, first(lambda check: replace(check, comparisons=[]))),
        r'/result/checks/0/verdict/outcome: expected "untested", found "passed"',
    ),
    "blocked, and compared all the same": (
        lambda path: put(
            f"{path}/result/checks/0/verdict", Verdict(outcome="cantTell", cause="timeout", reason="late")
        ),
        r'/result/checks/0/verdict/outcome: expected "failed", found "cantTell"',
    ),
    "a failure that is said not to apply": (
        lambda path: with_checks(path, first(lambda check: replace(check, verdict=UNSUPPORTED, comparisons=[]))),
        r'/result/checks/0/verdict/outcome: expected "failed", found "inapplicable"',
    ),
    "other seeds": (
        lambda path: put(f"{path}/result/checks/0/seeds", [1]),
        r"/result/checks/0/seeds: expected 2 items, found 1",
    ),
    "fewer elements": (
        lambda path: put(f"{path}/{COMPARISON}/elements", 1),
        r"/result/checks/0/comparisons/0/elements: expected 65536, found 1",
    ),
    "more past than there are": (
        lambda path: put(f"{path}/{COMPARISON}/past_bound", 65537),
        r"/result/checks/0/comparisons/0/past_bound: expected at most 65536 elements, found 65537",
    ),
    "a huge shape": (
        lambda path: put(f"{path}/{COMPARISON}/shape", [2**53 - 1] * 1000),
        r"/result/checks/0/comparisons/0/elements: expected 9007199254740991, found 65536",
    ),
    "a smaller error": (
        lambda path: put(f"{path}/{COMPARISON}/normalised_error", 1e-12),
        r"/result/checks/0/comparisons/0/normalised_error: expected \S+, found 1e-12",
    ),
    "the worst error smaller": (
        lambda path: put(f"{path}/{COMPARISON}/worst/error", 0.0),
        r"/result/checks/0/comparisons/0/worst/error: expected \S+, found 0\.0",
    ),
    "the largest error below the worst": (
        lambda path: with_checks(
            path,
            first(
                lambda check: replace(
                    check, comparisons=[replace(check.comparisons[0], largest_error=0.0, normalised_error=0.0)]
                )
            ),
        ),
        r"/result/checks/0/comparisons/0/largest_error: expected at least the worst element's \S+, found 0",
    ),
    "a place outside": (
        lambda path: put(f"{path}/{COMPARISON}/worst/index", [3, 256]),
        r"/result/checks/0/comparisons/0/worst/index: expected a place in shape \[256, 256\], found \[3, 256\]",
    ),
    "a place of other dimensions": (
        lambda path: put(f"{path}/{COMPARISON}/worst/index", [3]),
        r"/result/checks/0/comparisons/0/worst/index: expected a place in shape",
    ),
    "NaN within the bound": (
        lambda path: put(
            f"{path}/{COMPARISON}/worst",
            Worst(index=[0, 0], got=NonFinite(nonfinite="nan"), want=1.0, error=0.0, bound=1.0),
        ),
        r"/result/checks/0/comparisons/0/worst/error: expected \{\"nonfinite\":\"nan\"\}, found 0\.0",
    ),
    "a check left out": (
        lambda path: with_checks(path, lambda found: found[1:]),
        r'/result/checks: expected every variant that is asked of each case that was tried, found none of \["ieee/64',
    ),
    "a check twice": (
        lambda path: with_checks(path, lambda found: [found[0], *found]),
        r"/result/checks: expected 8 items, found 9",
    ),
    "another order": (
        lambda path: with_checks(path, lambda found: [found[1], found[0], *found[2:]]),
        r'/result/checks/0: expected \["ieee/64x64x32",".*"\], found \["ieee/128x64x64",',
    ),
    "an undeclared variant": (
        lambda path: with_checks(path, lambda found: [*found, replace(found[0], variant="fp8/x")]),
        r"/result/checks: expected 8 items, found 9",
    ),
    "no capability": (
        lambda path: with_checks(path, first(lambda check: replace(check, verdict=REFUSED, comparisons=[]))),
        r"/result/checks/0/verdict: expected no want of capability here, found",
    ),
    "contrast that honours": (
        lambda path: put(f"{path}/result/contrasts/0/ratio", 594.5),
        r"/result/contrasts/0/ratio: expected \S+, found 594\.5",
    ),
    "contrast left out": (
        lambda path: put(f"{path}/result/contrasts", []),
        r"/result/contrasts: expected 4 items, found 0",
    ),
    "another declaration": (
        lambda path: put(f"{path}/result/declaration/title", "Something better"),
        r'/result/declaration/title: expected ".*", found ".*"',
    ),
}


@pytest.mark.parametrize("path", [INTERPRETER, GPU])
@pytest.mark.parametrize("case", CHECKS)
def test_what_does_not_follow_is_refused(case: str, path: str) -> None:
    spoil, told = CHECKS[case]
    found = found_in(spoil(path))
    assert any(re.match(f"({INTERPRETER}|{GPU}|results/matmul/compile.json): {told}", fault) for fault in found), found


def test_an_honest_failure_is_sound() -> None:
    assert found_in(with_checks(INTERPRETER, first(failing))) == []


@pytest.mark.parametrize("cause", ["out-of-bounds-write", "not-written", "input-changed", "wrong-shape"])
def test_a_failure_for_another_cause_than_values_is_sound(cause: Any) -> None:
    broken = Verdict(outcome="failed", cause=cause, reason="memory outside output 'c' was written")
    assert found_in(with_checks(INTERPRETER, first(lambda check: replace(check, verdict=broken)))) == []


def test_a_check_that_crashed_is_sound() -> None:
    crashed = Verdict(outcome="failed", cause="crash", reason="the child process ended with signal 11")
    spoil = with_checks(INTERPRETER, first(lambda check: replace(check, verdict=crashed, comparisons=[])))
    assert found_in(spoil) == []


def test_precision_honoured_follows_from_the_contrasts() -> None:
    (fault,) = found_in(put(f"{INTERPRETER}/result/precision_honoured", True))
    assert fault == f"{INTERPRETER}: /result/precision_honoured: expected false, found true"


def unloaded(forged: Forge) -> None:
    """A kernel file that does not load, and says nothing else."""
    broken = Verdict(outcome="failed", cause="import-error", reason="SyntaxError in line 3")
    nothing = {"loading": broken, "declaration": None}
    forged.put(f"{INTERPRETER}/result", lambda found: replaced(found, **nothing))


def test_a_kernel_that_was_not_loaded_has_no_checks() -> None:
    found = found_in(unloaded)
    assert f"{INTERPRETER}: /result/checks: expected 0 items, found 8" in found


@pytest.mark.parametrize("stage", ["interpreter", "compile"])
def test_a_kernel_file_loads_or_fails_to(stage: str) -> None:
    skipped = Verdict(outcome="untested", cause="policy", reason="not today")
    path = f"results/matmul/{stage}.json"
    found = found_in(put(f"{path}/result/loading", skipped))
    assert f"{path}: /result/loading/outcome: expected passed or failed, found untested" in found


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"declaration": None, "checks": [], "contrasts": []},
            "/result/loading: expected a declaration of a kernel that",
        ),
        (
            {"loading": Verdict(outcome="failed", cause="import-error", reason="no")},
            "/result/loading: expected a declaration of a kernel that was loaded, and of no other, found",
        ),
    ],
)
def test_what_was_loaded_is_declared_and_nothing_else(changes: dict[str, Any], told: str) -> None:
    found = found_in(put(f"{INTERPRETER}/result", lambda result: replaced(result, **changes)))
    assert any(fault.startswith(f"{INTERPRETER}: {told}") for fault in found), found


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("cases", ["a", "a"], "/result/declaration/cases: expected each name once"),
        ("cases", [], "/result/declaration/cases: expected at least one, found none"),
        ("variants", [], "/result/declaration/variants: expected at least one, found none"),
        ("timed", ["x", "x"], "/result/declaration/timed: expected each name once"),
    ],
)
def test_a_declaration_is_one_that_a_kernel_can_make(field: str, value: Any, told: str) -> None:
    found = found_in(put(f"{INTERPRETER}/result/declaration/{field}", value))
    assert any(fault.startswith(f"{INTERPRETER}: {told}") for fault in found), found


def test_a_variants_id_is_its_precision_and_configuration() -> None:
    found = found_in(put(f"{INTERPRETER}/result/declaration/variants/0/precision", "tf32"))
    told = f'{INTERPRETER}: /result/declaration/variants/id/0: expected "tf32/64x64x32", found "ieee/64x64x32"'
    assert told in found


# The device


def on_t4(forged: Forge) -> None:
    """Correctness of a T4 beside an H200's gate and times."""
    forged.put(f"{GPU}/result/device", T4)
    forged.put(f"{GPU}/result/availability/reason", "ran on Tesla T4, compute capability 7.5")


def of_interpreter(forged: Forge) -> None:
    """The interpreter's checks under the gpu's name: every field in its place, and nothing was launched."""
    forged.put(f"{GPU}/result", lambda found: replaced(found, executions=[]))
    with_checks(GPU, lambda _: checks(MATMUL, {}))(forged)


def launches(change: Callable[[list[Execution]], list[Execution]]) -> Spoil:
    return put(f"{GPU}/result/executions", change)


DEVICE: dict[str, tuple[Spoil, str]] = {
    "correctness of a T4 beside times of an H200": (
        on_t4,
        '/result/device/name: expected "NVIDIA H200", found "Tesla T4"',
    ),
    "no device": (put(f"{GPU}/result/device", None), "/result/device: expected .*H200.*, found null"),
    "an interpreter's record relabelled": (
        of_interpreter,
        "/result/executions: expected the binary that ieee/64x64x32 launched for case aligned",
    ),
    "not available": (
        put(f"{GPU}/result/availability", Verdict(outcome="untested", cause="policy", reason="not today")),
        '/result/availability/outcome: expected "passed", found "untested"',
    ),
    "undeclared": (
        put(f"{GPU}/result/declaration", None),
        "/result/declaration: expected what the kernel declares, since it ran, found none",
    ),
    "another binary": (
        put(f"{GPU}/result/executions/0/binary_sha256", ["0" * 64]),
        '/result/executions/0/predicted: expected "different", found "identical"',
    ),
    "predicted without a build": (
        put(f"{GPU}/result/executions/7/predicted", "identical"),
        '/result/executions/7/predicted: expected "not-compiled-ahead", found "identical"',
    ),
    "an execution left out": (
        launches(lambda found: found[1:]),
        "/result/executions: expected the binary that ieee/64x64x32 launched for case",
    ),
    "an execution of no check": (
        launches(lambda found: [*found, replace(found[0], case="another")]),
        "/result/executions: expected at most one for each check, in the order of the checks, found",
    ),
    "an execution twice": (
        launches(lambda found: [found[0], *found]),
        "/result/executions: expected at most one for each",
    ),
    "a contrast that is not gated": (
        put(f"{GPU}/result/contrasts", lambda found: [replace(one, verdict=REFUSED) for one in found]),
        '/result/contrasts/0/verdict/outcome: expected "passed", found "inapplicable"',
    ),
}


@pytest.mark.parametrize("case", DEVICE)
def test_a_gpu_record_is_of_the_captured_device(case: str) -> None:
    spoil, told = DEVICE[case]
    found = found_in(spoil)
    assert any(re.match(f"{GPU}: {told}", fault) for fault in found), found


@pytest.mark.parametrize("device", [None, T4], ids=["no device", "too old"])
def test_nothing_ran_behind_a_shut_gate(device: Device | None) -> None:
    ran = forge(H200, [MATMUL]).results[GPU]
    found = found_in(put(f"{GPU}/result", ran), device)
    assert any(re.match(f'{GPU}: /result/availability/outcome: expected ".*", found "passed"', one) for one in found)


def test_a_kernel_that_does_not_load_on_the_device_is_sound() -> None:
    broken = Verdict(outcome="failed", cause="import-error", reason="no module named 'apex'")
    lists: dict[str, Any] = {name: [] for name in ("checks", "canaries", "contrasts", "executions")}
    nothing: dict[str, Any] = {"device": None, "declaration": None, **lists}
    untimed = Verdict(outcome="untested", cause="upstream", reason=f"stage 'gpu' failed: {broken.reason}")

    def spoil(forged: Forge) -> None:
        forged.put(f"{GPU}/result", lambda found: replaced(found, availability=broken, **nothing))
        forged.put("results/matmul/timing.json/result", nothing_timed(untimed))

    assert found_in(spoil) == []


# Laws

numbers = st.floats(-1e3, 1e3)
OPENED = forge(None, [MATMUL]).opened()


@given(numbers, numbers, st.floats(0, 1e3), st.booleans())
def test_a_comparison_is_sound_exactly_where_it_says_what_its_worst_element_does(
    got: float, want: float, bound: float, says_within: bool
) -> None:
    error = abs(got - want)
    found = OPENED.records[INTERPRETER]
    compared = replace(
        found.result.checks[0].comparisons[0],
        past_bound=0 if says_within else 1,
        largest_error=error,
        normalised_error=error / 120.5,
        worst=Worst(index=[3, 5], got=got, want=want, error=error, bound=bound),
    )
    tried = [replace(found.result.checks[0], verdict=judge(compared), comparisons=[compared]), *found.result.checks[1:]]
    gaps = contrasts(found.result.declaration, tried, gated=False)
    result = replace(found.result, checks=tried, contrasts=gaps, precision_honoured=honoured(gaps))
    records = {**OPENED.records, INTERPRETER: replace(found, result=result)}
    faults_found = list(interpreter_faults(Opened(OPENED.name, OPENED.bag, records), "matmul"))
    assert (faults_found == []) == (says_within == (error <= bound))

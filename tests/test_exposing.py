"""The asking side of planted faults at the gpu tier, with the interpreter in the place of a device that multiplies
exactly whatever the precision: what a device shows beside its results is asked for, and catches.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import PYTHON_PATH
from records import PASSED, comparison, device
from trials import LIMIT_S, ROOT, changed, written

from assay.building import Wanted, build
from assay.catching import expose
from assay.child import Child, compiling_environment, interpreting_environment
from assay.correctness import Terms
from assay.exposing import Bench, Faulty, Rest, add_up, compile_faulty, try_faulty, try_rest
from assay.findings import findings
from assay.forking import Session, opening
from assay.kernel import load
from assay.mutation import Mutation, mutants
from assay.original import Original
from assay.record import Check, Compile, Gpu, Interpreter, Repeat, Unavailable
from assay.rounding import PROBES, canary, round_to

KERNEL = ROOT / "kernels" / "matmul.py"
DECLARATION = load(KERNEL).declaration()
CASE = "single-1x1x1"
ONCE_MORE = Repeat(differing=0, elements=1, settled=True, atomics=0)


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    log = tmp_path_factory.mktemp("exposing") / "child.log"
    with Child([sys.executable, "-m", "assay.faulty", "cpu"], environment, log, opening(LIMIT_S)) as made:
        yield made


def original(precision: str) -> Original:
    """Return a kernel whose first configuration of a precision passed one case on a device, canary and all."""
    variant, truncated = f"{precision}/64x64x32", [round_to(probe, 10, "truncated") for probe in PROBES]
    check = Check(variant=variant, case=CASE, seeds=[1], verdict=PASSED, comparisons=[comparison()], repeat=ONCE_MORE)
    readings = truncated if precision == "tf32" else list(PROBES)
    gpu = Gpu(
        availability=PASSED,
        device=device(),
        declaration=DECLARATION,
        checks=[check],
        canaries=[canary(variant, "left", list(readings), gated=True)],
        contrasts=[],
        executions=[],
    )
    nothing = Interpreter(
        loading=PASSED,
        declaration=DECLARATION,
        checks=[],
        canaries=[],
        contrasts=[],
        precision_honoured=Unavailable(reason="not tried"),
    )
    return Original(nothing, Compile(loading=PASSED, declaration=DECLARATION, builds=[], findings=[]), gpu)


def planted(folder: Path, operator: str, replacement: str) -> Faulty:
    found: Mutation = next(
        m for m in mutants(KERNEL.read_text("utf-8")) if m.operator == operator and replacement in m.replacement
    )
    path = folder / "kernels" / KERNEL.name
    path.parent.mkdir()
    path.write_text(found.text, "utf-8")
    return Faulty(found, path)


@pytest.mark.parametrize(
    ("precision", "place", "outcome", "cause"),
    [("tf32", "tf32/64x64x32 canary, left operand", "failed", "rounding"), ("ieee", "*", "passed", None)],
)
def test_a_swapped_precision_is_caught_by_the_canary_though_its_result_is_right(
    child: Child, tmp_path: Path, precision: str, place: str, outcome: str, cause: str | None
) -> None:
    faulty = planted(tmp_path, "change-precision", "input_precision='ieee'")
    kernel = original(precision)
    with Session(child, faulty.path) as process:
        exposure = try_faulty(process, faulty, Bench(KERNEL, kernel, "gpu", Terms([1], LIMIT_S)), kernel.trials("gpu"))
    assert (exposure.tier, exposure.place) == ("gpu", place)
    assert (exposure.verdict.outcome, exposure.verdict.cause) == (outcome, cause)
    # The one check that the kernel passed was passed here too.
    assert exposure.passed == 1


def test_a_wrong_result_is_caught_at_its_case(child: Child, tmp_path: Path) -> None:
    faulty = planted(tmp_path, "drop-store", "")
    kernel = original("ieee")
    with Session(child, faulty.path) as process:
        exposure = try_faulty(process, faulty, Bench(KERNEL, kernel, "gpu", Terms([1], LIMIT_S)), kernel.trials("gpu"))
    faulty.exposures.append(exposure)
    assert (exposure.place, exposure.verdict.cause) == (f"{CASE} ieee/64x64x32", "not-written")
    assert faulty.fate == "caught"


def rests(faulty: Faulty, kernel: Original) -> list[Rest]:
    first = Rest(faulty, "gpu 1", kernel.trials("gpu"))
    return [first, Rest(faulty, "gpu 2", kernel.trials("gpu"), first)]


def test_a_later_part_finds_what_the_first_did_not_and_makes_those_after_it_idle(child: Child, tmp_path: Path) -> None:
    faulty, kernel = planted(tmp_path, "drop-store", ""), original("ieee")
    faulty.exposures.append(expose("gpu", [("somewhere", PASSED)]))
    made, bench = rests(faulty, kernel), Bench(KERNEL, kernel, "gpu", Terms([1], LIMIT_S))
    for rest in made:
        try_rest(child, rest, bench)
    assert made[0].exposure is not None
    assert made[1].exposure is None
    add_up(faulty, made)
    assert (faulty.fate, faulty.exposures[0].place, faulty.exposures[0].passed) == ("caught", made[0].exposure.place, 1)
    assert made[0].known("0" * 64).exposures == [made[0].exposure]


def test_parts_in_which_nothing_is_wrong_add_up(child: Child, tmp_path: Path) -> None:
    faulty, kernel = planted(tmp_path, "change-precision", "input_precision='ieee'"), original("ieee")
    faulty.exposures.append(expose("gpu", [("somewhere", PASSED)]))
    made = rests(faulty, kernel)
    for rest in made:
        try_rest(child, rest, Bench(KERNEL, kernel, "gpu", Terms([1], LIMIT_S)))
    add_up(faulty, made)
    assert [(e.place, e.passed, e.verdict.outcome) for e in faulty.exposures] == [("*", 3, "passed")]


SLOW = """

_launch = KERNEL.launch


def slow(inputs, outputs, variant):
    import time
    time.sleep(600)
    _launch(inputs, outputs, variant)


import dataclasses
KERNEL = dataclasses.replace(KERNEL, launch=slow)
"""


@pytest.mark.parametrize(("slow_itself", "outcome"), [(False, "failed"), (True, "untested")])
def test_what_takes_too_long_is_a_fault_only_where_the_kernel_itself_does_not(
    child: Child, tmp_path: Path, slow_itself: bool, outcome: str
) -> None:
    faulty, kernel = planted(tmp_path, "drop-store", ""), original("ieee")
    faulty.path.write_text(KERNEL.read_text("utf-8") + SLOW, "utf-8")
    control = faulty.path if slow_itself else KERNEL
    with Session(child, faulty.path) as process:
        exposure = try_faulty(process, faulty, Bench(control, kernel, "gpu", Terms([1], 4)), kernel.trials("gpu"))
    assert (exposure.verdict.outcome, exposure.passed) == (outcome, 0)
    assert "the kernel itself" in exposure.verdict.reason
    assert (exposure.verdict.cause == "timeout") == (outcome == "failed")


HELD_UP_ONCE = """

_launch = KERNEL.launch


def held_up(inputs, outputs, variant):
    import pathlib, time
    marker = pathlib.Path(__file__).with_name("held-up")
    if not marker.exists():
        marker.touch()
        time.sleep(600)
    _launch(inputs, outputs, variant)


import dataclasses
KERNEL = dataclasses.replace(KERNEL, launch=held_up)
"""


def test_what_was_held_up_once_is_tried_again_and_is_no_fault_for_that(child: Child, tmp_path: Path) -> None:
    faulty, kernel = planted(tmp_path, "drop-store", ""), original("ieee")
    faulty.path.write_text(KERNEL.read_text("utf-8") + HELD_UP_ONCE, "utf-8")
    with Session(child, faulty.path) as process:
        exposure = try_faulty(process, faulty, Bench(KERNEL, kernel, "gpu", Terms([1], 10)), kernel.trials("gpu"))
    assert (faulty.path.parent / "held-up").exists()
    assert (exposure.verdict.outcome, exposure.passed) == ("passed", 1)


WAITS = """

@triton.jit
def meet(count_ptr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < 2:
        pass


def waits(inputs, outputs, variant):
    meet[(2,)](torch.zeros(1, dtype=torch.int32))


import dataclasses
KERNEL = dataclasses.replace(KERNEL, launch=waits)
"""


def test_what_waits_for_a_program_that_has_not_begun_is_a_fault_where_the_kernel_itself_does_not(
    child: Child, tmp_path: Path
) -> None:
    faulty, kernel = planted(tmp_path, "drop-store", ""), original("ieee")
    faulty.path.write_text(KERNEL.read_text("utf-8") + WAITS, "utf-8")
    with Session(child, faulty.path) as process:
        exposure = try_faulty(process, faulty, Bench(KERNEL, kernel, "gpu", Terms([1], LIMIT_S)), kernel.trials("gpu"))
    assert (exposure.verdict.outcome, exposure.verdict.cause) == ("failed", "timeout")
    assert "polls one address for ever" in exposure.verdict.reason
    assert exposure.verdict.reason.endswith("where the kernel itself does not wait")


IN_TF32 = ROOT / "tests" / "faults" / "float32_dot_in_tf32.py"


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("compiler")
    environment = {**compiling_environment(str(folder / "cache")), "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-m", "assay.faulty", "none"]
    with Child(command, environment, folder / "child.log", opening(LIMIT_S)) as made:
        yield made


def test_tf32_is_caught_by_the_code_of_f32_of_which_nothing_is_said_where_it_keeps_its_promise(
    compiler: Child, tmp_path: Path
) -> None:
    asked = ("accumulator)\n    inside", "accumulator, input_precision='ieee')\n    inside")
    path = written(tmp_path, IN_TF32.stem, changed(IN_TF32.read_text("utf-8"), asked))
    declaration = load(path).declaration()
    variant, case = declaration.variants[0], declaration.cases[0]
    with Session(compiler, path) as process:
        made = build(process, Wanted(variant, "sm_90", case), LIMIT_S)
    compiled = Compile(loading=PASSED, declaration=declaration, builds=[made], findings=findings(declaration, [made]))
    assert compiled.findings == []
    kernel = dataclasses.replace(original("ieee"), compiled=compiled)
    swap = next(m for m in mutants(path.read_text("utf-8")) if "'tf32'" in m.replacement)
    path.write_text(swap.text, "utf-8")
    faulty = Faulty(swap, path)
    compile_faulty(compiler, faulty, kernel, LIMIT_S)
    (exposure,) = faulty.exposures
    assert (exposure.tier, exposure.place, exposure.verdict.cause) == ("compile", "f32 sm_90", "instructions")

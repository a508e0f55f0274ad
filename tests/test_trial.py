"""One trial in a real child process: a right kernel passes, and each way to be wrong has its own cause."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from trials import DOUBLE, LIMIT_S, ROOT, Bench, bench, changed, planted, written

from assay.child import Fault
from assay.diagnosis import diagnose, diagnose_loading
from assay.record import Cause, Check, Unavailable, Verdict, as_float

LAUNCH = '    x, y = inputs["x"], outputs["y"]\n'
BESIDE = "    {0}.as_strided((1,), (1,), {0}.storage_offset() - 1).zero_()\n"
"""Writes without a kernel, so that only the guards can show it."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("trial") / "child.log")
    with made.child:
        yield made


def double(folder: Path, *changes: tuple[str, str]) -> Path:
    return written(folder, "double", changed(DOUBLE, *changes))


def found(answer: Check | Fault) -> Verdict:
    return diagnose(answer, "f32") if isinstance(answer, Fault) else answer.verdict


@pytest.mark.parametrize("case", ["ragged", "sliced"])
def test_a_right_kernel_passes(tried: Bench, tmp_path: Path, case: str) -> None:
    check = tried.check(double(tmp_path), "f32/block64", case, [1, 2, 3])
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed"
    assert (check.variant, check.case, check.seeds) == ("f32/block64", case, [1, 2, 3])
    assert [(c.output, c.past_bound) for c in check.comparisons] == [("y", 0)]


def test_the_same_seed_gives_the_same_check(tried: Bench, tmp_path: Path) -> None:
    path = double(tmp_path)
    assert tried.check(path, "f32/block64", "ragged", [5]) == tried.check(path, "f32/block64", "ragged", [5])


NOT_LOADED: list[tuple[str, str, Cause, str]] = [
    ("syntax", "def launch(:", "import-error", r"SyntaxError: .*line 1"),
    (
        "import",
        "import no_such_module_at_all",
        "import-error",
        "ModuleNotFoundError: No module named 'no_such_module_at",
    ),
    ("raises", "\n\n1 / 0", "import-error", r"kernels/double\.py:3: ZeroDivisionError: division by zero"),
    ("exits", "raise SystemExit(0)", "import-error", "SystemExit: 0"),
    ("no-KERNEL", "x = 1", "declaration", r"KernelError: .*expected KERNEL = Kernel\(\.\.\.\) at module level"),
    (
        "another-name",
        DOUBLE.replace('"double"', '"triple"'),
        "declaration",
        "expected the name 'double', as the file's",
    ),
]


@pytest.mark.parametrize(("name", "text", "cause", "reason"), NOT_LOADED, ids=[row[0] for row in NOT_LOADED])
def test_a_file_that_does_not_load(
    tried: Bench, tmp_path: Path, name: str, text: str, cause: Cause, reason: str
) -> None:
    path = double(tmp_path)
    path.write_text(text)
    answer = tried.load(path)
    assert isinstance(answer, Fault)
    verdict = diagnose_loading(answer)
    assert (verdict.outcome, verdict.cause) == ("failed", cause)
    assert re.search(reason, verdict.reason)


STORE = "tl.store(y_ptr + i * y_step, 2.0 * x, mask=i < n)"
LOAD = "x = tl.load(x_ptr + i * x_step, mask=i < n)"
ORACLE = 'oracle=lambda inputs: {"y": 2 * inputs["x"]}'
OUTPUTS = 'outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))}'
WRONG: list[tuple[str, tuple[str, str], Cause, str]] = [
    (
        "wrong",
        ("2.0 * x", "3.0 * x"),
        "wrong-value",
        r"^\d+ of 100 elements of 'y' are past the reduction bound: at \(\d+,\) got",
    ),
    (
        "nan",
        ("2.0 * x", "x * float('nan')"),
        "not-finite",
        "^100 of 100 elements of 'y' are past the reduction bound: .* got nan",
    ),
    ("infinity", ("2.0 * x", "2.0 * x / 0.0"), "not-finite", "got -?inf"),
    (
        "unwritten",
        ("(triton.cdiv(x.numel(), 64),)", "(1,)"),
        "not-written",
        "^36 of 100 elements of output 'y' were never",
    ),
    (
        "nothing",
        (LAUNCH, LAUNCH + "    return\n"),
        "not-written",
        "^100 of 100 elements of output 'y' were never written",
    ),
    (
        "past-output",
        (STORE, STORE.replace(", mask=i < n", "")),
        "out-of-bounds-write",
        r"kernels/double\.py:\d+: OutsideWrite: 28 of 64 lanes write outside every tensor that the launch was given, "
        "up to 112 bytes past the nearest$",
    ),
    (
        "wild",
        (STORE, f"{STORE}\n    tl.store(y_ptr + (1 << 44) + i, 0.0)"),
        "out-of-bounds-write",
        "OutsideWrite: 64 of 64 lanes write outside",
    ),
    ("beside-output", (LAUNCH, LAUNCH + BESIDE.format("y")), "out-of-bounds-write", "^memory outside output 'y' was"),
    ("beside-input", (LAUNCH, LAUNCH + BESIDE.format("x")), "out-of-bounds-write", "^memory outside input 'x' was"),
    (
        "before-output",
        (STORE, f"{STORE}\n    tl.store(y_ptr - 1, 0.0)"),
        "out-of-bounds-write",
        "OutsideWrite: 1 of 1 lanes write outside",
    ),
    (
        "past-input",
        (STORE, f"{STORE}\n    tl.store(x_ptr + n, 0.0)"),
        "out-of-bounds-write",
        "OutsideWrite: 1 of 1 lanes write outside",
    ),
    (
        "input",
        (STORE, f"{STORE}\n    tl.store(x_ptr + i, 0.0, mask=i == 3)"),
        "input-changed",
        "^input 'x' was changed by",
    ),
    (
        "reads-past",
        (LOAD, f"{LOAD} + 0.0 * tl.load(x_ptr + i + 1, mask=i < n)"),
        "poison-read",
        r"kernels/double\.py:\d+: OutsideRead: 1 of 36 lanes read outside every tensor that the launch was given, "
        "up to 4 bytes past the nearest$",
    ),
    (
        "takes-a-longer-view",
        (LAUNCH, f"{LAUNCH}    x = x.as_strided((101,), (1,), x.storage_offset())[1:]\n"),
        "poison-read",
        r"^1 of 100 elements of output 'y' hold what lies outside an input",
    ),
    (
        "reads-undefined",
        (STORE, "tl.store(y_ptr + i * y_step, 2.0 * x + 0.0 * tl.load(x_ptr + i * x_step, mask=i < 50), mask=i < n)"),
        "undefined-read",
        r"^50 of 100 elements of output 'y' come from masked lanes of a load without other=",
    ),
    (
        "makes-nan",
        (STORE, "tl.store(y_ptr + i * y_step, tl.sqrt(-1.0 - x * x), mask=i < n)"),
        "not-finite",
        r"^100 of 100 elements of 'y' are past the reduction bound",
    ),
    (
        "no-bound",
        ("    bound=ReductionBound(", "    bound=[] and ReductionBound("),
        "declaration",
        "^no bound covers output 'y'$",
    ),
    (
        "raises",
        (LAUNCH, LAUNCH + "    raise ValueError('no')\n"),
        "exception",
        r"kernels/double\.py:24: ValueError: no$",
    ),
    (
        "kernel-raises",
        ("2.0 * x", "2.0 * undefined"),
        "exception",
        r"NameError: name 'undefined' is not defined|undefined",
    ),
    ("exits", (LAUNCH, LAUNCH + "    raise SystemExit(0)\n"), "exception", "SystemExit: 0$"),
    (
        "returns",
        ("    double_kernel[", "    return 2 * x\n    double_kernel["),
        "wrong-shape",
        r"^the launch returned a Tensor of shape \(100,\)",
    ),
    (
        "returns-other",
        ("    double_kernel[", "    return [1]\n    double_kernel["),
        "wrong-shape",
        "^the launch returned a list; it must write",
    ),
    (
        "swaps",
        ("    double_kernel[", '    outputs["y"] = 2 * x\n    double_kernel['),
        "wrong-shape",
        r"the launch left \(100,\) in its place",
    ),
    (
        "drops",
        ("    double_kernel[", '    del outputs["y"]\n    double_kernel['),
        "wrong-shape",
        "the launch left NoneType in its place",
    ),
    (
        "reshapes",
        ("    double_kernel[", "    y.resize_(2, 50)\n    double_kernel["),
        "wrong-shape",
        r"the launch left \(2, 50\) in its place",
    ),
    (
        "oracle-shape",
        (ORACLE, ORACLE.replace("2 *", "2 * inputs['x'][None] *")),
        "wrong-shape",
        r"^output 'y' is declared as \(100,\) and the oracle gives \(1, 100\)",
    ),
    (
        "oracle-dtype",
        (ORACLE, ORACLE.replace('inputs["x"]', 'inputs["x"].float()')),
        "declaration",
        "^the oracle gives 'y' as torch.float32; float64 is needed",
    ),
    ("oracle-name", (ORACLE, ORACLE.replace('"y"', '"z"')), "declaration", "^output 'y' is declared by only one of"),
    (
        "output-name",
        (OUTPUTS, OUTPUTS.replace("{", '{"z": Output((1,)), ')),
        "declaration",
        "^output 'z' is declared by only one of",
    ),
    (
        "stale",
        (
            "    double_kernel[",
            "    if KEPT:\n        y.copy_(KEPT[0])\n        return\n    KEPT.append(2 * x)\n    double_kernel[",
        ),
        "stale-result",
        "^the result is that of seed 1, tried before: an earlier call left it: 100 of 100 elements of 'y'",
    ),
]


@pytest.mark.parametrize(("name", "change", "cause", "reason"), WRONG, ids=[row[0] for row in WRONG])
def test_each_way_to_be_wrong_has_its_own_cause(
    tried: Bench, tmp_path: Path, name: str, change: tuple[str, str], cause: Cause, reason: str
) -> None:
    path = double(tmp_path, ("def launch", "KEPT = []\n\n\ndef launch"), change)
    verdict = found(tried.check(path, "f32/block64", "ragged", [1, 2]))
    assert (verdict.outcome, verdict.cause) == ("failed", cause)
    assert re.search(reason, verdict.reason), verdict.reason


def test_a_result_kept_from_the_first_seed_shows_at_the_second_only(tried: Bench, tmp_path: Path) -> None:
    stale = next(change for name, change, _, _ in WRONG if name == "stale")
    path = double(tmp_path, ("def launch", "KEPT = []\n\n\ndef launch"), stale)
    assert found(tried.check(path, "f32/block64", "ragged", [1])).outcome == "passed"
    assert found(tried.check(path, "f32/block64", "ragged", [2])).cause == "wrong-value"


def test_the_reported_comparison_is_of_the_worst_seed(tried: Bench, tmp_path: Path) -> None:
    # In float16 each seed has an error of its own.
    path = double(tmp_path, ("2.0 * x", "(2.0 * x).to(tl.float16)"), ('{"f32": 1e-6}', '{"f32": 1e-2}'))

    def error(*seeds: int) -> float:
        check = tried.check(path, "f32/block64", "ragged", seeds)
        assert isinstance(check, Check)
        return as_float(check.comparisons[0].normalised_error)

    assert error(1, 2, 3) == max(error(1), error(2), error(3))
    assert min(error(1), error(2), error(3)) < error(1, 2, 3)


def test_trespass_is_judged_before_values_and_the_comparison_is_kept(tried: Bench, tmp_path: Path) -> None:
    path = double(tmp_path, (LAUNCH, LAUNCH + BESIDE.format("y")), ("2.0 * x", "3.0 * x"))
    check = tried.check(path, "f32/block64", "ragged")
    assert isinstance(check, Check)
    assert check.verdict.cause == "out-of-bounds-write"
    assert check.comparisons[0].past_bound > 0


def test_trespass_is_judged_before_what_was_left_unwritten(tried: Bench, tmp_path: Path) -> None:
    shifted = double(tmp_path, (STORE, STORE.replace("i * y_step", "(i + 1) * y_step")))
    assert found(tried.check(shifted, "f32/block64", "ragged")).cause == "out-of-bounds-write"


FAKE = """
    print('{"answer": {"check": {}, "binaries": []}}', flush=True)
    print("junk" * 1000)
    os.system("echo noise; echo noise >&2")
"""


def test_what_a_kernel_prints_has_no_effect(tried: Bench, tmp_path: Path) -> None:
    check = tried.check(double(tmp_path, (LAUNCH, LAUNCH + FAKE)), "f32/block64", "ragged")
    assert isinstance(check, Check)
    assert check.verdict.outcome == "passed"


# What ends the process: the next trial gets a fresh one, and a right kernel still passes in it.


def test_a_file_that_ends_its_process_while_it_loads(tried: Bench, tmp_path: Path) -> None:
    path = double(tmp_path)
    path.write_text("import os\nos._exit(5)")
    answer = tried.load(path)
    assert isinstance(answer, Fault)
    assert diagnose_loading(answer) == Verdict(
        outcome="failed", cause="crash", reason="the process ended with exit code 5"
    )


ENDING: list[tuple[str, tuple[str, str], Cause, str]] = [
    ("hang", (LAUNCH, LAUNCH + "    while True:\n        pass\n"), "timeout", "^no answer within the limit of 1 s$"),
    ("exit", (LAUNCH, LAUNCH + "    os._exit(0)\n"), "crash", "^the process ended with exit code 0$"),
    ("abort", (LAUNCH, LAUNCH + "    os.abort()\n"), "crash", "^the process was killed by SIGABRT"),
]


@pytest.mark.parametrize(("name", "change", "cause", "reason"), ENDING, ids=[row[0] for row in ENDING])
def test_a_kernel_that_takes_its_process_along(
    tried: Bench, tmp_path: Path, name: str, change: tuple[str, str], cause: Cause, reason: str
) -> None:
    path = double(tmp_path, change)
    assert isinstance(tried.load(path), dict)
    verdict = found(tried.check(path, "f32/block64", "ragged", limit_s=1.0 if name == "hang" else LIMIT_S))
    assert (verdict.outcome, verdict.cause) == ("failed", cause)
    assert re.search(reason, verdict.reason), verdict.reason


def test_after_all_of_these_a_right_kernel_passes(tried: Bench, tmp_path: Path) -> None:
    assert found(tried.check(double(tmp_path), "f32/block64", "ragged")).outcome == "passed"


MATMUL = ROOT / "kernels" / "matmul.py"


def test_every_output_is_compared_under_every_bound(tried: Bench) -> None:
    check = tried.check(MATMUL, "tf32/64x64x32", "single-1x1x1")
    assert isinstance(check, Check)
    assert [(one.output, one.rule) for one in check.comparisons] == [("c", "reduction"), ("c", "componentwise")]
    assert isinstance(check.repeat, Unavailable)


def test_a_lost_term_passes_the_reference_rule_and_not_the_componentwise_one(tried: Bench, tmp_path: Path) -> None:
    path = planted(MATMUL, tmp_path, ("left = depth < k - start", "left = depth < k - start - 1"))
    check = tried.check(path, "tf32/64x64x32", "aligned-256x256x1024")
    assert isinstance(check, Check)
    assert [one.past_bound > 0 for one in check.comparisons] == [False, True]
    assert check.verdict.cause == "wrong-value"
    assert "past the componentwise bound" in check.verdict.reason


INT32 = [
    ("row = tl.program_id(0).to(tl.int64)", "row = tl.program_id(0)"),
    (".to(tl.int64)\n    inside", "\n    inside"),
]


def test_offsets_of_32_bits_do_not_reach_distant_rows(tried: Bench, tmp_path: Path) -> None:
    path = planted(ROOT / "kernels" / "softmax.py", tmp_path, *INT32)
    assert found(tried.check(path, "f32/warps8", "padded-40x509")).outcome == "passed"
    assert found(tried.check(path, "f32/warps8", "distant-3x200")).outcome == "failed"


CASTING = (
    'Variant("f32", "block64")',
    'Variant("f16", "block64", dtype=torch.float16)',
)


def test_inputs_are_cast_for_the_variant_and_the_oracle_gets_what_was_rounded(tried: Bench, tmp_path: Path) -> None:
    changes = [CASTING, ('{"y": Output(tuple(inputs["x"].shape))}', '{"y": Output((100,), inputs["x"].dtype)}')]
    path = double(tmp_path, *changes, ('{"f32": 1e-6}, eps={"f32": 2.0**-23}', '{"f16": 0.0}, eps={"f16": 0.0}'))
    check = tried.check(path, "f16/block64", "ragged")
    assert isinstance(check, Check)
    # Doubling is exact in float16: without the rounded oracle an error would remain.
    assert check.verdict.outcome == "passed"
    assert check.comparisons[0].dtype == "float16"


@pytest.mark.parametrize("pattern", ["one-nan", "one-inf", "one-negative-inf", "denormal", "large", "tiny", "zero"])
def test_a_pattern_reaches_kernel_and_oracle_alike(tried: Bench, tmp_path: Path, pattern: str) -> None:
    change = ('Case("ragged", {"n": 100})', f'Case("ragged", {{"n": 100}}, values={{"x": "{pattern}"}})')
    assert found(tried.check(double(tmp_path, change), "f32/block64", "ragged")).outcome == "passed"


def test_a_nan_that_spreads_is_seen(tried: Bench, tmp_path: Path) -> None:
    change = ('Case("ragged", {"n": 100})', 'Case("ragged", {"n": 100}, values={"x": "one-nan"})')
    path = double(tmp_path, change, (STORE, STORE.replace("2.0 * x", "2.0 * x + 0.0 * tl.sum(x, axis=0)")))
    verdict = found(tried.check(path, "f32/block64", "ragged"))
    assert verdict.outcome == "failed"


MISDECLARED = [
    (
        'Case("ragged", {"n": 100})',
        'Case("ragged", {"n": 100}, {"X": "sliced"})',
        "^case ragged: layouts name 'X'; expected one of x, y$",
    ),
    (
        'Case("ragged", {"n": 100})',
        'Case("ragged", {"n": 100}, values={"y": "zero"})',
        "^case ragged: values name 'y'; expected one of x$",
    ),
    (
        'eps={"f32": 2.0**-23})',
        'eps={"f32": 2.0**-23}, outputs=("y", "z"))',
        "^case ragged: bounds name 'z'; expected one of y$",
    ),
    (
        'Case("ragged", {"n": 100})',
        'Case("ragged", {"n": 100}, {"x": "padded"})',
        r"^case ragged: 'x' has shape \(100,\), which cannot be laid out padded$",
    ),
    (
        'Case("ragged", {"n": 100})',
        'Case("ragged", {"n": 100}, {"y": "distant"})',
        r"^case ragged: 'y' has shape \(100,\), which cannot be laid out distant$",
    ),
]


@pytest.mark.parametrize(("old", "new", "reason"), MISDECLARED)
def test_a_word_that_would_do_nothing_is_refused(tried: Bench, tmp_path: Path, old: str, new: str, reason: str) -> None:
    verdict = found(tried.check(double(tmp_path, (old, new)), "f32/block64", "ragged"))
    assert (verdict.outcome, verdict.cause) == ("failed", "declaration")
    assert re.search(reason, verdict.reason), verdict.reason


BYTES = '''
"""Counts up in bytes."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, UlpBound, Variant, Work


@triton.jit
def count_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0), mask=i < n)


def launch(inputs, outputs, variant):
    count_kernel[(1,)](inputs["x"], outputs["y"], inputs["x"].numel(), BLOCK=256)


KERNEL = Kernel(
    name="bytes",
    title="Every byte",
    inputs=lambda size, generator: {"x": torch.arange(size["n"], dtype=torch.int32).to(torch.uint8)},
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape), torch.uint8)},
    oracle=lambda inputs: {"y": inputs["x"].double()},
    launch=launch,
    variants=[Variant("u8", "block256")],
    cases=[Case("every-256", {"n": 256})],
    bound=UlpBound(ulps=lambda problem: 0.0, why="integers", floor=0.0),
    work=lambda size: Work(flops=0, bytes=2 * size["n"]),
)
'''
"""A kernel whose result holds every byte, those too that an output is blanked with."""


def test_a_byte_that_looks_blank_is_a_value(tried: Bench, tmp_path: Path) -> None:
    assert found(tried.check(written(tmp_path, "bytes", BYTES), "u8/block256", "every-256")).outcome == "passed"


def test_a_byte_that_was_never_written_is_noticed(tried: Bench, tmp_path: Path) -> None:
    text = changed(BYTES, ("other=0), mask=i < n)", "other=0), mask=(i < n) & (i != 7))"))
    verdict = found(tried.check(written(tmp_path, "bytes", text), "u8/block256", "every-256"))
    assert verdict.cause == "not-written"
    assert verdict.reason.startswith("1 of 256 elements of output 'y' were never written")


def test_an_output_without_elements_is_right(tried: Bench, tmp_path: Path) -> None:
    path = double(
        tmp_path, ('Case("ragged", {"n": 100})', 'Case("ragged", {"n": 0})'), ("(triton.cdiv(x.numel(), 64),)", "(1,)")
    )
    assert found(tried.check(path, "f32/block64", "ragged")).outcome == "passed"


SOUND = ROOT / "tests" / "sound_kernels"
KEPT = ("def launch(", "KEPT: list[torch.Tensor] = []\n\n\ndef launch(")
BEYOND: list[tuple[str, str, str, str]] = [
    ("sum_of_copies", "x_ptr + at, mask=at < n,", "x_ptr + at, mask=at < n + 1,", "1 of 14 lanes read outside"),
    ("difference_of_padded", "pad(x, (1, 1))\n    diff", "pad(x, (0, 0))\n    diff", "lanes read outside"),
    ("difference_of_padded", "padded[1:-1], y,", "x, y,", "1 of 64 lanes read outside"),
    ("difference_of_padded", "padded[1:-1], y,", "x.as_strided(x.shape, (1,), x.storage_offset()), y,", "read outside"),
]


@pytest.mark.parametrize(("name", "old", "new", "reason"), BEYOND)
def test_what_lies_beyond_what_a_launch_made_is_out_of_reach(
    tried: Bench, tmp_path: Path, name: str, old: str, new: str, reason: str
) -> None:
    fault = tried.check(planted(SOUND / f"{name}.py", tmp_path, (old, new)), "f32/block64", "ragged-77")
    assert isinstance(fault, Fault)
    assert fault.kind == "OutsideRead"
    assert reason in fault.reason


def test_what_a_launch_made_may_be_kept_for_the_next(tried: Bench, tmp_path: Path) -> None:
    """Only a launch that makes nothing itself shows this: the second seed's."""
    keeps = "    KEPT[:] = KEPT or [x.half() for x in inputs.values()]\n    copies = KEPT\n"
    fills = "    for kept, x in zip(copies, inputs.values(), strict=True):\n        kept.copy_(x)\n"
    made = ("    copies = [x.half() for x in inputs.values()]\n", keeps + fills)
    path = planted(SOUND / "sum_of_copies.py", tmp_path, KEPT, made)
    check = tried.check(path, "f32/block64", "ragged-77", [1, 2])
    assert isinstance(check, Check), check
    assert check.verdict.outcome == "passed", check.verdict.reason

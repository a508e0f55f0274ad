"""The fault library: every bad kernel is refused for its own reason, and no sound kernel is refused.

`faults/` and `sound_kernels/` hold whole kernel files, as a user would put them into `kernels/`. Each goes through the
real child process of the tier that can see it.
"""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from trials import LIMIT_S, Bench, Workshop, bench, workshop, written

from assay.artifact import convert
from assay.building import refused, rest_of
from assay.child import Answer, Child, Fault, compiling_environment
from assay.correctness import Terms, Tried, canaries, describe, try_all, worker
from assay.diagnosis import diagnose
from assay.findings import built, findings, unbuilt
from assay.mutation import mutants
from assay.pool import worker_count
from assay.record import Build, Declaration, DeclaredVariant, Verdict
from assay.schedules import RELEASES_WAIT

FOLDER = Path(__file__).parent
SEEDS = [1, 2]
TARGET = "sm_90"

Row = tuple[str, str, str]
"""A file of faults/, the cause (of `assay.record`) that it must be refused for, and a pattern of the reason."""

PAST = r"^\d+ of \d+ elements of '[yc]' are past the reduction bound: at .* got -?\d"
NAN = r"^\d+ of \d+ elements of 'y' are past the reduction bound: at .* got nan"
POISON = r"^\d+ of \d+ elements of output '[yc]' hold what lies outside an input: it was read past its edge$"
OUTSIDE = r"outside every tensor that the launch was given, up to .* the nearest$"
READ = rf"kernels/\w+\.py:\d+: OutsideRead: \d+ of \d+ lanes read {OUTSIDE}"
WRITE = rf"kernels/\w+\.py:\d+: OutsideWrite: \d+ of \d+ lanes write {OUTSIDE}"
DECIDE = r"^masked lanes of a load without other=, which are undefined, decide the result: \d+ of \d+ elements"
UNDEFINED = r"^5 of 5 elements of output 'y' come from masked lanes of a load without other="
BEFORE = (
    r"^4 of 4 elements of the outputs change with what the outputs held before: .*: 4 of 4 elements of 'y' are past"
)
STALE = (
    r"^(256 of 256|300 of 300) elements of the outputs change in another launch on the same inputs: .*elements of 'y'"
)
SEED = (
    r"^the result is that of seed 1, tried before: an earlier call left it: (256 of 256|300 of 300) elements of 'y' are"
)
UNWRITTEN = r"^4 of 4 elements of output 'y' come from memory that torch.empty made and nobody wrote$"
HANDED = (
    r"^1 of 1 elements of the outputs change with what torch.empty hands out: .* nobody wrote: 1 of 1 elements of 'y'"
)
PROMISED = (
    r"kernels/windows_said_to_be_aligned\.py:21: FalsePromise: tl.multiple_of promises multiples of 16, found \d+$"
)
NEVER = r"elements of output '[yc]' were never written"
LINES = r"\(\S*kernels/\w+\.py:\d+( and \S*kernels/\w+\.py:\d+)?\)$"
AT_ONCE = rf"^\d+ of \d+ output elements differ where programs run at once: program.* (same launch|one address) {LINES}"
LATE = rf"^\d+ of \d+ output elements differ where what one program stores comes after what another does: pro.* {LINES}"
DRAWN = (
    r"^where programs and lanes come to an atomic operation in reversed order \(\S*kernels/\w+\.py:\d+\), "
    r"\d+ of \d+ elements of 'y' are past the ulp bound: at .* got -?\d"
)
AT_ONCE_UNFENCED = (
    r"^\d+ of \d+ output elements differ where programs run at once: programs .* store to one address, "
    rf"with no tl\.debug_barrier\(\) before the release {LINES}"
)
UNFENCED = (
    r"^\d+ of \d+ output elements differ where a program's lanes run one after another, the (first|last) one first: "
    r"lanes of program \(0, 0, 0\) (store and load|load and store) at one address, "
    rf"with no tl\.debug_barrier\(\) between {LINES}"
)
GROUPED = (
    r"^where what is reduced, scanned or concatenated comes as the threads of a GPU have it, \d+ of \d+ elements of"
)
REVERSED = (
    rf"^\d+ of \d+ output elements differ where programs and lanes run in reversed order: (program|several).*{LINES}"
)

INTERPRETED: list[Row] = [
    ("accumulates_in_bfloat16", "wrong-value", PAST),
    (
        "bytes_of_negative_floats",
        "wrong-value",
        r"^\d+ of \d+ elements of 'y' are past the ulp bound: at .* got 0, want \d",
    ),
    ("computed_by_torch_alone", "declaration", "^the launch starts no Triton kernel$"),
    ("constant_output", "wrong-value", PAST),
    ("counted_without_order", "race", AT_ONCE),
    ("count_made_wide", "exception", r"kernels/\w+\.py:\d+: AttributeError: 'int' object has no attribute 'to'; "),
    ("count_past_the_end", "poison-read", READ),
    ("counters_uncleared", "undefined-read", HANDED),
    ("decay_combined_wrongly", "wrong-value", GROUPED),
    ("differences_in_place", "race", REVERSED),
    ("does_nothing", "not-written", r"^(256 of 256|300 of 300) elements of output 'y' were never written"),
    (
        "error_caught_by_the_launch",
        "exception",
        r"kernels/\w+\.py:\d+: ValueError: arange's range must be a power of 2$",
    ),
    ("factor_in_single_precision", "wrong-value", PAST),
    ("first_to_claim", "race", DRAWN),
    ("flag_before_the_value", "race", AT_ONCE),
    ("fp8_of_zeros", "not-finite", r"^700 of 700 elements of 'y' are past the ulp bound: at .* got nan"),
    ("grid_rounded_down", "not-written", r"^44 of 300 elements of output 'y' were never written"),
    ("half_the_output", "not-written", r"^(128 of 256|108 of 300) elements of output 'y' were never written"),
    ("halves_put_together", "wrong-value", GROUPED),
    ("histogram_into_uncleared", "not-written", BEFORE),
    ("histogram_of_undefined_lanes", "undefined-read", DECIDE),
    ("ieee_through_bfloat16", "wrong-value", PAST),
    ("in_place_run_twice", "wrong-value", PAST),
    ("kept_in_any_order", "race", DRAWN),
    ("label_beside_its_row", "race", UNFENCED),
    ("last_element_reduced", "wrong-value", GROUPED),
    ("last_of_its_kind", "race", REVERSED),
    ("load_before_the_start", "poison-read", READ),
    ("load_past_the_end", "poison-read", READ),
    ("lock_released_at_once", "race", AT_ONCE_UNFENCED),
    ("loop_wraps_int32", "poison-read", READ),
    ("mask_past_a_strided_view", "poison-read", READ),
    ("matmul_accumulates_in_half", "wrong-value", PAST),
    ("matmul_k_tail_dropped", "wrong-value", PAST),
    ("matmul_k_tail_unmasked", "poison-read", READ),
    ("matmul_strides_swapped", "wrong-value", PAST),
    ("maximum_of_undefined_lanes", "undefined-read", UNDEFINED),
    ("maximum_padded_with_zero", "wrong-value", r"^5 of 5 elements of 'y' are past the ulp bound: at .* got 0, want -"),
    ("maximum_past_the_end", "poison-read", READ),
    ("nan_everywhere", "not-finite", NAN),
    ("offsets_wrap_int32", "poison-read", READ),
    ("positive_sum_undefined", "undefined-read", DECIDE),
    ("result_in_half_precision", "wrong-value", PAST),
    ("returned_not_written", "wrong-shape", r"^the launch returned a Tensor of shape \([45],\); it must write into"),
    ("returns_previous", "stale-result", SEED),
    ("reversed_in_place", "race", UNFENCED),
    ("reversed_through_memory", "race", UNFENCED),
    ("rows_gathered_without_atomics", "race", AT_ONCE),
    (
        "seed_drawn_at_each_launch",
        "declaration",
        r"^\d+ of \d+ output elements differ in another launch, which draws random numbers on the host: expected a",
    ),
    ("softmax_not_rescaled", "wrong-value", PAST),
    ("softmax_padded_with_zero", "wrong-value", PAST),
    ("softmax_row_times_columns", "poison-read", POISON),
    ("softmax_without_maximum", "not-finite", NAN),
    ("softmax_writes_its_input", "input-changed", "^input 'x' was changed by the launch$"),
    ("split_k_into_uncleared", "not-written", NEVER),
    ("split_k_without_atomics", "race", AT_ONCE),
    ("store_past_the_end", "out-of-bounds-write", WRITE),
    ("sum_of_neighbours_unordered", "race", AT_ONCE),
    ("sum_of_undefined_lanes", "undefined-read", UNDEFINED),
    ("the_last_two_programs", "race", LATE),
    ("variance_of_padding", "wrong-value", PAST),
    (
        "waits_for_ever",
        "timeout",
        r"kernels/\w+\.py:\d+: program \(1, 0, 0\) polls one .*, and no other program is left",
    ),
    (
        "weights_kept_by_address",
        "stale-result",
        r"^\d+ of \d+ elements of the outputs change in another launch on the same inputs: ",
    ),
    ("windows_said_to_be_aligned", "false-promise", PROMISED),
    ("workspace_drifts", "stale-result", STALE),
    ("workspace_short", "out-of-bounds-write", WRITE),
    ("workspace_uncleared", "undefined-read", UNWRITTEN),
]
COMPILED: list[Row] = [
    ("default_precision_dot", "instructions", r"^ieee on sm_90 uses \d+ tensor-core instructions, which is not its"),
    ("float32_dot_in_tf32", "instructions", r"^f32 on sm_90 multiplies in tf32 on the tensor cores \(\w+\.tf32\), "),
    ("ieee_through_bfloat16", "instructions", r"^ieee on sm_90 uses \d+ tensor-core instructions, which is not its"),
    ("tf32_without_tensor_cores", "instructions", "^tf32 on sm_90 leaves the tensor cores unused, which is not its"),
]
TRANSLATED: list[Row] = [
    ("count_made_wide", "compile-error", r"kernels/\w+\.py:19: CompilationError: .*'int' object has no attribute 'to'"),
    (
        "block_out_of_line",
        "compile-error",
        r"kernels/\w+\.py:22: UnsupportedLanguageConstruct: Function \w+ is marked noinline",
    ),
    (
        "rows_along_axis_1",
        "launch-failed",
        r"kernels/\w+\.py:\d+: GridTooLarge: expected at most 65535 programs along axis 1, .* found 65536; axis 0 may",
    ),
]
"""Faults of one case alone, which is not the first, so that nothing is built for it; it is translated all the same."""

RACE = "the code has no atomic instruction, nor do later launches repeat it: a race$"
ON_A_DEVICE: list[Row] = [
    ("split_k_without_atomics", "race", RACE),
    # Its programs read what is not there yet: whether a few are in time, and so differ, is the device's affair.
    ("sum_of_neighbours_unordered", "race|wrong-value", f"{RACE}|{PAST}"),
    ("works_on_another_stream", "unordered", "the launch runs on a stream that does not wait$"),
]
"""Faults that a device shows too, in programs that do run at once, or it alone, in streams."""

SEEN_FIRST = {name for name, _, _ in INTERPRETED}
DEVICE_ALONE = [row for row in ON_A_DEVICE if row[0] not in SEEN_FIRST]

LATER = [name for name, _, _ in (*COMPILED, *TRANSLATED, *DEVICE_ALONE) if name not in SEEN_FIRST]
"""Faults that the interpreter does not show."""

SHOWN_BY_SIZE = {
    "computed_by_torch_alone": {"aligned-256"},
    "error_caught_by_the_launch": {"ragged-300"},
    "block_out_of_line": {"ragged-300"},
    "count_made_wide": {"single-1"},
    "count_past_the_end": {"ragged-300"},
    "counters_uncleared": {"short-150"},
    "fp8_of_zeros": {"zero-7x100"},
    "grid_rounded_down": {"ragged-300"},
    "histogram_of_undefined_lanes": {"ragged-300"},
    "load_past_the_end": {"ragged-1x50"},
    "loop_wraps_int32": {"distant-5x50"},
    "mask_past_a_strided_view": {"padded-5x50"},
    "matmul_k_tail_dropped": {"ragged-50x40x45"},
    "matmul_k_tail_unmasked": {"ragged-50x40x45"},
    "maximum_of_undefined_lanes": {"ragged-5x50"},
    "maximum_padded_with_zero": {"negative-5x50"},
    "maximum_past_the_end": {"ragged-1x50"},
    "offsets_wrap_int32": {"distant-5x50"},
    "positive_sum_undefined": {"ragged-5x50"},
    "rows_along_axis_1": {"many-65536x3"},
    "softmax_not_rescaled": {"long-5x100"},
    "softmax_padded_with_zero": {"ragged-5x50"},
    "softmax_row_times_columns": {"padded-5x50"},
    "softmax_without_maximum": {"large-5x50"},
    "store_past_the_end": {"ragged-300"},
    "sum_of_undefined_lanes": {"ragged-5x50"},
    "variance_of_padding": {"ragged-5x50"},
    "workspace_short": {"ragged-300"},
    "workspace_uncleared": {"short-4x100"},
}
"""Faults that one case alone shows: all others pass, as they pass in a test that has only such cases."""

NOT_INTERPRETED = {
    "add_by_inline_assembly": "cannot run inline assembly; a GPU can run this kernel$",
    "shares_of_the_sum": r"kernels/\w+\.py:\d+: program \(0, 0, 0\) polls one address for ever: it waits for",
    "sums_through_descriptor": "cannot run 'descriptor_reduce'; a GPU can run this kernel$",
    "tanh_by_libdevice": r"cannot run triton\.language\.extra\.libdevice\.tanh; a GPU can run this kernel$",
}
"""Sound kernels that only a device can run."""

NOT_COMPILED = {"double_autotuned": "declare its configurations as variants instead$"}
"""Sound kernels of which only a device can choose what to compile."""

SOUND = sorted(path.stem for path in (FOLDER / "sound_kernels").glob("*.py"))


def kernel_file(folder: Path, kind: str, name: str) -> Path:
    return written(folder, name, (FOLDER / kind / f"{name}.py").read_text("utf-8"))


@dataclass(frozen=True)
class Found:
    """What one trial of a kernel file came to."""

    case: str
    verdict: Verdict


def declared(answer: Answer | Fault) -> Declaration:
    assert isinstance(answer, dict), answer
    return convert(answer["declaration"], Declaration, "the child's answer")


def interpreted(tried: Bench, path: Path) -> list[Found]:
    answer = tried.load(path)
    declaration = declared(answer)
    assert isinstance(answer, dict)
    found = []
    for case in answer["tiers"]["interpreter"]:
        for variant in declaration.variants:
            check = tried.check(path, variant.id, case, SEEDS)
            verdict = diagnose(check, variant.precision) if isinstance(check, Fault) else check.verdict
            found.append(Found(case, verdict))
    return found


def compiled(made: Workshop, path: Path) -> tuple[list[Build], list[Verdict]]:
    declaration = declared(made.child.ask({"kernel": str(path), "do": "describe"}, LIMIT_S))
    builds = [_build(made, path, variant, declaration.cases[0]) for variant in declaration.variants]
    return builds, [finding.verdict for finding in findings(declaration, builds)]


def _build(made: Workshop, path: Path, variant: DeclaredVariant, case: str) -> Build:
    binaries = made.build(path, variant.id, TARGET, case)
    if isinstance(binaries, Fault):
        return unbuilt(variant.id, TARGET, case, diagnose(binaries, variant.precision))
    return built(variant, TARGET, case, binaries)


@dataclass(frozen=True)
class Asking:
    """The child of a workshop, which is told the kernel file with every request."""

    child: Child
    path: Path

    def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
        return self.child.ask({"kernel": str(self.path), **request}, limit_s)


def others(made: Workshop, path: Path) -> list[Build]:
    """Return the builds of cases after the first that the front end refuses, or a look at the grid."""
    asking = Asking(made.child, path)
    declaration = declared(asking.ask({"do": "describe"}, LIMIT_S))
    rests = filter(None, (rest_of(declaration, variant, [TARGET]) for variant in declaration.variants))
    return [build for rest in rests for build in refused(asking, rest, LIMIT_S)]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("trial") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    found = workshop(tmp_path_factory.mktemp("cache"))
    with found.child:
        yield found


def test_every_file_of_the_library_stands_in_the_table_once() -> None:
    assert len({name for name, _, _ in INTERPRETED}) == len(INTERPRETED)
    table = {name for name, _, _ in (*INTERPRETED, *COMPILED, *TRANSLATED, *ON_A_DEVICE)}
    assert sorted(table) == sorted(path.stem for path in (FOLDER / "faults").glob("*.py"))
    assert set(SHOWN_BY_SIZE) <= {name for name, _, _ in (*INTERPRETED, *TRANSLATED)}
    assert SOUND


@pytest.mark.parametrize("path", sorted((FOLDER / "faults").glob("*.py")), ids=lambda path: str(path.stem))
def test_every_fault_says_what_is_wrong_after_what_and_who_sees_it(path: Path) -> None:
    docstring = path.read_text("utf-8").split('"""')[1]
    assert re.search(r"^Wrong: .*^After: .*^Seen by: ", docstring, re.DOTALL | re.MULTILINE)
    tier = next(tier for tier, rows in _tiers() if path.stem in {name for name, _, _ in rows})
    assert tier in docstring.partition("Seen by:")[2]


def _tiers() -> list[tuple[str, list[Row]]]:
    compiled = [*COMPILED, *TRANSLATED]
    return [("the interpreter", INTERPRETED), ("the compile tier", compiled), ("the GPU only", DEVICE_ALONE)]


@pytest.mark.parametrize(("name", "cause", "words"), INTERPRETED, ids=[row[0] for row in INTERPRETED])
def test_a_fault_is_refused_for_its_own_reason_by_the_interpreter(
    tried: Bench, tmp_path: Path, name: str, cause: str, words: str
) -> None:
    if name == "lock_released_at_once" and RELEASES_WAIT:
        pytest.skip("this version of Triton puts the barrier there")
    found = interpreted(tried, kernel_file(tmp_path, "faults", name))
    assert {one.case for one in found if one.verdict.outcome == "failed"} == SHOWN_BY_SIZE.get(
        name, {one.case for one in found}
    )
    for one in found:
        if one.verdict.outcome == "failed":
            assert one.verdict.cause == cause, one
            assert re.search(words, one.verdict.reason), one


def test_the_interpreter_shows_the_race_that_teeth_plants(tried: Bench, tmp_path: Path) -> None:
    sound = (FOLDER / "sound_kernels/matmul_split_k.py").read_text("utf-8")
    (planted,) = [mutation for mutation in mutants(sound) if mutation.operator == "plain-atomic"]
    found = interpreted(tried, written(tmp_path, "matmul_split_k", planted.text))
    # In two cases one program takes all of K.
    passed = {one.case for one in found if one.verdict.outcome == "passed"}
    assert passed == {"single-1x1x1", "sliced-64x48x32"}
    raced = [one.verdict for one in found if one.case not in passed]
    assert {verdict.cause for verdict in raced} == {"race"}
    assert all(re.search(AT_ONCE, verdict.reason) for verdict in raced)


@pytest.mark.parametrize("name", LATER)
def test_what_a_later_tier_must_see_the_interpreter_does_not(tried: Bench, tmp_path: Path, name: str) -> None:
    found = interpreted(tried, kernel_file(tmp_path, "faults", name))
    assert found
    assert {(one.verdict.outcome, one.verdict.cause) for one in found} <= {
        ("passed", None),
        ("inapplicable", "unsupported-dtype"),
    }


@pytest.mark.parametrize(("name", "cause", "words"), COMPILED, ids=[row[0] for row in COMPILED])
def test_a_fault_is_refused_for_its_own_reason_by_its_instructions(
    made: Workshop, tmp_path: Path, name: str, cause: str, words: str
) -> None:
    builds, verdicts = compiled(made, kernel_file(tmp_path, "faults", name))
    assert {build.compiled.outcome for build in builds} == {"passed"}
    assert [(verdict.outcome, verdict.cause) for verdict in verdicts] == [("failed", cause)]
    assert re.search(words, verdicts[0].reason), verdicts[0].reason


@pytest.mark.parametrize(("name", "cause", "words"), TRANSLATED, ids=[row[0] for row in TRANSLATED])
def test_a_fault_of_another_case_is_refused_for_its_own_reason_by_the_front_end(
    made: Workshop, tmp_path: Path, name: str, cause: str, words: str
) -> None:
    path = kernel_file(tmp_path, "faults", name)
    builds, verdicts = compiled(made, path)
    assert {verdict.outcome for verdict in (*(build.compiled for build in builds), *verdicts)} == {"passed"}
    (other,) = others(made, path)
    assert {other.case} == SHOWN_BY_SIZE[name]
    assert (other.compiled.outcome, other.compiled.cause) == ("failed", cause)
    assert re.search(words, other.compiled.reason), other.compiled.reason


@pytest.mark.parametrize("name", [name for name in SOUND if name not in NOT_INTERPRETED])
def test_a_sound_kernel_passes_every_case_under_the_interpreter(tried: Bench, tmp_path: Path, name: str) -> None:
    found = interpreted(tried, kernel_file(tmp_path, "sound_kernels", name))
    assert found
    assert [one for one in found if one.verdict.outcome != "passed"] == []


@pytest.mark.parametrize("name", NOT_INTERPRETED)
def test_what_only_a_device_can_run_does_not_apply_to_the_interpreter(tried: Bench, tmp_path: Path, name: str) -> None:
    found = interpreted(tried, kernel_file(tmp_path, "sound_kernels", name))
    assert {(one.verdict.outcome, one.verdict.cause) for one in found} == {("inapplicable", "unsupported-operation")}
    assert all(re.search(NOT_INTERPRETED[name], one.verdict.reason) for one in found)


@pytest.mark.parametrize("name", NOT_COMPILED)
def test_what_only_a_device_can_choose_does_not_apply_to_the_compile_tier(
    made: Workshop, tmp_path: Path, name: str
) -> None:
    builds, verdicts = compiled(made, kernel_file(tmp_path, "sound_kernels", name))
    assert [(b.compiled.outcome, b.compiled.cause) for b in builds] == [("inapplicable", "autotuned")]
    assert all(re.search(NOT_COMPILED[name], build.compiled.reason) for build in builds)
    assert [verdict for verdict in verdicts if verdict.outcome == "failed"] == []


@pytest.mark.parametrize("name", [name for name in SOUND if name not in NOT_COMPILED])
def test_a_sound_kernel_compiles_and_keeps_the_promise_of_its_precision(
    made: Workshop, tmp_path: Path, name: str
) -> None:
    path = kernel_file(tmp_path, "sound_kernels", name)
    builds, verdicts = compiled(made, path)
    assert [build for build in builds if build.compiled.outcome != "passed"] == []
    assert [verdict for verdict in verdicts if verdict.outcome != "passed"] == []
    assert others(made, path) == []


def test_an_addition_by_the_copy_engine_counts_as_atomic(made: Workshop, tmp_path: Path) -> None:
    builds, _ = compiled(made, kernel_file(tmp_path, "sound_kernels", "sums_through_descriptor"))
    assert [binary.instructions.assembly["red"] for build in builds for binary in build.binaries] == [1]


# On a device

ANSWER_LIMIT_S = 40.0
"""For one case, and the compiling that it takes: some of these faults never answer."""


def on_the_device(folder: Path, kind: str, name: str) -> list[Verdict]:
    """Return what the real worker says of a kernel file on the first device: every check, and the rounding canary."""
    path = kernel_file(folder, kind, name)
    with worker(path, "cuda", compiling_environment(str(folder / "cache")), path.with_suffix(".log"), LIMIT_S) as child:
        tried = _all(child)
    return [one.check.verdict for one in tried] + [one.verdict for one in canaries(tried, gated=True)]


def _all(child: Child) -> list[Tried]:
    subject = describe(child, "gpu", LIMIT_S)
    assert subject.loading.outcome == "passed", subject.loading.reason
    # No kernel here asks for a capability, so that the device's need not be known.
    return try_all([child], subject, Terms(SEEDS, ANSWER_LIMIT_S), "gpu")


def on_the_device_each(folder: Path, kind: str, names: Sequence[str]) -> dict[str, list[Verdict]]:
    """Try several kernel files, a few at a time: most of what each takes is loading torch and compiling."""
    with ThreadPoolExecutor(max_workers=worker_count(0)) as pool:
        return dict(zip(names, pool.map(lambda name: on_the_device(folder, kind, name), names), strict=True))


@pytest.mark.gpu
def test_on_a_device_every_fault_that_needs_one_is_refused_for_its_own_reason(tmp_path: Path) -> None:
    found = on_the_device_each(tmp_path, "faults", [name for name, _, _ in ON_A_DEVICE])
    missed = {}
    for name, cause, words in ON_A_DEVICE:
        failed = [verdict for verdict in found[name] if verdict.outcome == "failed"]
        if not failed or any(v.cause not in cause.split("|") or not re.search(words, v.reason) for v in failed):
            missed[name] = found[name]
    assert missed == {}


@pytest.mark.gpu
def test_on_a_device_faults_of_precision_are_refused(tmp_path: Path) -> None:
    found = on_the_device_each(tmp_path, "faults", [name for name, _, _ in COMPILED])
    missed = {
        name: verdicts
        for name, verdicts in found.items()
        if not any(v.outcome == "failed" and v.cause in ("wrong-value", "rounding") for v in verdicts)
    }
    assert missed == {}


@pytest.mark.gpu
def test_on_a_device_the_faults_of_the_interpreter_are_refused_too(tmp_path: Path) -> None:
    names = [name for name, _, _ in INTERPRETED]
    found = on_the_device_each(tmp_path, "faults", names)
    passed = {name for name, verdicts in found.items() if not any(v.outcome == "failed" for v in verdicts)}
    # What lies in a masked-off lane is undefined there, and may be the zero that the kernel counts on. The maximum of
    # the hardware passes over NaN, and a NaN is not counted. Past a workspace there is memory that nobody misses. Which
    # programs or lanes come first is the device's affair, and so is whether any come between two lines of another: a
    # race may be won in every launch. That a launch starts no kernel is asked where every launch is seen.
    races = {name for name, cause, _ in INTERPRETED if cause == "race"} - {name for name, _, _ in ON_A_DEVICE}
    assert passed - races <= {
        "computed_by_torch_alone",
        "count_past_the_end",
        "histogram_of_undefined_lanes",
        "maximum_of_undefined_lanes",
        "maximum_past_the_end",
        "positive_sum_undefined",
        "sum_of_neighbours_unordered",
        "sum_of_undefined_lanes",
        "workspace_short",
    }


@pytest.mark.gpu
def test_on_a_device_every_sound_kernel_passes(tmp_path: Path) -> None:
    found = on_the_device_each(tmp_path, "sound_kernels", SOUND)
    assert all(found.values())
    refused = {name: v for name, v in found.items() if any(verdict.outcome == "failed" for verdict in v)}
    assert refused == {}

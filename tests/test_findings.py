"""What compiled code shows: whether it fits, and whether its instructions keep the precision's promise."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, PASSED, build, replaced

from assay.diagnosis import INPUT_PRECISIONS
from assay.findings import TENSOR_MEMORY_COLUMNS, built, findings, judge_fit, judge_stack, keeping, kept_promises
from assay.record import Build, Declaration, DeclaredVariant, Finding, Instructions, Outcome, Verdict

SIMPLE = build(MATMUL.variants[0], "sm_90", "one").binaries[0]
UNFIT = Verdict(outcome="inapplicable", cause="does-not-fit", reason="too large")


@given(
    st.lists(st.tuples(st.integers(0, 300000), st.integers(0, 1024)), min_size=1, max_size=4), st.integers(1, 300000)
)
def test_it_fits_exactly_where_every_function_does(needs: list[tuple[int, int]], limit: int) -> None:
    binaries = [
        replaced(SIMPLE, shared_bytes=shared, shared_limit_bytes=limit, tensor_memory_columns=columns)
        for shared, columns in needs
    ]
    verdict = judge_fit(binaries, "sm_90")
    fits = all(shared <= limit and columns <= TENSOR_MEMORY_COLUMNS for shared, columns in needs)
    assert verdict.outcome == ("passed" if fits else "inapplicable")
    assert verdict.cause == (None if fits else "does-not-fit")


def test_why_it_does_not_fit_is_said_with_both_figures() -> None:
    large = replaced(SIMPLE, shared_bytes=147456, shared_limit_bytes=101376)
    assert judge_fit([SIMPLE, large], "sm_86").reason == (
        "kernel needs 147456 B of shared memory; a block on sm_86 has 101376 B"
    )
    wide = replaced(SIMPLE, tensor_memory_columns=1024)
    assert judge_fit([wide], "sm_100").reason == "kernel needs 1024 columns of tensor memory; sm_100 has 512"


def made(precision: str, target: str, *counts: dict[str, int], digest: str = "", fits: Verdict = PASSED) -> list[Build]:
    """Return one build a configuration, each with the given PTX counts."""
    found = []
    for number, ptx in enumerate(counts):
        binary = replaced(
            SIMPLE,
            instructions=Instructions(assembly=ptx, machine={}),
            binary_sha256=(digest or precision).encode().hex().ljust(64, "0"),
        )
        found.append(
            Build(
                variant=f"{precision}/{number}",
                target=target,
                case="one",
                compiled=PASSED,
                fits=fits,
                binaries=[binary],
            )
        )
    return found


def declared(builds: Sequence[Build]) -> Declaration:
    variants = [
        DeclaredVariant(
            id=name, precision=name.split("/")[0], configuration=name.split("/")[1], minimum_capability=None
        )
        for name in dict.fromkeys(build.variant for build in builds)
    ]
    found: Declaration = replaced(MATMUL.declaration(), variants=variants)
    return found


FMA = {"fma.f32": 1024}
KEPT: list[tuple[str, str, list[dict[str, int]], Outcome, str]] = [
    ("ieee", "sm_90", [FMA], "passed", "ieee on sm_90 uses no tensor-core instructions"),
    ("ieee", "sm_100", [FMA, {"tcgen05.tf32": 4}], "failed", "ieee on sm_100 uses 4 tensor-core instructions"),
    ("tf32", "sm_80", [{"mma.tf32": 8}], "passed", "tf32 on sm_80 takes the tensor cores (mma.tf32)"),
    (
        "tf32",
        "sm_90",
        [{"wgmma.tf32": 8}, {"mma.tf32": 2}],
        "passed",
        "tf32 on sm_90 takes the tensor cores (mma.tf32, wgmma.tf32)",
    ),
    ("tf32", "sm_90", [{"wgmma.tf32": 8}, FMA], "failed", "tf32 on sm_90 leaves the tensor cores unused"),
    ("tf32", "sm_90", [{"wgmma.bf16": 8}], "failed", "tf32 on sm_90 leaves the tensor cores unused"),
    ("tf32x3", "sm_90", [{"wgmma.tf32": 24}], "passed", "tf32x3 on sm_90 takes the tensor cores (wgmma.tf32)"),
    ("bf16x6", "sm_100", [{"tcgen05.f16": 24}], "passed", "bf16x6 on sm_100 takes the tensor cores (tcgen05.f16)"),
    ("bf16x3", "sm_90", [{"wgmma.f16": 24}], "failed", "bf16x3 on sm_90 leaves the tensor cores unused"),
    ("fp16x3", "sm_90", [{"wgmma.f16": 12}], "passed", "fp16x3 on sm_90 takes the tensor cores (wgmma.f16)"),
    ("fp16x3", "sm_90", [{"wgmma.bf16": 12}], "failed", "fp16x3 on sm_90 leaves the tensor cores unused"),
    ("fp16x3", "sm_90", [{"wgmma.tf32": 12}], "failed", "fp16x3 on sm_90 leaves the tensor cores unused"),
    ("fp16x3", "sm_75", [{"mma.f16": 12}], "passed", "fp16x3 on sm_75 takes the tensor cores (mma.f16)"),
    ("tf32", "sm_75", [FMA], "passed", "tf32 on sm_75 uses no tensor-core instructions"),
    ("tf32", "sm_75", [{"mma.f16": 2}], "failed", "tf32 on sm_75 uses 2 tensor-core instructions"),
    ("ieee", "gfx1100", [FMA], "passed", "ieee on gfx1100 uses no matrix-core instructions"),
    (
        "ieee",
        "gfx942",
        [{"mfma.f32": 48}],
        "passed",
        "ieee on gfx942 uses no matrix-core instructions, beside those of float32 (mfma.f32)",
    ),
    (
        "ieee",
        "gfx942",
        [{"mfma.f32": 8, "mfma.xf32": 4}],
        "failed",
        "ieee on gfx942 uses 4 matrix-core instructions, beside those of float32 (mfma.f32)",
    ),
    ("tf32", "gfx942", [{"mfma.xf32": 24}], "passed", "tf32 on gfx942 takes the matrix cores (mfma.xf32)"),
    ("tf32", "gfx942", [{"mfma.f32": 48}], "failed", "tf32 on gfx942 leaves the matrix cores unused"),
    ("bf16x3", "gfx1201", [{"wmma.bf16": 72}], "passed", "bf16x3 on gfx1201 takes the matrix cores (wmma.bf16)"),
    ("bf16x6", "gfx90a", [{"mfma.f16": 72}], "failed", "bf16x6 on gfx90a leaves the matrix cores unused"),
]


@pytest.mark.parametrize(("precision", "target", "counts", "outcome", "statement"), KEPT)
def test_a_precision_and_its_instructions(
    precision: str, target: str, counts: list[dict[str, int]], outcome: Outcome, statement: str
) -> None:
    builds = made(precision, target, *counts)
    (finding,) = findings(declared(builds), builds)
    assert (finding.precision, finding.target) == (precision, target)
    assert finding.statement == statement
    assert finding.verdict.outcome == outcome
    assert finding.verdict.cause == (None if outcome == "passed" else "instructions")


def found(builds: list[Build]) -> dict[str, Finding]:
    return {finding.precision: finding for finding in findings(declared(builds), builds)}


def test_below_8_0_the_same_binaries_are_said_to_be_the_same_code() -> None:
    ieee = made("ieee", "sm_75", FMA, FMA, digest="same")
    same = found([*ieee, *made("tf32", "sm_75", FMA, FMA, digest="same")])
    assert same["tf32"].statement == "tf32 on sm_75 compiles to the same code as ieee"
    other = found([*ieee, *made("tf32", "sm_75", FMA, FMA, digest="other")])
    assert other["tf32"].statement == "tf32 on sm_75 uses no tensor-core instructions and differs from ieee"
    # It has nothing but ieee's multipliers to differ in; the modes of several pieces split their operands.
    assert (same["tf32"].verdict.outcome, other["tf32"].verdict.cause) == ("passed", "instructions")
    assert found([*ieee, *made("tf32x3", "sm_75", FMA, FMA)])["tf32x3"].verdict.outcome == "passed"


def test_what_does_not_fit_or_has_no_binary_shows_nothing() -> None:
    empty = replaced(made("tf32", "sm_90", FMA)[0], binaries=[])
    assert found([*made("ieee", "sm_90", {}, fits=UNFIT), empty]) == {}


def test_nothing_is_said_of_a_precision_whose_promise_is_not_known() -> None:
    builds = [*made("bf16", "sm_90", {"wgmma.tf32": 8}), *made("ieee", "sm_90", FMA)]
    assert found(builds).keys() == {"ieee"}
    assert kept_promises(declared(builds), builds) == {("ieee", "sm_90")}


AS_TF32: list[tuple[str, list[dict[str, int]], str]] = [
    ("sm_80", [{"mma.tf32": 8}], "f32 on sm_80 multiplies in tf32 on the tensor cores (mma.tf32)"),
    ("sm_90", [FMA, {"wgmma.tf32": 4}], "f32 on sm_90 multiplies in tf32 on the tensor cores (wgmma.tf32)"),
    ("sm_100", [{"tcgen05.tf32": 4}], "f32 on sm_100 multiplies in tf32 on the tensor cores (tcgen05.tf32)"),
    ("gfx942", [{"mfma.xf32": 4}], "f32 on gfx942 multiplies in tf32 on the matrix cores (mfma.xf32)"),
]


@pytest.mark.parametrize(("target", "counts", "statement"), AS_TF32)
def test_f32_multiplies_nothing_in_tf32(target: str, counts: list[dict[str, int]], statement: str) -> None:
    builds = made("f32", target, *counts)
    (finding,) = findings(declared(builds), builds)
    assert finding.statement == statement
    assert (finding.verdict.outcome, finding.verdict.cause) == ("failed", "instructions")
    assert finding.verdict.reason == f"{statement}, which is not its promise"
    assert kept_promises(declared(builds), builds) == set()


@pytest.mark.parametrize("counts", [{}, FMA, {"wgmma.f16": 8}, {"wgmma.bf16": 8}, {"mma.s8": 8}, {"mfma.f32": 8}])
def test_nothing_is_said_of_f32_where_its_promise_is_kept(counts: dict[str, int]) -> None:
    builds = made("f32", "sm_90", counts)
    assert findings(declared(builds), builds) == []
    assert kept_promises(declared(builds), builds) == {("f32", "sm_90")}


@given(st.dictionaries(st.sampled_from(["fma.f32", "mma.tf32", "mma.f16", "wgmma.bf16", "wgmma.tf32"]), st.integers(1)))
def test_a_promise_is_kept_exactly_where_no_finding_fails(counts: dict[str, int]) -> None:
    builds = [build for precision in ("ieee", "f32", "tf32") for build in made(precision, "sm_90", counts)]
    failed = {one.precision for one in findings(declared(builds), builds) if one.verdict.outcome == "failed"}
    kept = {precision for precision, _ in kept_promises(declared(builds), builds)}
    assert (kept & failed, kept | failed) == (set(), {"ieee", "f32", "tf32"})


@pytest.mark.parametrize("precision", INPUT_PRECISIONS)
def test_what_keeps_a_promise_is_said_with_the_setting_that_triton_has_for_it(precision: str) -> None:
    assert str(keeping(precision)).endswith(f' input_precision="{precision}"')


def test_what_keeps_f32_is_what_keeps_ieee_and_of_others_nothing_is_said() -> None:
    assert keeping("f32") == keeping("ieee") == 'tl.dot multiplies float32 in tf32 unless it has input_precision="ieee"'
    assert (keeping("fp16x3"), keeping("half")) == (None, None)


@given(st.lists(st.integers(0, 4096), min_size=1, max_size=4), st.integers(0, 4096))
def test_code_is_over_budget_exactly_where_one_function_is(stacks: list[int], budget: int) -> None:
    binaries = [replaced(SIMPLE, stack_bytes=stack) for stack in stacks]
    found = judge_stack(binaries, budget)
    assert (found is not None) == (max(stacks) > budget)
    assert judge_stack(binaries, None) is None


def test_what_is_over_budget_was_compiled_and_failed() -> None:
    spilling = replaced(SIMPLE, stack_bytes=1360, local_store_instructions=9, local_load_instructions=7)
    variant = replaced(MATMUL.declaration().variants[0], stack_budget_bytes=1024)
    verdict = built(variant, "sm_80", "one", [spilling]).compiled
    assert (verdict.outcome, verdict.cause) == ("failed", "over-budget")
    assert verdict.reason == "kernel uses 1360 B of stack (9 stores and 7 loads of it); its budget is 1024 B"
    assert built(variant, "sm_80", "one", [SIMPLE]).compiled.outcome == "passed"

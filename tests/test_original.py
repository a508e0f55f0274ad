"""What a faulty version is held against: only what the kernel itself passed, small and quick things first."""

import dataclasses
from typing import Any

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, NO_DRIVER, replaced

from assay.original import Original, code_of, parts_of
from assay.record import Check, Verdict
from assay.targets import multiplies

FAILED = Verdict(outcome="failed", cause="wrong-value", reason="it is wrong")
H200 = records.device()
ORIGINAL = Original(
    records.interpreter(MATMUL), records.compilation(MATMUL, ("sm_75", "sm_80", "sm_90")), records.gpu(MATMUL, None)
)


def with_checks(change: Any) -> Original:
    checks = [change(at, check) for at, check in enumerate(ORIGINAL.interpreter.checks)]
    return Original(replaced(ORIGINAL.interpreter, checks=checks), ORIGINAL.compiled, ORIGINAL.gpu)


@given(st.sets(st.integers(0, 7)))
def test_a_faulty_version_is_tried_on_exactly_what_the_kernel_passed(broken: set[int]) -> None:
    def change(at: int, check: Check) -> Check:
        return replaced(check, verdict=FAILED) if at in broken else check

    original = with_checks(change)
    passed = [check for check in original.interpreter.checks if check.verdict.outcome == "passed"]
    tried = [(variant.id, case) for variant, case in original.trials("interpreter")]
    assert len(tried) == len(set(tried))
    assert set(tried) == {(check.variant, check.case) for check in passed}
    assert ("interpreter" in original.tiers) == bool(passed)


def test_cases_come_one_after_another_from_small_to_large_each_with_all_its_variants() -> None:
    def change(at: int, check: Check) -> Check:
        size = 4 if check.case == MATMUL.cases[1] else 400
        return replaced(check, comparisons=[replaced(check.comparisons[0], elements=size)])  # type: ignore[no-any-return]

    trials = with_checks(change).trials("interpreter")
    many = len(MATMUL.variants)
    assert [case for _, case in trials] == [MATMUL.cases[1]] * many + [MATMUL.cases[0]] * many
    assert [variant for variant, _ in trials] == [*MATMUL.variants, *MATMUL.variants]


def test_a_device_takes_cases_as_declared() -> None:
    original = Original(ORIGINAL.interpreter, ORIGINAL.compiled, records.gpu(MATMUL, H200))
    assert [case for _, case in original.trials("gpu")[:: len(MATMUL.variants)]] == list(MATMUL.cases)


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(1, 9))
def test_parts_are_all_trials_in_order_and_none_cuts_a_case(sizes: list[int], least: int) -> None:
    asked = [(MATMUL.variants[0], f"case {at}") for at, size in enumerate(sizes) for _ in range(size)]
    parts = parts_of(asked, least)
    assert [one for part in parts for one in part] == asked
    assert all(len(part) >= least for part in parts[:-1])
    cases = [{case for _, case in part} for part in parts]
    assert sum(map(len, cases)) == len(sizes)
    # No part could have ended at an earlier case.
    assert all(len(part) - sum(case == part[-1][1] for _, case in part) < least for part in parts)


def launching(kernels: dict[str, str]) -> Original:
    """Return a kernel of which each of these variants was compiled, to a launch of the kernel named beside it."""
    builds = [
        replaced(build, binaries=[replaced(binary, function=kernels[build.variant]) for binary in build.binaries])
        for build in ORIGINAL.compiled.builds
        if build.variant in kernels
    ]
    return Original(ORIGINAL.interpreter, replaced(ORIGINAL.compiled, builds=builds), ORIGINAL.gpu)


@given(st.dictionaries(st.sampled_from([v.id for v in MATMUL.variants]), st.sampled_from("abc"), min_size=1))
def test_a_change_concerns_the_variants_that_launch_it_and_those_of_which_it_is_not_known(
    names: dict[str, str],
) -> None:
    original, every = launching(names), {variant.id for variant in MATMUL.variants}
    assert original.using(None) == every
    assert original.using({"z"}) == every
    for kernel in set(names.values()):
        assert original.using({kernel, "z"}) == {v for v in every if names.get(v, kernel) == kernel}


def test_cases_that_fill_a_device_come_after_all_others() -> None:
    far = MATMUL.cases[0]
    declaration = replaced(ORIGINAL.declaration, distant=[far])
    compiled = replaced(ORIGINAL.compiled, declaration=declaration)
    original = Original(ORIGINAL.interpreter, compiled, ORIGINAL.gpu)
    assert {case for _, case in original.distant("interpreter")} == {far}
    assert far not in {case for _, case in original.near("interpreter")}
    assert original.trials("interpreter") == original.near("interpreter") + original.distant("interpreter")


def test_builds_without_tensor_cores_come_last_and_the_devices_own_first() -> None:
    assert [b.target for b in ORIGINAL.builds[:: len(MATMUL.variants)]] == ["sm_80", "sm_90", "sm_75"]
    on_device = Original(ORIGINAL.interpreter, ORIGINAL.compiled, records.gpu(MATMUL, H200))
    assert [b.target for b in on_device.builds[:: len(MATMUL.variants)]] == ["sm_90", "sm_80", "sm_75"]
    assert on_device.device == H200
    assert ORIGINAL.device is None


def test_samples_are_one_build_of_each_precision_in_one_configuration_for_one_target() -> None:
    found = ORIGINAL.samples()
    assert [build.variant for build in found] == ["ieee/64x64x32", "tf32/64x64x32"]
    assert {build.target for build in found} == {"sm_80"}


def test_all_builds_and_every_variant_on_every_case_must_be_the_same_code() -> None:
    found = [(variant.id, target, case) for variant, target, case in ORIGINAL.rebuilds]
    ahead = [(build.variant, build.target, build.case) for build in ORIGINAL.builds]
    # Shapes decide which code is launched, in each variant.
    assert found == [*ahead, *((variant.id, "sm_80", MATMUL.cases[1]) for variant in MATMUL.variants)]
    assert multiplies(found[0][1], "tf32")
    assert code_of(ORIGINAL.builds[0]) == [records.cubin("ieee/64x64x32", "sm_80")]


def test_the_reference_scripts_way_takes_the_first_case_and_the_two_precisions_set_apart() -> None:
    assert ORIGINAL.plain("interpreter") == (MATMUL.cases[0], ["ieee/64x64x32", "tf32/64x64x32"])


@pytest.mark.parametrize("stage", ["interpreter", "compiled"])
def test_of_a_file_that_one_stage_could_not_load_nothing_is_planted(stage: str) -> None:
    broken = replaced(getattr(ORIGINAL, stage), loading=FAILED)
    assert dataclasses.replace(ORIGINAL, **{stage: broken}).loading == FAILED


def test_without_a_device_its_tier_does_not_look() -> None:
    assert ORIGINAL.gpu.availability == NO_DRIVER
    assert ORIGINAL.tiers == ["interpreter", "compile"]

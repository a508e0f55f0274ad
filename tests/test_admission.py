"""Which variants of a search space are not worth the device's time, by what their code shows."""

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, replaced

from assay.admission import prune, untimed
from assay.record import Build, DeclaredVariant, Verdict

SEARCHED = replaced(MATMUL.variants[0], searched=True)


def build(stores: int = 0, target: str = "sm_90") -> Build:
    made = records.build(SEARCHED, target, "first")
    figures = {"local_store_instructions": stores, "local_load_instructions": stores, "stack_bytes": 8 * stores}
    spilled: Build = replaced(made, binaries=[replaced(made.binaries[0], **figures)])
    return spilled


def test_code_that_spills_is_pruned_with_its_figures() -> None:
    verdict = prune(SEARCHED, [build(stores=5)], "sm_90")
    assert verdict == Verdict(
        outcome="inapplicable",
        cause="pruned",
        reason="pruned before timing: on sm_90 kernel spills: 5 stores to and 5 loads from 40 B of local memory, "
        "with 168 registers a thread",
    )


def test_code_that_does_not_fit_keeps_that_verdict() -> None:
    made = build(stores=5, target="sm_75")
    assert prune(SEARCHED, [made], "sm_75") == made.fits
    assert made.fits.cause == "does-not-fit"


@given(st.integers(0, 9), st.sampled_from(["sm_75", "sm_90"]))
def test_a_variant_that_no_space_holds_is_never_pruned(stores: int, target: str) -> None:
    assert prune(MATMUL.variants[0], [build(stores, target)], target) is None


@pytest.mark.parametrize(("variant", "target"), [(SEARCHED, "sm_80"), (replaced(SEARCHED, id="ieee/another"), "sm_90")])
def test_only_the_code_of_this_variant_for_this_target_counts(variant: DeclaredVariant, target: str) -> None:
    assert prune(variant, [build(stores=5)], target) is None


def test_one_binary_of_several_that_spills_is_enough() -> None:
    made = build()
    assert prune(SEARCHED, [made], "sm_90") is None
    both = replaced(made, binaries=[*made.binaries, *build(stores=1).binaries])
    verdict = prune(SEARCHED, [both], "sm_90")
    assert verdict is not None
    assert verdict.cause == "pruned"


def test_what_was_not_compiled_is_left_to_the_device_to_say() -> None:
    broken = Verdict(outcome="failed", cause="compile-error", reason="no such name")
    upstream = Verdict(outcome="untested", cause="upstream", reason="there is no binary to fit")
    assert prune(SEARCHED, [replaced(build(), compiled=broken, fits=upstream, binaries=[])], "sm_90") is None


def test_what_the_device_made_of_a_variant_comes_before_what_its_code_shows() -> None:
    wrong = Verdict(outcome="failed", cause="wrong-value", reason="past the bound")
    passed = records.check(MATMUL, SEARCHED, MATMUL.cases[0], 1e-6, records.SAME_BITS)
    spills = [build(stores=5)]
    assert untimed(SEARCHED, [passed], spills, "sm_90") == prune(SEARCHED, spills, "sm_90")
    found = untimed(SEARCHED, [replaced(passed, verdict=wrong)], spills, "sm_90")
    assert found is not None
    assert found.reason == f"not timed: stage 'gpu' did not pass it on case '{MATMUL.cases[0]}': past the bound"
    assert untimed(SEARCHED, [passed], [build()], "sm_90") is None

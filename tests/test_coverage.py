"""Which cases each tier ran is said of every case, with what it was not asked, and which results changed."""

from dataclasses import replace

from records import MATMUL, NO_DRIVER, SAME_BITS, device, evidence, gpu, interpreter, replaced

from assay.coverage import build_coverage, repeats_of
from assay.outcomes import INAPPLICABLE, VERIFIED
from assay.record import Check, Repeat

RACE = Repeat(differing=12, elements=65536, settled=False, atomics=0)
REASON = "the later pieces of a denormal are too small"
PARTIAL = replace(
    MATMUL,
    cases=("first", "second"),
    exemptions={"second": {"ieee": REASON, "tf32": REASON}},
    once=("second",),
)


def test_every_declared_case_is_told_of_each_tier() -> None:
    found = build_coverage([evidence("interpreter", interpreter(PARTIAL)), evidence("gpu", gpu(PARTIAL, device()))])
    first, second = found.cases
    assert found.tiers == ["interpreter", "sm_90"]
    assert (first.tallies, first.once, first.exempt) == ([[(VERIFIED, 4)]] * 2, False, [])
    # One configuration of each of the two precisions, both exempt.
    assert (second.tallies, second.once) == ([[(INAPPLICABLE, 2)]] * 2, True)
    assert second.exempt == [("ieee, tf32", REASON)]


def test_a_case_that_a_tier_did_not_try_has_no_outcome_there() -> None:
    on_device = gpu(PARTIAL, device())
    only = [check for check in on_device.checks if check.case == "first"]
    found = build_coverage([evidence("gpu", replaced(on_device, checks=only))])
    assert [row.tallies for row in found.cases] == [[[(VERIFIED, 4)]], [[]]]


def test_a_tier_without_checks_is_left_out() -> None:
    empty = replaced(interpreter(MATMUL), loading=NO_DRIVER, declaration=None, checks=[])
    found = build_coverage([evidence("interpreter", empty), evidence("gpu", gpu(MATMUL, None))])
    assert (found.tiers, found.cases, found.repeats) == ([], [], [])


def changed(*repeats: Repeat) -> list[Check]:
    checks = gpu(MATMUL, device()).checks
    return [replaced(check, repeat=repeat) for check, repeat in zip(checks, repeats, strict=False)]


def test_results_that_changed_are_counted_and_named_with_their_atomics() -> None:
    settled = replaced(RACE, settled=True, atomics=4)
    checks = changed(SAME_BITS, RACE, settled)
    found = repeats_of(evidence("gpu", replaced(gpu(MATMUL, device()), checks=checks)))
    assert found is not None
    assert (found.same, found.repeated, found.tier) == (1, 3, "sm_90")
    assert [(row.variant, row.case) for row in found.changing] == [(c.variant, c.case) for c in checks[1:]]
    race, kept = [row.said for row in found.changing]
    assert race == "12 of 65536 output elements differ; later launches differ again; 0 atomic instructions in the code"
    assert kept.endswith("later launches repeat the second; 4 atomic instructions in the code")
    assert found.changing[0].told.source.pointer == "/result/checks/1/repeat"


def test_what_was_launched_once_says_nothing_of_repeatability() -> None:
    assert repeats_of(evidence("interpreter", interpreter(MATMUL))) is None

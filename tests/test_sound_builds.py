"""A compile record holds every declared build, and of each what its figures and the target's limits call for.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from forge import SETTINGS, Forge, forge
from msgspec.structs import replace
from records import MATMUL, replaced

from assay.findings import findings, unbuilt
from assay.record import Build, Verdict
from assay.soundness import faults

COMPILE = "results/matmul/compile.json"
FITS = Verdict(outcome="passed", reason="it fits")

UNSUPPORTED = Verdict(outcome="inapplicable", cause="unsupported-precision", reason="not on this machine")

Spoil = Callable[[Forge], object]


def put(place: str, value: Any) -> Spoil:
    return lambda forged: forged.put(f"{COMPILE}/result/{place}", value)


def found_in(spoil: Spoil) -> list[str]:
    forged = forge(None, [MATMUL])
    spoil(forged)
    return faults(forged.opened())


def with_builds(change: Callable[[list[Build]], list[Build]]) -> Spoil:
    """Change the builds, and derive the findings from what is left, as a careful forger would."""

    def edit(forged: Forge) -> None:
        def changed(result: Any) -> Any:
            builds = change(result.builds)
            return replaced(result, builds=builds, findings=findings(result.declaration, builds))

        forged.put(f"{COMPILE}/result", changed)

    return edit


def first(change: Callable[[Build], Build]) -> Spoil:
    return with_builds(lambda found: [change(found[0]), *found[1:]])


FAILED = Verdict(outcome="failed", cause="compile-error", reason="ptxas: out of registers")

BUILDS: dict[str, tuple[Spoil, str]] = {
    "a failed build left out": (
        with_builds(lambda found: found[1:]),
        r"/result/builds: expected every declared variant for each target in its settings \(12 builds\), found 11",
    ),
    "another target": (
        first(lambda build: replace(build, target="sm_120")),
        r'/result/builds/0/target: expected "sm_75", found "sm_120"',
    ),
    "another order": (
        with_builds(lambda found: [found[1], found[0], *found[2:]]),
        r'/result/builds/0/variant: expected "ieee/64x64x32", found "ieee/128x64x64"',
    ),
    "another case": (put("builds/0/case", "easy"), r'/result/builds/0/case: expected "aligned-\S+", found "easy"'),
    "compiled to nothing": (
        first(lambda build: replace(build, binaries=[])),
        r'/result/builds/0/compiled/outcome: expected "failed", found "passed"',
    ),
    "failed, and binaries all the same": (
        first(lambda build: replace(build, compiled=FAILED)),
        r'/result/builds/0/compiled/outcome: expected "passed", found "failed"',
    ),
    "too large, and it fits": (
        put("builds/0/fits", FITS),
        r'/result/builds/0/fits/outcome: expected "inapplicable", found "passed"',
    ),
    "a larger limit": (
        first(
            lambda build: replace(
                build, binaries=[replace(build.binaries[0], shared_limit_bytes=232448)], fits=replace(FITS, reason="x")
            )
        ),
        r"/result/builds/0/fits/outcome: expected \"inapplicable\", found \"passed\"",
    ),
    "only the limit": (
        put("builds/11/binaries/0/shared_limit_bytes", 999999),
        r"/result/builds/11/\S+: expected .*232448.*, found .*",
    ),
    "a failure that is said not to apply": (
        first(lambda build: unbuilt(build.variant, build.target, build.case, UNSUPPORTED)),
        r'/result/builds/0/compiled/outcome: expected "failed", found "inapplicable"',
    ),
    "spills hidden": (
        put("builds/0/binaries/0/local_store_instructions", 7),
        r"/result/builds/0/binaries/0/local_store_instructions: expected 0, found 7",
    ),
    "other instructions": (
        put("builds/11/binaries/0/instructions/assembly", {"fma.f32": 4096}),
        r"/result/findings/\d/statement: expected \"tf32 on sm_90 leaves the tensor cores unused\", found",
    ),
    "a better finding": (
        put("findings/0/statement", "ieee on sm_80 is the best"),
        r"/result/findings/0/statement: expected \"ieee on sm_80 uses no tensor-core instructions\", found",
    ),
    "a finding left out": (put("findings", lambda found: found[1:]), r"/result/findings: expected 4 items, found 3"),
    "undeclared": (
        lambda forged: forged.put(
            f"{COMPILE}/result", lambda found: replaced(found, declaration=None, builds=[], findings=[])
        ),
        r"/result/declaration: expected what the kernel declares, since it was loaded, found none",
    ),
    "not loaded, and built": (
        put("loading", Verdict(outcome="failed", cause="import-error", reason="SyntaxError")),
        r"/result/declaration: expected null, found",
    ),
}


@pytest.mark.parametrize("case", BUILDS)
def test_what_does_not_follow_is_refused(case: str) -> None:
    spoil, told = BUILDS[case]
    found = found_in(spoil)
    assert any(re.match(f"{COMPILE}: ({told})", fault) for fault in found), found


def test_a_build_that_failed_and_says_so_is_sound() -> None:
    assert found_in(first(lambda build: unbuilt(build.variant, build.target, build.case, FAILED))) == []


def test_a_kernel_that_does_not_load_is_sound() -> None:
    broken = Verdict(outcome="failed", cause="import-error", reason="SyntaxError in line 3")

    def spoil(forged: Forge) -> None:
        nothing: dict[str, Any] = {"loading": broken, "declaration": None}
        forged.put(f"{COMPILE}/result", lambda found: replaced(found, builds=[], findings=[], **nothing))

    assert found_in(spoil) == []


def test_a_target_too_old_for_a_variant_has_no_build() -> None:
    """A variant that needs 9.0 cannot have been compiled for sm_75 and sm_80."""

    def spoil(forged: Forge) -> None:
        for stage in ("interpreter", "compile"):
            forged.put(f"results/matmul/{stage}.json/result/declaration/variants/0/minimum_capability", "9.0")

    found = found_in(spoil)
    assert len(SETTINGS.targets) == 3
    assert [re.sub(r"expected .*", "", fault) for fault in found if "builds" in fault] == [
        f"{COMPILE}: /result/builds/0/compiled/outcome: ",
        f"{COMPILE}: /result/builds/4/compiled/outcome: ",
    ]


def of_another_case(build: Build, **changes: Any) -> Build:
    case = forge(None, [MATMUL]).opened().records[COMPILE].result.declaration.cases[1]
    return replace(unbuilt(build.variant, build.target, case, FAILED), **changes)


def compiled_for(builds: list[Build], target: str) -> Build:
    return next(build for build in builds if build.target == target)


def test_another_case_that_cannot_be_compiled_is_sound() -> None:
    assert found_in(with_builds(lambda found: [*found, of_another_case(compiled_for(found, "sm_80"))])) == []


OTHERS: dict[str, Callable[[list[Build]], list[Build]]] = {
    "one that passed": lambda found: [of_another_case(found[4], compiled=FITS)],
    "for want of something else": lambda found: [of_another_case(found[4], compiled=UNSUPPORTED)],
    "of a case that is not declared": lambda found: [of_another_case(found[4], case="easy")],
    "of the first case again": lambda found: [of_another_case(found[4], case=found[4].case)],
    "for another target than the first with tensor cores": lambda found: [of_another_case(found[-1])],
    "twice": lambda found: [of_another_case(found[4])] * 2,
    "of an unknown variant": lambda found: [of_another_case(found[4], variant="ieee/easy")],
}


@pytest.mark.parametrize("name", OTHERS)
def test_of_other_cases_a_record_holds_only_what_cannot_be_compiled(name: str) -> None:
    told = r"/result/builds: expected every declared variant for each target in its settings \(12 builds\), found 1[34]"
    found = found_in(with_builds(lambda builds: [*builds, *OTHERS[name](builds)]))
    assert any(re.match(f"{COMPILE}: ({told})", fault) for fault in found), found


def test_a_build_of_another_case_has_no_binary() -> None:
    found = found_in(with_builds(lambda builds: [*builds, of_another_case(builds[4], binaries=builds[4].binaries)]))
    assert any(re.match(f"{COMPILE}: /result/builds/12/binaries: expected", fault) for fault in found), found

"""What changed from release to release: laws over any records, and each kind of change once."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, SOFTMAX, TARGETS, compilation, interpreter, replaced

from assay.artifact import canonical, decode
from assay.changes import FIELDS, Column, Row, Tiers, Versions, compare_versions, kernel_rows, neighbours, value
from assay.record import Binary, Compile, Unavailable, Verdict

SOME = Tiers(interpreter(SOFTMAX), compilation(SOFTMAX, ["sm_80", "sm_90"]))
FAILED = Verdict(outcome="failed", cause="compile-error", reason="no")


def with_binary(tiers: Tiers, **changes: Any) -> Tiers:
    """Return the records with the first build's binary changed."""
    first, *others = tiers.compile.builds
    changed: Binary = replaced(first.binaries[0], **changes)
    return Tiers(tiers.interpreter, replaced(tiers.compile, builds=[replaced(first, binaries=[changed]), *others]))


def with_build(tiers: Tiers, **changes: Any) -> Tiers:
    first, *others = tiers.compile.builds
    return Tiers(tiers.interpreter, replaced(tiers.compile, builds=[replaced(first, **changes), *others]))


def with_check(tiers: Tiers, verdict: Verdict) -> Tiers:
    first, *others = tiers.interpreter.checks
    checks = [replaced(first, verdict=verdict), *others]
    return Tiers(replaced(tiers.interpreter, checks=checks), tiers.compile)


def unloaded() -> Tiers:
    verdict = Verdict(outcome="failed", cause="import-error", reason="no such module")
    interpreted = replaced(SOME.interpreter, loading=verdict, declaration=None, checks=[], canaries=[], contrasts=[])
    return Tiers(interpreted, Compile(loading=verdict, declaration=None, builds=[], findings=[]))


alternatives = st.sampled_from(
    [
        SOME,
        with_binary(SOME, registers=20),
        with_binary(SOME, stack_bytes=1280),
        with_binary(SOME, binary_sha256="0" * 64),
        with_binary(SOME, shared_bytes=64),
        with_build(SOME, compiled=FAILED, binaries=[]),
        with_check(SOME, FAILED),
        unloaded(),
    ]
)
releases = st.sampled_from(["3.6.0", "3.7.1", "3.8.0", "3.9.0", "3.10.0"])
kernels = st.dictionaries(releases, alternatives, max_size=5)


def rows(kernel: dict[str, Tiers]) -> list[Row]:
    return kernel_rows("softmax", kernel)


def fields(older: Tiers, newer: Tiers) -> list[tuple[str | None, str]]:
    found = rows({"3.6.0": older, "3.7.1": newer})
    return [(row.target, change.field) for row in found for change in row.changes]


# Laws


@given(alternatives, st.sets(releases))
def test_what_is_the_same_in_all_releases_changes_in_none(tiers: Tiers, versions: set[str]) -> None:
    assert not [change for row in rows(dict.fromkeys(versions, tiers)) for change in row.changes]


@given(kernels)
def test_changes_lead_from_the_oldest_release_to_the_newest(kernel: dict[str, Tiers]) -> None:
    for row in rows(kernel):
        for field in FIELDS:
            told = [value(row.cells[version], field) for version in sorted(row.cells, key=numbers)]
            if None in told:
                continue
            chain = [told[0]]
            for change in [change for change in row.changes if change.field == field]:
                assert change.before == chain[-1] != change.after
                chain.append(change.after)
            assert chain[-1] == told[-1]


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@given(kernels)
def test_a_change_is_between_neighbours(kernel: dict[str, Tiers]) -> None:
    for row in rows(kernel):
        pairs = list(neighbours(row.cells))
        assert all((change.older, change.newer) in pairs for change in row.changes)
        assert all(numbers(older) < numbers(newer) for older, newer in pairs)
        assert len(pairs) == max(0, len(row.cells) - 1)


@given(kernels)
def test_the_order_in_which_releases_are_given_is_of_no_consequence(kernel: dict[str, Tiers]) -> None:
    turned = dict(reversed(kernel.items()))
    assert {(r.variant, r.target): r for r in rows(turned)} == {(r.variant, r.target): r for r in rows(kernel)}


@given(kernels)
def test_the_comparison_is_a_record_that_reads_back(kernel: dict[str, Tiers]) -> None:
    columns = [Column(version="3.8.0", software=Unavailable(reason="no network"))]
    found = compare_versions(columns, {"softmax": kernel})
    assert decode(canonical(found), Versions, "here") == found


# Each kind of change


def test_every_field_of_a_binary_is_compared() -> None:
    target = SOME.compile.builds[0].target
    assert fields(SOME, with_binary(SOME, registers=20)) == [(target, "registers")]
    assert fields(SOME, with_binary(SOME, stack_bytes=1280)) == [(target, "stack")]
    assert fields(SOME, with_binary(SOME, shared_bytes=64)) == [(target, "shared")]
    assert fields(SOME, with_binary(SOME, binary_sha256="0" * 64)) == [(target, "binary")]
    counts = msgspec.structs.replace(SOME.compile.builds[0].binaries[0].instructions, assembly={"mma.tf32": 2})
    assert fields(SOME, with_binary(SOME, instructions=counts)) == [(target, "instructions")]


def test_a_build_that_fails_changes_in_its_outcome_alone() -> None:
    target = SOME.compile.builds[0].target
    assert fields(SOME, with_build(SOME, compiled=FAILED, binaries=[])) == [(target, "outcome")]


def test_a_case_that_fails_under_the_interpreter_is_named() -> None:
    older, newer = SOME, with_check(SOME, FAILED)
    assert fields(older, newer) == [(None, "outcome"), (None, "checks")]
    (row, *_) = rows({"3.6.0": older, "3.7.1": newer})
    name = SOME.interpreter.checks[0].case
    assert row.changes[1].after == f"1 verified, 1 failed; {name} failed (compile-error)"


def test_two_functions_of_one_launch_are_both_shown() -> None:
    binary = SOME.compile.builds[0].binaries[0]
    found = rows({"3.6.0": with_build(SOME, binaries=[binary, replaced(binary, registers=20)])})
    assert found[1].cells["3.6.0"].figures["registers"] == f"{binary.registers} + 20"


def test_a_kernel_that_one_release_cannot_load_has_the_reason_in_each_row() -> None:
    found = rows({"3.6.0": SOME, "3.7.1": unloaded()})
    assert {row.cells["3.7.1"].reason for row in found} == {"no such module"}
    assert {change.field for row in found for change in row.changes} == {"outcome"}


def test_a_kernel_that_no_release_loads_has_one_row() -> None:
    (row,) = rows({"3.6.0": unloaded()})
    assert (row.variant, row.target) == ("*", None)
    assert row.cells["3.6.0"].cause == "import-error"


def test_known_changes_stand_at_the_field_that_shows_them() -> None:
    older = Tiers(interpreter(MATMUL), compilation(MATMUL, TARGETS))
    place = next(
        place
        for place, build in enumerate(older.compile.builds)
        if build.target == "sm_80" and build.variant.startswith("ieee")
    )
    build = older.compile.builds[place]
    spilling = replaced(build, binaries=[replaced(build.binaries[0], stack_bytes=1280)])
    builds = [*older.compile.builds[:place], spilling, *older.compile.builds[place + 1 :]]
    newer = Tiers(older.interpreter, replaced(older.compile, builds=builds))
    (change,) = [c for row in kernel_rows("matmul", {"3.7.1": older, "3.8.0": newer}) for c in row.changes]
    assert (change.field, change.before, change.after, change.known) == ("stack", "0", "1280", ["sm_80 stack"])

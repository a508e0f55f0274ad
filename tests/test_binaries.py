"""The compilation section has every build, joins what is said of several targets, and compares with what ran."""

import pytest
from records import MATMUL, PASSED, TARGETS, compilation, device, evidence, evidence_of, gpu, replaced

from assay.binaries import Compilation, build_compilation
from assay.evidence import Records
from assay.formats import ABSENT
from assay.outcomes import FAILED, INAPPLICABLE, VERIFIED
from assay.record import Compile, Instructions, RegisterFiles, Verdict

BROKEN = Verdict(outcome="failed", cause="compile-error", reason="error: expected ')'")
NOTHING = Verdict(outcome="untested", cause="upstream", reason="there is no binary to fit")


def section_of(result: Compile) -> Compilation:
    return build_compilation("matmul", {"compile": evidence("compile", result, "matmul")})


def test_every_build_has_a_row_with_its_place() -> None:
    found = section_of(compilation(MATMUL, TARGETS))
    assert [(row.variant, row.target) for row in found.rows] == [(v.id, t) for t in TARGETS for v in MATMUL.variants]
    assert found.rows[5].compiled.source.pointer == "/result/builds/5"
    row = found.rows[-1]
    assert (row.registers, row.local, row.shared, row.assembly) == ("168", "2 / 3", "73728 of 232448", "wgmma.tf32 16")
    assert (row.compiled.mark, found.rows[0].fits.mark) == (VERIFIED, INAPPLICABLE)


def test_a_build_that_failed_has_a_row_without_figures() -> None:
    result = compilation(MATMUL, ["sm_80"])
    failed = replaced(result.builds[0], compiled=BROKEN, fits=NOTHING, binaries=[])
    row = section_of(replaced(result, builds=[failed])).rows[0]
    assert (row.compiled.mark, row.compiled.reason) == (FAILED, BROKEN.reason)
    assert (row.registers, row.shared, row.binary) == (ABSENT, ABSENT, None)


def test_amds_register_files_are_all_told() -> None:
    result = compilation(MATMUL, ["gfx942"])
    (binary,) = result.builds[0].binaries
    files = RegisterFiles(vgpr=371, agpr=115, sgpr=100, vgpr_spills=22, sgpr_spills=33)
    counts = Instructions(assembly={"mfma.f32": 8}, machine=None)
    amd = replaced(binary, registers=371, register_files=files, instructions=counts)
    rdna = replaced(amd, register_files=replaced(files, agpr=None))
    result = replaced(result, builds=[replaced(result.builds[0], binaries=[amd, rdna])])
    first, second = section_of(result).rows
    assert first.registers == "371 VGPR, 115 of them AGPR; 100 SGPR; spilled: 22 VGPR, 33 SGPR"
    assert second.registers == "371 VGPR; 100 SGPR; spilled: 22 VGPR, 33 SGPR"
    assert (first.assembly, first.machine) == ("mfma.f32 8", ABSENT)


def test_a_launch_of_two_functions_has_two_rows() -> None:
    result = compilation(MATMUL, ["sm_80"])
    (binary,) = result.builds[0].binaries
    twice = replaced(result.builds[0], binaries=[binary, replaced(binary, function="second")])
    assert [row.function for row in section_of(replaced(result, builds=[twice])).rows] == ["kernel", "second"]


def test_targets_of_which_the_same_is_said_share_a_row() -> None:
    found = section_of(compilation(MATMUL, TARGETS)).findings
    assert [(row.statement, row.targets) for row in found] == [
        ("ieee uses no tensor-core instructions", ["sm_75", "sm_80", "sm_90"]),
        ("tf32 uses no tensor-core instructions", ["sm_75"]),
        ("tf32 takes the tensor cores (wgmma.tf32)", ["sm_80", "sm_90"]),
    ]


def test_a_finding_that_failed_does_not_hide_among_those_that_hold() -> None:
    result = compilation(MATMUL, TARGETS)
    broken = replaced(result.findings[0], verdict=Verdict(outcome="failed", cause="instructions", reason="it is not"))
    found = section_of(replaced(result, findings=[broken, *result.findings[1:]])).findings
    assert [(row.told.mark, row.targets) for row in found[:2]] == [(FAILED, ["sm_75"]), (VERIFIED, ["sm_80", "sm_90"])]


def test_executed_binaries_are_counted_by_what_was_predicted() -> None:
    records: Records = {record.artifact.stage: record for record in evidence_of(MATMUL, device())}
    found = build_compilation("matmul", records)
    assert found.executed == f"{len(MATMUL.variants) * len(MATMUL.cases)} identical"
    # A variant launched the same binary for every case.
    assert [(row.variant, row.cases) for row in found.executions] == [
        (v.id, list(MATMUL.cases)) for v in MATMUL.variants
    ]
    assert found.executions[1].source.pointer == f"/result/executions/{len(MATMUL.cases)}"


def test_binaries_that_were_predicted_otherwise_do_not_share_a_row() -> None:
    found = gpu(MATMUL, device())
    other = replaced(found.executions[1], predicted="different")
    record = evidence("gpu", replaced(found, executions=[found.executions[0], other]), "matmul")
    made = build_compilation("matmul", {"compile": evidence("compile", compilation(MATMUL, TARGETS)), "gpu": record})
    assert [(row.cases, row.predicted) for row in made.executions] == [
        ([MATMUL.cases[0]], "identical"),
        ([MATMUL.cases[1]], "different"),
    ]
    assert made.executed == "1 different, 1 identical"


def test_the_stack_is_shown_with_the_budget_that_a_variant_declares() -> None:
    result = compilation(MATMUL, ["sm_80"])
    assert section_of(result).rows[0].stack == "0 of 16"
    unlimited = [replaced(variant, stack_budget_bytes=None) for variant in result.declaration.variants]  # type: ignore[union-attr]
    declaration = replaced(result.declaration, variants=unlimited)
    assert section_of(replaced(result, declaration=declaration)).rows[0].stack == "0"


@pytest.mark.parametrize(("loading", "obstacle"), [(PASSED, None), (BROKEN, BROKEN.reason)])
def test_a_kernel_that_does_not_load_says_why(loading: Verdict, obstacle: str | None) -> None:
    found = section_of(Compile(loading=loading, declaration=None, builds=[], findings=[]))
    assert (found.obstacle.reason if found.obstacle else None) == obstacle
    assert (found.rows, found.findings, found.executions) == ([], [], [])


def test_a_build_of_another_case_has_a_row_that_names_it() -> None:
    result = compilation(MATMUL, ["sm_80"])
    first = result.builds[0]
    other = replaced(first, case="narrow-33x8", compiled=BROKEN, fits=NOTHING, binaries=[])
    found = section_of(replaced(result, builds=[*result.builds, other]))
    assert (found.case, found.rows[-1].variant) == (first.case, f"{first.variant}, narrow-33x8")
    assert {row.variant for row in found.rows[:-1]} == {build.variant for build in result.builds}

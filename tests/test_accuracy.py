"""The accuracy section tells of every tier, never lets NaN look small, and points into the record."""

import math

import pytest
from records import MATMUL, NO_DRIVER, comparison, device, evidence, evidence_of, gpu, interpreter, replaced

from assay.accuracy import Accuracy, build_accuracy
from assay.evidence import Records
from assay.outcomes import BLOCKED, FAILED, VERIFIED
from assay.record import Unavailable, Verdict, number

WRONG = Verdict(outcome="failed", cause="wrong-value", reason="3 elements past the bound")


def records_with(*checks_of_gpu: object) -> Records:
    found = gpu(MATMUL, device())
    return {"gpu": evidence("gpu", replaced(found, checks=[*checks_of_gpu, *found.checks]), "matmul")}


def section() -> Accuracy:
    records: Records = {record.artifact.stage: record for record in evidence_of(MATMUL, device())}
    return build_accuracy("matmul", records)


def test_each_tier_has_a_table_and_the_bounds_are_listed_once() -> None:
    found = section()
    assert [table.tier for table in found.tables] == ["interpreter", "sm_90"]
    assert found.bounds == list(MATMUL.rules.values())
    assert found.cited == list(enumerate(found.bounds, start=1))
    assert found.obstacles == []


def test_a_summary_has_the_largest_error_and_share_of_its_precision() -> None:
    (ieee,) = [row for row in section().summaries if (row.precision, row.tier) == ("ieee", "sm_90")]
    assert (ieee.error, ieee.case) == ("1.36e-6", MATMUL.cases[1])
    assert [(share.rule, share.text, share.bound) for share in ieee.shares] == [
        ("reduction", "0.0136 %", 1),
        ("componentwise", "0.0136 %", 2),
    ]
    # Once for each check, under however many rules it was compared.
    assert ieee.tally == [(VERIFIED, len(MATMUL.configurations) * len(MATMUL.cases))]


def test_nan_is_the_largest_error_of_a_summary() -> None:
    check = replaced(gpu(MATMUL, device()).checks[0], verdict=WRONG, comparisons=[comparison(number(math.nan))])
    summary = build_accuracy("matmul", records_with(check)).summaries[0]
    assert (summary.error, summary.shares[0].text) == ("NaN", "NaN")
    assert dict(summary.tally)[FAILED] == 1


@pytest.mark.parametrize(
    ("honoured", "said"),
    [(True, "yes"), (False, "no"), (Unavailable(reason="no pair was compared"), "unavailable (no pair was compared)")],
)
def test_whether_the_interpreter_honoured_the_precision_is_said(honoured: bool | Unavailable, said: str) -> None:
    record = evidence("interpreter", replaced(interpreter(MATMUL), precision_honoured=honoured), "matmul")
    ((text, source),) = build_accuracy("matmul", {"interpreter": record}).honoured
    assert (text, source.pointer) == (said, "/result/precision_honoured")


@pytest.mark.parametrize(
    ("stage", "result", "pointer"),
    [
        ("gpu", gpu(MATMUL, None), "/result/availability"),
        (
            "interpreter",
            replaced(interpreter(MATMUL), loading=NO_DRIVER, checks=[], canaries=[], contrasts=[]),
            "/result/loading",
        ),
    ],
)
def test_a_tier_without_checks_says_why(stage: str, result: object, pointer: str) -> None:
    found = build_accuracy("matmul", {stage: evidence(stage, result, "matmul")})  # type: ignore[arg-type, dict-item]
    ((name, told),) = found.obstacles
    assert (name, told.mark, told.reason, told.source.pointer) == (stage, BLOCKED, NO_DRIVER.reason, pointer)
    assert (found.tables, found.summaries, found.chart, found.canaries) == ([], [], None, [])
    assert found.coverage.cases == []


def test_contrasts_show_both_errors() -> None:
    found = section().contrasts
    assert [row.tier for row in found] == ["interpreter"] * 2 + ["sm_90"] * 2
    assert (found[-1].reference, found[-1].lesser, found[-1].ratio) == ("ieee 1.24e-6", "tf32 7.37e-4", "594")
    assert found[-1].told.source.pointer == "/result/contrasts/1"


def test_each_bound_is_told_with_where_it_comes_from() -> None:
    assert section().rules == {rule: f"who found the {rule} rule" for rule in MATMUL.rules}

"""From a set of artifacts to claims and status: freshness, what must be there, and independence of order."""

from collections.abc import Sequence
from typing import Any

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, SOFTMAX

from assay.artifact import canonical, schema_name, seal, sha256_bytes
from assay.conclusion import conclude
from assay.errors import RecordError
from assay.record import Artifact, Digest, Run, StageName

TARGETS = ("sm_80", "sm_90")
KERNELS = {name: f"kernels/{name}.py" for name in ("matmul", "softmax")}


def artifact(stage: StageName, kernel: str | None, result: Any, started: str = "2026-11-29T10:00:00Z") -> Artifact[Any]:
    materials = {"assay/__init__.py": sha256_bytes(b"package")}
    if kernel is not None:
        materials[KERNELS[kernel]] = sha256_bytes(kernel.encode())
    return seal(
        Artifact(
            schema=schema_name(stage),
            stage=stage,
            kernel=kernel,
            materials=materials,
            command=[],
            run=Run(started=started, duration_ns=1, exit_code=0),
            result=result,
        )
    )


def evidence() -> dict[str, Artifact[Any]]:
    device = records.device()
    made = {
        "results/environment.json": artifact("environment", None, records.environment(device), "2026-11-27T10:00:00Z"),
        "results/gate.json": artifact("gate", None, records.gate(device)),
    }
    for subject in (SOFTMAX, MATMUL):
        results: dict[StageName, Any] = {
            "interpreter": records.interpreter(subject),
            "compile": records.compilation(subject, TARGETS),
            "gpu": records.gpu(subject, device),
            "timing": records.timing(subject, device),
        }
        for stage, result in results.items():
            made[f"results/{subject.name}/{stage}.json"] = artifact(stage, subject.name, result)
    return made


EVIDENCE = evidence()
NOW: dict[str, Digest] = {
    **{name: digest for one in EVIDENCE.values() for name, digest in one.materials.items()},
    **{path: sha256_bytes(canonical(one)) for path, one in EVIDENCE.items()},
}


def test_everything_that_passed_and_is_current_is_partially_verified_where_a_target_waits() -> None:
    status, claims = conclude(EVIDENCE, NOW, TARGETS, "8.0")
    assert status.overall == "PARTIALLY VERIFIED"
    assert status.sentence.startswith("PARTIALLY VERIFIED from 2026-11-27 to 2026-11-29: ")
    assert {claim.freshness for claim in claims} == {"current"}
    assert conclude(EVIDENCE, NOW, ["sm_90"], "8.0")[0].overall == "VERIFIED"


@given(st.permutations(list(EVIDENCE)))
def test_the_order_of_the_records_does_not_matter(order: Sequence[str]) -> None:
    shuffled = {path: EVIDENCE[path] for path in order}
    assert canonical(conclude(shuffled, NOW, TARGETS, "8.0")) == canonical(conclude(EVIDENCE, NOW, TARGETS, "8.0"))


@pytest.mark.parametrize("change", [{KERNELS["matmul"]: "0" * 64}, {KERNELS["matmul"]: None}], ids=["edited", "gone"])
def test_a_changed_kernel_makes_its_own_claims_stale_and_no_others(change: dict[str, Digest | None]) -> None:
    now = {name: digest for name, digest in {**NOW, **change}.items() if digest is not None}
    status, claims = conclude(EVIDENCE, now, ["sm_90"], "8.0")
    stale = {claim.kernel for claim in claims if claim.freshness == "stale"}
    current = {claim.kernel for claim in claims if claim.freshness == "current"}
    assert (stale, current) == ({"matmul"}, {"softmax", "*"})
    assert all("(stale: kernels/matmul.py has changed since)" in c.reason for c in claims if c.freshness == "stale")
    assert status.overall == "PARTIALLY VERIFIED"


@pytest.mark.parametrize("path", ["results/gate.json", "results/matmul/gpu.json"])
def test_two_records_of_the_same_thing_are_refused_rather_than_one_chosen(path: str) -> None:
    both = {**EVIDENCE, "elsewhere.json": EVIDENCE[path]}
    of = " of kernel matmul" if "matmul" in path else ""
    stage = EVIDENCE[path].stage
    with pytest.raises(
        RecordError, match=f"^claims: {path} and elsewhere.json are both of stage '{stage}'{of}; name one of them$"
    ):
        conclude(both, {**NOW, "elsewhere.json": NOW[path]}, TARGETS, "8.0")


@pytest.mark.parametrize("path", EVIDENCE)
def test_a_missing_record_is_refused_by_name(path: str) -> None:
    rest = {name: one for name, one in EVIDENCE.items() if name != path}
    stage, kernel = EVIDENCE[path].stage, EVIDENCE[path].kernel
    of = f" of kernel {kernel}" if kernel else ""
    with pytest.raises(RecordError, match=rf"^claims: expected a record of stage '{stage}'{of}; add --record"):
        conclude(rest, NOW, TARGETS, "8.0")

"""What a point is judged by: the claims that the stage `claims` would derive, and a memory that may be lost."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from records import MATMUL, TARGETS, device, environment, evidence_of, gate
from records import evidence as record_of

from assay.artifact import canonical
from assay.attempts import Judge, Point, Remembered, derive_tier, recall
from assay.config import Settings
from assay.progress import Progress
from assay.record import Claim, StageName, Tier, Unavailable
from assay.tiers import Held, Machine, Subject, derive

SETTINGS = Settings(targets=["sm_75", "sm_80", "sm_90"])
TIERS: tuple[Tier, ...] = ("interpreted", "compiled", "fits", "ran", "accurate", "timed")


def held(one: Any) -> Held:
    return Held(one.path, one.sha256, one.artifact.result, "current")


def without_links(claims: list[Claim]) -> list[Claim]:
    return [replace(claim, links=[]) for claim in claims]


@pytest.mark.parametrize("tier", TIERS)
def test_the_claims_of_a_tier_are_those_that_the_stage_derives(tier: Tier) -> None:
    found = device()
    evidence = evidence_of(MATMUL, found, TARGETS)
    machine = Machine(held(record_of("environment", environment(found))), held(record_of("gate", gate(found))))
    records: dict[StageName, Held] = {one.artifact.stage: held(one) for one in evidence}
    every = derive(machine, [Subject("matmul", records)], SETTINGS.targets, "8.0")
    of_device = tier in ("ran", "accurate", "timed")
    wanted = [c for c in every if c.tier == tier and (not of_device or c.target == found.target)]
    artifacts = {one.artifact.stage: one.artifact for one in evidence}
    assert wanted
    assert sorted(without_links(list(derive_tier("matmul", tier, artifacts, SETTINGS))), key=str) == sorted(
        without_links(wanted), key=str
    )


@pytest.mark.parametrize("part", ["content", "settings", "python"])
def test_a_point_that_lacks_a_part_is_not_run(part: str) -> None:
    gone = Unavailable(reason="it is not there")
    parts: dict[str, Any] = {"content": b"", "settings": SETTINGS, part: gone}
    judge = Judge("matmul", "interpreted", 1.0, Progress("bisect", 1, StringIO()))
    assert judge.claims(Point("a", **parts)) == gone


@pytest.mark.parametrize("written", [None, b"", b"{}", b'{"claims":[{}]}', b"\xff"])
def test_a_memory_that_cannot_be_read_is_none(written: bytes | None, tmp_path: Path) -> None:
    if written is not None:
        (tmp_path / "a.json").write_bytes(written)
    assert recall(tmp_path / "a.json") is None
    (tmp_path / "a.json").write_bytes(canonical(Remembered(claims=[])))
    assert recall(tmp_path / "a.json") == []


def test_a_python_that_cannot_be_run_is_said() -> None:
    judge = Judge("matmul", "interpreted", 1.0, Progress("bisect", 1, StringIO()))
    found = judge.claims(Point("a", b"", SETTINGS, "/nowhere/python"))
    assert isinstance(found, Unavailable)
    assert found.reason.startswith("stage 'environment' left no record: /nowhere/python cannot be run (")

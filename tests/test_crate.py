"""The description of a bundle as an RO-Crate: complete, the same each time, and what roc-validator requires."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import MATMUL, SOURCE, claims_of, device, environment, evidence, evidence_of, gate, replaced, status

from assay import crate
from assay.artifact import seal
from assay.record import Artifact, Claims, Device, Report, Run, Source, Unavailable

SOURCES = {"Snakefile": b"rule all:\n", "config.yaml": b"kernels: all\n", "kernels/matmul.py": b"KERNEL = 1\n"}
PAGES = {"results/report.html": b"<html></html>", "results/report.md": b"# Report"}
HOSTILE = [
    '</script><script>alert("1")</script>',
    "{{ 7 * 7 }}",
    'quote " and \\ backslash',
    "../../outside",
    "\u202eevil",
]

# The terms of the RO-Crate 1.1 context that a crate here uses; validation fails on one that is missing here. All are
# schema.org's but three: https://www.researchobject.org/ro-crate/1.1/context.jsonld
SCHEMA_ORG = """ComputerLanguage CreateAction CreativeWork Dataset Organization SoftwareApplication SoftwareSourceCode
about actionStatus author contentSize datePublished description encodingFormat endTime hasPart identifier instrument
license mainEntity mentions name object programmingLanguage result softwareRequirements softwareVersion startTime url
version"""
CONTEXT = {
    **{term: f"http://schema.org/{term}" for term in SCHEMA_ORG.split()},
    "File": "http://schema.org/MediaObject",
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
}


def artifacts(found: Device | None = None, source: Source = SOURCE, sentence: str = "") -> dict[str, Artifact[Any]]:
    """Return one complete set of records by path."""
    made = claims_of(MATMUL, ["sm_90"], found)
    result = Claims(status=status(made, sentence), claims=made, source=source)
    pages = Report(status=result.status, outputs=dict.fromkeys(PAGES, "0" * 64))
    records = [evidence("environment", environment(found)), evidence("gate", gate(found)), *evidence_of(MATMUL, found)]
    records += [evidence("claims", result), evidence("report", pages)]
    of = {record.path: record.artifact for record in records}
    materials = dict.fromkeys(["kernels/matmul.py", "config.yaml", "results/gate.json"], "0" * 64)
    return of | {"results/claims.json": replaced(of["results/claims.json"], materials=materials)}


def files_of(records: Mapping[str, Artifact[Any]]) -> dict[str, bytes]:
    return {**SOURCES, **PAGES, **dict.fromkeys(records, b"{}")}


def graph(description: bytes) -> dict[str, Any]:
    """Return the entities by their ids, each of which stands once."""
    entities = json.loads(description)["@graph"]
    by_id = {entity["@id"]: entity for entity in entities}
    assert len(by_id) == len(entities)
    return by_id


def described(**changes: Any) -> dict[str, Any]:
    records = artifacts(**changes)
    return graph(crate.describe(files_of(records), records))


def references(value: Any) -> list[str]:
    """Return every id that an entity refers to."""
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    return [value["@id"]] if isinstance(value, dict) else []


def ids(value: Any) -> set[str]:
    return set(references(value))


# What it says


def test_every_file_is_described_once_with_its_size_and_is_part_of_the_root() -> None:
    records = artifacts()
    files = files_of(records)
    entities = graph(crate.describe(files, records))
    assert ids(entities["./"]["hasPart"]) == set(files)
    for name, data in files.items():
        assert "File" in entities[name]["@type"]
        if name != crate.WORKFLOW:
            assert entities[name]["contentSize"] == str(len(data))


def test_nothing_that_is_referred_to_inside_the_crate_is_missing() -> None:
    entities = described()
    named = {reference for entity in entities.values() for value in entity.values() for reference in references(value)}
    assert {name for name in named if not name.startswith("https://")} <= set(entities)


def test_the_run_read_the_sources_and_made_the_records_and_the_pages() -> None:
    run = described()["#run"]
    assert ids(run["instrument"]) == {"Snakefile"}
    assert ids(run["object"]) == {"kernels/matmul.py", "config.yaml"}
    assert ids(run["result"]) == {*artifacts(), *PAGES}


def test_the_profiles_are_those_of_the_workflow_run_crate() -> None:
    entities = described()
    assert ids(entities["./"]["conformsTo"]) == set(crate.PROFILES)
    assert ids(entities["ro-crate-metadata.json"]["conformsTo"]) == {
        "https://w3id.org/ro/crate/1.1",
        "https://w3id.org/workflowhub/workflow-ro-crate/1.0",
    }


def test_versions_are_those_that_the_environment_recorded() -> None:
    entities = described()
    required = [entities[name] for name in references(entities["Snakefile"]["softwareRequirements"])]
    versions = {entity["name"]: entity["softwareVersion"] for entity in required}
    assert versions == {"CPython": "3.12.3", "torch": "2.11.0", "triton": "3.6.0"}


@pytest.mark.parametrize(
    ("source", "version"),
    [
        (SOURCE, SOURCE.commit),
        (replaced(SOURCE, dirty=True), f"sha256:{SOURCE.digest}"),
        (replaced(SOURCE, commit=Unavailable(reason="no git")), f"sha256:{SOURCE.digest}"),
        (replaced(SOURCE, dirty=Unavailable(reason="no git")), f"sha256:{SOURCE.digest}"),
    ],
    ids=["clean", "dirty", "no commit", "unknown"],
)
def test_the_workflow_has_the_commit_as_its_version_only_where_that_is_all_of_it(source: Source, version: str) -> None:
    assert described(source=source)["Snakefile"]["version"] == version


def test_a_run_of_which_a_stage_failed_is_not_called_completed() -> None:
    records = artifacts()
    assert described()["#run"]["actionStatus"] == "http://schema.org/CompletedActionStatus"
    broken = replaced(records["results/gate.json"], run=Run(started="2026-11-29T10:00:00Z", duration_ns=1, exit_code=1))
    records["results/gate.json"] = seal(broken)
    run = graph(crate.describe(files_of(records), records))["#run"]
    assert run["actionStatus"] == "http://schema.org/FailedActionStatus"


instants = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(microsecond=0))


@given(st.lists(st.tuples(instants, st.integers(0, 10**14)), min_size=1, max_size=5))
def test_the_run_lasts_from_the_first_start_to_the_last_end(runs: list[tuple[datetime, int]]) -> None:
    record = artifacts()["results/gate.json"]
    records = [replaced(record, run=Run(started=f"{at.isoformat()}Z", duration_ns=ns, exit_code=0)) for at, ns in runs]
    start, end = (datetime.fromisoformat(text) for text in crate.span(records))
    assert start.replace(tzinfo=None) == min(at for at, _ in runs)
    last = max(at + timedelta(microseconds=ns // 1000) for at, ns in runs)
    assert end.replace(tzinfo=None) == last.replace(microsecond=0)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_stay_words(text: str) -> None:
    entities = described(found=device(text), sentence=text)
    assert entities["./"]["description"] == entities["#run"]["description"] == text
    assert set(entities) == set(described())


# The same bytes


def test_neither_clock_nor_chance_nor_the_order_of_the_files_shows() -> None:
    records = artifacts()
    files = files_of(records)
    first = crate.describe(files, records)
    assert crate.describe(dict(reversed(files.items())), dict(reversed(records.items()))) == first
    assert graph(first)["./"]["datePublished"] == records["results/claims.json"].run.started[:10]
    assert not re.search(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}", first)


# What others require


def write(folder: Path, description: bytes, files: Mapping[str, bytes]) -> None:
    for name, data in {**files, crate.METADATA: description}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def keep_context(cache: Path) -> None:
    """Put the context where roc-validator looks before it asks the network."""
    from requests.structures import CaseInsensitiveDict
    from requests_cache import CachedSession
    from requests_cache.models.request import CachedRequest
    from requests_cache.models.response import CachedResponse

    url = f"https://w3id.org/ro/crate/{crate.VERSION}/context"
    content = json.dumps({"@context": CONTEXT}).encode()
    with CachedSession(cache_name=str(cache), backend="sqlite") as session:
        session.cache.save_response(
            CachedResponse(
                status_code=200,
                url=url,
                content=content,
                headers=CaseInsensitiveDict({"Content-Type": "application/ld+json"}),
                request=CachedRequest(method="GET", url=url),
            )
        )


def validated(folder: Path, cache: Path) -> tuple[int, dict[str, Any]]:
    """Run roc-validator's required checks without the network; return its exit code and its report."""
    keep_context(cache)
    command = "import sys; from rocrate_validator.cli import cli; sys.argv[0] = 'rocrate-validator'; cli()"
    options = ["--offline", "--cache-path", str(cache), "--profile-identifier", "workflow-run-crate"]
    options += ["--output-format", "json", "--output-file", str(cache.with_suffix(".json")), str(folder)]
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-interactive", "validate", *options],
        env={**os.environ, "ROCRATE_VALIDATOR_AUTO_WARM": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    report = cache.with_suffix(".json")
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("found", [None, device()], ids=["no GPU", "H200"])
def test_it_meets_what_roc_validator_requires_of_a_workflow_run_crate(tmp_path: Path, found: Device | None) -> None:
    pytest.importorskip("rocrate_validator", reason="roc-validator is not installed")
    records = artifacts(found)
    files = files_of(records)
    write(tmp_path / "crate", crate.describe(files, records), files)
    code, report = validated(tmp_path / "crate", tmp_path / "cache")
    assert (code, report["passed"], report["issues"]) == (0, True, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"startTime"', b'"begun"'),
        (b'"https://w3id.org/ro/wfrun/workflow/0.5"', b'"https://example.org/workflow"'),
        (b'"instrument"', b'"agent"'),
        (b'"config.yaml"', b'"absent.yaml"'),
    ],
    ids=["term", "profile", "instrument", "file"],
)
def test_roc_validator_would_notice(tmp_path: Path, old: bytes, new: bytes) -> None:
    pytest.importorskip("rocrate_validator", reason="roc-validator is not installed")
    records = artifacts()
    files = files_of(records)
    description = crate.describe(files, records)
    assert old in description
    write(tmp_path / "crate", description.replace(old, new), files)
    code, report = validated(tmp_path / "crate", tmp_path / "cache")
    assert code != 0
    assert report["issues"]

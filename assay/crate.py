"""Describes a bundle's payload as an RO-Crate, so that archives and registries of workflow runs can index it.

RO-Crate 1.1 (https://www.researchobject.org/ro-crate/1.1/) with the profile Workflow Run RO-Crate 0.5
(https://www.researchobject.org/workflow-run-crate/profiles/0.5/workflow_run_crate/): one workflow, and one run of it
that read the sources and made the records and the report. The description repeats what the records say and proves
nothing; a verifier need not read it.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

from assay.record import Artifact, Claims, Environment, Source

METADATA = "ro-crate-metadata.json"
"""The descriptor, which has this name in every crate."""
VERSION = "1.1"
WORKFLOW = "Snakefile"
LICENCE = "https://spdx.org/licenses/MIT"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
"""The profile that the crate follows and the two that it extends, each with its name and version."""
BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
SOFTWARE = ("snakemake", "torch", "triton", "numpy")
"""The distributions that decide results; the environment's record lists all of them."""
ENCODINGS = {
    ".json": "application/json",
    ".html": "text/html",
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".css": "text/css",
    ".yaml": "application/yaml",
}


def _version(source: Source) -> str:
    """Name the sources by git's commit where that says it all, else by their digest."""
    clean = isinstance(source.commit, str) and source.dirty is False
    return str(source.commit) if clean else f"sha256:{source.digest}"


def _time(instant: datetime) -> str:
    # The profile's form of ISO 8601 has an offset and no Z.
    return instant.strftime("%Y-%m-%dT%H:%M:%S+00:00")


def span(records: Iterable[Artifact[Any]]) -> tuple[str, str]:
    """Return when the first record was begun and when the last was finished, in whole seconds of UTC."""
    runs = [record.run for record in records]
    starts = [datetime.strptime(run.started, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) for run in runs]
    ends = [at + timedelta(microseconds=run.duration_ns // 1000) for at, run in zip(starts, runs, strict=True)]
    return _time(min(starts)), _time(max(ends))


def _add(crate: ROCrate, at: str, kind: str, **properties: Any) -> ContextEntity:
    return crate.add(ContextEntity(crate, at, {"@type": kind, **properties}))


def _files(crate: ROCrate, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Add every file but the workflow's, which has an entity of its own."""
    return {
        name: crate.add_file(
            dest_path=name,
            properties={
                "name": name,
                "encodingFormat": ENCODINGS.get(PurePosixPath(name).suffix, "text/plain"),
                "contentSize": str(len(data)),
            },
        )
        for name, data in sorted(files.items())
        if name != WORKFLOW
    }


def _software(crate: ROCrate, environment: Environment) -> list[ContextEntity]:
    installed = {name.lower(): version for name, version in environment.distributions.items()}
    named = [(f"https://pypi.org/project/{name}/", name, installed[name]) for name in SOFTWARE if name in installed]
    python = ("https://www.python.org/", environment.python.implementation, environment.python.version)
    return [
        _add(crate, url, "SoftwareApplication", name=name, softwareVersion=version, url=url)
        for url, name, version in [python, *named]
    ]


def _workflow(crate: ROCrate, claims: Claims, environment: Environment, author: ContextEntity) -> Any:
    return crate.add_workflow(
        dest_path=WORKFLOW,
        main=True,
        lang="snakemake",
        lang_version=environment.distributions.get("snakemake"),
        properties={
            "name": "Assay",
            "description": "Turns Triton kernel files into evidence of what they compute, how accurately and how fast.",
            "version": _version(claims.source),
            "author": author,
            "license": {"@id": LICENCE},
            "conformsTo": {"@id": BIOSCHEMAS},
            "encodingFormat": "text/plain",
            "softwareRequirements": _software(crate, environment),
        },
    )


def _run(crate: ROCrate, claims: Claims, records: Mapping[str, Artifact[Any]], entities: Mapping[str, Any]) -> Any:
    """Describe the run by what its records say of it: when it was, what it read and what it made."""
    report = next(record.result for record in records.values() if record.stage == "report")
    read = {name for record in records.values() for name in record.materials} - set(records)
    start, end = span(records.values())
    completed = all(record.run.exit_code == 0 for record in records.values())
    return _add(
        crate,
        "#run",
        "CreateAction",
        name=f"Run of Assay that ended {end}",
        description=claims.status.sentence,
        instrument=crate.mainEntity,
        object=[entities[name] for name in sorted(read)],
        result=[entities[name] for name in sorted({*records, *report.outputs})],
        startTime=start,
        endTime=end,
        actionStatus=f"http://schema.org/{'Completed' if completed else 'Failed'}ActionStatus",
    )


def _profiles(crate: ROCrate) -> list[ContextEntity]:
    return [_add(crate, uri, "CreativeWork", name=name, version=no) for uri, (name, no) in PROFILES.items()]


def describe(files: Mapping[str, bytes], records: Mapping[str, Artifact[Any]]) -> bytes:
    """Return the descriptor of a crate with these files, as JSON-LD.

    `records` maps the paths of all records among the files, claims and report included, to what they hold. The same
    arguments give the same bytes: the date is that of the claims, and no entity is left to the library to name.
    """
    of = {record.stage: record for record in records.values()}
    claims: Claims = of["claims"].result
    crate = ROCrate(version=VERSION)
    author = _add(crate, "#authors", "Organization", name="Assay contributors")
    _add(crate, LICENCE, "CreativeWork", name="MIT License", identifier=LICENCE, url=LICENCE)
    crate.name = f"Assay: {claims.status.overall}"
    crate.description = claims.status.sentence
    crate.license = {"@id": LICENCE}
    crate.datePublished = of["claims"].run.started[:10]
    crate.root_dataset["author"] = author
    crate.root_dataset["conformsTo"] = _profiles(crate)
    workflow = _workflow(crate, claims, of["environment"].result, author)
    entities = {**_files(crate, files), WORKFLOW: workflow}
    crate.root_dataset["mentions"] = _run(crate, claims, records, entities)
    return (json.dumps(crate.metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

"""Whether the records of a bundle are all there, and rest on the bundled sources and on each other. Pure.

A record rests on its materials: sources, and records of earlier stages. Each must be bundled with the digest that the
record was made from, so that no claim hangs in the air, and all records go back to one captured machine.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from assay.config import KERNEL_NAME, Settings, decode_stage_settings
from assay.errors import ConfigError
from assay.opening import RESULTS, Opened
from assay.privacy import one_line
from assay.record import Artifact, Digest, StageName
from assay.stage import NEEDS, PER_KERNEL, record_path

WHOLE: tuple[StageName, ...] = ("environment", "gate", "claims", "report")
"""Stages of which a bundle holds one record."""

PAGES = ("results/report.html", "results/report.md")

_LOG = re.compile(r"results/([^/]+)/logs/[^/]+\.log")


def place(stage: StageName, kernel: str | None = None) -> str:
    """Return the path of a record in a bundle."""
    return record_path(stage, kernel).as_posix()


def kernel_of(path: str) -> str | None:
    """Return the kernel whose folder a file under results/ lies in, or None."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else None


def kernels_of(opened: Opened) -> list[str]:
    """Return the kernels that have a record."""
    return sorted({kernel for path in opened.records if (kernel := kernel_of(path)) is not None})


def evidence_of(opened: Opened) -> dict[str, Artifact[Any]]:
    """Return the records that claims are derived from, by path."""
    return {path: record for path, record in opened.records.items() if record.stage not in ("claims", "report")}


def settings_of(record: Artifact[Any]) -> Settings:
    """Return the settings on a record's command line; ConfigError where there are none, or none that can be read."""
    given = [value for word, value in zip(record.command, record.command[1:], strict=False) if word == "--settings"]
    if len(given) != 1:
        raise ConfigError(f"/command: expected --settings once, found it {len(given)} times")
    return decode_stage_settings(given[0])


def files(opened: Opened) -> Iterator[str]:
    """Yield what is missing or unknown under results/."""
    kernels = kernels_of(opened)
    if not kernels:
        yield f"{RESULTS}: expected the records of at least one kernel, found none"
    needed = {*PAGES, *(place(stage) for stage in WHOLE)}
    needed |= {place(stage, kernel) for kernel in kernels for stage in PER_KERNEL}
    for path in sorted(needed - set(opened.payload)):
        yield f"{path}: expected in a bundle of the kernels {', '.join(kernels) or '(none)'}, found missing"
    for path in sorted(name for name in opened.payload if name.startswith(RESULTS) and name not in needed):
        log = _LOG.fullmatch(path)
        if log is None or log[1] not in kernels:
            yield f"{path}: expected only records, pages and the kernels' logs here, found a file that is none of them"


def _envelope(path: str, record: Artifact[Any]) -> Iterator[str]:
    kernel = kernel_of(path)
    if kernel is not None and not re.fullmatch(KERNEL_NAME, kernel):
        yield f"{path}: expected a folder named after a kernel, in lower-case letters, digits and _, found {kernel}"
    if record.kernel != kernel:
        yield f"{path}: /kernel: expected {kernel}, as its folder says, found {one_line(str(record.kernel))}"
    if record.run.exit_code != 0:
        yield f"{path}: /run/exit_code: expected 0, since no other run writes a record, found {record.run.exit_code}"
    command = ["python", "-m", "assay", record.stage]
    if record.command[:4] != command:
        found = one_line(" ".join(record.command[:4]))
        yield f"{path}: /command: expected it to begin with {' '.join(command)}, found {found}"
    try:
        settings_of(record)
    except ConfigError as error:
        yield f"{path}: {one_line(str(error))}"


def _rests_on(path: str, record: Artifact[Any], opened: Opened) -> set[str]:
    """Return the records that a record must rest on."""
    named = {place(need, kernel_of(path)) for need in NEEDS[record.stage]}
    return named | set(evidence_of(opened)) if record.stage in ("claims", "report") else named


def _reaches(start: str, goal: str, records: Mapping[str, Artifact[Any]]) -> bool:
    """Return whether one record rests on another, in however many steps."""
    waiting, seen = [start], set[str]()
    while waiting:
        path = waiting.pop()
        if path == goal:
            return True
        if path not in seen and path in records:
            seen.add(path)
            waiting += records[path].materials
    return False


def _links(path: str, record: Artifact[Any], opened: Opened) -> Iterator[str]:
    """Yield what is wrong with the records that a record says it rests on."""
    needed = _rests_on(path, record, opened)
    found = {name for name in record.materials if name.startswith(RESULTS)}
    for name in sorted(needed - found):
        yield f"{path}: /materials: expected {name}, which stage '{record.stage}' reads, found it left out"
    for name in sorted(found - needed):
        if _reaches(name, path, opened.records):
            yield f"{path}: /materials: expected earlier records alone, found {name}, which rests on this one: a cycle"
        else:
            yield f"{path}: /materials: expected only what stage '{record.stage}' reads, found {name}"
    own = [f"assay/{record.stage}.py", *([] if record.kernel is None else [f"kernels/{record.kernel}.py"])]
    for name in own:
        if name not in record.materials:
            yield f"{path}: /materials: expected its own source {name}, found it left out"


def _moved(path: str, name: str, then: Digest, bundled: Digest) -> str:
    """Say that a material is bundled in another state than the record was made from."""
    differ = f"expected {name} with sha256 {bundled}, as bundled, found {then}"
    if name == place("environment"):
        return f"{path}: /materials: {differ}: it was made on another machine, or before this one was captured anew"
    if name.startswith(RESULTS):
        return f"{path}: /materials: {differ}: it was made from another record"
    return f"{path}: /materials: {differ}: it is stale, made from other source"


def _materials(path: str, record: Artifact[Any], opened: Opened) -> Iterator[str]:
    digests = opened.bag.digests
    for name, then in record.materials.items():
        if name not in digests:
            yield f"{path}: /materials: expected {one_line(name)} in the bundle, found no such file"
        elif digests[name] != then:
            yield _moved(path, name, then, digests[name])


def chain(opened: Opened) -> Iterator[str]:
    """Yield every fault of envelopes and materials, record by record."""
    for path, record in opened.records.items():
        yield from _envelope(path, record)
        yield from _links(path, record, opened)
        yield from _materials(path, record, opened)

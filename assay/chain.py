"""Whether the records of a bundle are all there, and rest on the bundled sources and on each other. Pure.

A record rests on its materials: sources, and records of earlier stages. Each must be bundled with the digest that the
record was made from, so that no claim hangs in the air, and all records go back to one captured machine.
"""

import re
from collections.abc import Mapping
from typing import Any

from assay.config import KERNEL_NAME, Settings, decode_stage_settings
from assay.discrepancy import Faults, Spot
from assay.errors import ConfigError
from assay.opening import RESULTS, Opened
from assay.privacy import one_line
from assay.record import Artifact, StageName
from assay.stage import NEEDS, OPTIONAL, PER_KERNEL, record_path

WHOLE: tuple[StageName, ...] = ("environment", "gate", "claims", "report")
"""Stages of which a bundle holds one record."""

PAGES = ("results/report.html", "results/report.md")

LONGEST_SETTINGS = 2**16

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
    if len(given[0]) > LONGEST_SETTINGS:
        raise ConfigError(
            f"/command: expected settings of at most {LONGEST_SETTINGS} characters, found {len(given[0])}"
        )
    return decode_stage_settings(given[0])


def files(opened: Opened) -> Faults:
    """Yield what is missing or unknown under results/."""
    kernels = kernels_of(opened)
    if not kernels:
        yield f"{RESULTS}: expected the records of at least one kernel, found none"
    needed = {*PAGES, *(place(stage) for stage in WHOLE)}
    needed |= {place(stage, kernel) for kernel in kernels for stage in PER_KERNEL}
    for path in sorted(needed - set(opened.payload)):
        yield f"{path}: expected in a bundle of the kernels {', '.join(kernels) or '(none)'}, found missing"
    known = needed | {place(stage, kernel) for kernel in kernels for stage in OPTIONAL}
    for path in sorted(name for name in opened.payload if name.startswith(RESULTS) and name not in known):
        log = _LOG.fullmatch(path)
        if log is None or log[1] not in kernels:
            yield f"{path}: expected only records, pages and the kernels' logs here, found a file that is none of them"


def _envelope(path: str, record: Artifact[Any]) -> Faults:
    spot, kernel = Spot(path, ""), kernel_of(path)
    if kernel is not None and not re.fullmatch(KERNEL_NAME, kernel):
        yield f"{path}: expected a folder named after a kernel, in lower-case letters, digits and _, found {kernel}"
    if record.kernel != kernel:
        yield spot.at("kernel").fault(f"{kernel}, as its folder says", one_line(str(record.kernel)))
    if record.run.exit_code != 0:
        yield spot.at("run", "exit_code").fault("0, since no other run writes a record", str(record.run.exit_code))
    command = ["python", "-m", "assay", record.stage]
    if record.command[:4] != command:
        yield spot.at("command").fault(f"it to begin with {' '.join(command)}", one_line(" ".join(record.command[:4])))
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


def _links(spot: Spot, record: Artifact[Any], opened: Opened) -> Faults:
    """Yield what is wrong with the records that a record says it rests on."""
    needed = _rests_on(spot.path, record, opened)
    found = {name for name in record.materials if name.startswith(RESULTS)}
    for name in sorted(needed - found):
        yield spot.fault(f"{name}, which stage '{record.stage}' reads", "it left out")
    for name in sorted(found - needed):
        if _reaches(name, spot.path, opened.records):
            yield spot.fault("earlier records alone", f"{name}, which rests on this one: a cycle")
        else:
            yield spot.fault(f"only what stage '{record.stage}' reads", name)
    own = [f"assay/{record.stage}.py", *([] if record.kernel is None else [f"kernels/{record.kernel}.py"])]
    for name in own:
        if name not in record.materials:
            yield spot.fault(f"its own source {name}", "it left out")


def _moved(name: str) -> str:
    """Say what it means that a material is bundled in another state than the record was made from."""
    if name == place("environment"):
        return "it was made on another machine, or before this one was captured anew"
    return "it was made from another record" if name.startswith(RESULTS) else "it is stale, made from other source"


def _materials(spot: Spot, record: Artifact[Any], opened: Opened) -> Faults:
    digests = opened.bag.digests
    for name, then in record.materials.items():
        if name not in digests:
            yield spot.fault(f"{one_line(name)} in the bundle", "no such file")
        elif digests[name] != then:
            yield spot.fault(f"{name} with sha256 {digests[name]}, as bundled", f"{then}: {_moved(name)}")


def chain(opened: Opened) -> Faults:
    """Yield every fault of envelopes and materials, record by record."""
    for path, record in opened.records.items():
        spot = Spot(path, "/materials")
        yield from _envelope(path, record)
        yield from _links(spot, record, opened)
        yield from _materials(spot, record, opened)

"""Sound bundles of one machine on several days, with other times on some of them."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import forge
import records
from msgspec.structs import replace
from records import MATMUL, Subject

from assay.chain import place
from assay.findings import built, findings
from assay.opening import Opened
from assay.record import Compile, Device
from assay.sampling import AGAIN
from assay.speeds import Entry, derive
from assay.ustar import pack

VARIANT = MATMUL.variants[0].id
ALIKE: Mapping[str, float] = {}


def on(bundle: forge.Forge, day: str) -> forge.Forge:
    """Put every record of a bundle on one day, given as YYYY-MM-DD."""

    def dated(artifact: Any) -> Any:
        return replace(artifact, run=replace(artifact.run, started=f"{day}T10:00:00Z"))

    for path in (*bundle.results, place("claims"), place("report")):
        bundle.change(path, dated)
    return bundle


def _slower(entry: Entry, factors: Mapping[str, float]) -> Entry:
    factor = factors.get(entry.entrant.name.removesuffix(AGAIN), 1.0)
    assert isinstance(entry.replays_ns, list)
    events, replays = ([float(round(ns * factor)) for ns in of] for of in (entry.samples_ns, entry.replays_ns))
    return dataclasses.replace(entry, samples_ns=events, replays_ns=replays)


def retimed(bundle: forge.Forge, subject: Subject, device: Device, factors: Mapping[str, float]) -> forge.Forge:
    """Multiply the times of entrants, by name, and derive the rest of the timing record from them."""
    entries = [_slower(entry, factors) for entry in records.entries_of(subject)]
    terms = records.terms(forge.SETTINGS.timing, device.maximum_sm_clock_mhz, subject.contrasts)
    path = place("timing", subject.name)
    sweep = derive(records.measured(entries, subject.timed), terms)
    bundle.results[path] = replace(bundle.results[path], sweeps=[sweep])
    return bundle


def dated(day: str, factors: Mapping[str, float] = ALIKE, device: Device = forge.H200) -> forge.Forge:
    """Return a sound bundle of one kernel with these times."""
    return on(retimed(forge.forge(device, (MATMUL,)), MATMUL, device, factors), day)


@cache
def opened(day: str, factor: float = 1.0) -> Opened:
    """Return a bundle of the day on which one variant took `factor` times as long."""
    return dated(day, {VARIANT: factor}).opened()


def write(folder: Path, bundle: forge.Forge) -> Path:
    """Write a bundle under the name that its content calls for."""
    members = bundle.members()
    path = folder / f"{next(iter(members)).partition('/')[0]}.tar"
    path.write_bytes(pack(members))
    return path


def spilling(bundle: forge.Forge, subject: Subject, target: str, stack_bytes: int) -> forge.Forge:
    """Give the first variant's code for a target a stack, and derive the rest of the compile record from it."""
    path = place("compile", subject.name)
    found = bundle.results[path]
    assert isinstance(found, Compile)
    variant, builds = subject.variants[0], list(found.builds)
    for at, build in enumerate(builds):
        if (build.variant, build.target) == (variant.id, target):
            spilled = [replace(binary, stack_bytes=stack_bytes) for binary in build.binaries]
            builds[at] = built(variant, target, build.case, spilled)
    bundle.results[path] = replace(found, builds=builds, findings=findings(subject.declaration(), builds))
    return bundle

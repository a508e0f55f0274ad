"""Whether a bundle is sound: all there, hanging together, consistent, and claiming exactly what its records show.

Pure. Nothing is taken from the bundle's own word: archive, bag and records are decoded strictly before, by
`assay.opening`, and everything that was derived is derived again here.
"""

from collections.abc import Callable
from pathlib import Path

import markupsafe

from assay import markdown
from assay.artifact import sha256_bytes
from assay.chain import PAGES, chain, evidence_of, files, kernels_of, place, settings_of
from assay.conclusion import conclude
from assay.discrepancy import Faults, Spot, shown
from assay.naming import bag_info, bundle_name, device_of
from assay.opening import Opened, UnsoundError, open_bundle
from assay.privacy import one_line, printable
from assay.record import Claims, Environment, Report
from assay.sound_builds import compile_faults
from assay.sound_checks import declaration_faults, gpu_faults, interpreter_faults
from assay.sound_machine import environment_faults, gate_faults
from assay.sound_teeth import teeth_faults
from assay.sound_times import timing_faults
from assay.sources import source_digest


def _labels(opened: Opened) -> Faults:
    """Yield where the bundle's name, or what its bag says of it, is not what its records call for."""
    claims = opened.records[place("claims")]
    result: Claims = claims.result
    environment: Environment = opened.records[place("environment")].result
    day = claims.run.started[:10]
    name = bundle_name(result.status.overall, device_of(environment), day, opened.bag.manifest_sha256)
    if opened.name != name:
        yield f"{opened.name}/: expected the folder to be called {name}, found that name"
    said = {label: value for label, value in opened.bag.info.items() if label != "Payload-Oxum"}
    yield from Spot("bag-info.txt", "").differ(bag_info(result.status, day), said)


def _records(opened: Opened) -> Faults:
    yield from environment_faults(opened)
    yield from gate_faults(opened)
    for kernel in kernels_of(opened):
        yield from declaration_faults(opened, kernel)
        yield from interpreter_faults(opened, kernel)
        yield from compile_faults(opened, kernel)
        yield from gpu_faults(opened, kernel)
        yield from timing_faults(opened, kernel)
        yield from teeth_faults(opened, kernel)


def _claims(opened: Opened) -> Faults:
    """Yield where the claims are not those that the records call for."""
    spot = Spot(place("claims"))
    record = opened.records[spot.path]
    found: Claims = record.result
    settings = settings_of(record)
    minimum = settings.gate.minimum_capability
    gated = settings_of(opened.records[place("gate")]).gate.minimum_capability
    if minimum != gated:
        yield Spot(spot.path, "/command").fault(f"the minimum capability of the gate, {gated}", minimum)
    status, claims = conclude(evidence_of(opened), opened.bag.digests, settings.targets, minimum)
    yield from spot.at("claims").differ(claims, found.claims)
    yield from spot.at("status").differ(status, found.status)
    yield from spot.at("source", "digest").differ(source_digest(opened.bag.digests), found.source.digest)


def _report(opened: Opened) -> Faults:
    """Yield where report and pages are not about these claims."""
    spot = Spot(place("report"))
    found: Report = opened.records[spot.path].result
    claims: Claims = opened.records[place("claims")].result
    yield from spot.at("status").differ(claims.status, found.status)
    bundled = {page: sha256_bytes(opened.payload[page]) for page in PAGES}
    yield from spot.at("outputs").differ(bundled, found.outputs)
    sentence = printable(claims.status.sentence)
    for page, said in zip(PAGES, (str(markupsafe.escape(sentence)), markdown.escape(sentence)), strict=True):
        if said.encode() not in opened.payload[page]:
            yield f"{page}: expected the status {shown(sentence)}, found a page without it"


def guarded(question: Callable[[Opened], Faults], opened: Opened) -> list[str]:
    """Return the faults that a question finds; one where it cannot be answered."""
    found = []
    try:
        for fault in question(opened):
            found.append(fault)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # What nobody thought of is refused too, never passed and never a traceback.
        why = one_line(f"{type(error).__name__}: {error}")
        found.append(f"{opened.name}/: expected records that can be judged, found that they cannot be ({why})")
    return found


def faults(opened: Opened) -> list[str]:
    """Return what is wrong with a bundle, one sentence each; nothing where it is sound.

    Whether all is there is asked first, then whether it hangs together: what comes later presumes both.
    """
    for questions in ((files,), (chain,), (_records,), (_claims, _report, _labels)):
        found = [fault for question in questions for fault in guarded(question, opened)]
        if found:
            return found
    return []


def open_sound(path: Path) -> Opened:
    """Open a bundle and refuse it where it is not sound: UnreadableError, or UnsoundError with its first fault."""
    opened = open_bundle(path)
    found = faults(opened)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UnsoundError(f"{path}: {found[0]}{more}")
    return opened

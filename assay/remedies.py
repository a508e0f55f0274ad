"""What would settle a claim that is not verified: a command, and the machine to give it on. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.findings import keeping
from assay.record import Cause, Claim, StageName, Tier
from assay.targets import capability_of, capability_text, is_amd

REPORT = "snakemake --cores 1 report"
TEETH = "snakemake --cores 1 teeth"
SAME = "the machine of these records"

_STAGES: dict[Tier, StageName] = {
    "interpreted": "interpreter",
    "compiled": "compile",
    "fits": "compile",
    "gated": "gate",
    "ran": "gpu",
    "accurate": "gpu",
    "timed": "timing",
}
"""The stage that decides each tier but that of planted faults, which has a target of its own."""


WITHOUT_DEVICE: tuple[Cause, ...] = ("no-driver", "no-device")
"""Causes of what only another machine would settle."""


@dataclass(frozen=True)
class Remedy:
    """A command, and in words the machine on which it would settle a claim."""

    machine: str
    command: str


def device_for(target: str) -> str:
    """Return which device a target is, in words; a compute capability only where the name says one."""
    capability = capability_of(target) if re.fullmatch(r"sm_[0-9]{2,3}[af]?", target) else None
    if capability is not None:
        return f"a machine with an NVIDIA GPU of compute capability {capability_text(capability)} ({target})"
    return f"a machine with {'an AMD' if is_amd(target) else 'a'} GPU that is {target}"


def together(remedies: Sequence[Remedy | None], targets: Iterable[str]) -> Remedy | None:
    """Return one remedy for claims about several targets that the same command would settle, each on its own device."""
    first = remedies[0]
    if first is None or len(set(remedies)) == 1:
        return first
    return Remedy(f"a machine with a GPU for each of {', '.join(targets)}", first.command)


def _again(claim: Claim) -> str:
    return f"{TEETH} -R plant" if claim.tier == "teeth" else f"{REPORT} -R {_STAGES[claim.tier]}"


def _of_untested(claim: Claim) -> Remedy:
    if claim.cause == "upstream":
        return Remedy(f"{SAME}, once what failed before it is mended", REPORT)
    if claim.tier == "teeth":
        return Remedy("any machine; one with a GPU tries each fault on that too", TEETH)
    if claim.cause in WITHOUT_DEVICE and claim.target is not None:
        return Remedy(device_for(claim.target), REPORT)
    return Remedy(SAME, _again(claim))


def _of_doubtful(claim: Claim) -> Remedy:
    quiet = ", with nothing else on its GPU and its clocks steady" if claim.tier == "timed" else ""
    return Remedy(f"{SAME}{quiet}", _again(claim))


def _of_failed(claim: Claim) -> Remedy:
    how = keeping(claim.variant.partition("/")[0]) if claim.cause == "instructions" else None
    return Remedy(f"{SAME}, once the fault is mended{'' if how is None else f' ({how})'}", REPORT)


def remedy(claim: Claim) -> Remedy | None:
    """Return what would settle a claim; None for one that is settled, or that no machine can be asked."""
    if claim.freshness == "stale":
        return Remedy(SAME, REPORT)
    if claim.outcome == "untested":
        return _of_untested(claim)
    if claim.outcome == "cantTell":
        return _of_doubtful(claim)
    if claim.outcome == "failed":
        return _of_failed(claim)
    return None

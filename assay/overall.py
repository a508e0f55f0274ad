"""The overall status and its one sentence, made from claims and the records' own figures and dates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import msgspec

from assay.matrix import natural
from assay.record import Claim, Device, Environment, Gate, Number, Outcome, Overall, Status, Tier, Unavailable

COMPILED_TIERS: tuple[Tier, ...] = ("compiled", "fits")
DEVICE_TIERS: tuple[Tier, ...] = ("ran", "accurate", "timed")
ABOUT_NO_VARIANT: tuple[Tier, ...] = ("gated", "teeth")
"""Tiers whose claims say nothing of what a kernel computes: the gate's are of the machine, planted faults' of the
evidence.
"""
SHOWN_FAILURES = 3
"""Failed claims that the sentence names; `check` names them all."""


@dataclass(frozen=True)
class Setting:
    """What the sentence needs beside the claims: the machine, the gate and the days on which the records were made."""

    environment: Environment
    gate: Gate
    days: Sequence[str]


def count(claims: Iterable[Claim]) -> dict[Outcome, int]:
    """Count claims by outcome, every outcome present."""
    outcomes = [claim.outcome for claim in claims]
    return {outcome: outcomes.count(outcome) for outcome in get_args(Outcome)}


def overall(claims: Sequence[Claim]) -> Overall:
    """Return the overall status.

    FAILED where any claim failed; NOT VERIFIED where nothing about a kernel passed; VERIFIED where everything that
    applies passed and nothing is stale; else PARTIALLY VERIFIED.
    """
    found = count(claims)
    if found["failed"]:
        return "FAILED"
    if not any(claim.outcome == "passed" and claim.tier not in ABOUT_NO_VARIANT for claim in claims):
        return "NOT VERIFIED"
    stale = any(claim.freshness == "stale" for claim in claims)
    return "PARTIALLY VERIFIED" if found["cantTell"] or found["untested"] or stale else "VERIFIED"


def _list(words: Iterable[str]) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _span(targets: Iterable[str | None]) -> str:
    return _list(sorted({target for target in targets if target}, key=natural))


def _version(environment: Environment, name: str) -> str:
    return f"{name.capitalize()} {environment.distributions.get(name, 'of unknown version')}"


def _share(claims: Sequence[Claim], doing: str) -> str | None:
    """Say how many variants passed, of those to which the question applies; None where it applies to none."""
    asked = [claim for claim in claims if claim.outcome not in ("inapplicable", "untested")]
    passed = sum(claim.outcome == "passed" for claim in asked)
    return f"{passed} of {len(asked)} variants {doing}" if asked else None


def _interpreted(claims: Sequence[Claim], environment: Environment) -> str | None:
    said = _share([c for c in claims if c.tier == "interpreted"], "passed")
    return said and f"under the {_version(environment, 'triton')} interpreter {said}"


def _compiled(claims: Sequence[Claim]) -> str | None:
    made = {tier: [c for c in claims if c.tier == tier and c.outcome == "passed"] for tier in COMPILED_TIERS}
    if not made["compiled"]:
        return None
    asked = sum(claim.tier == "compiled" and claim.outcome in ("passed", "failed", "cantTell") for claim in claims)
    targets = _span(claim.target for claim in made["compiled"])
    return f"{len(made['compiled'])} of {asked} builds compiled for {targets}, of which {len(made['fits'])} fit"


def _gated(gate: Gate) -> str:
    how = "as designed" if gate.verdict.outcome == "passed" else "against what the captured device calls for"
    return f"the capability gate exited {gate.exit_code} {how}"


def _device(environment: Environment) -> Device | None:
    devices = [] if isinstance(environment.devices, Unavailable) else environment.devices
    return next((device for device in devices if device.visible), None)


def _on(target: str, claims: Sequence[Claim]) -> list[str]:
    """Say for each tier how many variants got there on a target."""
    said = []
    for tier, doing in (("ran", "ran"), ("accurate", "were accurate"), ("timed", "were timed")):
        share = _share([c for c in claims if c.tier == tier and c.target == target], doing)
        said += [share] if share else []
    return said


def _described(device: Device, environment: Environment) -> str:
    driver = environment.driver
    version = "unknown driver" if isinstance(driver, Unavailable) else f"driver {driver.version}"
    return f"{device.name} ({device.target}, {version})"


def _ran(claims: Sequence[Claim], environment: Environment) -> str | None:
    device = _device(environment)
    if device is None:
        return None
    said = _on(device.target, claims)
    return f"on {_described(device, environment)} {_list(said)}" if said else None


def _planted(claims: Sequence[Claim]) -> str | None:
    """Say how many planted faults were caught, and how many the reference script's own way catches."""
    counts = [claim.figures for claim in claims if claim.tier == "teeth" and claim.outcome != "untested"]
    fates = ("caught", "survived", "accepted", "baseline")
    total = {name: sum(_whole(of.get(name)) for of in counts) for name in fates}
    faults = total["caught"] + total["survived"]
    if not faults:
        return None
    alone = f"the reference's shapes and tolerance alone catch {total['baseline']}"
    word = f", {total['accepted']} more are accepted as equivalent on the author's word" if total["accepted"] else ""
    return f"of {faults} planted faults {total['caught']} are caught ({alone}){word}"


def _whole(figure: Number | str | None) -> int:
    return int(figure) if isinstance(figure, float) else 0


def _blocked(claims: Sequence[Claim]) -> str | None:
    # What is untested because a failure came before it is not blocked: the failure is named already.
    waiting = [
        claim
        for claim in claims
        if claim.outcome == "untested" and claim.tier in DEVICE_TIERS and claim.cause != "upstream"
    ]
    if not waiting:
        return None
    reasons = {claim.reason for claim in waiting if claim.cause != "no-device"}
    targets = _span(claim.target for claim in waiting)
    why = min(reasons, default="no such device here")
    return f"correctness and timing on {targets} remain blocked: {why.split(';')[0].rstrip('.')}"


def _about(claim: Claim) -> str:
    return f"{claim.kernel}/{claim.variant} {claim.tier}{f' on {claim.target}' if claim.target else ''}"


def _naming(names: Sequence[str]) -> str:
    """Name the first few."""
    more = f" and {len(names) - SHOWN_FAILURES} more" if len(names) > SHOWN_FAILURES else ""
    return f"{_list(names[:SHOWN_FAILURES])}{more}"


def _failed(claims: Sequence[Claim]) -> str | None:
    named = [f"{_about(claim)} ({claim.cause})" for claim in claims if claim.outcome == "failed"]
    if not named:
        return None
    return f"{len(named)} claims failed, {_naming(named)}" if len(named) > 1 else f"1 claim failed, {named[0]}"


def _when(days: Sequence[str]) -> str:
    first, last = min(days), max(days)
    return f"on {first}" if first == last else f"from {first} to {last}"


def sentence(status: Overall, claims: Sequence[Claim], setting: Setting) -> str:
    """Return the one sentence: what failed, what passed where and when, and what remains blocked."""
    parts = [
        _failed(claims),
        _interpreted(claims, setting.environment),
        _compiled(claims),
        _gated(setting.gate),
        _ran(claims, setting.environment),
        _planted(claims),
    ]
    shown = "; ".join(part for part in parts if part)
    blocked = _blocked(claims)
    return f"{status} {_when(setting.days)}: {shown}{f'; {blocked}' if blocked else ''}."


def status_of(claims: Sequence[Claim], setting: Setting) -> Status:
    """Return the overall status, its sentence and the counts."""
    found: Mapping[Outcome, int] = count(claims)
    status = overall(claims)
    return Status(overall=status, sentence=sentence(status, claims, setting), counts=dict(found))


# Over several machines


def _interpreted_over(claims: Sequence[Claim], environments: Sequence[Environment]) -> str | None:
    versions = sorted({environment.distributions.get("triton", "of unknown version") for environment in environments})
    said = _share([c for c in claims if c.tier == "interpreted"], "passed")
    return said and f"under the interpreter of Triton {_list(versions)} {said}"


def _gated_over(gates: Sequence[Gate]) -> str:
    right = sum(gate.verdict.outcome == "passed" for gate in gates)
    return f"the capability gate answered as designed on {right} of {len(gates)} machines"


def _ran_over(claims: Sequence[Claim], environments: Sequence[Environment]) -> list[str]:
    """Say what ran on each target, and on which devices of it."""
    devices: dict[str, list[str]] = {}
    for environment in environments:
        device = _device(environment)
        if device is not None:
            devices.setdefault(device.target, []).append(_described(device, environment))
    shown = {target: _on(target, claims) for target in sorted(devices, key=natural)}
    return [f"on {_list(dict.fromkeys(devices[target]))} {_list(said)}" for target, said in shown.items() if said]


def _blocked_over(claims: Sequence[Claim]) -> str | None:
    waiting = {claim.target for claim in claims if claim.outcome == "untested" and claim.tier in DEVICE_TIERS}
    return f"correctness and timing on {_span(waiting)} remain blocked on every machine" if waiting else None


def _conflicting(conflicts: Sequence[Claim]) -> str | None:
    if not conflicts:
        return None
    how = "1 claim is" if len(conflicts) == 1 else f"{len(conflicts)} claims are"
    return f"{how} in conflict, {_naming([_about(claim) for claim in conflicts])}"


def status_over(claims: Sequence[Claim], conflicts: Sequence[Claim], settings: Sequence[Setting]) -> Status:
    """Return the status over several machines, from one claim for each subject, tier and target over all of them.

    `conflicts` passed on one machine and failed on another. They are no part of `claims`, and count as failed.
    """
    everything = [*claims, *(msgspec.structs.replace(claim, outcome="failed") for claim in conflicts)]
    environments, status = [setting.environment for setting in settings], overall(everything)
    parts = [
        _conflicting(conflicts),
        _failed(claims),
        _interpreted_over(everything, environments),
        _compiled(everything),
        _gated_over([setting.gate for setting in settings]),
        *_ran_over(everything, environments),
        _blocked_over(everything),
    ]
    days = [day for setting in settings for day in setting.days]
    bundles = "1 bundle" if len(settings) == 1 else f"{len(settings)} bundles"
    said = f"{status} {_when(days)}, over {bundles}: {'; '.join(part for part in parts if part)}."
    return Status(overall=status, sentence=said, counts=dict(count(everything)))

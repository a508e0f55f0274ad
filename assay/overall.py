"""The overall status and its one sentence, made from claims and the records' own figures and dates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from assay.record import Claim, Environment, Gate, Outcome, Overall, Status, Tier, Unavailable
from assay.targets import capability_of

COMPILED_TIERS: tuple[Tier, ...] = ("compiled", "fits")
DEVICE_TIERS: tuple[Tier, ...] = ("ran", "accurate", "timed")
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
    if not any(claim.outcome == "passed" and claim.tier != "gated" for claim in claims):
        return "NOT VERIFIED"
    stale = any(claim.freshness == "stale" for claim in claims)
    return "PARTIALLY VERIFIED" if found["cantTell"] or found["untested"] or stale else "VERIFIED"


def _list(words: Iterable[str]) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _span(targets: Iterable[str | None]) -> str:
    return _list(sorted({target for target in targets if target}, key=capability_of))


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


def _ran(claims: Sequence[Claim], environment: Environment) -> str | None:
    devices = [] if isinstance(environment.devices, Unavailable) else environment.devices
    device = next((device for device in devices if device.visible), None)
    if device is None:
        return None
    said = []
    for tier, doing in (("ran", "ran"), ("accurate", "were accurate"), ("timed", "were timed")):
        share = _share([c for c in claims if c.tier == tier and c.target == device.target], doing)
        said += [share] if share else []
    driver = environment.driver
    version = "unknown driver" if isinstance(driver, Unavailable) else f"driver {driver.version}"
    return f"on {device.name} ({device.target}, {version}) {_list(said)}" if said else None


def _blocked(claims: Sequence[Claim]) -> str | None:
    waiting = [claim for claim in claims if claim.outcome == "untested" and claim.tier in DEVICE_TIERS]
    if not waiting:
        return None
    drivers = {claim.reason for claim in waiting if claim.cause in ("no-driver", "gate-disagrees")}
    targets = _span(claim.target for claim in waiting)
    why = next(iter(sorted(drivers)), "no such device here")
    return f"correctness and timing on {targets} remain blocked: {why.split(';')[0].rstrip('.')}"


def _failed(claims: Sequence[Claim]) -> str | None:
    failed = [claim for claim in claims if claim.outcome == "failed"]
    if not failed:
        return None
    named = [
        f"{c.kernel}/{c.variant} {c.tier}{f' on {c.target}' if c.target else ''} ({c.cause})"
        for c in failed[:SHOWN_FAILURES]
    ]
    more = f" and {len(failed) - len(named)} more" if len(failed) > len(named) else ""
    return f"{len(failed)} claims failed, {_list(named)}{more}" if len(failed) > 1 else f"1 claim failed, {named[0]}"


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
    ]
    shown = "; ".join(part for part in parts if part)
    blocked = _blocked(claims)
    return f"{status} {_when(setting.days)}: {shown}{f'; {blocked}' if blocked else ''}."


def status_of(claims: Sequence[Claim], setting: Setting) -> Status:
    """Return the overall status, its sentence and the counts."""
    found: Mapping[Outcome, int] = count(claims)
    status = overall(claims)
    return Status(overall=status, sentence=sentence(status, claims, setting), counts=dict(found))

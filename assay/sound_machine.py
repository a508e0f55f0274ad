"""Whether the captured environment is whole, and the gate's answer the one that it calls for. Pure."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from assay.admission import (
    HINT,
    NOTHING_ASKED,
    Answer,
    Expectation,
    architecture_of,
    chosen_device,
    expectation,
    protects,
    usable,
    verdict_of,
)
from assay.chain import kernels_of, place, settings_of
from assay.discrepancy import Faults, Spot, shown
from assay.opening import Opened
from assay.record import Device, Environment, Gate, Unavailable, Verdict
from assay.targets import capability_text, is_amd, parse_capability, target_of

_NEVER_ZERO = ("memory_bytes", "logical_cores")


def _leaves(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """Yield the values in a record with their places; what is unavailable counts as one value."""
    if isinstance(value, Struct) and not isinstance(value, Unavailable):
        for name in value.__struct_fields__:
            yield from _leaves(getattr(value, name), f"{pointer}/{name}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{pointer}/{at}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{pointer}/{key}")
    else:
        yield pointer, value


def _blanks(spot: Spot, environment: Environment) -> Faults:
    """Yield what stands for an absence without saying so: empty text, a count of 0, no reason."""
    for pointer, value in _leaves(environment, ""):
        here, name = Spot(spot.path, spot.pointer + pointer), pointer.rpartition("/")[2]
        if isinstance(value, Unavailable) and not value.reason.strip():
            yield here.fault("the reason why there is no value", "none")
        # A variable can be set to nothing.
        elif isinstance(value, str) and not value.strip() and not pointer.startswith("/variables/"):
            yield here.fault("a value, or the reason why there is none", "empty text")
        elif name in _NEVER_ZERO and value == 0:
            yield here.fault("a number above 0, or the reason why there is none", "0")


def _devices(spot: Spot, environment: Environment) -> Faults:
    devices = environment.devices
    if isinstance(environment.driver, Unavailable) and (environment.unidentified or isinstance(devices, list)):
        yield spot.at("driver").fault("the driver that listed devices", shown(environment.driver))
    if isinstance(devices, Unavailable):
        return
    for at, device in enumerate(devices):
        here = spot.at("devices", at, "target")
        if not isinstance(device.compute_capability, Unavailable):
            yield from here.differ(target_of(parse_capability(device.compute_capability)), device.target)
        elif not is_amd(device.target):
            yield here.fault("a target without compute capability, as AMD's are", shown(device.target))
    shows = [device.visible for device in devices]
    if shows != sorted(shows, reverse=True):
        yield spot.at("devices").fault("the visible devices first", f"visible in this order: {shown(shows)}")
    hashes = [device.uuid_hash for device in devices if isinstance(device.uuid_hash, str)]
    if len(hashes) != len(set(hashes)):
        yield spot.at("devices").fault("each device once", "two of one UUID")


def _loaded(opened: Opened) -> list[str]:
    """Return the kernels whose file was imported, which takes torch and Triton."""
    interpreters = {kernel: opened.records[place("interpreter", kernel)] for kernel in kernels_of(opened)}
    return [kernel for kernel, record in interpreters.items() if record.result.loading.outcome == "passed"]


def environment_faults(opened: Opened) -> Faults:
    """Yield where the captured environment contradicts itself, or leaves out what the other records take."""
    spot = Spot(place("environment"))
    environment: Environment = opened.records[spot.path].result
    yield from _blanks(spot, environment)
    yield from _devices(spot, environment)
    for name in ("torch", "triton"):
        if name not in environment.distributions and (kernels := _loaded(opened)):
            expected = f"the version of {name}, with which kernel {kernels[0]} was loaded"
            yield spot.at("distributions").fault(expected, "none")


def card_faults(spot: Spot, opened: Opened, device: Device | None) -> Faults:
    """Yield where a record's device is no card of the one kind that a run is over, as the environment lists them."""
    environment: Environment = opened.records[place("environment")].result
    cards = usable(environment)
    if len(cards) < 2:
        yield from spot.differ(cards[0] if cards else None, device)
    elif device not in cards:
        yield spot.fault(f"one of the {len(cards)} cards of one kind that the environment lists", shown(device))


def is_unlisted(verdict: Verdict) -> bool:
    """Return whether a record says that its job was shown no card that the environment lists: only it can know."""
    return (verdict.outcome, verdict.cause) == ("untested", "no-device")


def _answer(gate: Gate) -> Answer:
    """Return the answer that a record holds, as far as the rules ask for it."""
    cause = gate.verdict.cause
    # Of what the command printed the record keeps the last line; only the verdict tells that a traceback stood above.
    above = "Traceback (most recent call last)\n" if cause == "crash" and gate.message else ""
    errors = f"{above}{gate.message}"
    return Answer(gate.exit_code, gate.message, errors, late=cause == "timeout")


def _said(spot: Spot, gate: Gate, minimum: str, device: Device | None, expected: Expectation) -> Faults:
    """Yield where the sentence of a gate that passed is none that it says on this machine."""
    needed = re.escape(capability_text(parse_capability(minimum)))
    judged = re.search(
        rf" is (?:([0-9]+\.[0-9]+); {needed} or newer is needed|(gfx\w+); {NOTHING_ASKED})", gate.message
    )
    if gate.exit_code == 1 and not gate.message.endswith(f"; {HINT}"):
        yield spot.fault("a refusal with its hint", f"{shown(gate.message)}: it broke down")
    elif gate.exit_code == 0 or expected.cause == "capability":
        has = None if device is None else architecture_of(device)
        if judged is None or (judged[1] or judged[2]) != has:
            yield spot.fault(f"a word on the captured device, which is {has}", shown(gate.message))
    elif judged is not None:
        yield spot.fault("no word on a capability, since no usable device was captured", shown(gate.message))


def gate_faults(opened: Opened) -> Faults:
    """Yield where the gate's record is not what its exit code means on the captured machine."""
    spot = Spot(place("gate"))
    record = opened.records[spot.path]
    gate: Gate = record.result
    environment: Environment = opened.records[place("environment")].result
    minimum = settings_of(record).gate.minimum_capability
    expected, answer = expectation(environment, minimum), _answer(gate)
    derived = Gate(
        argv=["python", "-m", "assay", "gate", "--minimum-capability", minimum],
        exit_code=gate.exit_code,
        message=gate.message,
        expected_exit_code=expected.exit_code,
        expectation=expected.sentence,
        verdict=verdict_of(answer, expected),
        protects=protects(answer, expected),
    )
    yield from spot.differ(derived, gate)
    if derived.verdict.outcome == "passed":
        yield from _said(spot.at("message"), gate, minimum, chosen_device(environment), expected)

"""Who may go on to the device: what the captured environment calls for, what the gate's answer means, and what follows.

Pure: from records, and from what the gate's command printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assay.privacy import one_line
from assay.record import (
    Build,
    Cause,
    Check,
    DeclaredVariant,
    Device,
    Environment,
    Gate,
    Gpu,
    Outcome,
    Unavailable,
    Verdict,
)
from assay.targets import is_amd, parse_capability

LIMIT_S = 300
"""The gate imports torch and starts CUDA: seconds as a rule, a minute or two from a cold network disk."""

NOTHING_ASKED = "no compute capability is asked of it"
"""What the gate says of another vendor's device, which the minimum is not about."""

HINT = "TRITON_INTERPRET=1 (stage 'interpreter') checks correctness on the CPU"


def chosen_device(environment: Environment) -> Device | None:
    """Return the device that torch calls cuda:0: the first visible one."""
    devices = [] if isinstance(environment.devices, Unavailable) else environment.devices
    return next((device for device in devices if device.visible), None)


def kind(device: Device) -> tuple[object, ...]:
    """Return what makes cards interchangeable: model, memory, its checking, its slicing, and the power it may take."""
    return (
        device.name,
        device.compute_capability,
        device.memory_bytes,
        device.ecc,
        device.mig,
        device.power_limit_milliwatts,
    )


def usable(environment: Environment) -> list[Device]:
    """Return the captured devices that a run may use: all of the first visible one's kind, it first.

    Those that were hidden at the capture are among them: a scheduler shows each job another card.
    """
    first = chosen_device(environment)
    devices = [] if isinstance(environment.devices, Unavailable) else environment.devices
    return [] if first is None else [device for device in devices if kind(device) == kind(first)]


def unlisted(environment: Environment, shown: Sequence[Device]) -> Verdict:
    """Return why a job that is shown these devices can use none of them: none is one that the environment has."""
    first = chosen_device(environment)
    captured = "no device" if first is None else first.name
    here = ", ".join(dict.fromkeys(device.name for device in shown)) or "no device"
    reason = f"this job is shown {here}, and no card that the captured environment lists beside {captured}"
    return Verdict(outcome="untested", cause="no-device", reason=f"{reason}; capture the environment where it runs")


def architecture_of(device: Device) -> str:
    """Return what tells a device's architecture: its compute capability, or its target where it has none."""
    return device.target if isinstance(device.compute_capability, Unavailable) else device.compute_capability


def torch_for(environment: Environment, device: Device) -> str | Unavailable:
    """Return the version of the toolkit that torch needs for a device, or why it was not built with it."""
    return environment.torch_rocm if is_amd(device.target) else environment.torch_cuda


@dataclass(frozen=True)
class Expectation:
    """What the captured environment calls for; `cause`: why device tiers cannot run there."""

    exit_code: int
    sentence: str
    cause: Cause | None = None


def expectation(environment: Environment, minimum: str) -> Expectation:
    """Derive the exit code from the captured environment alone."""
    devices = [] if isinstance(environment.devices, Unavailable) else environment.devices
    first = chosen_device(environment)
    if isinstance(environment.driver, Unavailable):
        return Expectation(1, f"exit 1: {environment.driver.reason}", "no-driver")
    if first is None:
        hidden = f"; of {len(devices)} devices none is visible" if devices else ""
        return Expectation(1, f"exit 1: the driver is here and there is no device for CUDA{hidden}", "no-device")
    if isinstance(built := torch_for(environment, first), Unavailable):
        return Expectation(1, f"exit 1: {first.name} is here, but {built.reason}", "no-device")
    if isinstance(first.compute_capability, Unavailable):
        return Expectation(0, f"exit 0: {first.name} is {first.target}, and {NOTHING_ASKED}")
    has = f"{first.name} is {first.compute_capability}, and {minimum} or newer is needed"
    if not parse_capability(first.compute_capability) >= parse_capability(minimum):
        return Expectation(1, f"exit 1: {has}", "capability")
    return Expectation(0, f"exit 0: {has}")


@dataclass(frozen=True)
class Answer:
    """What the command did. `exit_code` is negative for a signal; `late`: it was ended at the time limit."""

    exit_code: int
    output: str
    errors: str
    late: bool = False


def message_of(answer: Answer) -> str:
    """Return the sentence of an answer on one line: the last, since libraries may print before it."""
    lines = (answer.output if answer.exit_code == 0 else answer.errors).strip().splitlines()
    return one_line(lines[-1]) if lines else ""


def breakdown(answer: Answer) -> Verdict | None:
    """Return the failed verdict of a gate that gave no answer at all; None where it answered."""
    if answer.late:
        return Verdict(outcome="failed", cause="timeout", reason=f"the gate gave no answer within {LIMIT_S} s")
    said = message_of(answer)
    how = f"exit code {answer.exit_code}" if answer.exit_code >= 0 else f"signal {-answer.exit_code}"
    if answer.exit_code in (0, 1) and "Traceback (most recent call last)" not in answer.errors and said:
        return None
    return Verdict(outcome="failed", cause="crash", reason=f"the gate ended with {how}: {said or 'it said nothing'}")


def verdict_of(answer: Answer, expected: Expectation) -> Verdict:
    """Return whether the gate itself did what it is for: a refusal that is called for is a pass."""
    if broken := breakdown(answer):
        return broken
    if answer.exit_code != expected.exit_code:
        reason = f"exit {answer.exit_code} where the captured environment calls for {expected.sentence}"
        return Verdict(outcome="failed", cause="gate-disagrees", reason=reason)
    return Verdict(outcome="passed", reason=f"the captured environment calls for {expected.sentence}")


def protects(answer: Answer, expected: Expectation) -> Verdict:
    """Return what follows for the tiers behind the gate."""
    if broken := breakdown(answer):
        return Verdict(outcome="untested", cause=broken.cause, reason=broken.reason)
    if answer.exit_code == 0:
        return Verdict(outcome="passed", reason=message_of(answer))
    outcome: Outcome = "inapplicable" if expected.cause == "capability" else "untested"
    return Verdict(outcome=outcome, cause=expected.cause or "no-device", reason=message_of(answer))


def _architecture(device: Device) -> str:
    return architecture_of(device) if is_amd(device.target) else f"compute capability {architecture_of(device)}"


def availability(gate: Gate, device: Device | None) -> Verdict:
    """Say whether kernels may run: the gate is open and a device was captured."""
    if gate.protects.outcome != "passed":
        return gate.protects
    if device is None:
        reason = "the gate found a device that the captured environment does not have; capture it again"
        return Verdict(outcome="untested", cause="gate-disagrees", reason=reason)
    return Verdict(outcome="passed", reason=f"ran on {device.name}, {_architecture(device)}")


def without_device(verdict: Verdict) -> Gpu:
    return Gpu(availability=verdict, device=None, declaration=None, checks=[], canaries=[], contrasts=[], executions=[])


def refusal(gate: Gate, gpu: Gpu) -> Verdict | None:
    """Return why the earlier stages leave nothing to time, or None."""
    if gate.protects.outcome != "passed":
        return gate.protects
    found = gpu.availability
    if found.outcome == "failed":
        return Verdict(outcome="untested", cause="upstream", reason=f"stage 'gpu' failed: {found.reason}")
    return None if found.outcome == "passed" else found


def bar(checks: Sequence[Check]) -> Verdict | None:
    """Return why a variant with these checks on the device is not timed, or None. A wrong kernel has no speed."""
    for check in checks:
        if check.verdict.outcome in ("failed", "cantTell"):
            reason = f"not timed: stage 'gpu' did not pass it on case '{check.case}': {check.verdict.reason}"
            return Verdict(outcome="untested", cause="upstream", reason=reason)
    if not checks:
        return Verdict(outcome="untested", cause="upstream", reason="not timed: stage 'gpu' did not check it")
    return None if any(check.verdict.outcome == "passed" for check in checks) else checks[0].verdict


def _spilled(build: Build) -> str | None:
    """Say which code keeps registers in local memory, or None where none does."""
    for binary in build.binaries:
        stores, loads = binary.local_store_instructions, binary.local_load_instructions
        if stores:
            used = f"{stores} stores to and {loads} loads from {binary.stack_bytes} B of local memory"
            return f"{binary.function} spills: {used}, with {binary.registers} registers a thread"
    return None


def prune(variant: DeclaredVariant, builds: Sequence[Build], target: str) -> Verdict | None:
    """Return why a variant from a search space is not timed on `target`, by what its code there shows, or None.

    What does not fit cannot run. What spills can, and is not tried: a search space holds its like without spills, and
    where it does not the variant belongs into a list. A variant that no space holds is never pruned, nor is one that
    was not compiled ahead for this target.
    """
    build = next((one for one in builds if (one.variant, one.target) == (variant.id, target)), None)
    if build is None or not variant.searched:
        return None
    if build.fits.cause == "does-not-fit":
        return build.fits
    spilled = _spilled(build)
    if spilled is None:
        return None
    return Verdict(outcome="inapplicable", cause="pruned", reason=f"pruned before timing: on {target} {spilled}")


def untimed(variant: DeclaredVariant, checks: Sequence[Check], builds: Sequence[Build], target: str) -> Verdict | None:
    """Return why a variant is not timed, or None: what the device made of it comes first, then what its code shows.

    `checks`: those of all variants on the device.
    """
    return bar([check for check in checks if check.variant == variant.id]) or prune(variant, builds, target)

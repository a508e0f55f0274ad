"""The captured environment is whole, and the gate's record is what its exit code means on that machine.

Every digest of what is forged here is right: only the content gives it away.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from forge import H200, T4, Forge, forge
from msgspec.structs import replace
from records import MATMUL, SOFTMAX

from assay.admission import HINT, unlisted, without_device
from assay.original import nothing_planted
from assay.record import Device, Unavailable, Verdict
from assay.soundness import faults
from assay.speeds import nothing_timed

ENVIRONMENT, GATE = "results/environment.json", "results/gate.json"
PASSED = Verdict(outcome="passed", reason="it is as it should be")
NO_DRIVER = Unavailable(reason="no NVIDIA driver")

Spoil = Callable[[Forge], object]


def environment_with(**changes: Any) -> Spoil:
    """Capture something else, and let all that follows follow from it but for the gate and what ran."""
    return lambda forged: forged.put(f"{ENVIRONMENT}/result", lambda found: replace(found, **changes))


def gate_with(**changes: Any) -> Spoil:
    return lambda forged: forged.put(f"{GATE}/result", lambda found: replace(found, **changes))


def found_in(device: Device | None, spoil: Spoil) -> list[str]:
    forged = forge(device, [MATMUL])
    spoil(forged)
    return faults(forged.opened())


def devices(*found: Device) -> Spoil:
    return environment_with(devices=list(found))


def without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda versions: {other: version for other, version in versions.items() if other != name}


HIDDEN = replace(H200, visible=False, uuid_hash="f" * 64)

MARKED_COMPLETE: dict[str, tuple[Device | None, Spoil, str]] = {
    "no driver, and a device": (H200, environment_with(driver=NO_DRIVER), "/result/driver: expected the driver that"),
    "no driver, and a device that did not answer": (
        None,
        environment_with(unidentified=[Unavailable(reason="device 0 has no name")]),
        "/result/driver: expected the driver that listed devices, found",
    ),
    "hidden before visible": (
        H200,
        devices(HIDDEN, H200),
        "/result/devices: expected the visible devices first, found",
    ),
    "one card twice": (H200, devices(H200, H200), "/result/devices: expected each device once, found two of one UUID"),
    "target beside capability": (
        H200,
        devices(replace(H200, target="sm_80")),
        '/result/devices/0/target: expected "sm_90", found "sm_80"',
    ),
    "nameless device": (
        H200,
        devices(replace(H200, name="")),
        "/result/devices/0/name: expected a value, or the reason",
    ),
    "no memory": (
        H200,
        devices(replace(H200, memory_bytes=0)),
        "/result/devices/0/memory_bytes: expected a number above",
    ),
    "no cores": (
        None,
        lambda forged: forged.put(f"{ENVIRONMENT}/result/cpu/logical_cores", 0),
        "/result/cpu/logical_cores: expected a number above 0, or the reason why there is none, found 0",
    ),
    "no release": (
        None,
        lambda forged: forged.put(f"{ENVIRONMENT}/result/system/release", " "),
        "/result/system/release: expected a value, or the reason why there is none, found empty text",
    ),
    "no version": (
        None,
        lambda forged: forged.put(f"{ENVIRONMENT}/result/distributions/torch", ""),
        "/result/distributions/torch: expected a value, or the reason why there is none, found empty text",
    ),
    "absence without reason": (
        None,
        lambda forged: forged.put(f"{ENVIRONMENT}/result/system/libc", Unavailable(reason="")),
        "/result/system/libc: expected the reason why there is no value, found none",
    ),
    "no triton": (
        None,
        lambda forged: forged.put(f"{ENVIRONMENT}/result/distributions", without("triton")),
        "/result/distributions: expected the version of triton, with which kernel matmul was loaded, found none",
    ),
    "no torch": (
        None,
        lambda forged: forged.put(f"{ENVIRONMENT}/result/distributions", without("torch")),
        "/result/distributions: expected the version of torch, with which kernel matmul was loaded, found none",
    ),
}


@pytest.mark.parametrize("case", MARKED_COMPLETE)
def test_an_environment_that_is_not_whole_is_refused(case: str) -> None:
    device, spoil, told = MARKED_COMPLETE[case]
    found = found_in(device, spoil)
    assert any(fault.startswith(f"{ENVIRONMENT}: {told}") for fault in found), found


def test_a_variable_that_is_set_to_nothing_is_no_fault() -> None:
    assert found_in(None, lambda forged: forged.put(f"{ENVIRONMENT}/result/variables/CUDA_VISIBLE_DEVICES", "")) == []


# The gate


def says(reason: str) -> str:
    return f"{reason}; {HINT}"


def answering(exit_code: int, message: str, verdict: Verdict | None = None, protects: Verdict | None = None) -> Spoil:
    """Let the gate's record say that it answered so, and that all is well."""
    follows = protects or Verdict(outcome="passed" if exit_code == 0 else "untested", reason=message, cause=None)
    if exit_code and protects is None:
        follows = Verdict(outcome="untested", cause="no-driver", reason=message)
    return gate_with(exit_code=exit_code, message=message, verdict=verdict or PASSED, protects=follows)


def agreeing(forged: Forge) -> Verdict:
    verdict: Verdict = forged.results[GATE].verdict  # type: ignore[attr-defined]
    return verdict


GATES: dict[str, tuple[Device | None, Spoil, str]] = {
    "exit 1 with no device captured": (
        None,
        lambda forged: answering(1, says("Tesla T4 is 7.5; 8.0 or newer is needed"), agreeing(forged))(forged),
        "/result/message: expected no word on a capability, since no usable device was captured, found",
    ),
    "exit 0 with no device captured": (
        None,
        answering(0, "NVIDIA H200 is 9.0; 8.0 or newer is needed: usable"),
        '/result/verdict/outcome: expected "failed", found "passed"',
    ),
    "exit 0 at capability 7.5": (
        T4,
        answering(0, "Tesla T4 is 7.5; 8.0 or newer is needed: usable"),
        '/result/verdict/outcome: expected "failed", found "passed"',
    ),
    "exit 1 because it crashed": (
        T4,
        lambda forged: answering(
            1,
            "ImportError: libcudart.so.12: cannot open shared object file",
            agreeing(forged),
            Verdict(
                outcome="inapplicable",
                cause="capability",
                reason="ImportError: libcudart.so.12: cannot open shared object file",
            ),
        )(forged),
        "/result/message: expected a refusal with its hint, found .*ImportError: .*: it broke down",
    ),
    "a crash that is said to be a pass": (
        None,
        gate_with(exit_code=-11),
        '/result/verdict/outcome: expected "failed", found "passed"',
    ),
    "no message": (None, gate_with(message=""), '/result/verdict/outcome: expected "failed", found "passed"'),
    "exit 1 about another device": (
        T4,
        lambda forged: forged.put(
            f"{GATE}/result",
            lambda gate: replace(
                gate,
                message=says("Quadro P4000 is 6.1; 8.0 or newer is needed"),
                protects=replace(gate.protects, reason=says("Quadro P4000 is 6.1; 8.0 or newer is needed")),
            ),
        ),
        "/result/message: expected a word on the captured device, which is 7.5, found",
    ),
    "exit 0 about another device": (
        H200,
        lambda forged: forged.put(
            f"{GATE}/result",
            lambda gate: replace(
                gate,
                message="NVIDIA B200 is 10.0; 8.0 or newer is needed: usable",
                protects=replace(gate.protects, reason="NVIDIA B200 is 10.0; 8.0 or newer is needed: usable"),
            ),
        ),
        "/result/message: expected a word on the captured device, which is 9.0, found",
    ),
    "another expectation": (
        T4,
        gate_with(expected_exit_code=0, expectation="exit 0: it will do"),
        "/result/expected_exit_code: expected 1, found 0",
    ),
    "another minimum": (
        T4,
        gate_with(argv=["python", "-m", "assay", "gate", "--minimum-capability", "7.5"]),
        '/result/argv/5: expected "8.0", found "7.5"',
    ),
    "another command": (T4, gate_with(argv=["true"]), "/result/argv: expected 6 items, found 1"),
    "open though it refused": (
        T4,
        lambda forged: forged.put(f"{GATE}/result/protects", PASSED),
        '/result/protects/outcome: expected "inapplicable", found "passed"',
    ),
}


@pytest.mark.parametrize("case", GATES)
def test_a_gate_that_the_machine_does_not_call_for_is_refused(case: str) -> None:
    device, spoil, told = GATES[case]
    found = found_in(device, spoil)
    assert any(re.match(f"{re.escape(GATE)}: {told}", fault) for fault in found), found


def behind(refused: Verdict) -> Spoil:
    """Return what makes the records of the device tiers say that this verdict kept them from running."""

    def spoil(forged: Forge) -> None:
        forged.put("results/matmul/gpu.json/result/availability", refused)
        forged.put("results/matmul/timing.json/result", nothing_timed(refused))

    return spoil


def disagreeing(forged: Forge) -> None:
    """A gate that answered 1 where the captured device calls for 0, and whose record says so."""
    message = says("a device is here, but torch sees none")
    expectation = forged.results[GATE].expectation  # type: ignore[attr-defined]
    reason = f"exit 1 where the captured environment calls for {expectation}"
    verdict = Verdict(outcome="failed", cause="gate-disagrees", reason=reason)
    refused = Verdict(outcome="untested", cause="no-device", reason=message)
    answering(1, message, verdict, refused)(forged)
    nothing = forge(None, [MATMUL])
    forged.results["results/matmul/gpu.json"] = nothing.results["results/matmul/gpu.json"]
    behind(refused)(forged)


def crashed(forged: Forge) -> None:
    """A gate that broke down, and whose record says so."""
    message = "RuntimeError: CUDA error: out of memory"
    reason = f"the gate ended with exit code 1: {message}"
    verdict = Verdict(outcome="failed", cause="crash", reason=reason)
    refused = Verdict(outcome="untested", cause="crash", reason=reason)
    answering(1, message, verdict, refused)(forged)
    behind(refused)(forged)


def late(forged: Forge) -> None:
    reason = "the gate gave no answer within 300 s"
    verdict = Verdict(outcome="failed", cause="timeout", reason=reason)
    refused = Verdict(outcome="untested", cause="timeout", reason=reason)
    answering(-9, "", verdict, refused)(forged)
    behind(refused)(forged)


@pytest.mark.parametrize(
    ("device", "spoil"),
    [(H200, disagreeing), (None, crashed), (T4, crashed), (None, late)],
    ids=["disagrees", "crashes without a device", "crashes beside a T4", "is late"],
)
def test_a_gate_that_failed_and_says_so_is_sound(device: Device | None, spoil: Spoil) -> None:
    assert found_in(device, spoil) == []


# Several cards

SECOND = replace(H200, uuid_hash="2" * 64)
THIRD = replace(H200, uuid_hash="3" * 64, visible=False)
HIDDEN_T4 = replace(T4, uuid_hash="4" * 64, visible=False)
UNLISTED = replace(H200, uuid_hash="9" * 64)


def on_cards(gpu: Device, timing: Device, teeth: Device) -> Forge:
    """Return a bundle of a machine with three cards of a kind, of which one was hidden, and a T4, and who ran where."""
    forged = forge(H200, [MATMUL, SOFTMAX], bitten=True)
    devices(H200, SECOND, THIRD, HIDDEN_T4)(forged)
    for stage, device in (("gpu", gpu), ("timing", timing), ("teeth", teeth)):
        forged.put(f"results/matmul/{stage}.json/result/device", device)
    return forged


@pytest.mark.parametrize("used", [(H200, H200, H200), (SECOND, SECOND, SECOND), (SECOND, H200, THIRD)])
def test_kernels_that_ran_on_several_cards_of_a_kind_are_sound(used: tuple[Device, Device, Device]) -> None:
    assert faults(on_cards(*used).opened()) == []


@pytest.mark.parametrize("other", [UNLISTED, HIDDEN_T4, replace(SECOND, ecc=False)])
@pytest.mark.parametrize("stage", ["gpu", "timing", "teeth"])
def test_a_record_of_a_card_that_the_environment_does_not_list_or_of_another_kind_is_refused(
    stage: str, other: Device
) -> None:
    forged = on_cards(H200, H200, H200)
    forged.put(f"results/matmul/{stage}.json/result/device", other)
    told = f"results/matmul/{stage}.json: /result/device: expected one of the 3 cards of one kind that the environment"
    found = faults(forged.opened())
    assert any(fault.startswith(told) for fault in found), found


def test_claims_say_which_of_several_cards_they_are_about() -> None:
    opened = on_cards(SECOND, H200, SECOND).opened()
    claims = [claim for claim in opened.one("claims").result.claims if claim.target == "sm_90"]
    said = {(c.kernel, c.tier): c.reason.rpartition(", on card ")[2] for c in claims if c.outcome == "passed"}
    first, second = (str(device.uuid_hash)[:12] for device in (H200, SECOND))
    assert said["matmul", "ran"] == said["matmul", "accurate"] == second
    assert said["matmul", "timed"] == said["softmax", "ran"] == first


def test_claims_of_a_machine_with_one_card_name_none() -> None:
    claims = forge(H200, [MATMUL]).opened().one("claims").result.claims
    assert [claim for claim in claims if "on card" in claim.reason] == []


def unlisted_job(stage: str) -> Spoil:
    """A job that was shown another card than those of the environment."""

    def spoil(forged: Forge) -> None:
        verdict = unlisted(forged.results[ENVIRONMENT], [UNLISTED])  # type: ignore[arg-type]
        forged.put("results/matmul/timing.json/result", nothing_timed(verdict))
        if stage == "gpu":
            forged.put("results/matmul/gpu.json/result", without_device(verdict))

    return spoil


@pytest.mark.parametrize("stage", ["gpu", "timing"])
def test_a_job_that_was_shown_no_captured_card_and_says_so_is_sound(stage: str) -> None:
    assert found_in(H200, unlisted_job(stage)) == []


def test_planting_that_was_shown_no_captured_card_and_says_so_is_sound() -> None:
    forged = on_cards(H200, H200, H200)
    verdict = unlisted(forged.results[ENVIRONMENT], [UNLISTED])  # type: ignore[arg-type]
    forged.put("results/matmul/teeth.json/result", nothing_planted(verdict))
    assert faults(forged.opened()) == []

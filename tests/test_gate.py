"""The gate's decision, what the captured environment calls for, and the real command in both of its faces."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay import environment as environment_stage
from assay import gate
from assay.admission import HINT, Answer, Expectation, availability, expectation, message_of, protects, verdict_of
from assay.artifact import canonical, read
from assay.record import Cause, Device, Driver, Environment, Gate, Unavailable, Verdict
from assay.situation import Seen, Situation, driver_devices
from assay.targets import capability_text, target_of

ROOT = Path(__file__).parents[1]
NO_DRIVER = Unavailable(reason="no NVIDIA driver: NVML Shared Library Not Found")
NO_CUDA = Unavailable(reason="torch 2.13.0+cpu is built without CUDA")
T4, H200 = Seen("Tesla T4", (7, 5)), Seen("NVIDIA H200", (9, 0))
MI300X = Seen("AMD Instinct MI300X", None, "gfx942")
NO_ROCM = Unavailable(reason="torch 2.13.0 is built for CUDA 13.0, without ROCm")
UNKNOWN = Unavailable(reason="NVML says: Not Supported")

capabilities = st.tuples(st.integers(3, 13), st.integers(0, 9))
seen = st.builds(Seen, st.sampled_from(["NVIDIA H200", "Tesla T4"]), capabilities) | st.just(MI300X)
situations = st.one_of(
    st.builds(Situation, st.just(Unavailable(reason="libcuda.so.1 cannot be loaded"))),
    st.builds(Situation, st.just(0), setting=st.none() | st.text(st.characters(), max_size=9)),
    st.builds(Situation, st.integers(1, 8), st.lists(seen, max_size=3).map(tuple), st.none() | st.just("busy")),
    st.builds(Situation, st.integers(1, 8), st.just(NO_CUDA)),
)


def device(seen: Seen, visible: bool = True) -> Device:
    return Device(
        name=seen.name,
        target=seen.target if seen.capability is None else target_of(seen.capability),
        compute_capability=UNKNOWN if seen.capability is None else ".".join(map(str, seen.capability)),
        uuid_hash=UNKNOWN,
        visible=visible,
        memory_bytes=UNKNOWN,
        vbios=UNKNOWN,
        ecc=UNKNOWN,
        mig=UNKNOWN,
        persistence=UNKNOWN,
        power_limit_milliwatts=UNKNOWN,
        maximum_sm_clock_mhz=UNKNOWN,
        maximum_memory_clock_mhz=UNKNOWN,
    )


@pytest.fixture(scope="module")
def here() -> Environment:
    """Return what this machine is, but without driver and device, whatever it has."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        real = environment_stage.read_environment()
    finally:
        os.chdir(before)
    return msgspec.structs.replace(real, driver=NO_DRIVER, devices=NO_DRIVER, torch_cuda="13.0")


def with_devices(here: Environment, *devices: Device, **changes: Any) -> Environment:
    driver = Driver(version="580.159.04", cuda="13.0", nvml="13.580.159.04")
    return msgspec.structs.replace(here, driver=driver, devices=list(devices), **changes)


# the decision


@given(situations, capabilities)
def test_a_refusal_is_one_line_with_the_hint_and_only_a_refusal_has_it(
    situation: Situation, minimum: tuple[int, int]
) -> None:
    decision = gate.decide(situation, minimum)
    assert decision.exit_code in (0, 1)
    assert decision.message.splitlines() == [decision.message]
    assert decision.message.endswith(f"; {HINT}") == (decision.exit_code == 1)


@given(situations, capabilities, capabilities)
def test_a_higher_minimum_never_lets_more_through(
    situation: Situation, one: tuple[int, int], other: tuple[int, int]
) -> None:
    low, high = sorted((one, other))
    assert gate.decide(situation, low).exit_code <= gate.decide(situation, high).exit_code


@given(seen, capabilities)
def test_a_working_device_passes_exactly_from_the_minimum_on(seen: Seen, minimum: tuple[int, int]) -> None:
    decision = gate.decide(Situation(1, (seen,)), minimum)
    assert (decision.exit_code == 0) == (seen.capability is None or seen.capability >= minimum)


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        (
            Situation(Unavailable(reason="libcuda.so.1 cannot be loaded")),
            "no NVIDIA driver: libcuda.so.1 cannot be loaded; a device of capability 8.0 or newer is needed",
        ),
        (Situation(0), "the NVIDIA driver shows no device; a device of capability 8.0 or newer is needed"),
        (
            Situation(0, setting="-1"),
            "the NVIDIA driver shows no device under CUDA_VISIBLE_DEVICES='-1'; "
            "a device of capability 8.0 or newer is needed",
        ),
        (Situation(1, NO_CUDA), "a device is here, but torch 2.13.0+cpu is built without CUDA"),
        (Situation(1, ()), "a device is here, but torch sees none"),
        (Situation(1, (T4,)), "Tesla T4 is 7.5; 8.0 or newer is needed"),
        (
            Situation(2, (T4, H200)),
            "Tesla T4 is 7.5; 8.0 or newer is needed; device 1, NVIDIA H200, would do: "
            "select it with CUDA_VISIBLE_DEVICES",
        ),
        (Situation(1, (H200,), "busy"), "NVIDIA H200 is 9.0, but torch cannot use it: busy"),
    ],
)
def test_every_refusal_has_its_own_sentence(situation: Situation, message: str) -> None:
    hint = "TRITON_INTERPRET=1 (stage 'interpreter') checks correctness on the CPU"
    assert gate.decide(situation, (8, 0)) == gate.Decision(1, f"{message}; {hint}")


def test_a_usable_device_is_named() -> None:
    decision = gate.decide(Situation(2, (H200, T4)), (8, 0))
    assert decision == gate.Decision(0, "NVIDIA H200 is 9.0; 8.0 or newer is needed: usable")


def test_ten_is_newer_than_nine() -> None:
    assert gate.decide(Situation(1, (Seen("NVIDIA B200", (10, 0)),)), (9, 0)).exit_code == 0


# what the captured environment calls for


@given(capabilities, capabilities)
def test_expectation_and_decision_agree_on_one_device(
    here: Environment, capability: tuple[int, int], minimum: tuple[int, int]
) -> None:
    one = Seen("NVIDIA H200", capability)
    expected = expectation(with_devices(here, device(one)), ".".join(map(str, minimum)))
    assert expected.exit_code == gate.decide(Situation(1, (one,)), minimum).exit_code
    assert (expected.cause is None) == (expected.exit_code == 0)


def test_no_driver_calls_for_a_refusal(here: Environment) -> None:
    assert expectation(here, "8.0") == Expectation(1, f"exit 1: {NO_DRIVER.reason}", "no-driver")


def test_a_driver_without_a_device_calls_for_a_refusal(here: Environment) -> None:
    expected = expectation(with_devices(here), "8.0")
    assert expected == Expectation(1, "exit 1: the driver is here and there is no device for CUDA", "no-device")


def test_a_hidden_device_calls_for_a_refusal(here: Environment) -> None:
    expected = expectation(with_devices(here, device(H200, visible=False)), "8.0")
    assert expected.cause == "no-device"
    assert expected.sentence.endswith("of 1 devices none is visible")


def test_a_build_without_cuda_calls_for_a_refusal_that_says_so(here: Environment) -> None:
    expected = expectation(with_devices(here, device(H200), torch_cuda=NO_CUDA), "8.0")
    assert expected == Expectation(1, f"exit 1: NVIDIA H200 is here, but {NO_CUDA.reason}", "no-device")


@given(capabilities)
def test_no_minimum_is_asked_of_a_device_without_a_compute_capability(
    here: Environment, minimum: tuple[int, int]
) -> None:
    machine = with_devices(here, device(MI300X), torch_cuda=NO_CUDA, torch_rocm="7.0")
    expected = expectation(machine, capability_text(minimum))
    assert expected == Expectation(0, "exit 0: AMD Instinct MI300X is gfx942, and no compute capability is asked of it")
    decision = gate.decide(Situation(1, (MI300X,)), minimum)
    assert decision == gate.Decision(0, "AMD Instinct MI300X is gfx942; no compute capability is asked of it: usable")
    assert availability(opened(decision.message), device(MI300X)).reason == "ran on AMD Instinct MI300X, gfx942"


def test_a_device_of_amd_needs_a_build_for_rocm(here: Environment) -> None:
    expected = expectation(with_devices(here, device(MI300X), torch_cuda="13.0", torch_rocm=NO_ROCM), "8.0")
    assert expected == Expectation(1, f"exit 1: AMD Instinct MI300X is here, but {NO_ROCM.reason}", "no-device")


def opened(message: str) -> Gate:
    """Return the record of a gate that let kernels through."""
    passed = Verdict(outcome="passed", reason=message)
    return Gate(
        argv=[], exit_code=0, message=message, expected_exit_code=0, expectation="", verdict=passed, protects=passed
    )


def test_the_first_visible_device_counts(here: Environment) -> None:
    machine = with_devices(here, device(H200, visible=False), device(T4), device(H200))
    assert expectation(machine, "8.0") == Expectation(
        1, "exit 1: Tesla T4 is 7.5, and 8.0 or newer is needed", "capability"
    )


# the verdicts

TOO_OLD = Expectation(1, "exit 1: Tesla T4 is 7.5, and 8.0 or newer is needed", "capability")
USABLE = Expectation(0, "exit 0: NVIDIA H200 is 9.0, and 8.0 or newer is needed")
REFUSAL = Answer(1, "", "Tesla T4 is 7.5; 8.0 or newer is needed\n")
PASS = Answer(0, "NVIDIA H200 is 9.0; 8.0 or newer is needed: usable\n", "")


def test_a_refusal_that_is_called_for_passes_and_protects_as_inapplicable() -> None:
    assert verdict_of(REFUSAL, TOO_OLD).outcome == "passed"
    behind = protects(REFUSAL, TOO_OLD)
    assert (behind.outcome, behind.cause) == ("inapplicable", "capability")
    assert behind.reason == "Tesla T4 is 7.5; 8.0 or newer is needed"


@pytest.mark.parametrize("cause", ["no-driver", "no-device"])
def test_a_refusal_for_want_of_a_device_leaves_the_tiers_untested(cause: Cause) -> None:
    assert cause in get_args(Cause)
    behind = protects(REFUSAL, Expectation(1, "exit 1: none", cause))
    assert (behind.outcome, behind.cause) == ("untested", cause)


def test_a_usable_device_passes_and_opens_the_tiers() -> None:
    assert (verdict_of(PASS, USABLE).outcome, protects(PASS, USABLE).outcome) == ("passed", "passed")


@pytest.mark.parametrize(("answer", "expected"), [(REFUSAL, USABLE), (PASS, TOO_OLD)])
def test_the_wrong_exit_code_disagrees(answer: Answer, expected: Expectation) -> None:
    verdict = verdict_of(answer, expected)
    assert (verdict.outcome, verdict.cause) == ("failed", "gate-disagrees")
    assert expected.sentence in verdict.reason


def test_a_refusal_that_is_not_called_for_leaves_the_tiers_untested() -> None:
    assert protects(REFUSAL, USABLE).outcome == "untested"


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (Answer(2, "", "usage"), "exit code 2: usage"),
        (Answer(-11, "", ""), "signal 11: it said nothing"),
        (Answer(1, "", ""), "exit code 1: it said nothing"),
        (Answer(1, "", "Traceback (most recent call last):\n ...\nKeyError: 3\n"), "exit code 1: KeyError: 3"),
    ],
)
def test_no_answer_is_a_crash_even_where_a_refusal_is_called_for(answer: Answer, how: str) -> None:
    verdict = verdict_of(answer, TOO_OLD)
    assert (verdict.outcome, verdict.cause) == ("failed", "crash")
    assert verdict.reason == f"the gate ended with {how}"
    assert (protects(answer, TOO_OLD).outcome, protects(answer, TOO_OLD).cause) == ("untested", "crash")


def test_a_gate_that_hangs_is_a_timeout() -> None:
    assert verdict_of(Answer(-9, "", "", late=True), TOO_OLD).cause == "timeout"


def test_the_sentence_is_the_last_line_and_keeps_no_control() -> None:
    assert message_of(Answer(1, "", "a library's note\n\x1b[31mno device\x1b[0m\n")) == "no device"


# the real command


def assay(*words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assay", *words]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **changes}, check=False, timeout=300
    )


def test_the_command_answers_in_one_sentence() -> None:
    done = assay("gate")
    said, silent = (done.stderr, done.stdout) if done.returncode else (done.stdout, done.stderr)
    assert done.returncode in (0, 1)
    assert (len(said.splitlines()), silent) == (1, "")


@pytest.mark.skipif(not isinstance(driver_devices(), Unavailable), reason="there is an NVIDIA driver here")
def test_without_a_driver_the_command_says_so() -> None:
    done = assay("gate")
    assert done.returncode == 1
    assert done.stderr.startswith("no NVIDIA driver: libcuda.so.1 ")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_with_a_device_the_command_lets_it_pass_and_hiding_it_does_not() -> None:
    assert assay("gate", "--minimum-capability", "1.0").returncode == 0
    assert "or newer is needed" in assay("gate", "--minimum-capability", "99.0").stderr
    assert "shows no device under CUDA_VISIBLE_DEVICES" in assay("gate", CUDA_VISIBLE_DEVICES="").stderr


@pytest.mark.parametrize("text", ["8", "8.x", "nan", "-1.0", ""])
def test_a_minimum_that_is_no_capability_is_refused(text: str) -> None:
    done = assay("gate", f"--minimum-capability={text}")
    assert done.returncode == 2
    assert f"expected a compute capability such as 8.0, found {text!r}" in done.stderr


def test_the_stage_records_the_command_and_twice_the_same_result(tmp_path: Path) -> None:
    machine, outs = tmp_path / "environment.json", [tmp_path / "one.json", tmp_path / "two.json"]
    assert assay("environment", "--settings", "{}", "--out", str(machine)).returncode == 0
    settings = '{"gate":{"minimum_capability":"8.0"}}'
    for out in outs:
        done = assay("gate", "--environment", str(machine), "--settings", settings, "--out", str(out))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    first, second = (read(out, "gate").result for out in outs)
    assert canonical(first) == canonical(second)
    assert first.argv == ["python", "-m", "assay", "gate", "--minimum-capability", "8.0"]
    assert (first.verdict.outcome, first.exit_code) == ("passed", first.expected_exit_code)
    if first.exit_code == 1:
        assert first.message.endswith(HINT)
        assert first.protects.outcome in ("untested", "inapplicable")


def test_a_missing_environment_is_refused_by_name(tmp_path: Path) -> None:
    absent = tmp_path / "environment.json"
    done = assay("gate", "--environment", str(absent), "--settings", "{}", "--out", str(tmp_path / "gate.json"))
    assert done.returncode == 2
    assert f"{absent}: cannot be read" in done.stderr
    assert not (tmp_path / "gate.json").exists()

"""Stage `gate`: may kernels run here?

Two faces. `python -m assay gate` is the gate itself: exit 0 where torch can use a device that is new enough, 1 with one
sentence otherwise. With a stage's options it runs that command and records whether its answer is what the captured
device calls for.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass

from assay import stage
from assay.admission import HINT, LIMIT_S, NOTHING_ASKED, Answer, expectation, message_of, protects, verdict_of
from assay.config import GateSettings
from assay.privacy import one_line
from assay.record import Gate, Unavailable
from assay.situation import Seen, Situation, look
from assay.targets import parse_capability

_STAGE_OPTIONS = ("--out", "--environment", "--settings", "--config")


@dataclass(frozen=True)
class Decision:
    """Exit code and sentence."""

    exit_code: int
    message: str


def _refusal(reason: str) -> Decision:
    return Decision(1, f"{reason}; {HINT}")


def _too_old(devices: tuple[Seen, ...], minimum: tuple[int, int], needed: str) -> Decision:
    """Refuse the first device, which is the one that kernels would run on, and name another that would do."""
    reason = f"{_told(devices[0])}; {needed}"
    for index, device in enumerate(devices):
        if _serves(device, minimum):
            return _refusal(f"{reason}; device {index}, {device.name}, would do: select it with CUDA_VISIBLE_DEVICES")
    return _refusal(reason)


def _serves(device: Seen, minimum: tuple[int, int]) -> bool:
    """Return whether a device is new enough; the minimum is of CUDA devices, and asks nothing of another vendor's."""
    return device.capability is None or device.capability >= minimum


def _told(device: Seen) -> str:
    return f"{device.name} is {device.target if device.capability is None else _dotted(device.capability)}"


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def decide(situation: Situation, minimum: tuple[int, int]) -> Decision:
    """Return 0 where the first device is new enough and works, else 1 and the first thing that is missing."""
    needed = f"{_dotted(minimum)} or newer is needed"
    if isinstance(situation.driver, Unavailable):
        return _refusal(f"no NVIDIA driver: {situation.driver.reason}; a device of capability {needed}")
    if situation.driver == 0:
        hidden = "" if situation.setting is None else f" under CUDA_VISIBLE_DEVICES={one_line(situation.setting)!r}"
        return _refusal(f"the NVIDIA driver shows no device{hidden}; a device of capability {needed}")
    if isinstance(situation.torch, Unavailable):
        return _refusal(f"a device is here, but {situation.torch.reason}")
    if not situation.torch:
        return _refusal("a device is here, but torch sees none")
    first = situation.torch[0]
    if not _serves(first, minimum):
        return _too_old(situation.torch, minimum, needed)
    if situation.fault is not None:
        return _refusal(f"{_told(first)}, but torch cannot use it: {situation.fault}")
    return Decision(0, f"{_told(first)}; {needed if first.capability else NOTHING_ASKED}: usable")


def ask(arguments: list[str]) -> Answer:
    """Run `python -m assay` with these arguments in a process of its own, which a driver may take along."""
    command = [sys.executable, "-m", "assay", *arguments]
    # Else CUDA counts mixed cards by speed, and its first is another than the first that was captured.
    counted = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=counted, check=False)
    except subprocess.TimeoutExpired:
        return Answer(-signal.SIGKILL, "", "", late=True)
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def capture(job: stage.Job) -> Gate:
    """Run the real command and set its answer against the captured environment."""
    minimum = job.settings.gate.minimum_capability
    expected = expectation(job.read("environment").result, minimum)
    arguments = ["gate", "--minimum-capability", minimum]
    answer = ask(arguments)
    return Gate(
        argv=["python", "-m", "assay", *arguments],
        exit_code=answer.exit_code,
        message=message_of(answer),
        expected_exit_code=expected.exit_code,
        expectation=expected.sentence,
        verdict=verdict_of(answer, expected),
        protects=protects(answer, expected),
    )


def _capability(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", text):
        raise argparse.ArgumentTypeError(f"expected a compute capability such as 8.0, found {text!r}")
    return parse_capability(text)


def _answer(argv: list[str]) -> int:
    options = argparse.ArgumentParser(
        prog="python -m assay gate",
        description="Exit 0 where torch can use a device that is new enough, else 1 with the reason.",
        epilog=f"With {', '.join(_STAGE_OPTIONS)} it is the stage 'gate', which runs this command and records it.",
    )
    default = GateSettings().minimum_capability
    options.add_argument(
        "--minimum-capability", type=_capability, default=default, help="the oldest that will do (default: %(default)s)"
    )
    decision = decide(look(), options.parse_args(argv).minimum_capability)
    print(decision.message, file=sys.stderr if decision.exit_code else sys.stdout)
    return decision.exit_code


def main(argv: list[str]) -> int:
    """Be the gate, or with a stage's options the stage that writes `Gate`."""
    if any(word.partition("=")[0] in _STAGE_OPTIONS for word in argv):
        return stage.run("gate", argv, capture, per_kernel=False)
    return _answer(argv)

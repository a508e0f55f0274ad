"""A sound bundle is passed, and whatever a forger makes of one is refused for the one reason that there is.

Every digest of what is forged here is right, down to the name of the folder: only the content gives it away.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forge import H200, T4, Forge, forge
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import MATMUL, SOFTMAX, NO_DRIVER, Subject
from msgspec.structs import replace

from assay.admission import HINT
from assay.artifact import sha256_bytes
from assay.opening import UnsoundError, open_bytes
from assay.record import Device, Unavailable, Verdict
from assay.soundness import faults, open_sound

GATE, ENVIRONMENT, CLAIMS, REPORT = (f"results/{name}.json" for name in ("gate", "environment", "claims", "report"))
INTERPRETER, COMPILE, GPU, TIMING = (f"results/matmul/{n}.json" for n in ("interpreter", "compile", "gpu", "timing"))
PASSED = Verdict(outcome="passed", reason="it is fine")

Spoil = Callable[[Forge], object]


def found_in(forged: Forge) -> list[str]:
    return faults(forged.opened())


@pytest.mark.parametrize("device", [None, T4, H200, replace(H200, visible=False)], ids=["none", "T4", "H200", "hidden"])
@pytest.mark.parametrize("subjects", [(MATMUL,), (SOFTMAX, MATMUL)])
def test_a_sound_bundle_is_passed(device: Device | None, subjects: tuple[Subject, ...]) -> None:
    assert found_in(forge(device, subjects)) == []


# What is to be refused. Each case: what the forger does, and the one sentence that says so.

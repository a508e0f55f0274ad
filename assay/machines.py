"""What differs between the machine that made a bundle and this one, and what of a record such a difference can explain.

Pure: from the two environment records.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.admission import architecture_of, chosen_device, torch_for
from assay.record import Environment, StageName, Unavailable
from assay.targets import is_amd

BLAME: Mapping[StageName, Sequence[str]] = {
    "interpreter": ("triton", "torch", "numpy", "processor", "libc"),
    "compile": ("triton", "assembler", "variable"),
    "gpu": ("triton", "torch", "assembler", "variable", "driver", "device"),
    "timing": ("triton", "torch", "assembler", "variable", "driver", "device"),
}
"""What decides the result of a stage beside its sources. That Python's version decides no binary was measured."""

_DISTRIBUTIONS = {"triton": "Triton", "torch": "torch", "numpy": "NumPy"}
_ELSEWHERE = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR", "TRITON_DISABLE_LINE_INFO", "TRITON_INTERPRET")
"""Variables that say where things are kept, or that the stages set themselves."""


def _versions(environment: Environment) -> dict[str, str]:
    found = {name: environment.distributions.get(name, "none") for name in _DISTRIBUTIONS}
    return {_DISTRIBUTIONS[name]: version for name, version in found.items()}


def _traits(environment: Environment) -> dict[str, dict[str, Any]]:
    """Return what may explain a difference, by kind: each a name and its value on that machine."""
    device, driver = chosen_device(environment), environment.driver
    variables = {
        name: value
        for name, value in environment.variables.items()
        if name.startswith("TRITON_") and name not in _ELSEWHERE
    }
    return {
        **{name: {shown: _versions(environment)[shown]} for name, shown in _DISTRIBUTIONS.items()},
        "assembler": dict(environment.assemblers),
        "variable": variables,
        "processor": {"processor": environment.cpu.model},
        "libc": {"C library": environment.system.libc},
        "driver": {"driver": driver if isinstance(driver, Unavailable) else driver.version},
        "device": {"device": "none" if device is None else device.name},
    }


def _shown(value: Any) -> str:
    return "unknown" if isinstance(value, Unavailable) else "unset" if value is None else str(value)


def differences(there: Environment, here: Environment) -> dict[str, list[str]]:
    """Return what differs between the two machines, by kind, each in words such as 'Triton 3.7.1 here, 3.6.0 there'."""
    found: dict[str, list[str]] = {}
    ours = _traits(here)
    for kind, theirs in _traits(there).items():
        for name in sorted({*theirs, *ours[kind]}):
            pair = _shown(ours[kind].get(name)), _shown(theirs.get(name))
            if pair[0] != pair[1]:
                found.setdefault(kind, []).append(f"{name} {pair[0]} here, {pair[1]} there")
    return found


def blame(stage: StageName, found: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the differences that may explain another result of this stage."""
    return [words for kind in BLAME.get(stage, ()) for words in found.get(kind, ())]


def missing(stage: StageName, here: Environment, there: Environment) -> str | None:
    """Return which distribution the stage needs and this machine lacks, or None."""
    needed = ("triton", "torch") if stage in BLAME else ()
    for name in needed:
        if name not in here.distributions and name in there.distributions:
            return f"{name} is not installed here ({there.distributions[name]} there)"
    return None


def place(environment: Environment) -> str:
    """Return in words what a gate finds on a machine."""
    device = chosen_device(environment)
    if device is None:
        return "no driver" if isinstance(environment.driver, Unavailable) else "no visible device"
    toolkit = "ROCm" if is_amd(device.target) else "CUDA"
    without = f", torch without {toolkit}" if isinstance(torch_for(environment, device), Unavailable) else ""
    return f"{device.name} ({architecture_of(device)}){without}"

"""What a machine can show, and why not the rest: each thing looked at, and what follows for the tiers. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.admission import Answer, breakdown, chosen_device, message_of
from assay.outcomes import BLOCKED, FAILED, INCONCLUSIVE, VERIFIED, Mark
from assay.record import Device, Environment, Unavailable

ROOM_BYTES = 2 * 2**30
"""Free space below which a run may end early: caches and records of the kernels here come to half of it."""
NEWEST_ASSEMBLER = ("sm_100", "sm_120")
"""Targets that Triton gives to `ptxas-blackwell` (triton/backends/nvidia/compiler.py, `get_ptxas`)."""
DEVICE_TIERS = "ran, accurate, timed"


@dataclass(frozen=True)
class Folder:
    """A folder that a run writes into; `free_bytes`: or why nothing can be written there."""

    purpose: str
    path: str
    free_bytes: int | Unavailable


@dataclass(frozen=True)
class Facts:
    """What was looked at. `libcuda`: devices that the driver itself shows; `answer`: what the real gate said.

    `broken`: what keeps the project from running at all, by what it is; `packages`: versions of what decides results.
    """

    environment: Environment
    libcuda: int | Unavailable
    answer: Answer
    targets: Sequence[str]
    compiler: str | Unavailable
    folders: Sequence[Folder]
    packages: Mapping[str, str]
    broken: Mapping[str, str]


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it serves, what was found, and what to do where it does not."""

    mark: Mark
    name: str
    said: str
    remedy: str = ""


@dataclass(frozen=True)
class Reach:
    """What can be shown here of some tiers, and where not, why."""

    mark: Mark
    tiers: str
    said: str


def _found(name: str, value: object, remedy: str, said: str = "") -> Finding:
    if isinstance(value, Unavailable):
        return Finding(BLOCKED, name, value.reason, remedy)
    return Finding(VERIFIED, name, said or str(value))


def _software(facts: Facts) -> Iterator[Finding]:
    here = facts.environment
    versions = ", ".join(f"{name} {version}" for name, version in facts.packages.items())
    yield Finding(VERIFIED, "software", f"{here.python.implementation} {here.python.version}; {versions}")
    for name, why in facts.broken.items():
        yield Finding(FAILED, name, *why.rsplit("; ", 1))


def _driver(facts: Facts) -> Iterator[Finding]:
    here = facts.environment
    install = "install NVIDIA's driver, or take the records of a machine that has one: docs/bundles.md"
    shown = f"{facts.libcuda} device{'' if facts.libcuda == 1 else 's'}"
    yield _found("libcuda", facts.libcuda, install, f"libcuda.so.1 starts and shows {shown}")
    if isinstance(here.driver, Unavailable):
        yield Finding(BLOCKED, "NVML", here.driver.reason, "" if isinstance(facts.libcuda, Unavailable) else install)
    else:
        parts = (here.driver.version, here.driver.cuda, here.driver.nvml)
        driver, cuda, nvml = (one.reason if isinstance(one, Unavailable) else one for one in parts)
        yield Finding(VERIFIED, "NVML", f"driver {driver}, for CUDA up to {cuda}; NVML {nvml}")
    yield _found("torch", here.torch_cuda, "install a build of torch for CUDA", f"built for CUDA {here.torch_cuda}")
    yield _found("C compiler", facts.compiler, "install gcc: Triton builds launchers with it before a device is used")


def _device(device: Device, refusal: str | None) -> Finding:
    memory = device.memory_bytes
    size = "" if isinstance(memory, Unavailable) else f", {memory / 2**30:.0f} GiB"
    said = f"{device.name}, {device.target}{size}"
    if not device.visible:
        return Finding(BLOCKED, "device", f"{said}: hidden", "name it in CUDA_VISIBLE_DEVICES")
    if refusal is not None:
        return Finding(BLOCKED, "device", f"{said}: {refusal}", "take one that will do: `assay gate` asks again")
    if device.mig is True:
        remedy = "time on a whole card: a slice shares its clock, power and memory system with others"
        return Finding(INCONCLUSIVE, "device", f"{said}: MIG is on", remedy)
    return Finding(VERIFIED, "device", said)


def _devices(facts: Facts) -> Iterator[Finding]:
    here, first = facts.environment, chosen_device(facts.environment)
    for device in [] if isinstance(here.devices, Unavailable) else here.devices:
        yield _device(device, _refusal(facts) if device is first else None)
    for one in here.unidentified:
        yield Finding(INCONCLUSIVE, "device", one.reason, "restart the driver, or leave that device out")


def _assemblers(facts: Facts) -> Iterator[Finding]:
    for name, version in facts.environment.assemblers.items():
        if not name.startswith("TRITON_"):
            yield _found(name, version, "install triton again: it carries both assemblers")
        elif isinstance(version, Unavailable):
            yield Finding(INCONCLUSIVE, name, version.reason, "unset it: Triton takes the assembler it carries instead")
        else:
            said = f"{version} stands in the place of the assembler that Triton carries"
            yield Finding(INCONCLUSIVE, name, said, "unset it, or binaries differ from those of other machines")


def _folders(facts: Facts) -> Iterator[Finding]:
    for folder in facts.folders:
        said = f"{folder.path}"
        if isinstance(folder.free_bytes, Unavailable):
            yield Finding(BLOCKED, folder.purpose, f"{said}: {folder.free_bytes.reason}", "make it writable")
        elif not folder.free_bytes >= ROOM_BYTES:
            free = f"{said}: {folder.free_bytes / 2**30:.1f} GiB free, where {ROOM_BYTES / 2**30:.0f} are needed"
            yield Finding(INCONCLUSIVE, folder.purpose, free, "free space there, or name another folder")
        else:
            yield Finding(VERIFIED, folder.purpose, f"{said}: {folder.free_bytes / 2**30:.0f} GiB free")


def _surroundings(facts: Facts) -> Iterator[Finding]:
    here = facts.environment
    if "microsoft" in here.system.release.lower():
        remedy = "time on Linux itself: under WSL the driver does not tell all clocks, and rounds cannot be told apart"
        yield Finding(INCONCLUSIVE, "system", f"WSL, {here.system.release}", remedy)
    if setting := here.variables.get("TRITON_INTERPRET"):
        remedy = "unset it: stages set it where they need it, and your own scripts would not run on a device"
        yield Finding(INCONCLUSIVE, "variables", f"TRITON_INTERPRET={setting} is set", remedy)


def findings(facts: Facts) -> list[Finding]:
    """Return what was looked at, in the order in which a reader should meet it."""
    parts = (_software, _driver, _devices, _assemblers, _folders, _surroundings)
    return [finding for part in parts for finding in part(facts)]


def _assembler(facts: Facts, target: str) -> str | Unavailable:
    """Return the version of the assembler for a target: the one a variable names where that serves, as Triton does."""
    known = facts.environment.assemblers
    # Triton before 3.7 has one assembler for all targets.
    name = "ptxas-blackwell" if target in NEWEST_ASSEMBLER and "ptxas-blackwell" in known else "ptxas"
    variable = f"TRITON_{name.upper().replace('-', '_')}_PATH"
    found = [known[one] for one in (variable, name) if one in known]
    serving = next((one for one in found if isinstance(one, str)), None)
    return serving or next(iter(found[::-1]), Unavailable(reason=f"triton carries no {name}"))


def _lacking(facts: Facts) -> tuple[list[str], str]:
    """Return the targets for which there is no assembler, and why."""
    found = {target: _assembler(facts, target) for target in facts.targets}
    reasons = {target: one.reason for target, one in found.items() if isinstance(one, Unavailable)}
    return list(reasons), "; ".join(dict.fromkeys(reasons.values()))


def _compiled(facts: Facts) -> Iterator[Reach]:
    lacking, why = _lacking(facts)
    able = [target for target in facts.targets if target not in lacking]
    if able:
        yield Reach(VERIFIED, "compiled, fits", f"on {', '.join(able)}")
    if lacking:
        yield Reach(BLOCKED, "compiled, fits", f"untested on {', '.join(lacking)}: {why}")


def _refusal(facts: Facts) -> str | None:
    """Return why the gate lets no kernel run, or None where it does."""
    broken = breakdown(facts.answer)
    if broken is not None:
        return broken.reason
    return message_of(facts.answer).partition("; TRITON_INTERPRET")[0] if facts.answer.exit_code else None


def _obstacle(facts: Facts) -> str | None:
    """Return why kernels cannot run on the device that torch takes, or None where they can."""
    if (refused := _refusal(facts)) is not None:
        return refused
    if chosen_device(facts.environment) is None:
        return "the gate found a device that NVML does not list"
    return f"no C compiler: {facts.compiler.reason}" if isinstance(facts.compiler, Unavailable) else None


def _on_device(facts: Facts) -> Iterator[Reach]:
    device, obstacle = chosen_device(facts.environment), _obstacle(facts)
    able = [device.target] if device is not None and obstacle is None else []
    if able:
        yield Reach(VERIFIED, DEVICE_TIERS, f"on {able[0]}")
    rest = [target for target in facts.targets if target not in able]
    if rest:
        yield Reach(BLOCKED, DEVICE_TIERS, f"untested on {', '.join(rest)}: {obstacle or 'no such device here'}")


def reaches(facts: Facts) -> list[Reach]:
    """Return what can be shown here, tier by tier; nothing where the project itself is broken."""
    if facts.broken:
        return [Reach(BLOCKED, "all tiers", "nothing can be run here yet")]
    gate = breakdown(facts.answer)
    gated = (
        Reach(VERIFIED, "gated", f"exits {facts.answer.exit_code}")
        if gate is None
        else Reach(FAILED, "gated", gate.reason)
    )
    return [Reach(VERIFIED, "interpreted", "every kernel"), *_compiled(facts), gated, *_on_device(facts)]

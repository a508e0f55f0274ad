"""Stage `environment`: the machine and its software, as far as they stay the same between two runs.

Nothing here imports torch or Triton: what they were built with is read from their files.
"""

import ast
import importlib.metadata
import importlib.util
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from assay import kfd, nvml, stage
from assay.artifact import canonical, sha256_bytes
from assay.privacy import one_line, salted
from assay.record import Cpu, Digest, Environment, Python, System, Unavailable
from assay.sources import read_source

# What changes the code that is generated, the device that runs it or the arithmetic of the libraries timed beside it.
_RELEVANT = re.compile(
    r"(TRITON|CUDA|TORCH|PYTORCH|TORCHINDUCTOR|CUBLAS|CUBLASLT|PTXAS|NVPTX|AMDGCN|HIP|ROCR)_|"
    r"(NVIDIA_TF32_OVERRIDE|NVIDIA_VISIBLE_DEVICES|DISABLE_PTXAS_OPT|USE_IR_LOC)$"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_ASSEMBLER_LIMIT_S = 20


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter, sorted and fit to publish; none whose name says that it is a secret."""
    chosen = sorted(name for name in environment if _RELEVANT.match(name) and not _SECRET.search(name))
    return {name: one_line(environment[name]) for name in chosen}


def normalised(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(search: Sequence[str]) -> dict[str, str]:
    """Map each installed distribution to its version; of two, that which is first on the search path, as in imports."""
    found: dict[str, str] = {}
    for folder in search:
        known = importlib.metadata.distributions(path=[folder])
        # Remains of a broken installation have no name or no version, and nothing of them can be imported.
        pairs = sorted((one_line(one.name), one_line(one.version)) for one in known if one.name and one.version)
        for name, version in pairs:
            found.setdefault(normalised(name), version)
    return dict(sorted(found.items()))


def cpu_model(description: str) -> str | Unavailable:
    """Return the model from the text of /proc/cpuinfo."""
    match = re.search(r"^model name\s*:\s*(\S.*)$", description, re.MULTILINE)
    return one_line(match[1]) if match else Unavailable(reason="/proc/cpuinfo names no model")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _memory_bytes() -> int | Unavailable:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return Unavailable(reason="the system does not tell its memory")


def _cpu() -> Cpu:
    return Cpu(
        model=cpu_model(_read(Path("/proc/cpuinfo"))),
        architecture=platform.machine(),
        logical_cores=os.cpu_count() or Unavailable(reason="the system does not tell its cores"),
        memory_bytes=_memory_bytes(),
    )


def _distribution() -> str | Unavailable:
    try:
        return one_line(platform.freedesktop_os_release()["PRETTY_NAME"])
    except OSError:
        return Unavailable(reason="no os-release file")


def _system() -> System:
    library = " ".join(platform.libc_ver())
    return System(
        kernel=platform.system(),
        release=one_line(platform.release()),
        distribution=_distribution(),
        libc=library if library.strip() else Unavailable(reason="Python does not know this C library"),
        host_hash=salted(socket.gethostname()),
    )


def _nvidia_gpus(setting: str | None) -> nvml.Gpus:
    library = nvml.library()
    return (library, library, []) if isinstance(library, Unavailable) else nvml.read_gpus(library, setting)


def gpus(variables: Mapping[str, str], sysfs: Path = kfd.SYSFS) -> nvml.Gpus:
    """Return driver, devices and unidentified devices: NVIDIA's, or else AMD's; without either, why NVIDIA's are none.

    `variables`: those of the environment, which hide devices from a process.
    """
    found = _nvidia_gpus(variables.get("CUDA_VISIBLE_DEVICES"))
    return kfd.read_gpus(variables, sysfs) or found if isinstance(found[0], Unavailable) else found


def _package(name: str) -> Path | Unavailable:
    """Return a package's folder without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin:
        return Unavailable(reason=f"{name} is not installed")
    return Path(spec.origin).parent


def assembler_version(text: str) -> str | Unavailable:
    """Return 12.8.93 from what `ptxas --version` prints."""
    match = re.search(r"release [\d.]+, V([\d.]+)", text)
    return match[1] if match else Unavailable(reason=f"--version names no release: {one_line(text, 120)!r}")


def _ask_assembler(program: Path) -> str | Unavailable:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=_ASSEMBLER_LIMIT_S, check=False)
    except OSError as error:
        return Unavailable(reason=f"cannot be run ({error.strerror})")
    except subprocess.TimeoutExpired:
        return Unavailable(reason=f"--version gave no answer within {_ASSEMBLER_LIMIT_S} s")
    return assembler_version((done.stdout + done.stderr).decode("utf-8", "replace"))


def assemblers(triton: Path | Unavailable, environment: Mapping[str, str]) -> dict[str, str | Unavailable]:
    """Map each `ptxas*` that Triton carries, and each that a variable puts in its place, to its version."""
    if isinstance(triton, Unavailable):
        return {"ptxas": triton}
    carried = {program.name: program for program in (triton / "backends" / "nvidia" / "bin").glob("ptxas*")}
    named = {name: Path(environment[name]) for name in environment if re.fullmatch(r"TRITON_PTXAS\w*_PATH", name)}
    found = {one_line(name): _ask_assembler(program) for name, program in sorted({**carried, **named}.items())}
    return found if carried else {"ptxas": Unavailable(reason="triton carries no ptxas"), **found}


def _constants(source: str) -> dict[str, object]:
    """Return the module-level constants of a Python file, without running it."""
    constants: dict[str, object] = {}
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant):
            constants |= {target.id: value.value for target in targets if isinstance(target, ast.Name)}
    return constants


_TOOLKITS = {"cuda": "CUDA", "hip": "ROCm"}
"""What torch can be built with for a GPU, by the name that torch/version.py has for it."""


def torch_build(version_file: str, toolkit: str) -> str | Unavailable:
    """Return the version of a toolkit, `cuda` or `hip`, that torch was built with, from torch/version.py's text."""
    try:
        built = _constants(version_file)
    except (SyntaxError, ValueError):
        return Unavailable(reason="torch/version.py is not Python")
    name = f"torch {one_line(str(built.get('__version__', '')))}".strip()
    if isinstance(version := built.get(toolkit), str):
        return one_line(version)
    others = [(words, built.get(key)) for key, words in _TOOLKITS.items() if key != toolkit]
    instead = "".join(f"for {words} {one_line(version)}, " for words, version in others if isinstance(version, str))
    return Unavailable(reason=f"{name} is built {instead}without {_TOOLKITS[toolkit]}")


def _torch_build(toolkit: str) -> str | Unavailable:
    folder = _package("torch")
    return folder if isinstance(folder, Unavailable) else torch_build(_read(folder / "version.py"), toolkit)


def read_environment() -> Environment:
    """Capture the machine, its software and the source as they are now."""
    driver, devices, unidentified = gpus(os.environ)
    return Environment(
        driver=driver,
        devices=devices,
        unidentified=unidentified,
        cpu=_cpu(),
        system=_system(),
        python=Python(implementation=platform.python_implementation(), version=platform.python_version()),
        distributions=distributions(sys.path),
        variables=variables(os.environ),
        assemblers=assemblers(_package("triton"), os.environ),
        torch_cuda=_torch_build("cuda"),
        torch_rocm=_torch_build("hip"),
        source=read_source(),
    )


def installed(search: Iterable[str]) -> list[str]:
    """Return the names of all metadata folders, which carry name and version, without reading one: 30 times faster."""
    folders = [Path(folder) for folder in search]
    return [entry.name for folder in folders if folder.is_dir() for entry in sorted(folder.glob("*.*-info"))]


def fingerprint() -> Digest:
    """Return a digest of what `environment` captures, source aside, that is cheap enough for every start of Snakemake.

    It stands among the rule's parameters, so that a new driver, card, kernel, package or variable re-captures.
    """
    known = {
        "gpus": gpus(os.environ),
        "cpu": cpu_model(_read(Path("/proc/cpuinfo"))),
        "release": platform.release(),
        "python": sys.version,
        "installed": installed(sys.path),
        "variables": variables(os.environ),
    }
    return sha256_bytes(canonical(known))


def main(argv: list[str]) -> int:
    """Run the stage: write `Environment`."""
    return stage.run("environment", argv, lambda _: read_environment(), per_kernel=False)

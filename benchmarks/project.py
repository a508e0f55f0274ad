"""A project of its own in a temporary folder, in which a benchmark runs the real stages on a kernel cut to its needs.

The records of the checkout stay as they are.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.admission import chosen_device
from assay.artifact import read
from assay.errors import AssayError
from assay.record import Device, Environment, StageName, Unavailable
from assay.stage import record_path

ROOT = Path(__file__).resolve().parents[1]

KERNEL = '''"""{name}, cut for a benchmark."""

from dataclasses import replace
from pathlib import Path

from assay.kernel import Case, Space, load

WHOLE = load(Path({original!r}))
KERNEL = replace(WHOLE, {changes})
'''
"""A kernel file that changes another's declaration. Correctness is shown elsewhere: one case stands for all."""


class BenchmarkError(AssayError):
    """A benchmark that cannot be run to its end."""


def variables(**more: str) -> dict[str, str]:
    """Return the variables of a process that finds the project wherever it is started."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}


def no_device() -> str | None:
    """Return why there is no usable device, in the gate's own words, or None where there is one."""
    command = [sys.executable, "-m", "assay", "gate"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return None if done.returncode == 0 else f"it needs a device: {lines[-1] if lines else 'the gate said nothing'}"


def child(module: str, *arguments: str, cache: Path, limit_s: float) -> Any:
    """Run one of these modules and return what it answers in JSON on its last line; BenchmarkError where it fails."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    environ = variables(TRITON_CACHE_DIR=str(cache))
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{module} did not end within {limit_s:g} s; give it more, or less to do") from None
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode or not lines:
        raise BenchmarkError(f"{module} ended with exit code {done.returncode}: {lines[-1] if lines else 'no word'}")
    return json.loads(lines[-1])


@dataclass(frozen=True)
class Project:
    """The folder, and the kernel in it."""

    root: Path
    name: str

    @property
    def kernel(self) -> Path:
        """The kernel file."""
        return self.root / "kernels" / f"{self.name}.py"

    def stage(self, stage: StageName, settings: Any = None, kernel: bool = True) -> tuple[Any, float]:
        """Run a stage; return its result and the seconds that all of it took. BenchmarkError where it fails."""
        command = [sys.executable, "-m", "assay", stage, "--settings", json.dumps(settings or {})]
        command += ["--kernel", f"kernels/{self.name}.py"] if kernel else []
        start = time.monotonic()
        done = subprocess.run(command, cwd=self.root, env=variables(), capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise BenchmarkError(f"stage {stage} ended with exit code {done.returncode}: {last}")
        path = self.root / record_path(stage, self.name if kernel else None)
        return read(path, stage).result, time.monotonic() - start

    def prepare(self) -> tuple[Environment, Device]:
        """Run what comes before timing, for this device alone."""
        environment, _ = self.stage("environment", kernel=False)
        device = chosen_device(environment)
        if device is None:
            raise BenchmarkError("the environment has no device that the gate found; look at `assay environment`")
        self.stage("gate", kernel=False)
        self.stage("compile", {"targets": [device.target]})
        found, _ = self.stage("gpu", {"seeds": [1]})
        if found.availability.outcome != "passed":
            raise BenchmarkError(f"stage gpu: {found.availability.reason}")
        return environment, device


@contextmanager
def project(name: str, changes: str) -> Iterator[Project]:
    """Make a project with one of the checkout's kernels, its declaration changed (arguments of `replace`)."""
    with tempfile.TemporaryDirectory(prefix="assay-benchmark-") as folder:
        made = Project(Path(folder), name)
        (made.root / "assay").symlink_to(ROOT / "assay")
        made.kernel.parent.mkdir()
        text = KERNEL.format(name=name, original=str(ROOT / "kernels" / f"{name}.py"), changes=changes)
        made.kernel.write_text(text, "utf-8")
        yield made


def run(name: str, benchmark: Callable[[], None]) -> int:
    """Run a benchmark; return its exit code: 1 without a device, 2 for a refusal, each with one sentence."""
    missing = no_device()
    if missing is not None:
        print(f"{name}: {missing}", file=sys.stderr)
        return 1
    try:
        benchmark()
    except AssayError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def versions(environment: Environment, device: Device) -> str:
    """Return what the figures are of, on one line."""
    driver = environment.driver
    found = f"driver {driver.reason if isinstance(driver, Unavailable) else driver.version}"
    libraries = [f"{name} {environment.distributions.get(name, 'unknown')}" for name in ("torch", "triton")]
    return ", ".join([device.name, found, *libraries, f"Python {environment.python.version}"])

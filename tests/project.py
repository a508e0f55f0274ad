"""Copies of the project with two tiny kernels, in which tests run the real workflow as a user does."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
PYTHON_PATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
"""For a process started in another folder: the project first, then what this process was given."""

KERNEL = '''"""Adds {number} to a vector."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + {number}, mask=i < n)


def launch(inputs, outputs, variant):
    n = inputs["x"].numel()
    add_kernel[(triton.cdiv(n, 64),)](inputs["x"], outputs["y"], n, BLOCK=64)


KERNEL = Kernel(
    name="{name}",
    title="Adds {number}",
    inputs=lambda size, generator: {{"x": torch.randn(size["n"], generator=generator)}},
    outputs=lambda inputs: {{"y": Output(tuple(inputs["x"].shape))}},
    oracle=lambda inputs: {{"y": inputs["x"] + {number}}},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("ragged-100", {{"n": 100}})],
    bound=ReductionBound(terms=lambda size: 1, table={{"f32": 1e-6}}, eps={{"f32": 2.0**-23}}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
    timed=[Case("4096", {{"n": 4096}})],
)
'''
CONFIG = """\
kernels: all
targets: [sm_80]
seeds: [1]
interpreter:
  limit_s: 60
timing:
  rounds: 6
  fewest_rounds: 6
"""
KERNELS = {"one": "1.0", "two": "2.0"}
PER_KERNEL = ("interpreter", "compile", "gpu", "timing")
NONE: Mapping[str, str] = MappingProxyType({})
RECORDS = {"environment", "gate", "claims", "report", *(f"{k}/{stage}" for k in KERNELS for stage in PER_KERNEL)}


@dataclass(frozen=True)
class Project:
    """One copy. Nothing outside it is written: this machine's salt has its place in it too."""

    root: Path

    def variables(self, more: Mapping[str, str] = NONE) -> dict[str, str]:
        """Return the variables to run with; a device, if there is one, stays hidden."""
        return {**os.environ, "XDG_STATE_HOME": str(self.root / ".state"), "CUDA_VISIBLE_DEVICES": "", **more}

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start `snakemake --cores 1 ...`, as the leader of its own process group."""
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--cores", "1", *arguments],
            cwd=self.root,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def run(
        self, *command: str, variables: Mapping[str, str] = NONE, limit_s: int = 300
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end; `stdout` is all that it printed."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.variables(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def assay(self, *arguments: str, variables: Mapping[str, str] = NONE) -> "subprocess.CompletedProcess[str]":
        """Run `python -m assay ...`."""
        return self.run(sys.executable, "-m", "assay", *arguments, variables=variables)

    def snakemake(self, *arguments: str, variables: Mapping[str, str] = NONE) -> "subprocess.CompletedProcess[str]":
        """Run `snakemake --cores 1 ...`."""
        return self.run(sys.executable, "-m", "snakemake", "--cores", "1", *arguments, variables=variables)

    def planned(self, variables: Mapping[str, str] = NONE) -> set[str]:
        """Return the names of the rules that `snakemake report` would run now."""
        done = self.snakemake("report", "--dry-run", variables=variables)
        assert done.returncode == 0, done.stdout
        return set(re.findall(r"^([a-z]+) +\d+$", done.stdout, re.MULTILINE)) - {"total", "report"}

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace text in a file that must hold it."""
        text = (self.root / path).read_text("utf-8")
        assert old in text
        (self.root / path).write_text(text.replace(old, new), "utf-8")

    def records(self) -> dict[str, bytes]:
        """Return every record by name; the time that each took stands in it, so none is ever made the same twice."""
        results = self.root / "results"
        paths = [*results.glob("*.json"), *results.glob("[!.]*/*.json")]
        return {path.relative_to(results).with_suffix("").as_posix(): path.read_bytes() for path in paths}

    def made_since(self, before: dict[str, bytes]) -> set[str]:
        """Return the names of the records that are not as they were."""
        after = self.records()
        return {name for name in after if after[name] != before.get(name)}

    def copy(self, folder: Path) -> "Project":
        """Return a copy with its results and with what Snakemake knows of them."""
        shutil.copytree(self.root, folder, symlinks=True)
        return Project(folder)


def project_files() -> list[str]:
    """Return the files that a commit of everything here would hold."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def new_project(folder: Path) -> Project:
    """Copy the project's files into `folder`, with the tiny kernels in the place of its own."""
    for name in project_files():
        if not name.startswith("kernels/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / "kernels").mkdir()
    for name, number in KERNELS.items():
        (folder / f"kernels/{name}.py").write_text(KERNEL.format(name=name, number=number), "utf-8")
    (folder / "config.yaml").write_text(CONFIG, "utf-8")
    return Project(folder)

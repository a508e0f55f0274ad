"""What a growing number of kernels costs: generated ones through the interpreter and compile stages, with no device.

A project in a temporary folder grows from one size to the next. At each size Snakemake first only resolves its graph of
jobs, and then runs the two stages for the kernels that are new. At the end a second checkout of the same kernels, one
of them renamed, compiles nothing again: what the first has compiled lies in a cache of the benchmark's own.
"""

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from msgspec import UNSET

from assay.artifact import read
from assay.errors import AssayError
from benchmarks.project import ROOT, BenchmarkError, variables

PROJECT = ("Snakefile", "assay", "profiles", "reports", "rules")
"""What a checkout needs besides its kernels, its configuration and a place for its results."""

KERNEL = '''"""Sums rows, each element scaled by {number}."""

import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def scaled_sum_kernel(x_ptr, y_ptr, columns, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0) * SCALE
    tl.store(y_ptr + row, tl.sum(total))


def launch(inputs, outputs, variant):
    rows, columns = inputs["x"].shape
    scaled_sum_kernel[(rows,)](inputs["x"], outputs["y"], columns, SCALE={number}, **variant.options)


def block(size, warps):
    return Variant("f32", f"block{{size}}-warps{{warps}}", {{"BLOCK": size, "num_warps": warps}})


KERNEL = Kernel(
    name="{name}",
    title="Scaled sum {number}",
    inputs=lambda size, generator: {{"x": torch.randn(size["rows"], size["columns"], generator=generator)}},
    outputs=lambda inputs: {{"y": Output((inputs["x"].shape[0],))}},
    oracle=lambda inputs: {{"y": {number} * inputs["x"].sum(dim=1)}},
    launch=launch,
    variants=[block(64 << place // 2, 1 + place % 2 * 3) for place in range({variants})],
    cases=[
        Case("ragged-5x781", {{"rows": 5, "columns": 781}}),
        Case("aligned-4x512", {{"rows": 4, "columns": 512}}),
        Case("single-1x1", {{"rows": 1, "columns": 1}}),
    ],
    bound=ReductionBound(terms=lambda size: size["columns"], table={{"f32": 1e-2}}, eps={{"f32": 2.0**-23}}),
    work=lambda size: Work(flops=2 * size["rows"] * size["columns"], bytes=4 * size["rows"] * size["columns"]),
)
'''
"""Small on purpose: what is looked at is what each further kernel costs, whatever is in it."""

SAMPLE_S = 1.0
GIB = 2**30


def name_of(number: int) -> str:
    """Return the name of a generated kernel."""
    return f"scaled_sum_{number:03}"


@dataclass
class Memory:
    """The most memory that a process and all that it started held at once, in bytes, looked at every second.

    Pages that several share count once (PSS, /proc/<pid>/smaps_rollup).
    """

    process: int
    peak_bytes: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Look until told to end."""
        while not self.ended.wait(SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, held_bytes(self.process))


def held_bytes(process: int) -> int:
    """Return what a process and all that it started hold now, in bytes; one that has just ended holds nothing."""
    try:
        tree = [root := psutil.Process(process), *root.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(map(_share, tree))


def _share(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.Error, OSError):
        return 0


@dataclass(frozen=True)
class Cost:
    """What one command took: wall-clock seconds, seconds of all its processes together, memory, and what it printed."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    printed: str


def measured(command: Sequence[str], folder: Path, cache: Path) -> Cost:
    """Run a command to its end; BenchmarkError with its last line where it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environ = variables(ASSAY_CACHE=str(cache), XDG_CACHE_HOME=str(folder / ".cache"), CUDA_VISIBLE_DEVICES="")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=printed, stderr=subprocess.STDOUT)
        memory = Memory(process.pid)
        thread = threading.Thread(target=memory.watch)
        thread.start()
        code = process.wait()
        memory.ended.set()
        thread.join()
        printed.seek(0)
        text = printed.read()
    if code:
        raise BenchmarkError(f"{' '.join(command[1:5])} ended with exit code {code}: {text.strip()[-400:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.monotonic() - start, cpu, memory.peak_bytes, text)


@dataclass(frozen=True)
class Checkout:
    """One folder of the project with generated kernels."""

    root: Path
    cache: Path
    cores: int

    def prepare(self, config: str) -> None:
        """Lay the project out, without kernels."""
        self.root.mkdir()
        for name in PROJECT:
            source, target = ROOT / name, self.root / name
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, ignore=ignore) if source.is_dir() else shutil.copy2(source, target)
        (self.root / "kernels").mkdir()
        (self.root / "config.yaml").write_text(config, "utf-8")

    def add(self, name: str, number: int, variants: int) -> None:
        """Write one kernel."""
        text = KERNEL.format(name=name, number=f"{1 + number / 8:.3f}", variants=variants)
        (self.root / "kernels" / f"{name}.py").write_text(text, "utf-8")

    def snakemake(self, *arguments: str) -> Cost:
        """Run Snakemake in it."""
        command = [sys.executable, "-m", "snakemake", "--cores", str(self.cores), *arguments]
        return measured(command, self.root, self.cache)

    def stages(self, names: Sequence[str], *stages: str) -> Cost:
        """Run stages for some kernels."""
        return self.snakemake(*(f"results/{name}/{stage}.json" for name in names for stage in stages))

    def compilations(self, names: Sequence[str]) -> tuple[int, int]:
        """Return how many functions were compiled for these kernels, and how many an earlier run had compiled."""
        found = [read(self.root / "results" / name / "compile.json", "compile").run.compilations for name in names]
        counts = [(one.made, one.reused) for one in found if one is not UNSET]
        return sum(made for made, _ in counts), sum(reused for _, reused in counts)


def options(argv: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    add = parser.add_argument
    add("--sizes", type=int, nargs="+", default=[10, 25, 50], help="kernels, growing (default: 10 25 50)")
    add("--variants", type=int, default=6, help="of each kernel (default: %(default)s)")
    add("--targets", nargs="+", default=["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
    add("--cores", type=int, default=2, help="for Snakemake (default: %(default)s)")
    add("--graph-only", action="store_true", help="resolve the graph of jobs at each size, and run none")
    return parser.parse_args(argv)


def jobs_of(printed: str) -> int:
    """Return how many jobs a dry run of Snakemake lists; BenchmarkError where it lists none."""
    found = re.search(r"^total +(\d+)$", printed, re.MULTILINE)
    if found is None:
        raise BenchmarkError(f"the dry run lists no jobs: {printed.strip()[-400:]}")
    return int(found[1])


def grow(checkout: Checkout, chosen: argparse.Namespace) -> list[str]:
    """Grow the checkout, print a row for each size, and return the names of all kernels."""
    names: list[str] = []
    print(" kernels  jobs  graph s  graph cpu s  s/kernel  cpu s/kernel  peak GiB", flush=True)
    for size in sorted(chosen.sizes):
        new = [name_of(number) for number in range(len(names), size)]
        for number, name in enumerate(new, len(names)):
            checkout.add(name, number, chosen.variants)
        names += new
        graph = checkout.snakemake("report", "--dry-run")
        row = f"{size:>8} {jobs_of(graph.printed):>5} {graph.wall_s:>8.2f} {graph.cpu_s:>12.2f}"
        if new and not chosen.graph_only:
            cost = checkout.stages(new, "interpreter", "compile")
            row += f" {cost.wall_s / len(new):>9.2f} {cost.cpu_s / len(new):>13.2f} {cost.peak_bytes / GIB:>9.2f}"
        print(row, flush=True)
    return names


def again(first: Checkout, second: Checkout, names: Sequence[str], variants: int) -> None:
    """Compile the same kernels in a second checkout, the first of them under another name, and print what that cost."""
    renamed = [f"renamed_{names[0]}", *names[1:]]
    for number, name in enumerate(renamed):
        second.add(name, number, variants)
    cost = second.stages(renamed, "compile")
    made, reused = second.compilations(renamed)
    before, _ = first.compilations(names)
    print(f"first checkout: {before} functions compiled, {folder_bytes(first.cache) / 2**20:.1f} MiB kept")
    each = f"{cost.wall_s / len(names):.2f} s and {cost.cpu_s / len(names):.2f} cpu s a kernel"
    print(f"second checkout, one kernel renamed: {made} compiled, {reused} reused, {each}", flush=True)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(argv: Sequence[str]) -> int:
    """Run the benchmark; 2 for a refusal, in one sentence."""
    chosen = options(argv)
    config = f"kernels: all\ntargets: [{', '.join(chosen.targets)}]\n"
    try:
        with tempfile.TemporaryDirectory(prefix="assay-growth-") as folder:
            cache = Path(folder, "cache")
            first, second = (Checkout(Path(folder, name), cache, chosen.cores) for name in ("first", "second"))
            first.prepare(config)
            names = grow(first, chosen)
            if names and not chosen.graph_only:
                second.prepare(config)
                again(first, second, names, chosen.variants)
    except AssayError as error:
        print(f"growth: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

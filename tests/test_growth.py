"""The growth benchmark, scaled down: generated kernels through the real workflow, and what a second checkout reuses."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import growth
from benchmarks.growth import KERNEL, Checkout, held_bytes, jobs_of, measured, name_of
from benchmarks.project import BenchmarkError

WHOLE = 5
"""Jobs of a run that are not of one kernel: environment, gate, claims, render, report."""
EACH = 4
"""Jobs of each kernel: interpreter, compile, gpu, timing."""


@given(st.integers(0, 999), st.integers(1, 6))
def test_every_generated_kernel_is_a_file_of_its_own(number: int, variants: int) -> None:
    name = name_of(number)
    text = KERNEL.format(name=name, number=f"{1 + number / 8:.3f}", variants=variants)
    assert ast.parse(text)
    assert f'name="{name}"' in text
    other = KERNEL.format(name=name, number=f"{1 + (number + 1) / 8:.3f}", variants=variants)
    assert other != text


@pytest.mark.slow
def test_the_graph_of_jobs_grows_by_four_a_kernel_and_no_faster(capsys: pytest.CaptureFixture[str]) -> None:
    assert growth.main(["--sizes", "50", "2", "--graph-only"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [[str(size), str(WHOLE + EACH * size)] for size in (2, 50)]


@pytest.mark.slow
def test_a_second_checkout_with_a_renamed_kernel_compiles_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--variants", "2", "--targets", "sm_80", "sm_90", "--cores", "1"]
    assert growth.main(["--sizes", "1", "2", *small]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed[1:3]] == [["1", "9"], ["2", "10"]]
    assert all(float(figure) > 0 for line in printed[1:3] for figure in line.split())
    assert printed[3].startswith("first checkout: 8 functions compiled, ")
    assert printed[4].startswith("second checkout, one kernel renamed: 0 compiled, 8 reused, ")


def test_a_command_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    with pytest.raises(BenchmarkError, match="ended with exit code 1: no such thing"):
        measured(command, tmp_path, tmp_path)


def test_a_command_is_measured_with_all_that_it_started(tmp_path: Path) -> None:
    work = "sum(range(3 * 10**7))"
    cost = measured(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"],
        tmp_path,
        tmp_path / "cache",
    )
    assert cost.cpu_s > 0.1
    assert cost.wall_s > 0


def test_memory_is_that_of_the_whole_tree() -> None:
    size = 200 * 2**20
    inner = f"held = bytearray({size}); print(flush=True); input()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        held = held_bytes(process.pid)
        process.stdin.write(b"\n")
        process.stdin.close()
    assert size < held < 2 * size
    assert held_bytes(process.pid) == 0


def test_a_dry_run_without_jobs_is_refused() -> None:
    assert jobs_of("job count\nall 2\ntotal     13\n") == 13
    with pytest.raises(BenchmarkError, match="lists no jobs: Nothing to be done"):
        jobs_of("Nothing to be done")


def test_the_benchmark_writes_into_a_cache_of_its_own(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "project", tmp_path / "cache", 1)
    shown = "import os; print(os.environ['ASSAY_CACHE'])"
    cost = measured([sys.executable, "-c", shown], tmp_path, checkout.cache)
    assert cost.printed.strip() == str(tmp_path / "cache") != os.environ["ASSAY_CACHE"]

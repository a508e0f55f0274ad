"""The ceilings: which way to one counts, on a simulated device; their kernels' code; and sanity on a real device."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

import pytest
import torch
from project import PYTHON_PATH

from assay import ceilings
from assay.ceilings import LAUNCHES, SAMPLES, CeilingError, Way, empty_launches, fastest
from assay.child import Child, compiling_environment
from assay.record import CeilingName, Conditions

CODE = """
import json, sys
from assay import ceiling_kernels
from assay.launches import watch

with watch(compile_only=True) as seen:
    ceiling_kernels.compile_for({"target": sys.argv[1]})
print(json.dumps([kernel.asm["ptx"] for kernel in seen.compiled]))
"""


class Queue:
    """A device on which the n-th launch takes the n-th of the given times."""

    def __init__(self, times_ns: Sequence[float]) -> None:
        self.times, self.now, self.flushes = list(times_ns), 0.0, 0

    def flush(self) -> None:
        self.flushes += 1

    def mark(self) -> float:
        return self.now

    def launch(self) -> None:
        self.now += self.times.pop(0)

    def synchronise(self) -> None:
        """Nothing is queued."""

    def elapsed_ns(self, start: float, end: float) -> float:
        return end - start

    def conditions(self) -> Conditions:
        raise AssertionError("the card's state is no part of a ceiling")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        monkeypatch.setattr(ceilings, "PAUSE_S", 0.0)


def nothing_wrong() -> None:
    """Check nothing."""


def way(queue: Queue, how: str, work: int) -> Way:
    return Way(how, work, queue.launch, nothing_wrong)


def test_the_way_with_the_highest_rate_counts_not_the_shortest_time() -> None:
    queue = Queue([1.0, *[10.0] * SAMPLES, 1.0, *[30.0] * (SAMPLES - 1), 20.0])
    made = [partial(way, queue, "small", 100), partial(way, queue, "large", 300)]
    found = fastest(queue, "copy", made)
    assert (found.name, found.how, found.work) == ("copy", "large", 300)
    assert found.samples_ns == [30.0] * (SAMPLES - 1) + [20.0]


def wrong() -> None:
    """Find the result wrong."""
    raise CeilingError("it gave a wrong result")


def missing() -> Way:
    """Find no memory."""
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_way_that_computes_wrongly_or_does_not_fit_does_not_count() -> None:
    queue = Queue([1.0] * (SAMPLES + 2))
    unlike = partial(Way, "wrong", 10**9, queue.launch, wrong)
    found = fastest(queue, "fp32", [unlike, missing, partial(way, queue, "right", 7)])
    assert (found.how, found.work, found.samples_ns) == ("right", 7, [1.0] * SAMPLES)


def test_without_a_way_the_reasons_are_given() -> None:
    queue = Queue([1.0])
    found = fastest(queue, "fp32", [partial(Way, "wrong", 1, queue.launch, wrong), missing])
    assert (found.work, found.samples_ns) == (0, [])
    assert "CeilingError: it gave a wrong result" in found.how
    assert "OutOfMemoryError: CUDA out of memory" in found.how


def test_no_time_at_all_is_no_ceiling() -> None:
    queue = Queue([0.0] * (SAMPLES + 1))
    assert fastest(queue, "fp32", [partial(way, queue, "instant", 1)]).samples_ns == []


@pytest.mark.parametrize(("name", "target"), [("bf16", "sm_75"), ("tf32", "gfx950")])
def test_a_card_whose_matrix_units_do_not_multiply_so_says_so(name: Literal["bf16", "tf32"], target: str) -> None:
    found = ceilings._products(Queue([]), name, torch.bfloat16, target)
    assert found.samples_ns == []
    assert found.how == f"the matrix units of {target} do not multiply {name}"


def test_an_empty_launch_is_sampled_behind_a_flush_as_entrants_are() -> None:
    queue = Queue([100.0, *[2900.4] * LAUNCHES])
    assert empty_launches(queue, queue.launch) == [2900.0] * LAUNCHES
    assert queue.flushes == LAUNCHES


def test_kernels_hold_what_they_are_named_after_and_are_compiled_once(tmp_path: Path) -> None:
    environment = {**compiling_environment(str(tmp_path / "cache")), "PYTHONPATH": PYTHON_PATH}
    with Child([sys.executable, "-m", "assay.ceiling_kernels"], environment, tmp_path / "log") as child:
        assert child.ask({"do": "compile", "target": "sm_90"}, 300) == {"launches": 5}
    made = sorted((tmp_path / "cache").glob("*/*.cubin"))
    command = [sys.executable, "-c", CODE, "sm_90"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    # Another process, as the one that uses the device, finds them all.
    assert sorted((tmp_path / "cache").glob("*/*.cubin")) == made
    assert len(made) == 5
    empty, copy, fma, tf32, bf16 = json.loads(done.stdout.splitlines()[-1])
    assert not {"ld.global", "st.global"} & set(re.findall(r"(?:ld|st)\.global", empty))
    # 256 threads copy 4096 elements, four to an instruction.
    assert (copy.count("ld.global"), copy.count("st.global")) == (4, 4)
    # 32 steps for each of a thread's 8 accumulators.
    assert fma.count("fma.rn.f32") == 32 * 8
    for code, kind in ((tf32, "tf32.tf32"), (bf16, "bf16.bf16")):
        # Four products of one accumulator follow one another, and nothing is loaded between.
        loop = code[code.index("wgmma.mma_async") : code.rindex("wgmma.mma_async")]
        assert code.count(f"f32.{kind}") == 4
        assert "ld.global" not in loop
        assert "st.shared" not in loop


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device_the_libraries_come_near_the_ceilings_and_not_above() -> None:
    from assay.rates import MOST_SHARE
    from assay.stopwatch import CudaDevice

    device = CudaDevice(256)
    limits = device.limits()
    assert len(limits.launch_ns) == LAUNCHES
    # The first few wait for what a first launch loads.
    assert 0 < median(limits.launch_ns) < 2e4
    bursts = {burst.name: burst for burst in limits.bursts}
    assert list(bursts) == ["copy", "fp32", "tf32", "bf16"]
    rates = {name: burst.work / min(burst.samples_ns) for name, burst in bursts.items()}
    for name, burst in bursts.items():
        print(f"{name}: {rates[name]:.0f} per ns by {burst.how}; all {burst.samples_ns}")
    again: dict[CeilingName, list[Callable[[], Way]]] = {
        "copy": [partial(ceilings._copy, False)],
        "tf32": [partial(ceilings._product, torch.float32, 4096)],
        "bf16": [partial(ceilings._product, torch.bfloat16, 4096)],
    }
    for name, made in again.items():
        found = fastest(device, name, made)
        share = found.work / min(found.samples_ns) / rates[name]
        assert 0.5 < share <= MOST_SHARE, f"{found.how}: {share:.3f} of {bursts[name].how}"
    assert rates["bf16"] > rates["tf32"] > rates["fp32"]

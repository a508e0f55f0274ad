"""The most that a card gives of each resource, and what an empty launch takes, measured in the run that they judge.

Runs in the timing stage's child process, on the device. Each ceiling is tried in several ways, and the fastest counts.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from assay.ceiling_kernels import (
    FMA_BLOCK,
    FMA_FACTOR,
    FMA_STEPS,
    TILE_BYTES,
    TILE_COLUMNS,
    TILE_ROWS,
    TILE_STEPS,
    start_copy,
    start_fma,
    start_nothing,
    start_tiles,
)
from assay.errors import AssayError
from assay.privacy import one_line
from assay.record import CeilingName
from assay.sampling import Burst, Device, Launch, Limits, timed
from assay.targets import multiplies

COPY_BYTES = 1 << 30
"""Of each of the two buffers: many times any cache."""

SAMPLES = 12
"""Launches in a row of one way to a ceiling."""

PAUSE_S = 0.1
"""Before a burst: the card cools down and has its highest clocks, as power is averaged over longer than a burst."""

LAUNCHES = 60
"""Samples of an empty launch."""


class CeilingError(AssayError):
    """A way to a ceiling that does not compute what it should, so that its rate says nothing."""


@dataclass(frozen=True)
class Way:
    """One way to a ceiling. `check` raises CeilingError where one launch did not compute what it should."""

    how: str
    work: int
    launch: Launch
    check: Launch


def sample(device: Device, way: Way) -> list[float]:
    """Launch once and check it, pause, and return what each of a burst of launches takes, in whole ns."""
    way.launch()
    device.synchronise()
    way.check()
    time.sleep(PAUSE_S)
    marks = [(device.mark(), way.launch(), device.mark()) for _ in range(SAMPLES)]
    device.synchronise()
    return [float(round(device.elapsed_ns(start, end))) for start, _, end in marks]


def fastest(device: Device, name: CeilingName, make: Sequence[Callable[[], Way]]) -> Burst:
    """Return the samples of the way with the highest rate; without any, the reasons stand in `how`."""
    found, reasons = list[Burst](), list[str]()
    for make_way in make:
        try:
            way = make_way()
            found.append(Burst(name=name, how=way.how, work=way.work, samples_ns=sample(device, way)))
        except Exception as error:
            # It does not fit, or is not compiled, on this card; another way may do.
            reasons.append(one_line(f"{type(error).__name__}: {error}", 160))
    possible = [burst for burst in found if min(burst.samples_ns) > 0]
    none = Burst(name=name, how=f"no way to it ran: {'; '.join(reasons) or 'no time passed'}", work=0, samples_ns=[])
    return max(possible, key=lambda burst: burst.work / min(burst.samples_ns), default=none)


def _require(right: bool, what: str) -> None:
    if not right:
        raise CeilingError(f"{what} gave a wrong result")


def _copy(own: bool) -> Way:
    source = torch.randn(COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    size = f"{COPY_BYTES // 2**20} MiB to another place"
    launch: Launch = partial(start_copy, source, target) if own else partial(target.copy_, source)
    how = f"{'own Triton copy' if own else 'torch copy_'} of {size}"
    return Way(how, 2 * COPY_BYTES, launch, lambda: _require(torch.equal(source, target), how))


def _fma() -> Way:
    """One multiplication and one addition for each accumulator and step: x becomes x (1 + f)^steps."""
    # As many threads as a multiprocessor holds, 2048 (1024 or 1536 on some: they take turns), each with 8 accumulators.
    programs = 8 * torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.rand(programs * FMA_BLOCK, device="cuda") + 0.5
    before, growth = x.clone(), (1 + FMA_FACTOR) ** FMA_STEPS
    # A step rounds by half a unit of 2^-23 at most; as much again for what the bound leaves out.
    bound = 2 * FMA_STEPS * 2.0**-24
    how = f"own Triton chain of {FMA_STEPS} fused multiply-adds in each of {x.numel()} accumulators"

    def check() -> None:
        _require(bool(((x / before - growth).abs() <= bound * growth).all()), how)

    return Way(how, 2 * x.numel() * FMA_STEPS, partial(start_fma, x), check)


def _product(dtype: torch.dtype, extent: int) -> Way:
    a, b = (torch.randn(extent, extent, device="cuda").to(dtype) for _ in range(2))
    c = torch.empty_like(a)

    def launch() -> None:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        torch.mm(a, b, out=c)

    def check() -> None:
        _require(_near(c[:8], a[:8].double() @ b.double()), how)

    how = f"torch.mm, {extent} x {extent} x {extent}"
    return Way(how, 2 * extent**3, launch, check)


def _tiles(dtype: torch.dtype) -> Way:
    """Products of tiles that stay where they are, over and over."""
    k, programs = TILE_BYTES // dtype.itemsize, torch.cuda.get_device_properties(0).multi_processor_count
    a, b = (torch.randn(extent, k, device="cuda").to(dtype) for extent in (TILE_ROWS, TILE_COLUMNS))
    c = torch.empty(programs, TILE_ROWS, TILE_COLUMNS, device="cuda")
    extents = f"{TILE_ROWS} x {TILE_COLUMNS} x {k}"
    how = f"own Triton product of resident tiles, {extents}, {TILE_STEPS} times on each of {programs} multiprocessors"

    def check() -> None:
        _require(_near(c[-1], TILE_STEPS * (a.double() @ b.double().T)), how)

    return Way(how, 2 * c.numel() * k * TILE_STEPS, partial(start_tiles, a, b, c), check)


def _near(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Return whether a product is one at all: in every format the error is far below 2% of the largest element."""
    return bool(((got.double() - want).abs() <= 0.02 * want.abs().max()).all())


def _products(device: Device, name: Literal["tf32", "bf16"], dtype: torch.dtype, target: str) -> Burst:
    if not multiplies(target, name):
        how = f"the matrix units of {target} do not multiply {name}"
        return Burst(name=name, how=how, work=0, samples_ns=[])
    ways = [partial(_product, dtype, 4096), partial(_product, dtype, 2048), partial(_tiles, dtype)]
    return fastest(device, name, ways)


def empty_launches(device: Device, launch: Launch) -> list[float]:
    """Return what an empty kernel takes by events, in whole ns, launched as an entrant is."""
    launch()
    marks = [timed(device, launch) for _ in range(LAUNCHES)]
    device.synchronise()
    return [float(round(device.elapsed_ns(*pair))) for pair in marks]


@contextlib.contextmanager
def _unchanged_precision() -> Iterator[None]:
    """Leave torch's choice for float32 products as it was: a peer may rely on it."""
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def find_limits(device: Device, target: str) -> Limits:
    """Measure what an empty launch takes, and the ceilings."""
    with _unchanged_precision():
        return Limits(
            launch_ns=empty_launches(device, partial(start_nothing, torch.empty(1, device="cuda"))),
            bursts=[
                fastest(device, "copy", [partial(_copy, False), partial(_copy, True)]),
                fastest(device, "fp32", [_fma]),
                _products(device, "tf32", torch.float32, target),
                _products(device, "bf16", torch.bfloat16, target),
            ],
        )

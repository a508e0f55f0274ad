"""The picture of what one kernel's code takes of each target: registers and shared memory, against the limits. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.formats import distinct, listing, numeral
from assay.picture import WIDTH, Axis, Picture, Series, Table, linear, named, series_of
from assay.picture_lanes import UNIT_PIXELS, Lane, Track, key_and_top, lanes_panel, unit_panel
from assay.record import Binary, Build, Unavailable

MOST_REGISTERS = (("sm_", 255), ("gfx90a", 512), ("gfx94", 512), ("gfx95", 512), ("gfx11", 256), ("gfx12", 256))
"""Registers that a thread can have, by how the target's name begins. NVIDIA: CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability"; AMD: the instruction set guides of CDNA 2 to 4 (vector and accumulation
registers in one file) and of RDNA 3 and 4 (vector registers).
"""
LEAST_AXIS = 255
LEFT_PIXELS = 200
MOST_NAMED = 3
KIB = 1024
COLUMNS = ("target", "variant", "function", "registers", "register_limit", "shared_bytes", "shared_limit_bytes", "fits")


@dataclass(frozen=True)
class Taken:
    """What one compiled function of one variant takes. `register_limit` is None where it is not known."""

    target: str
    variant: str
    precision: str
    binary: Binary
    fits: str

    @property
    def register_limit(self) -> int | None:
        """Registers that a thread can have on the target."""
        return next((most for begin, most in MOST_REGISTERS if self.target.startswith(begin)), None)

    @property
    def too_large(self) -> bool:
        """Whether a block cannot have the shared memory that it needs."""
        return self.binary.shared_bytes > self.binary.shared_limit_bytes


def all_taken(builds: Sequence[Build], precisions: dict[str, str]) -> list[Taken]:
    """Return what every compiled function takes. `precisions` maps variants to theirs, as the kernel declares them."""
    return [
        Taken(
            build.target,
            build.variant,
            precisions.get(build.variant, build.variant.partition("/")[0]),
            binary,
            build.fits.outcome,
        )
        for build in builds
        for binary in build.binaries
    ]


def _kib(count: int) -> str:
    return numeral(count / KIB, 4)


def said_of(taken: Sequence[Taken]) -> str:
    """Return what the picture shows: what does not fit, or else what comes nearest to a limit of shared memory."""
    worst = max(taken, key=lambda one: one.binary.shared_bytes / max(1, one.binary.shared_limit_bytes))
    most = max(taken, key=lambda one: one.binary.registers)
    binary = worst.binary
    who = f"{named(worst.variant)} on {worst.target}: {_kib(binary.shared_bytes)} of {_kib(binary.shared_limit_bytes)}"
    registers = f"the most registers a thread, {most.binary.registers}, takes {named(most.variant)} on {most.target}"
    too_large = [one for one in taken if one.too_large]
    if too_large:
        targets = listing((one.target for one in too_large), MOST_NAMED, "targets")
        count = len({(one.target, one.variant) for one in too_large})
        builds = len({(one.target, one.variant) for one in taken})
        return (
            f"{count} of {builds} builds need more shared memory than a block can have ({targets}), most of all {who} "
            f"KiB; {registers}."
        )
    if not binary.shared_bytes:
        return f"No build uses shared memory; {registers}."
    return f"Every build fits; nearest to its limit of shared memory comes {who} KiB; {registers}."


def _tracks(
    taken: Sequence[Taken],
    series: dict[tuple[str, bool], Series],
    value: Callable[[Taken], float],
    limit: float | None,
    unit: str,
) -> tuple[Track, ...]:
    """Return one mark for each precision and value; variants that take the same share it."""
    alike: dict[tuple[str, float], list[str]] = {}
    for one in taken:
        alike.setdefault((one.precision, value(one)), []).append(one.variant)
    of = "" if limit is None else f" of {numeral(limit, 4)}"
    return tuple(
        Track(
            series[precision, True],
            at,
            limit if place == 0 else None,
            f"{listing(variants, 2, 'variants')}: {numeral(at, 4)}{of} {unit}",
        )
        for place, ((precision, at), variants) in enumerate(alike.items())
    )


def _lane(name: str, tracks: tuple[Track, ...], unit: str) -> Lane:
    most, limit = max(track.at for track in tracks), tracks[0].limit
    of = "" if limit is None else f" of {numeral(limit, 4)}"
    past = ", too large" if limit is not None and most > limit else ""
    return Lane(name, f"{numeral(most, 4)}{of}{unit}{past}", tracks, flat=True)


def _registers(taken: Sequence[Taken], series: dict[tuple[str, bool], Series]) -> tuple[list[Lane], Axis]:
    lanes = []
    for target in distinct(one.target for one in taken):
        here = [one for one in taken if one.target == target]
        limit = here[0].register_limit
        lanes.append(_lane(target, _tracks(here, series, lambda one: one.binary.registers, limit, "registers"), ""))
    most = max([LEAST_AXIS, *(max(one.binary.registers, one.register_limit or 0) for one in taken)])
    return lanes, linear(most, 3)


def _shared(taken: Sequence[Taken], series: dict[tuple[str, bool], Series]) -> tuple[list[Lane], Axis]:
    lanes = []
    for target in distinct(one.target for one in taken):
        here = [one for one in taken if one.target == target]
        limit = here[0].binary.shared_limit_bytes / KIB
        tracks = _tracks(here, series, lambda one: one.binary.shared_bytes / KIB, limit, "KiB")
        lanes.append(_lane("", tracks, " KiB"))
    most = max(max(one.binary.shared_bytes, one.binary.shared_limit_bytes) for one in taken)
    return lanes, linear(max(most, KIB) / KIB, 4)


def _row(one: Taken) -> tuple[str | int | None, ...]:
    binary = one.binary
    registers = binary.registers, one.register_limit
    return (
        one.target,
        one.variant,
        binary.function,
        *registers,
        binary.shared_bytes,
        binary.shared_limit_bytes,
        one.fits,
    )


def resources_picture(
    name: str, kernel: str, builds: Sequence[Build], precisions: dict[str, str]
) -> Picture | Unavailable:
    """Return the picture of a kernel's builds, as `name`; Unavailable where nothing was compiled."""
    taken = all_taken(builds, precisions)
    if not taken:
        return Unavailable(reason=f"nothing of {kernel} was compiled")
    series = series_of([(one.precision, True) for one in taken], "")
    legend, top = key_and_top(list(series.values()))
    (registers, across), (shared, memory) = _registers(taken, series), _shared(taken, series)
    right = WIDTH - LEFT_PIXELS
    first, bottom = lanes_panel(registers, across, top, 0, LEFT_PIXELS)
    second, _ = lanes_panel(shared, memory, top, LEFT_PIXELS, right)
    units = [
        unit_panel("registers a thread", bottom, 0, LEFT_PIXELS),
        unit_panel("shared memory a block, KiB", bottom, LEFT_PIXELS, right),
    ]
    return Picture(
        name=name,
        title=f"What the builds of {kernel} take of each target; the stroke is the limit",
        said=said_of(taken),
        notes=(),
        height=bottom + UNIT_PIXELS,
        panels=(legend, first, second, *units),
        table=Table(f"{kernel}-resources", COLUMNS, tuple(map(_row, taken))),
    )

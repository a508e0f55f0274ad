"""The points that a bisection runs over: Triton versions, commits of a kernel's file, or settings, in order."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.attempts import Point, stages_of
from assay.config import READS, Settings, load_settings, parse_settings
from assay.errors import ConfigError, UsageError
from assay.privacy import one_line
from assay.record import Tier, Unavailable
from assay.revisions import revisions
from assay.setting_changes import Change, apply, changes
from assay.targets import TARGETS

ENVIRONMENTS = Path(".venvs")
"""Where `snakemake versions` keeps an environment for each Triton release."""
VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+")

Over = Literal["Triton versions", "commits", "settings"]


@dataclass(frozen=True)
class Row:
    """The points between the two ends. `made`: of settings, the changes that lead from each point to the next."""

    over: Over
    points: Sequence[Point]
    made: Sequence[Change] = ()


def _release(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def environments(given: Iterable[str], folder: Path) -> dict[str, str]:
    """Map Triton versions to the Python of each: those in `folder`, and those given as VERSION=PATH."""
    found = {at.name: str((at / "bin" / "python").absolute()) for at in folder.glob("*") if VERSION.fullmatch(at.name)}
    for one in given:
        version, _, path = one.partition("=")
        if not VERSION.fullmatch(version) or not path:
            raise UsageError(
                f"--python: expected VERSION=PATH, found {one_line(one)!r}; write it as 3.8.0=/opt/a/bin/python"
            )
        found[version] = str(Path(path).absolute())
    return found


def versions(good: str, bad: str, pythons: Mapping[str, str], kernel: Path, settings: Settings) -> Row:
    """Return the versions from `good` to `bad`; UsageError where either has no environment."""
    for version in (good, bad):
        if version not in pythons:
            known = ", ".join(sorted(pythons, key=_release)) or "none"
            raise UsageError(
                f"Triton {version}: expected an environment in {ENVIRONMENTS}/{version}, or --python {version}=PATH, "
                f"found {known}; `snakemake --cores 2 versions` makes them"
            )
    low, high = sorted((_release(good), _release(bad)))
    between = sorted((v for v in pythons if low <= _release(v) <= high), key=_release, reverse=low == _release(bad))
    content = read_kernel(kernel)
    there = {v: p if Path(p).exists() else Unavailable(reason=f"there is no {p}") for v, p in pythons.items()}
    return Row("Triton versions", [Point(v, content, settings, there[v], triton=v) for v in between])


def commits(good: str, bad: str, kernel: Path, settings: Settings) -> Row:
    """Return the commits that touched the kernel's file."""
    found = revisions(good, bad, kernel)
    return Row("commits", [Point(f"{one.sha[:12]} {one.day} {one.subject}", one.content, settings) for one in found])


def settings_from(tree: dict[str, Any]) -> Settings | Unavailable:
    try:
        return parse_settings(tree, "the configuration on the way")
    except ConfigError as error:
        return Unavailable(reason=str(error))


def configurations(good: Path, bad: Path, kernel: Path, tier: Tier) -> Row:
    """Return the way from one configuration to the other, one change that the claim's stages read after the other."""
    first, last = (msgspec.to_builtins(load_settings(path)) for path in (good, bad))
    read = {key for stage in stages_of(tier) for key in READS[stage]}
    made = [change for change in changes(first, last) if change.path[0] in read]
    if not made:
        keys = ", ".join(sorted(read))
        expected = f"expected them to differ in what the claim depends on ({keys})"
        raise UsageError(f"{good} and {bad}: {expected}; change one of these in either")
    content, names = read_kernel(kernel), [good.as_posix(), *map(str, made)]
    trees = [apply(first, made[:count]) for count in range(len(names))]
    points = [Point(name, content, settings_from(tree)) for name, tree in zip(names, trees, strict=True)]
    return Row("settings", points, made)


def read_kernel(path: Path) -> bytes:
    """Return a kernel's file; UsageError where there is none."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: expected the kernel's file ({error.strerror}); name one under kernels/") from None


def narrowed(row: Row, tier: Tier, target: str) -> Row:
    """Return the points with the one target that is asked about: compiling for others would show nothing of it."""
    if tier not in ("compiled", "fits") or target not in TARGETS:
        return row
    return Row(row.over, [_alone(point, target) for point in row.points], row.made)


def _alone(point: Point, target: str) -> Point:
    if isinstance(point.settings, Unavailable):
        return point
    settings = msgspec.structs.replace(point.settings, targets=[target])
    return replace(point, settings=settings)


@dataclass(frozen=True)
class Ends:
    """The ends as they were given; `config`: the configuration of all points, where these are no configurations."""

    good: str
    bad: str
    config: Path
    pythons: Sequence[str]


def row_of(ends: Ends, kernel: Path, tier: Tier) -> Row:
    """Return the points between two configuration files, two versions or two revisions."""
    both = ends.good, ends.bad
    if all(end.endswith((".yaml", ".yml")) for end in both):
        return configurations(Path(ends.good), Path(ends.bad), kernel, tier)
    settings = load_settings(ends.config)
    if all(VERSION.fullmatch(end) for end in both):
        return versions(*both, environments(ends.pythons, ENVIRONMENTS), kernel, settings)
    return commits(*both, kernel, settings)

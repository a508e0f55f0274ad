"""The configuration: what to measure. Types here, values in config.yaml, a schema generated for both."""

import re
import reprlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from assay.artifact import canonical, convert, parse
from assay.errors import ConfigError, RecordError
from assay.record import MOST_ROUNDS, Capability, Record, StageName
from assay.targets import DEFAULT_TARGETS, TargetName

Seconds = Annotated[float, Meta(gt=0, le=86400)]
KERNEL_NAME = r"^[a-z][a-z0-9_]*$(?!\n)"
KernelName = Annotated[str, Meta(pattern=KERNEL_NAME)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class GateSettings(Record, frozen=True, kw_only=True):
    """`minimum_capability`: the oldest compute capability that may run kernels (Triton supports 8.0 and newer)."""

    minimum_capability: Capability = "8.0"


class LoadingSettings(Record, frozen=True, kw_only=True):
    """`limit_s`: seconds that importing torch, Triton and a kernel file may take, in each child process."""

    limit_s: Seconds = 300.0


class InterpreterSettings(Record, frozen=True, kw_only=True):
    """`limit_s`: seconds one case of one variant may take before it is recorded as a timeout.

    `workers`: child processes at a time; 0 means one for each usable core.
    """

    limit_s: Seconds = 120.0
    workers: Annotated[int, Meta(ge=0, le=256)] = 0


class CompileSettings(Record, frozen=True, kw_only=True):
    """`limit_s`: seconds one compilation may take. `workers`: compilers at a time; 0 means one for each
    usable core.
    """

    limit_s: Seconds = 300.0
    workers: Annotated[int, Meta(ge=0, le=256)] = 0


class GpuSettings(Record, frozen=True, kw_only=True):
    """`limit_s`: seconds one case of one variant may take on the device, or to be compiled for it.

    `workers`: compilers at a time before the device is used; 0 means one for each usable core.
    """

    limit_s: Seconds = 180.0
    workers: Annotated[int, Meta(ge=0, le=256)] = 0


class TimingSettings(Record, frozen=True, kw_only=True):
    """How long and how often to sample, and what may be concluded.

    Rounds are taken until each median's interval has a relative half-width of at most `half_width`, for `minimum_s`
    seconds at least, and no more than `rounds` of them. A figure rests on `fewest_rounds` good rounds at least: those
    whose SM clock lies within `clock_band`, as fractions of the card's maximum. Ratios within `margin` of 1 are called
    the same. `repeats`: launches whose middle makes one sample, at least, where they take no more than 2 ms. `warmup`:
    untimed launches of every entrant. `flush_mebibytes`: written before each launch to empty the L2 cache.
    `screen_rounds`: rounds after which what takes more than `screen_factor` times as long as the best of its precision
    is left out of a search space. `workers`: compilers at a time before the device is used; 0 means one for each usable
    core. `prepare_limit_s`: seconds that loading the kernel file, or compiling and warming up one entrant, may take.
    `limit_s`: seconds after which no further round of a size is started, and that one round may take.
    """

    half_width: Annotated[float, Meta(gt=0, lt=1)] = 0.0005
    minimum_s: Annotated[float, Meta(ge=0, le=86400)] = 2.0
    rounds: Annotated[int, Meta(ge=6, le=MOST_ROUNDS)] = 3000
    fewest_rounds: Annotated[int, Meta(ge=6, le=MOST_ROUNDS)] = 20
    clock_band: tuple[Fraction, Fraction] = (0.6, 1.0)
    margin: Annotated[float, Meta(ge=0, lt=1)] = 0.01
    screen_rounds: Annotated[int, Meta(ge=1, le=1000)] = 3
    screen_factor: Annotated[float, Meta(gt=1, le=1000)] = 1.5
    workers: Annotated[int, Meta(ge=0, le=256)] = 0
    repeats: Annotated[int, Meta(ge=1, le=1000)] = 3
    warmup: Annotated[int, Meta(ge=1, le=1000)] = 5
    flush_mebibytes: Annotated[int, Meta(ge=0, le=4096)] = 256
    prepare_limit_s: Seconds = 300.0
    limit_s: Seconds = 10.0


class TeethSettings(Record, frozen=True, kw_only=True):
    """`limit_s`: seconds that a faulty kernel may take for one case of one variant: what hangs is caught.

    `workers`: child processes at a time; 0 means one for each usable core. On a device there is always one.
    """

    limit_s: Seconds = 60.0
    workers: Annotated[int, Meta(ge=0, le=256)] = 0


class Settings(Record, frozen=True, kw_only=True):
    """The whole configuration. `kernels` is 'all', for every file under kernels/, or a list of names."""

    kernels: Literal["all"] | Annotated[list[KernelName], Meta(min_length=1)] = "all"
    targets: Annotated[list[TargetName], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: list(DEFAULT_TARGETS)
    )
    seeds: Annotated[list[Seed], Meta(min_length=1, max_length=64)] = msgspec.field(
        default_factory=lambda: [20260901, 7]
    )
    gate: GateSettings = GateSettings()
    loading: LoadingSettings = LoadingSettings()
    interpreter: InterpreterSettings = InterpreterSettings()
    compile: CompileSettings = CompileSettings()
    gpu: GpuSettings = GpuSettings()
    timing: TimingSettings = TimingSettings()
    teeth: TeethSettings = TeethSettings()


READS: dict[StageName, tuple[str, ...]] = {
    "environment": (),
    "interpreter": ("seeds", "loading", "interpreter"),
    "compile": ("targets", "loading", "compile"),
    "gate": ("gate",),
    "gpu": ("seeds", "loading", "gpu"),
    "timing": ("seeds", "timing"),
    "teeth": ("seeds", "loading", "compile", "teeth"),
    "claims": ("targets", "gate"),
    "report": (),
    "bundle": (),
}
"""The top-level keys that each stage reads: editing another key does not rerun it."""


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of config.yaml, generated from `Settings`."""
    return msgspec.json.schema(Settings)


def _allowed(error: Any) -> str:
    rule, value = error.validator, error.validator_value
    if rule == "additionalProperties":
        return f"allowed keys: {', '.join(sorted(error.schema['properties']))}"
    phrases = {
        "type": f"a value of type {value}",
        "enum": f"one of {', '.join(map(str, value)) if isinstance(value, list) else value}",
        "minItems": f"a list of at least {value} item",
        "maxItems": f"a list of at most {value} items",
        "minimum": f"a number of at least {value}",
        "maximum": f"a number of at most {value}",
        "exclusiveMinimum": f"a number above {value}",
        "pattern": f"text matching {value}",
    }
    return f"allowed: {phrases.get(rule, f'{rule} {value}')}"


def _where(error: Any) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)


def _choice(schema: dict[str, Any]) -> str:
    return ", ".join(map(repr, schema["enum"])) if "enum" in schema else f"a non-empty {schema.get('type')}"


def _explain(tree: Any, name: str) -> str | None:
    """Say what breaks the schema; None where only the decoder sees it, such as a number that is not one."""
    # Imported only to explain a refusal: it costs more than everything else here together.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(settings_schema()).iter_errors(tree))
    if error is None:
        return None
    found = f"{name}: {_where(error)}: found {reprlib.repr(error.instance)}"
    if error.validator == "anyOf":
        return f"{found}; allowed: {'; or '.join(map(_choice, error.validator_value))}"
    if error.validator == "additionalProperties":
        unknown = sorted(map(repr, set(error.instance) - set(error.schema["properties"])))
        return f"{name}: {_where(error)}: unknown key {', '.join(unknown)}; {_allowed(error)}"
    return f"{found}; {_allowed(error)}"


def parse_settings(tree: Any, name: str) -> Settings:
    """Turn plain values (as read from YAML) into settings; ConfigError says file, key, found and allowed."""
    try:
        settings = convert(tree, Settings, name)
    except RecordError as error:
        raise ConfigError(_explain(tree, name) or f"{error}; correct it there") from None
    for key in ("kernels", "targets", "seeds"):
        values = getattr(settings, key)
        if isinstance(values, list) and (twice := [value for value in values if values.count(value) > 1]):
            raise ConfigError(f"{name}: $.{key}: found {twice[0]!r} twice; allowed: each value once")
    _check_timing(settings.timing, name)
    return settings


def _check_timing(timing: TimingSettings, name: str) -> None:
    """Refuse what contradicts itself: under it no figure could ever be had."""
    low, high = timing.clock_band
    if not low <= high:
        raise ConfigError(f"{name}: $.timing.clock_band: found [{low:g}, {high:g}]; allowed: the lower end first")
    for least, most in (("fewest_rounds", "rounds"), ("minimum_s", "limit_s")):
        fewer, more = getattr(timing, least), getattr(timing, most)
        if not fewer <= more:
            allowed = f"at most {most}, which is {more:g}"
            raise ConfigError(f"{name}: $.timing.{least}: found {fewer:g}; allowed: {allowed}")


def load_tree(path: Path) -> Any:
    """Read a YAML configuration as plain values; ConfigError where it cannot be read or is not YAML."""
    import yaml

    try:
        tree = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); put it back, or name another file") from None
    # A scalar in the form of a date that there is not, such as 2026-99-99, is a ValueError; so is text not in UTF-8.
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(
            f"{path}: expected YAML in UTF-8, found something else ({' '.join(str(error).split())}); correct it there"
        ) from None
    return {} if tree is None else tree


def load_settings(path: Path) -> Settings:
    """Read a YAML configuration; ConfigError where it cannot be read, is not YAML or breaks the schema."""
    return parse_settings(load_tree(path), str(path))


def stage_settings(settings: Settings, stage: StageName) -> str:
    """Return canonical JSON of the keys that `stage` reads, for its command line."""
    tree = msgspec.to_builtins(settings)
    return canonical({key: tree[key] for key in READS[stage]}).decode()


def decode_stage_settings(text: str) -> Settings:
    """Read back what `stage_settings` wrote; keys that the stage does not read have their defaults."""
    try:
        return parse_settings(parse(text.encode(), "--settings"), "--settings")
    except RecordError as error:
        raise ConfigError(f"{error}; copy it from the command of a record") from None


def kernel_files(settings: Settings, folder: Path) -> dict[str, Path]:
    """Map kernel names to files under `folder`; ConfigError where a named kernel has no file, or there is none."""
    found = {path.stem: path for path in sorted(folder.glob("[!_.]*.py"))}
    names = list(found) if settings.kernels == "all" else settings.kernels
    for name in names:
        if name not in found:
            raise ConfigError(
                f"config: $.kernels: found {name!r}; allowed: {', '.join(found) or 'none'} (files in {folder})"
            )
        if not re.fullmatch(KERNEL_NAME, name):
            raise ConfigError(
                f"{found[name]}: found the name {name!r}; allowed: lower-case letters, digits and _, a letter first, "
                "as in the paths of its records"
            )
    if not names:
        raise ConfigError(f"{folder}: expected a kernel file, found none; write one with `python -m assay new NAME`")
    return {name: found[name] for name in names}

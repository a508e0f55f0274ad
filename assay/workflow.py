"""What the Snakefile asks before any stage runs: what there is to make, and whether another run makes it already.

Refusals leave here as Snakemake's own error, which prints a sentence and no traceback.
"""

import fcntl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import msgspec
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

from assay.artifact import sha256_file
from assay.config import Settings, kernel_files, load_tree, parse_settings
from assay.errors import AssayError
from assay.record import Digest, StageName
from assay.sources import check_folder
from assay.stage import OPTIONAL, PER_KERNEL, record_path

WHOLE: tuple[StageName, ...] = ("environment", "gate")
CONFIG = Path("config.yaml")
RUN_LOCK = Path(".snakemake/assay.lock")


class Plan(NamedTuple):
    """The settings, the kernel files by name, and the path of every record that claims are derived from.

    `optional` maps those records that a kernel need not have, and has, to their sha256: they are shown, and `report`
    makes none of them.
    """

    settings: Settings
    kernels: dict[str, str]
    evidence: list[str]
    optional: dict[str, Digest]


def _number(text: str) -> Any:
    """Return the number or boolean that a text would be in config.yaml, or the text where it is neither."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text
    return value if isinstance(value, int | float) else text


def as_numbers(given: Any, default: Any) -> Any:
    """Return what was given to Snakemake, with numbers in place of their text wherever the default is one.

    Snakemake 9 reads a nested value of `--config` with YAML's BaseLoader, to which every scalar is text: `{rounds: 15}`
    arrives as `{"rounds": "15"}`. Only the place says which is meant: a capability, `9.0`, is a text.
    """
    if isinstance(given, Mapping) and isinstance(default, dict):
        return {key: as_numbers(value, default.get(key)) for key, value in given.items()}
    if isinstance(given, list) and isinstance(default, list | tuple):
        return [as_numbers(value, default[0]) for value in given]
    return _number(given) if isinstance(given, str) and isinstance(default, int | float) else given


def read_settings(overrides: Mapping[str, Any], path: Path) -> Settings:
    """Return the settings of a configuration file, those given to Snakemake (`--config`, `--configfile`) put in."""
    tree = load_tree(path)
    if not overrides or not isinstance(tree, dict):
        return parse_settings(tree, str(path))
    update_config(tree, as_numbers(overrides, msgspec.to_builtins(Settings())))
    return parse_settings(tree, f"{path} with --config")


def plan(overrides: Mapping[str, Any]) -> Plan:
    """Say what there is to make, with the settings of config.yaml; WorkflowError where they make no sense."""
    try:
        check_folder()
        settings = read_settings(overrides, CONFIG)
        kernels = kernel_files(settings, Path("kernels"))
    except AssayError as error:
        raise WorkflowError(str(error)) from None
    records = [record_path(stage, None) for stage in WHOLE]
    records += [record_path(stage, kernel) for kernel in kernels for stage in PER_KERNEL]
    return Plan(
        settings,
        {name: str(path) for name, path in kernels.items()},
        [str(path) for path in records],
        {str(path): sha256_file(path) for path in optional_records(kernels)},
    )


def optional_records(kernels: Iterable[str]) -> list[Path]:
    """Return the records that kernels need not have, as far as they are there."""
    paths = [record_path(stage, kernel) for kernel in kernels for stage in OPTIONAL]
    return [path for path in paths if path.is_file()]


def only_run(lock: Path = RUN_LOCK) -> TextIO:
    """Return a file that holds this folder for one run as long as it is open; WorkflowError where another holds it.

    Snakemake's own lock is a file that a killed run leaves behind. This one belongs to the process: the system frees
    it however the process ends.
    """
    stream = lock.open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise WorkflowError("another run is at work in this folder: wait for its end, then run this again") from None
    return stream

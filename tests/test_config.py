"""The configuration: what is refused and how it is said, and which stage each key reaches."""

import datetime
import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from project import ROOT

from assay.config import (
    READS,
    CompileSettings,
    GateSettings,
    GpuSettings,
    InterpreterSettings,
    Settings,
    TimingSettings,
    decode_stage_settings,
    kernel_files,
    load_settings,
    parse_settings,
    settings_schema,
    stage_settings,
)
from assay.errors import ConfigError
from assay.record import StageName
from assay.targets import TargetName
from assay.workflow import as_numbers, read_settings

STAGES: tuple[StageName, ...] = get_args(StageName)
KEYS = set(Settings.__struct_fields__)

seconds = st.floats(min_value=0, max_value=86400, exclude_min=True)
settings = st.builds(
    Settings,
    kernels=st.just("all") | st.lists(st.from_regex("^[a-z][a-z0-9_]*\\Z"), min_size=1, max_size=3, unique=True),
    targets=st.lists(st.sampled_from(get_args(TargetName)), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 2**53 - 1), min_size=1, max_size=4, unique=True),
    gate=st.builds(GateSettings, minimum_capability=st.from_regex(r"^[0-9]{1,2}\.[0-9]\Z")),
    interpreter=st.builds(InterpreterSettings, limit_s=seconds),
    compile=st.builds(CompileSettings, limit_s=seconds, workers=st.integers(0, 256)),
    gpu=st.builds(GpuSettings, limit_s=seconds),
    timing=st.builds(
        TimingSettings, fewest_rounds=st.just(6), rounds=st.integers(6, 100000), minimum_s=st.just(0.0), limit_s=seconds
    ),
)

# What YAML can hold, however odd.
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary()
yaml_keys = scalars | st.sampled_from(sorted(KEYS)) | st.sampled_from(["limit_s", "rounds"])
trees = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(yaml_keys, inner), max_leaves=12)


def load(folder: Path, data: bytes) -> Settings:
    path = folder / "config.yaml"
    path.write_bytes(data)
    return load_settings(path)


def test_the_committed_file_says_every_value_and_each_is_the_default() -> None:
    import yaml

    tree = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    assert parse_settings(tree, "config.yaml") == Settings()
    defaults = msgspec.to_builtins(Settings())
    assert set(tree) == set(defaults)
    for key, value in defaults.items():
        if isinstance(value, dict):
            assert set(tree[key]) == set(value)


def test_an_empty_file_holds_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, b"") == Settings()
    assert load(tmp_path, b"# nothing\n") == Settings()


def as_snakemake_hands_on(tree: Any) -> Any:
    """Return plain values as `--config` arrives from the command line: every number within is text."""
    import yaml

    return yaml.load(yaml.safe_dump(tree), Loader=yaml.BaseLoader)


@given(settings)
def test_settings_given_to_snakemake_are_those_of_a_file(one: Settings) -> None:
    tree = json.loads(msgspec.json.encode(one))
    assert parse_settings(as_numbers(as_snakemake_hands_on(tree), msgspec.to_builtins(Settings())), "x") == one


@given(trees)
def test_only_text_becomes_a_number_and_only_where_one_belongs(tree: Any) -> None:
    assert repr(as_numbers(tree, {})) == repr(tree)
    assert repr(as_numbers(tree, "text")) == repr(tree)
    if not isinstance(tree, str):
        assert repr(as_numbers(tree, 1.0)) == repr(tree)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("15", 15),
        ("-0.5", -0.5),
        ("true", True),
        ("many", "many"),
        ("", ""),
        ("[1]", "[1]"),
        ("{a: 1", "{a: 1"),
        ("2026-11-30", "2026-11-30"),
        ("2026-99-99", "2026-99-99"),
        ("9" * 5000, "9" * 5000),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("\x00", "\x00"),
    ],
)
def test_a_text_is_a_number_where_yaml_says_so(text: str, number: object) -> None:
    assert as_numbers(text, 1) == number
    assert type(as_numbers(text, 1)) is type(number)


def test_text_in_the_place_of_a_number_stays_refused_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("timing: {rounds: '30'}\n")
    with pytest.raises(ConfigError, match=r"rounds: found '30'; allowed: a value of type integer"):
        read_settings({"seeds": ["1"]}, path)
    path.write_text("seeds: [2]\n")
    assert read_settings({"timing": {"rounds": "30"}}, path) == Settings(seeds=[2], timing=TimingSettings(rounds=30))


@pytest.mark.parametrize(
    ("tree", "where", "found", "allowed"),
    [
        ({"seed": [1]}, "$", "unknown key 'seed'", "seeds"),
        ({"timing": {"round": 9}}, "$.timing", "unknown key 'round'", "rounds"),
        ({1: 2, "a": 3}, "$", "unknown key 'a', 1", "seeds"),
        ({"targets": ["sm_91"]}, "$.targets[0]", "found 'sm_91'", "sm_90"),
        ({"targets": []}, "$.targets", "found []", "at least 1 item"),
        ({"targets": ["sm_80", "sm_90", "sm_80"]}, "$.targets", "found 'sm_80' twice", "each value once"),
        ({"targets": "sm_80"}, "$.targets", "found 'sm_80'", "type array"),
        ({"kernels": []}, "$.kernels", "found []", "at least 1 item"),
        ({"kernels": "some"}, "$.kernels", "found 'some'", "'all'; or a non-empty array"),
        ({"kernels": ["../x"]}, "$.kernels[0]", "found '../x'", "text matching"),
        ({"kernels": ["x\n"]}, "$.kernels[0]", "found 'x\\n'", "text matching"),
        ({"seeds": [-1]}, "$.seeds[0]", "found -1", "at least 0"),
        ({"seeds": [2**53]}, "$.seeds[0]", f"found {2**53}", f"at most {2**53 - 1}"),
        ({"seeds": list(range(65))}, "$.seeds", "found [0, 1,", "at most 64 items"),
        ({"seeds": [True]}, "$.seeds[0]", "found True", "type integer"),
        ({"timing": {"rounds": "many"}}, "$.timing.rounds", "found 'many'", "type integer"),
        ({"timing": {"rounds": 5}}, "$.timing.rounds", "found 5", "at least 6"),
        ({"timing": None}, "$.timing", "found None", "type object"),
        ({"gpu": {"limit_s": 0}}, "$.gpu.limit_s", "found 0", "above 0"),
        ({"gpu": {"limit_s": float("inf")}}, "$.gpu.limit_s", "found inf", "at most 86400"),
        ({"gate": {"minimum_capability": 8.0}}, "$.gate.minimum_capability", "found 8.0", "type string"),
        ([], "$", "found []", "type object"),
    ],
)
def test_a_refusal_says_file_key_found_and_allowed(tree: Any, where: str, found: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_settings(tree, "some.yaml")
    said = str(refusal.value)
    assert said.startswith(f"some.yaml: {where}: {found}")
    assert "allowed" in said
    assert allowed in said.partition("allowed")[2]


@pytest.mark.parametrize(
    ("tree", "where"), [({"gpu": {"limit_s": float("nan")}}, "$.gpu.limit_s"), ({"seeds": [1.0]}, "$.seeds[0]")]
)
def test_what_only_the_decoder_sees_is_refused_with_its_key(tree: Any, where: str) -> None:
    with pytest.raises(ConfigError, match=rf"^some\.yaml: {re.escape(where)}: Expected"):
        parse_settings(tree, "some.yaml")


def refusal_of(tree: Any) -> str | None:
    try:
        parse_settings(tree, "some.yaml")
    except ConfigError as error:
        return str(error)
    return None


@given(trees)
def test_whatever_yaml_can_hold_is_accepted_or_refused_in_one_line(tree: Any) -> None:
    said = refusal_of(tree)
    assert said is None or re.fullmatch(r"some\.yaml: \$.*", said)


@given(settings)
def test_what_is_accepted_fits_the_published_schema(chosen: Settings) -> None:
    tree = msgspec.json.decode(msgspec.json.encode(chosen))
    Draft202012Validator(settings_schema()).validate(tree)
    assert parse_settings(tree, "some.yaml") == chosen


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"targets: [sm_80", "expected YAML in UTF-8, found something else .* line 1"),
        (b"kernels: \xff\n", "expected YAML in UTF-8, found something else .*0xff"),
        (b"!!python/object/apply:os.getcwd []\n", "expected YAML in UTF-8, found something else .*python/object"),
        (b"- 1\n", r"\$: found \[1\]"),
        (b"seeds: [2026-99-99]\n", "expected YAML in UTF-8, found something else .*month must be in 1"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"config\.yaml: {said}"):
        load(tmp_path, data)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read \(No such file"):
        load_settings(tmp_path / "absent.yaml")


def test_a_clock_band_that_no_clock_lies_in_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\$\.timing\.clock_band: found \[1, 0\.6\]; allowed: the lower end first"):
        parse_settings({"timing": {"clock_band": [1.0, 0.6]}}, "some.yaml")
    assert parse_settings({"timing": {"clock_band": [0.8, 0.8]}}, "some.yaml").timing.clock_band == (0.8, 0.8)


@pytest.mark.parametrize(
    ("timing", "said"),
    [
        ({"fewest_rounds": 21, "rounds": 20}, r"fewest_rounds: found 21; allowed: at most rounds, which is 20"),
        ({"minimum_s": 11}, r"minimum_s: found 11; allowed: at most limit_s, which is 10"),
    ],
)
def test_a_least_above_its_most_is_refused(timing: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"\$\.timing\.{said}$"):
        parse_settings({"timing": timing}, "some.yaml")


def test_a_date_is_no_seed() -> None:
    with pytest.raises(ConfigError, match=r"\$\.seeds\[0\]"):
        parse_settings({"seeds": [datetime.date(2026, 9, 1)]}, "some.yaml")


# What reaches a stage


def test_every_stage_says_what_it_reads_and_every_key_is_read() -> None:
    assert set(READS) == set(STAGES)
    assert {key for keys in READS.values() for key in keys} == KEYS - {"kernels"}


@given(settings, st.sampled_from(STAGES))
def test_a_stage_gets_back_the_keys_that_it_reads(chosen: Settings, stage: StageName) -> None:
    received = decode_stage_settings(stage_settings(chosen, stage))
    for key in KEYS:
        assert getattr(received, key) == getattr(chosen if key in READS[stage] else Settings(), key)


@given(settings, settings, st.sampled_from(STAGES))
def test_a_key_that_a_stage_does_not_read_leaves_its_settings_alone(
    one: Settings, other: Settings, stage: StageName
) -> None:
    unread = {key: getattr(other, key) for key in KEYS - set(READS[stage])}
    assert stage_settings(msgspec.structs.replace(one, **unread), stage) == stage_settings(one, stage)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"seeds": [1], "seeds": [2]}', '{"gpu": {"limit_s": NaN}}'])
def test_settings_on_the_command_line_are_read_as_strictly(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--settings: \$"):
        decode_stage_settings(text)


# Which kernels


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    for name in ("matmul.py", "softmax.py", "_part.py", ".hidden.py", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_all_kernels_are_the_files_of_the_folder(kernels: Path) -> None:
    assert kernel_files(Settings(), kernels) == {name: kernels / f"{name}.py" for name in ("matmul", "softmax")}


def test_named_kernels_keep_their_order(kernels: Path) -> None:
    assert list(kernel_files(Settings(kernels=["softmax", "matmul"]), kernels)) == ["softmax", "matmul"]


def test_a_kernel_without_a_file_is_refused_with_the_names_there_are(kernels: Path) -> None:
    with pytest.raises(ConfigError, match=r"\$\.kernels: found 'conv'; allowed: matmul, softmax"):
        kernel_files(Settings(kernels=["matmul", "conv"]), kernels)


def test_a_folder_without_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="expected a kernel file, found none; write one with `python -m assay new NAME`"
    ):
        kernel_files(Settings(), tmp_path)


@pytest.mark.parametrize("name", ["my kernel.py", "Matmul.py", "a-b.py", "{kernel}.py"])
def test_a_file_name_that_cannot_name_records_is_refused(kernels: Path, name: str) -> None:
    (kernels / name).touch()
    with pytest.raises(ConfigError, match=rf"{re.escape(name)}: found the name .*; allowed: lower-case letters"):
        kernel_files(Settings(), kernels)

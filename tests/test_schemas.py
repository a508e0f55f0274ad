"""The published schemas: they are the generated ones, and they accept and refuse what the decoders do."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from project import RECORDS, ROOT, Project

from assay.artifact import canonical, decode, parse
from assay.errors import RecordError
from assay.record import ARTIFACTS, Record, StageName
from assay.schemas import main, schema_files

STAGES: tuple[StageName, ...] = get_args(StageName)
VALIDATORS = {
    name.removesuffix(".schema.json"): Draft202012Validator(json.loads(content))
    for name, content in schema_files().items()
}

GOOD = {stage: strategies.sealed(stage) for stage in STAGES}


def test_the_committed_schemas_are_the_generated_ones() -> None:
    committed = {path.name: path.read_bytes() for path in (ROOT / "schemas").iterdir()}
    assert committed == schema_files(), "schemas/ is out of date: run `python -m assay schemas` and commit the folder"


def test_the_command_writes_them(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path / "new")]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == schema_files()


@pytest.mark.parametrize("name", sorted(VALIDATORS))
def test_each_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(VALIDATORS[name].schema)


def records(kind: type[Record] = Record) -> Iterator[type[Record]]:
    """Walk the types that records are made of."""
    for one in kind.__subclasses__():
        yield one
        yield from records(one)


@pytest.mark.parametrize("kind", sorted(records(), key=repr))
def test_a_record_leaves_out_what_is_unset_and_nothing_else(kind: type[Record]) -> None:
    """What a schema requires is read off the fields, of which `omit_defaults` says nothing."""
    assert not kind.__struct_config__.omit_defaults


@pytest.mark.slow
def test_what_the_pipeline_writes_fits(finished: Project) -> None:
    for name in RECORDS:
        tree = json.loads((finished.root / f"results/{name}.json").read_bytes())
        VALIDATORS[name.rpartition("/")[2]].validate(tree)


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Walk a JSON tree: each container with each of its keys or indices."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from places(value)


def decodes(tree: Any, stage: StageName) -> bool:
    try:
        decode(canonical(tree), ARTIFACTS[stage], "tree")
    except RecordError:
        return False
    return True


@given(st.data(), st.sampled_from(STAGES))
def test_schema_and_decoder_agree(data: st.DataObject, stage: StageName) -> None:
    """One value of a good record is taken out, replaced or joined by another: both refuse it, or neither."""
    tree = parse(canonical(data.draw(GOOD[stage])), "tree")
    VALIDATORS[stage].validate(tree)
    changed = copy.deepcopy(tree)
    container, key = data.draw(st.sampled_from(list(places(changed))))
    match data.draw(st.sampled_from(["take out", "replace", "join"])):
        case "take out":
            del container[key]
        case "replace":
            container[key] = data.draw(st.sampled_from([None, "", {"surprise": 1}, ["surprise"], True, -1]))
        case "join" if isinstance(container, dict):
            container["surprise"] = None
    assert VALIDATORS[stage].is_valid(changed) == decodes(changed, stage)

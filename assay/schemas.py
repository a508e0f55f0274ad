"""Publishes what every artifact, and config.yaml, may hold: JSON Schemas generated from the types, none by hand."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.artifact import schema_name, write_bytes
from assay.config import settings_schema
from assay.course import Course
from assay.record import ARTIFACTS, Merged, Record

FOLDER = Path("schemas")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _document(title: str, schema: dict[str, Any]) -> bytes:
    tree = {"$schema": DIALECT, "title": title, **schema}
    return (json.dumps(tree, indent=1, ensure_ascii=False) + "\n").encode()


def _record_schema(kind: type[Record]) -> dict[str, Any]:
    """Return the schema of a record on disk. A default is for who makes a record: none is left out of the file, but
    what is unset is, which has neither a default to show nor to be there.
    """
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        there = {*definition["required"], *(n for n, f in definition["properties"].items() if "default" in f)}
        definition["required"] = [name for name in definition["properties"] if name in there]
        for field in definition["properties"].values():
            field.pop("default", None)
    return schema


def schema_files() -> dict[str, bytes]:
    """Return the content of each schema file: one for each stage, merged bundles, histories and config.yaml."""
    files = {
        f"{stage}.schema.json": _document(schema_name(stage), _record_schema(kind)) for stage, kind in ARTIFACTS.items()
    }
    merged = _document("assay/merged/1", _record_schema(Merged))
    files |= {"merged.schema.json": merged, "history.schema.json": _document("assay/history/1", _record_schema(Course))}
    return {**files, "config.schema.json": _document("config.yaml", settings_schema())}


def main(argv: Sequence[str]) -> int:
    """Write the schemas."""
    options = argparse.ArgumentParser(prog="python -m assay schemas", description="Write the JSON Schemas.")
    options.add_argument("--out", type=Path, default=FOLDER, help="the folder (default: %(default)s)")
    folder = options.parse_args(argv).out
    for name, content in schema_files().items():
        write_bytes(folder / name, content)
    print(f"{folder}: {len(schema_files())} schemas")
    return 0

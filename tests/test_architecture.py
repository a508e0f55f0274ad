"""The map of the package names every module once, and the imports go the way it says."""

import ast
import re
from pathlib import Path

from assay.record import ARTIFACTS

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "architecture.md"


def rows() -> dict[str, list[str]]:
    lines = [line for line in MAP.read_text("utf-8").splitlines() if line.startswith("| ") and "| `" in line]
    return {line.split("|")[1].strip(): re.findall(r"`(\w+)`", line.split("|")[2]) for line in lines}


def imports(module: str) -> set[str]:
    tree = ast.parse((ROOT / "assay" / f"{module}.py").read_text("utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {str(node.module).removeprefix("assay.") for node in found if str(node.module).startswith("assay.")} | {
        alias.name for node in found if node.module == "assay" for alias in node.names
    }


def test_every_module_stands_in_the_map_once() -> None:
    named = [name for modules in rows().values() for name in modules]
    assert sorted(named) == sorted(path.stem for path in (ROOT / "assay").glob("*.py"))


def test_the_stages_are_those_that_have_records() -> None:
    assert set(rows()["stages"]) == set(ARTIFACTS)


def test_stages_do_not_import_one_another() -> None:
    stages = set(rows()["stages"])
    assert {stage: imports(stage) & stages for stage in stages} == {stage: set() for stage in stages}


def test_what_records_show_reads_no_file_and_starts_no_process() -> None:
    pure = rows()["what records show (pure)"]
    for module in pure:
        text = (ROOT / "assay" / f"{module}.py").read_text("utf-8")
        assert not re.search(r"^\s*(import|from) (os|subprocess|torch|triton|pathlib)\b", text, re.MULTILINE), module

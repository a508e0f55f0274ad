"""The guide to adding a kernel: its example is a whole kernel file that passes, and its commands do what it says."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project
from trials import ROOT, Bench, bench, verdict_of, written

from assay.artifact import read
from assay.kernel import load
from assay.record import Check

GUIDE = (ROOT / "docs" / "adding-a-kernel.md").read_text("utf-8")


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("guide") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (source,) = fenced("python")
    return written(tmp_path_factory.mktemp("example"), "axpy", source)


def test_the_example_passes_every_case_under_the_interpreter(tried: Bench, example: Path) -> None:
    kernel = load(example)
    for variant in kernel.variants:
        for case in kernel.cases:
            check = tried.check(example, variant.id, case.name, [1, 2])
            assert isinstance(check, Check)
            assert check.verdict.outcome == "passed", check.verdict.reason


def test_the_example_without_its_mask_is_caught(tried: Bench, example: Path, tmp_path: Path) -> None:
    faulty = written(tmp_path, "axpy", example.read_text("utf-8").replace("a * x + b, mask=inside)", "a * x + b)"))
    check = tried.check(faulty, "f32/block1024", "ragged-1000")
    assert verdict_of(check, "f32").cause == "out-of-bounds-write"


@pytest.mark.slow
def test_the_commands_do_in_order_what_the_guide_says(project: Project) -> None:
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in "".join(fenced("sh")).splitlines():
        done = project.run("bash", "-c", command, variables={"PATH": search})
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert "Traceback" not in done.stdout, command
    checks = read(project.root / "results/rowsum/interpreter.json", "interpreter").result.checks
    assert {check.verdict.outcome for check in checks} == {"passed"}
    assert "rowsum" in (project.root / "results/report.md").read_text("utf-8")


def test_the_files_that_it_points_to_are_there() -> None:
    named = set(re.findall(r"`((?:kernels|assay)/\w+\.py)`", GUIDE)) - {"kernels/axpy.py"}
    assert {"kernels/layer_norm.py", "kernels/flash_attention.py", "assay/bounds.py", "assay/patterns.py"} <= named
    assert all((ROOT / name).is_file() for name in named)

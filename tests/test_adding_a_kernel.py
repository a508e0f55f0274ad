"""The guide to adding a kernel: its example is a whole kernel file that passes."""

import re
from pathlib import Path

import pytest

from assay.child import interpreting_environment
from assay.correctness import Terms, describe, try_all, worker

GUIDE = Path(__file__).parents[1] / "docs" / "adding-a-kernel.md"


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (source,) = fenced("python")
    path = tmp_path_factory.mktemp("kernels") / "axpy.py"
    path.write_text(source, "utf-8")
    return path


def test_the_example_passes_every_case_under_the_interpreter(example: Path) -> None:
    with worker(example, "cpu", interpreting_environment(), example.with_suffix(".log"), 300.0) as child:
        subject = describe(child, "interpreter", 300.0)
        tried = try_all([child], subject, Terms([1, 2], 120.0), "axpy")
    assert subject.loading.outcome == "passed", subject.loading.reason
    assert len(tried) == 6
    assert {trial.check.verdict.outcome for trial in tried} == {"passed"}


def test_the_example_without_its_mask_is_caught(example: Path) -> None:
    faulty = example.with_name("unmasked") / "axpy.py"
    faulty.parent.mkdir()
    faulty.write_text(example.read_text("utf-8").replace("a * x + b, mask=inside)", "a * x + b)"), "utf-8")
    with worker(faulty, "cpu", interpreting_environment(), faulty.with_suffix(".log"), 300.0) as child:
        tried = try_all([child], describe(child, "interpreter", 300.0), Terms([1], 120.0), "axpy")
    causes = {trial.check.case: trial.check.verdict.cause for trial in tried if trial.check.variant == "f32/block1024"}
    assert causes["ragged-1000"] == "out-of-bounds-write"


def test_the_commands_of_the_guide_are_stages() -> None:
    (commands,) = fenced("sh")
    assert [line.split()[3] for line in commands.strip().splitlines()] == ["environment", "interpreter"]

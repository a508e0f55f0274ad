"""The interpreter stage, run for real on small kernel files: whatever a kernel does is a result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from records import ROOT, environment
from trials import DOUBLE, changed, written

from assay.artifact import canonical, open_session, read
from assay.interpreter import main

VARIANTS = """variants=[
        Variant("ieee", "good"),
        Variant("tf32", "good"),
        Variant("ieee", "raises"),
        Variant("ieee", "ends"),
    ]"""
LAUNCH = """x, y = inputs["x"], outputs["y"]
    print(f"{variant.id} is launched", flush=True)
    if variant.configuration == "raises":
        raise ValueError("no")
    if variant.configuration == "ends":
        os._exit(4)
"""
VARIED = changed(
    DOUBLE,
    ('"double"', '"varied"'),
    ("import Case,", "import Case, Contrast,"),
    ('variants=[Variant("f32", "block64")]', VARIANTS),
    ('x, y = inputs["x"], outputs["y"]\n', LAUNCH),
    ('{"f32": 1e-6}', '{"ieee": 1e-6, "tf32": 1e-3}'),
    ('{"f32": 2.0**-23}', '{"ieee": 2.0**-23, "tf32": 2.0**-10}'),
    (', Case("sliced", {"n": 64}, {"x": "sliced", "y": "sliced"})', ""),
    ("launch=launch,", 'launch=launch, contrasts=[Contrast("ieee", "tf32")],'),
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs the stage on a kernel file in a folder laid out like the project."""
    (tmp_path / "assay").symlink_to(ROOT / "assay")
    monkeypatch.chdir(tmp_path)
    open_session("environment", None, [], []).write(Path("results/environment.json"), environment(None))

    def stage(name: str, text: str, workers: int = 1, limit_s: float = 60.0) -> Any:
        kernel = written(Path(), name, text)
        settings = f'{{"interpreter":{{"limit_s":{limit_s},"workers":{workers}}},"seeds":[1,2]}}'
        assert main(["--kernel", str(kernel), "--settings", settings]) == 0
        return read(Path("results") / name / "interpreter.json", "interpreter")

    return stage


def test_twice_gives_the_same_result_whatever_the_number_of_workers(run: Callable[..., Any]) -> None:
    one, two = run("varied", VARIED, 1), run("varied", VARIED, 2)
    assert canonical(one.result) == canonical(two.result)
    result = one.result
    assert result.loading.outcome == "passed"
    assert [(c.case, c.variant, c.verdict.outcome, c.verdict.cause) for c in result.checks[:4]] == [
        ("ragged", "ieee/good", "passed", None),
        ("ragged", "tf32/good", "passed", None),
        ("ragged", "ieee/raises", "failed", "exception"),
        ("ragged", "ieee/ends", "failed", "crash"),
    ]
    assert result.checks[3].verdict.reason == (
        "the process ended with exit code 4; it last printed: ieee/ends is launched"
    )
    assert result.precision_honoured is False
    assert {c.verdict.outcome for c in result.contrasts} == {"inapplicable"}
    assert {c.ratio for c in result.contrasts} == {0.0}


def test_a_case_that_takes_too_long_is_told_what_to_do(run: Callable[..., Any]) -> None:
    text = changed(
        DOUBLE,
        ('"double"', '"endless"'),
        ('x, y = inputs["x"]', 'while True:\n        pass\n    x, y = inputs["x"]'),
        (', Case("sliced", {"n": 64}, {"x": "sliced", "y": "sliced"})', ""),
    )
    artifact = run("endless", text, limit_s=1.0)
    (check,) = artifact.result.checks
    assert (check.verdict.outcome, check.verdict.cause) == ("failed", "timeout")
    assert check.verdict.reason == (
        'no answer within the limit of 1 s; where the case is too large for the interpreter, `tiers=("gpu",)` leaves '
        "it to a GPU; interpreter.limit_s in config.yaml allows more"
    )


def test_what_was_read_and_how_to_run_it_again_is_recorded(run: Callable[..., Any]) -> None:
    artifact = run("broken", "import nothing_of_this_name")
    assert artifact.kernel == "broken"
    assert {"kernels/broken.py", "results/environment.json", "assay/trial.py", "assay/interpreter.py"} <= set(
        artifact.materials
    )
    assert "assay/gpu.py" not in artifact.materials
    assert artifact.command[:6] == ["python", "-m", "assay", "interpreter", "--kernel", "kernels/broken.py"]
    assert '"seeds":[1,2]' in artifact.command[artifact.command.index("--settings") + 1]
    result = artifact.result
    assert (result.loading.outcome, result.loading.cause) == ("failed", "import-error")
    assert result.loading.reason.startswith("./kernels/broken.py:1: ModuleNotFoundError")
    assert (result.declaration, result.checks, result.contrasts) == (None, [], [])

"""The reference script's way, as weak as it is: what it catches, and what it lets pass that it should not."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from project import PYTHON_PATH
from trials import LIMIT_S, ROOT

from assay.baseline import look
from assay.child import Child, Fault, ask, interpreting_environment
from assay.correctness import DESCRIBE, Described
from assay.forking import Session, opening
from assay.kernel import (
    Bound,
    Case,
    Contrast,
    Kernel,
    Output,
    ReductionBound,
    Tensors,
    UlpBound,
    Variant,
    Work,
)
from assay.record import Verdict

Launch = Callable[[Tensors, Tensors, Variant], None]

LOOSE = ReductionBound(
    terms=lambda size: 1, table={"ieee": 1e-5, "tf32": 1e-2}, eps={"ieee": 2.0**-23, "tf32": 2.0**-10}
)
TIGHT = UlpBound(ulps=lambda problem: 1, why="one")


def kernel(launch: Launch, bounds: Sequence[Bound] = (LOOSE, TIGHT)) -> Kernel:
    return Kernel(
        name="twice",
        title="Twice",
        inputs=lambda size, generator: {"x": torch.randn(size["n"], generator=generator)},
        outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
        oracle=lambda inputs: {"y": 2 * inputs["x"]},
        launch=launch,
        variants=[Variant("ieee", "a"), Variant("tf32", "a")],
        cases=[Case("first", {"n": 64}, {"x": "padded"})],
        bound=bounds,
        work=lambda size: Work(flops=0, bytes=0),
        contrasts=[Contrast("ieee", "tf32")],
    )


def right(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
    outputs["y"].copy_(2 * inputs["x"] * (1 + 1e-4 * (variant.precision == "tf32")))


def off(by: float) -> Launch:
    def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
        outputs["y"].copy_(2 * inputs["x"] + by)

    return launch


def looked(launch: Launch, device: str = "cpu", **more: Sequence[Bound]) -> tuple[str, str | None]:
    verdict = look(kernel(launch, **more), device, "first", ["ieee/a", "tf32/a"], 7)
    return verdict.outcome, verdict.cause


def test_a_right_kernel_passes() -> None:
    assert looked(right) == ("passed", None)


def test_what_is_past_the_loose_bound_is_caught() -> None:
    assert looked(off(0.1)) == ("failed", "wrong-value")


def test_the_tight_bound_is_not_asked() -> None:
    assert looked(off(1e-6)) == ("passed", None)
    assert looked(off(0.1), bounds=[TIGHT]) == ("passed", None)


def test_a_nan_passes_as_it_does_there() -> None:
    assert looked(off(float("nan"))) == ("passed", None)


def test_what_writes_nothing_is_caught_every_time() -> None:
    assert looked(lambda inputs, outputs, variant: None) == ("failed", "wrong-value")


def test_tensors_are_plain() -> None:
    def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
        assert inputs["x"].is_contiguous()
        assert inputs["x"].storage_offset() == 0
        right(inputs, outputs, variant)

    assert looked(launch) == ("passed", None)


@pytest.mark.parametrize("lost", [True, False])
def test_whether_precision_was_lost_is_gated_on_a_device_alone(lost: bool) -> None:
    launch = right if lost else off(0.0)
    # By another name the host stands for a device.
    assert looked(launch, "cpu:0") == (("passed", None) if lost else ("failed", "precision"))
    assert looked(launch, "cpu") == ("passed", None)


def test_what_the_kernel_raises_is_for_the_caller() -> None:
    def launch(inputs: Tensors, outputs: Tensors, variant: Variant) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        looked(launch)


@pytest.mark.parametrize("name", ["double_through_pointers", "sum_of_copies", "difference_of_padded"])
def test_a_sound_kernel_may_reach_through_pointers_what_a_script_lets_it(tmp_path: Path, name: str) -> None:
    """Under the interpreter, which has no reason to refuse what runs in the script."""
    command = [sys.executable, "-m", "assay.faulty", "cpu"]
    environment = {**interpreting_environment(), "PYTHONPATH": PYTHON_PATH}
    path = ROOT / "tests" / "sound_kernels" / f"{name}.py"
    with Child(command, environment, tmp_path / "child.log", opening(LIMIT_S)) as child, Session(child, path) as asked:
        described = ask(asked, DESCRIBE, Described, LIMIT_S)
        assert not isinstance(described, Fault), described
        case, variant = described.declaration.cases[0], described.declaration.variants[0].id
        request = {"do": "baseline", "case": case, "variants": [variant], "seed": 1}
        verdict = ask(asked, request, Verdict, LIMIT_S)
    assert not isinstance(verdict, Fault), verdict
    assert verdict.outcome == "passed"

"""A small kernel file, and one real child that tries or compiles many: it imports torch only once.

`python trials.py trial` and `python trials.py codegen` are that child; `Bench` and `Workshop` ask it.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from project import PYTHON_PATH

from assay.artifact import convert
from assay.child import Answer, Child, Fault, Handler, compiling_environment, interpreting_environment, serve
from assay.diagnosis import diagnose
from assay.record import Binary, Check, Verdict

ROOT = Path(__file__).parents[1]
LIMIT_S = 120.0
"""Never reached but by a kernel that hangs."""


DOUBLE = '''
"""Doubles a vector."""

import os
import torch
import triton
import triton.language as tl

from assay.kernel import Case, Kernel, Output, ReductionBound, Variant, Work


@triton.jit
def double_kernel(x_ptr, y_ptr, n, x_step, y_step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * x_step, mask=i < n)
    tl.store(y_ptr + i * y_step, 2.0 * x, mask=i < n)


def launch(inputs, outputs, variant):
    x, y = inputs["x"], outputs["y"]
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), x.stride(-1), y.stride(-1), BLOCK=64)


KERNEL = Kernel(
    name="double",
    title="Doubles",
    inputs=lambda size, generator: {"x": torch.randn(size["n"], generator=generator)},
    outputs=lambda inputs: {"y": Output(tuple(inputs["x"].shape))},
    oracle=lambda inputs: {"y": 2 * inputs["x"]},
    launch=launch,
    variants=[Variant("f32", "block64")],
    cases=[Case("ragged", {"n": 100}), Case("sliced", {"n": 64}, {"x": "sliced", "y": "sliced"})],
    bound=ReductionBound(terms=lambda size: 1, table={"f32": 1e-6}, eps={"f32": 2.0**-23}),
    work=lambda size: Work(flops=size["n"], bytes=8 * size["n"]),
)
'''
"""A whole kernel file that is right."""


class Bench:
    """Asks the child to load and try kernel files; each is imported at its first trial, as the real worker does."""

    def __init__(self, child: Child) -> None:
        self.child = child

    def load(self, kernel: Path) -> Answer | Fault:
        return self.child.ask({"kernel": str(kernel), "do": "describe"}, LIMIT_S)

    def check(
        self, kernel: Path, variant: str, case: str, seeds: Sequence[int] = (1,), limit_s: float = LIMIT_S
    ) -> Check | Fault:
        request = {"kernel": str(kernel), "do": "try", "variant": variant, "case": case, "seeds": list(seeds)}
        answer = self.child.ask(request, limit_s)
        return answer if isinstance(answer, Fault) else convert(answer["check"], Check, "the child's answer")


class Workshop:
    """Asks the child to compile kernel files."""

    def __init__(self, child: Child) -> None:
        self.child = child

    def build(self, kernel: Path, variant: str, target: str, case: str) -> list[Binary] | Fault:
        request = {"kernel": str(kernel), "do": "build", "variant": variant, "target": target, "case": case}
        answer = self.child.ask(request, LIMIT_S)
        if isinstance(answer, Fault):
            return answer
        return [convert(binary, Binary, "the child's answer") for binary in answer["binaries"]]


def verdict_of(answer: Check | Fault, precision: str) -> Verdict:
    """Return a check's verdict, or what the fault in its place means."""
    return diagnose(answer, precision) if isinstance(answer, Fault) else answer.verdict


def _child(module: str, environment: Mapping[str, str], log: Path) -> Child:
    return Child([sys.executable, __file__, module], {**environment, "PYTHONPATH": PYTHON_PATH}, log)


def bench(log: Path) -> Bench:
    """Return a bench; enter its child to use it."""
    return Bench(_child("trial", interpreting_environment(), log))


def workshop(cache: Path) -> Workshop:
    """Return a workshop; enter its child to use it."""
    return Workshop(_child("codegen", compiling_environment(str(cache)), cache / "child.log"))


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Return a kernel file's text with some of it replaced, each piece of which must stand there once."""
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the kernel file"
        text = text.replace(old, new)
    return text


def written(folder: Path, name: str, text: str) -> Path:
    """Write a kernel file into a folder `kernels`, which reasons name."""
    path = folder / "kernels" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def planted(kernel: Path, folder: Path, *changes: tuple[str, str]) -> Path:
    """Write a kernel file anew with some of its text replaced."""
    return written(folder, kernel.stem, changed(kernel.read_text("utf-8"), *changes))


def _worker(path: str) -> Handler:
    if sys.argv[1] == "trial":
        from assay import trial
        from assay.interpreting import mend_interpreter

        mend_interpreter()
        return trial.Worker(Path(path), "cpu").answer
    from assay import codegen

    return codegen.Worker(Path(path)).answer


def _serve() -> None:
    handlers: dict[str, Handler] = {}

    def answer(request: Answer) -> Answer:
        path = request["kernel"]
        if path not in handlers:
            handlers[path] = _worker(path)
        return handlers[path](request)

    serve(answer)


if __name__ == "__main__":
    _serve()

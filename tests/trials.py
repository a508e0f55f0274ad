"""One real child process that tries any number of kernel files under the interpreter: it imports torch only once.

`python trials.py` is that child; `Bench` asks it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from assay.artifact import convert
from assay.child import Answer, Child, Fault, interpreting_environment, serve
from assay.record import Check

ROOT = Path(__file__).parents[1]
LIMIT_S = 120.0
"""Never reached but by a kernel that hangs."""


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


def bench(log: Path) -> Bench:
    """Return a bench; enter its child to use it."""
    environment = {**interpreting_environment(), "PYTHONPATH": str(ROOT)}
    return Bench(Child([sys.executable, __file__], environment, log))


def planted(kernel: Path, folder: Path, *changes: tuple[str, str]) -> Path:
    """Write a kernel file anew with some of its text replaced, each of which must stand in it once."""
    text = kernel.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {kernel}"
        text = text.replace(old, new)
    path = folder / "kernels" / kernel.name
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    return path


def _serve() -> None:
    from assay.trial import Worker

    workers: dict[str, Worker] = {}

    def answer(request: Answer) -> Answer:
        path = request["kernel"]
        worker = workers.setdefault(path, Worker(Path(path), "cpu"))
        return worker.answer(request)

    serve(answer)


if __name__ == "__main__":
    _serve()

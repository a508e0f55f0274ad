"""The child that tries or compiles faulty kernel files, each in a process of its own.

As a program, `python -m assay.faulty DEVICE` is that child: 'cpu' tries under the interpreter, 'cuda' on the device,
and 'none' compiles.
"""

import sys
from pathlib import Path

from assay import codegen, trial
from assay.baseline import baseline
from assay.child import Answer, Handler
from assay.forking import serve_forked
from assay.interpreting import mend_interpreter


def compiling(path: Path) -> Handler:
    """Return what answers for one kernel file: `build`, as for the compile stage."""
    return codegen.Worker(path).answer


def trying(path: Path, device: str) -> Handler:
    """Return what answers for one kernel file: `try`, as for the correctness stages, and `baseline`."""
    worker = trial.Worker(path, device)

    def answer(request: Answer) -> Answer:
        return baseline(path, device, request) if request["do"] == "baseline" else worker.answer(request)

    return answer


def main(device: str) -> None:
    """Prepare what every process needs, and serve."""
    if device == "cpu":
        mend_interpreter()
    serve_forked(compiling if device == "none" else lambda path: trying(path, device))


if __name__ == "__main__":
    main(sys.argv[1])

"""Turns a fault of a child process into a verdict: what kind of failure it is, or why the question does not apply."""

import re

from assay.child import Fault
from assay.record import Cause, Verdict

INPUT_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
"""Triton's values of `input_precision`. Where one is refused, the tier lacks it; any other is the kernel's fault."""

NAMED_PRECISIONS = (*INPUT_PRECISIONS, "fp16x3")
"""Those of which it is known what they promise: Triton's, and fp16x3.

fp16x3 takes each operand as the sum of two float16, once a power of two has brought its row or column within their
range: 22 bits (Ootomo & Yokota, Int. J. High Perform. Comput. Appl. 36(4), 2022, doi:10.1177/10943420221090256).
"""

PLAIN = "f32"
"""What a kernel of float32 is declared as that names no mode. It promises that nothing is multiplied in tf32, which is
Triton's default and stands nowhere in the kernel. A cast does: it is the author's own, and held to the bounds. The
code shows it and the rounding canary does not, which sends float32 through what takes 16-bit inputs alone.
"""

_REFUSED_DTYPE = re.compile(
    r"type \S+ not supported in this architecture|Unsupported (conversion|dtype)", re.IGNORECASE
)

_KINDS: dict[str, Cause] = {
    "CompilationError": "compile-error",
    "CompileTimeAssertionFailure": "compile-error",
    "UnsupportedLanguageConstruct": "compile-error",
    "PTXASError": "compile-error",
    "GridTooLarge": "launch-failed",
    "KernelError": "declaration",
    "BoundError": "declaration",
    "PatternError": "declaration",
    "EndlessError": "timeout",
    "OutsideRead": "poison-read",
    "OutsideWrite": "out-of-bounds-write",
    "FalsePromise": "false-promise",
}

_BY_DESIGN: dict[str, Cause] = {
    "OutOfResources": "does-not-fit",
    "OutOfMemoryError": "does-not-fit",
    "AutotunedKernel": "autotuned",
    "DeviceOnlyOperation": "unsupported-operation",
    "StuckError": "unsupported-operation",
}
"""What a tier cannot run whatever the kernel does right."""


_HINTS: list[tuple[re.Pattern[str], str]] = [
    (
        re.compile("Torch not compiled with CUDA enabled|Expected a cuda device|Found no NVIDIA driver"),
        "without a GPU a launch gets tensors of the CPU, so that it may ask a device only where `x.is_cuda`",
    ),
    (
        re.compile("PassManager::run failed"),
        "where the target lacks what the kernel needs, `capability=` says so",
    ),
    (
        re.compile(r"'int' object has no attribute '(to|dtype|type|shape)'"),
        "Triton makes a constant of an argument that is the integer 1, unless `@triton.jit` names it in "
        "`do_not_specialize` or it is annotated, as in `n: tl.int64`",
    ),
]
"""What to do about a reason that does not say it."""


def _advised(reason: str) -> str:
    """Return a reason with what to do about it, once."""
    hints = [hint for pattern, hint in _HINTS if pattern.search(reason) and hint not in reason]
    return "; ".join([reason, *hints])


def _refuses_precision(fault: Fault, precision: str) -> bool:
    return precision in INPUT_PRECISIONS and "input_precision" in fault.reason and precision in fault.reason


def diagnose(fault: Fault, precision: str) -> Verdict:
    """Classify the fault of a variant: `inapplicable` where the tier cannot run it by design, else `failed`."""
    if fault.kind in _BY_DESIGN:
        return Verdict(outcome="inapplicable", cause=_BY_DESIGN[fault.kind], reason=fault.reason)
    if _refuses_precision(fault, precision):
        return Verdict(outcome="inapplicable", cause="unsupported-precision", reason=fault.reason)
    if _REFUSED_DTYPE.search(fault.reason):
        return Verdict(outcome="inapplicable", cause="unsupported-dtype", reason=fault.reason)
    return Verdict(outcome="failed", cause=_KINDS.get(fault.kind, fault.cause), reason=_advised(fault.reason))


def diagnose_again(verdict: Verdict, precision: str) -> Verdict:
    """Return how a fault with this verdict's reason is classified: as the verdict says, where `diagnose` gave it."""
    kind = next((kind for kind, cause in _BY_DESIGN.items() if cause == verdict.cause), "")
    return diagnose(Fault(verdict.cause or "exception", verdict.reason, kind), precision)


def diagnose_loading(fault: Fault) -> Verdict:
    """Classify the fault of importing a kernel file."""
    cause: Cause = _KINDS.get(fault.kind, "import-error" if fault.cause == "exception" else fault.cause)
    return Verdict(outcome="failed", cause=cause, reason=fault.reason)

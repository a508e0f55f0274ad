"""What a fault means: the question does not apply, or the kernel failed, and how."""

import inspect
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from triton.compiler import errors

from assay.child import Fault
from assay.diagnosis import NAMED_PRECISIONS, diagnose, diagnose_again, diagnose_loading
from assay.record import Cause, Outcome

REFUSED_PRECISION = "AssertionError: input_precision must be one of ('tf32', 'tf32x3', 'ieee'). Got bf16x6"
ALLOWED = (
    "CompilationError: at 5:4: input_precision must be one of ('ieee', 'bf16x3'); tf32 is only supported on gfx942"
)

FAULTS: list[tuple[Fault, str, Outcome, Cause]] = [
    (Fault("exception", "out of resource: shared memory", "OutOfResources"), "tf32", "inapplicable", "does-not-fit"),
    (Fault("exception", "it picks its configuration", "AutotunedKernel"), "f32", "inapplicable", "autotuned"),
    (Fault("exception", "cannot run it", "DeviceOnlyOperation"), "f32", "inapplicable", "unsupported-operation"),
    (Fault("exception", "it polls for ever", "StuckError"), "f32", "inapplicable", "unsupported-operation"),
    (Fault("exception", "it polls for ever", "EndlessError"), "f32", "failed", "timeout"),
    (Fault("exception", "4 of 64 lanes read outside", "OutsideRead"), "f32", "failed", "poison-read"),
    (Fault("exception", "4 of 64 lanes write outside", "OutsideWrite"), "f32", "failed", "out-of-bounds-write"),
    (Fault("exception", "promises multiples of 16, found 5", "FalsePromise"), "f32", "failed", "false-promise"),
    (Fault("exception", REFUSED_PRECISION, "AssertionError"), "bf16x6", "inapplicable", "unsupported-precision"),
    (Fault("exception", ALLOWED, "CompilationError"), "tf32", "inapplicable", "unsupported-precision"),
    (Fault("exception", REFUSED_PRECISION.replace("bf16x6", "half"), "AssertionError"), "half", "failed", "exception"),
    # Named, but none of Triton's values: a kernel that hands it on asks for what there is not.
    (
        Fault("exception", REFUSED_PRECISION.replace("bf16x6", "fp16x3"), "AssertionError"),
        "fp16x3",
        "failed",
        "exception",
    ),
    (Fault("exception", "input_precision must be one of (...)", "ValueError"), "bf16x3", "failed", "exception"),
    (
        Fault("exception", "type fp8e4nv not supported in this architecture", "CompilationError"),
        "fp8",
        "inapplicable",
        "unsupported-dtype",
    ),
    (
        Fault("exception", "Unsupported conversion from fp8 to f32", "RuntimeError"),
        "f32",
        "inapplicable",
        "unsupported-dtype",
    ),
    (Fault("exception", "at 3:4: x is not defined", "CompilationError"), "tf32", "failed", "compile-error"),
    (Fault("exception", "BLOCK must be even", "CompileTimeAssertionFailure"), "f32", "failed", "compile-error"),
    (Fault("exception", "PTXAS error: ...", "PTXASError"), "f32", "failed", "compile-error"),
    (Fault("exception", "expected at most 65535", "GridTooLarge"), "f32", "failed", "launch-failed"),
    (Fault("exception", "ValueError: no", "ValueError"), "f32", "failed", "exception"),
    (Fault("declaration", "the answer to 'try': $.check: ..."), "f32", "failed", "declaration"),
    (Fault("timeout", "no answer within the limit of 1 s"), "f32", "failed", "timeout"),
    (Fault("crash", "the process was killed by SIGSEGV"), "f32", "failed", "crash"),
]


def test_whatever_tritons_compiler_refuses_is_a_compile_error() -> None:
    kinds = [one for _, one in inspect.getmembers(errors, inspect.isclass) if one.__module__ == errors.__name__]
    assert {"CompilationError", "UnsupportedLanguageConstruct"} <= {kind.__name__ for kind in kinds}
    for kind in kinds:
        verdict = diagnose(Fault("exception", "at 3:4: no", kind.__name__), "f32")
        assert (verdict.outcome, verdict.cause) == ("failed", "compile-error"), kind


@pytest.mark.parametrize(("fault", "precision", "outcome", "cause"), FAULTS)
def test_a_variants_fault(fault: Fault, precision: str, outcome: Outcome, cause: Cause) -> None:
    verdict = diagnose(fault, precision)
    assert (verdict.outcome, verdict.cause, verdict.reason) == (outcome, cause, fault.reason)


CPU = "without a GPU a launch gets tensors of the CPU, so that it may ask a device only where `x.is_cuda`"
CONSTANT = (
    "Triton makes a constant of an argument that is the integer 1, unless `@triton.jit` names it in "
    "`do_not_specialize` or it is annotated, as in `n: tl.int64`"
)
NEEDS = "where the target lacks what the kernel needs, `capability=` says so"


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("kernels/k.py:9: AssertionError: Torch not compiled with CUDA enabled", CPU),
        ("ValueError: Expected a cuda device, but got: cpu", CPU),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check", CPU),
        ("kernels/k.py:9: AttributeError: 'int' object has no attribute 'to'", CONSTANT),
        ("kernels/k.py:9: CompilationError: AttributeError: 'int' object has no attribute 'dtype'", CONSTANT),
        ("RuntimeError: PassManager::run failed: operand #0 must be floating-point-like", NEEDS),
    ],
)
def test_a_reason_that_does_not_say_what_to_do_is_told_with_it_once(reason: str, advice: str) -> None:
    verdict = diagnose(Fault("exception", reason, reason.partition(":")[0]), "f32")
    assert (verdict.outcome, verdict.cause, verdict.reason) == ("failed", "exception", f"{reason}; {advice}")
    assert diagnose_again(verdict, "f32") == verdict


def test_what_torch_says_without_a_device_is_what_the_advice_is_about() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    for device in (0, "cpu"):
        with pytest.raises((AssertionError, RuntimeError, ValueError)) as raised:
            torch.cuda.get_device_properties(device)
        verdict = diagnose(Fault("exception", f"{raised.typename}: {raised.value}", raised.typename), "f32")
        assert verdict.reason.endswith(CPU)


LOADING: list[tuple[Fault, Cause]] = [
    (Fault("exception", "SyntaxError: ...", "SyntaxError"), "import-error"),
    (Fault("exception", "no module", "ModuleNotFoundError"), "import-error"),
    (Fault("exception", "no KERNEL", "KernelError"), "declaration"),
    (Fault("declaration", "the answer to 'describe': ..."), "declaration"),
    (Fault("timeout", "no answer"), "timeout"),
    (Fault("crash", "killed"), "crash"),
]


@pytest.mark.parametrize(("fault", "cause"), LOADING)
def test_a_fault_of_loading(fault: Fault, cause: Cause) -> None:
    verdict = diagnose_loading(fault)
    assert (verdict.outcome, verdict.cause, verdict.reason) == ("failed", cause, fault.reason)


@given(
    st.builds(Fault, st.sampled_from(["exception", "timeout", "crash"]), st.text(), st.text()),
    st.sampled_from(NAMED_PRECISIONS) | st.text(),
)
def test_no_fault_is_ever_a_pass_and_each_has_a_cause(fault: Fault, precision: str) -> None:
    for verdict in (diagnose(fault, precision), diagnose_loading(fault)):
        assert verdict.outcome in ("failed", "inapplicable")
        assert verdict.cause in get_args(Cause)
        assert verdict.reason == fault.reason


@pytest.mark.parametrize(("fault", "precision", "outcome", "cause"), FAULTS)
def test_a_verdict_alone_is_classified_as_its_fault_was(
    fault: Fault, precision: str, outcome: Outcome, cause: Cause
) -> None:
    verdict = diagnose(fault, precision)
    assert diagnose_again(verdict, precision) == verdict

"""What the reference script's own way makes of a kernel: one aligned case, plain tensors, one loose tolerance.

Kept as weak as it is on purpose: it is what the pipeline's evidence is measured against. Runs in a child process.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch

from assay.child import Answer
from assay.kernel import Kernel, Problem, ReductionBound, Tensors, Variant, cast, load, widen
from assay.record import Verdict
from assay.workspaces import Workspaces, reachable


def _failed(cause: str, reason: str) -> Verdict:
    return Verdict(outcome="failed", cause=cause, reason=reason)  # type: ignore[arg-type]


def _launch(kernel: Kernel, variant: Variant, values: Tensors, device: str) -> Tensors:
    """Launch on tensors with nothing around them.

    The script's own outputs hold what the allocator finds. Here they hold 0, as fresh memory does: what a process left
    in it would be chance, and a NaN there passes.
    """
    outputs = {n: torch.zeros(o.shape, dtype=o.dtype, device=device) for n, o in kernel.outputs(values).items()}
    inputs = {name: value.to(device) for name, value in values.items()}
    # A script lets a kernel reach all that it makes, through a table of pointers too.
    with reachable(Workspaces(), device, (*inputs.values(), *outputs.values())):
        kernel.launch(inputs, outputs, variant)
    return {name: output.cpu().to(torch.float64) for name, output in outputs.items()}


def _excess(bound: ReductionBound, problem: Problem, got: Tensors, output: str) -> Verdict | None:
    """Compare as the script does: a NaN is not above 0, so it passes."""
    want = problem.want[output]
    excess = (got[output] - want).abs() - bound.limit(problem, output)
    largest = float(excess.max())
    if not largest > 0.0:
        return None
    past = int((excess > 0.0).sum())
    return _failed("wrong-value", f"{past} of {want.numel()} elements of '{output}' are past the reduction bound")


def _error(problem: Problem, got: Tensors) -> float:
    """Return the largest error of any output over the largest reference, which the script compares on a GPU."""
    errors = [float((got[name] - want).abs().max()) / float(want.abs().max()) for name, want in problem.want.items()]
    return max(errors)


def _order(kernel: Kernel, errors: dict[str, float]) -> Verdict | None:
    """Return that the lesser precision lost nothing against the other; what a NaN says nothing of passes, as there."""
    for pair in kernel.contrasts[:1]:
        exact, coarse = errors.get(pair.reference), errors.get(pair.lesser)
        if exact is not None and coarse is not None and coarse <= exact:
            return _failed("precision", f"{pair.lesser} error {coarse:.3g} is not above {pair.reference} {exact:.3g}")
    return None


def look(kernel: Kernel, device: str, name: str, variants: Sequence[str], seed: int) -> Verdict:
    """Return what the reference script's way says of a kernel: its first bound of the reference's kind decides."""
    case, errors = kernel.case(name), dict[str, float]()
    bounds = [bound for bound in kernel.bounds if isinstance(bound, ReductionBound)]
    for variant in map(kernel.variant, variants):
        values = cast(kernel.inputs(case.size, torch.Generator().manual_seed(seed)), variant.dtype)
        wide = widen(values)
        problem = Problem(variant, case.size, wide, kernel.oracle(wide), kernel.oracle)
        got = _launch(kernel, variant, values, device)
        for output in problem.want:
            bound = next((bound for bound in bounds if bound.covers(output)), None)
            fault = None if bound is None else _excess(bound, problem, got, output)
            if fault is not None:
                return fault
        errors[variant.precision] = _error(problem, got)
    # The interpreter computes every precision alike, so the script does not ask it.
    swapped = _order(kernel, errors) if device != "cpu" else None
    return swapped or Verdict(outcome="passed", reason=f"{len(variants)} variants are within the bound on {name}")


def baseline(path: Path, device: str, request: Answer) -> Answer:
    """Answer a `baseline` request: `case`, `variants` and `seed`. Whatever the kernel file raises passes through."""
    verdict = look(load(path), device, request["case"], request["variants"], request["seed"])
    return dict(msgspec.to_builtins(verdict))

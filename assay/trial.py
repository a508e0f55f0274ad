"""One trial: a variant on a case, between guards, against the oracle. Runs in a child process, on CPU or device.

As a program, `python -m assay.trial KERNEL DEVICE` is that child: it answers `describe` and `try` requests.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import torch

from assay.buffers import BLANK, FENCE, POISON, Guarded, guard_input, guard_output
from assay.child import Answer, serve
from assay.comparison import compare
from assay.interpreting import mend_interpreter
from assay.judgement import judge
from assay.kernel import Case, Kernel, Layout, Tensors, Variant, load
from assay.launches import watch
from assay.record import Check, Comparison, Verdict, as_float

Guards = Mapping[str, Guarded]
Problem = tuple[Tensors, Tensors]
"""Host inputs and the float64 oracle's outputs."""


@dataclass(frozen=True)
class Bench:
    """A kernel on a device ('cpu' under the interpreter), with the inputs and oracle of the case at hand cached."""

    kernel: Kernel
    device: str

    def __hash__(self) -> int:
        """One kernel per process: identity is enough for the cache."""
        return id(self.kernel)


@lru_cache(maxsize=4)
def _problem(bench: Bench, case: str, seed: int) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    values = bench.kernel.inputs(bench.kernel.case(case).size, generator)
    wide = {name: v.to(torch.float64) if v.is_floating_point() else v for name, v in values.items()}
    return values, bench.kernel.oracle(wide)


def _failed(cause: str, reason: str) -> Verdict:
    return Verdict(outcome="failed", cause=cause, reason=reason)  # type: ignore[arg-type]


def _guard(bench: Bench, case: Case, values: Tensors) -> tuple[Guards, Guards]:
    declared = bench.kernel.outputs(values)
    layouts: dict[str, Layout] = {name: case.layouts.get(name, "contiguous") for name in (*values, *declared)}
    return (
        {name: guard_input(value, layouts[name], bench.device) for name, value in values.items()},
        {name: guard_output(o.shape, o.dtype, layouts[name], bench.device) for name, o in declared.items()},
    )


def _launch(bench: Bench, variant: Variant, inputs: Guards, outputs: Guards) -> Verdict | None:
    """Launch on the guarded views; a launch that swaps a view for a tensor of its own has not written the output."""
    given = {name: held.tensor for name, held in outputs.items()}
    handed = dict(given)
    returned = bench.kernel.launch({name: held.tensor for name, held in inputs.items()}, handed, variant)
    if bench.device != "cpu":
        torch.cuda.synchronize()
    for name, tensor in given.items():
        found = handed.get(name)
        if found is not tensor or tuple(tensor.shape) != outputs[name].placement.shape:
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            return _failed(
                "wrong-shape",
                f"output '{name}' must be written in place with shape {outputs[name].placement.shape}; "
                f"the launch left {shape} in its place",
            )
    if returned is not None:
        shape = f" of shape {tuple(returned.shape)}" if isinstance(returned, torch.Tensor) else ""
        what = f"the launch returned a {type(returned).__name__}{shape}"
        return _failed("wrong-shape", f"{what}; it must write into its outputs and return nothing")
    return None


def _trespass(before: Mapping[str, torch.Tensor], inputs: Guards, outputs: Guards) -> Verdict | None:
    for name, held in outputs.items():
        if held.outside_changed(FENCE[held.dtype.itemsize]):
            return _failed("out-of-bounds-write", f"memory outside output '{name}' was written")
    for name, held in inputs.items():
        if held.outside_changed(POISON[held.dtype.itemsize]):
            return _failed("out-of-bounds-write", f"memory outside input '{name}' was written")
        if not torch.equal(held.flat, before[name]):
            return _failed("input-changed", f"input '{name}' was changed by the launch")
    return None


def _unwritten(outputs: Guards) -> Verdict | None:
    for name, held in outputs.items():
        left = int((held.bits() == BLANK[held.dtype.itemsize]).sum())
        if left:
            total = held.bits().numel()
            return _failed("not-written", f"{left} of {total} elements of output '{name}' were never written")
    return None


def _shapes(outputs: Guards, want: Tensors) -> Verdict | None:
    for name in sorted({*outputs, *want}):
        if name not in want or name not in outputs:
            return _failed("declaration", f"output '{name}' is declared by only one of outputs() and oracle()")
        expected, found = outputs[name].placement.shape, tuple(want[name].shape)
        if expected != found:
            return _failed("wrong-shape", f"output '{name}' is declared as {expected} and the oracle gives {found}")
        if want[name].dtype != torch.float64:
            return _failed("declaration", f"the oracle gives '{name}' as {want[name].dtype}; float64 is needed")
    return None


def _compare(bench: Bench, variant: Variant, case: Case, outputs: Guards, problem: Problem) -> list[Comparison]:
    bound, (values, want) = bench.kernel.bound, problem
    return [
        compare(
            name,
            held.tensor.cpu(),
            want[name],
            bound.limit(variant, case.size, want[name], values),
            bound.words(variant, case.size, want[name]),
        )
        for name, held in outputs.items()
    ]


def try_once(bench: Bench, variant: Variant, case: Case, seed: int) -> tuple[Verdict, list[Comparison]]:
    """Run one seed. Trespass is judged before values: a result next to a broken fence proves nothing."""
    problem = _problem(bench, case.name, seed)
    values, want = problem
    inputs, outputs = _guard(bench, case, values)
    before = {name: held.flat.clone() for name, held in inputs.items()}
    fault = _shapes(outputs, want) or _launch(bench, variant, inputs, outputs)
    if fault is not None:
        return fault, []
    fault = _trespass(before, inputs, outputs) or _unwritten(outputs)
    comparisons = _compare(bench, variant, case, outputs, problem)
    if fault is not None:
        return fault, comparisons
    judged = [judge(comparison) for comparison in comparisons]
    return next((v for v in judged if v.outcome != "passed"), judged[0]), comparisons


def _worst_error(comparisons: list[Comparison]) -> float:
    return max((as_float(c.normalised_error) for c in comparisons), default=0.0)


def try_seeds(bench: Bench, variant: Variant, case: Case, seeds: list[int]) -> Check:
    """Run every seed in this process, so that a result kept from the seed before shows; report the worst."""
    trials = [try_once(bench, variant, case, seed) for seed in seeds]
    failed = [trial for trial in trials if trial[0].outcome != "passed"]
    verdict, comparisons = failed[0] if failed else max(trials, key=lambda trial: _worst_error(trial[1]))
    return Check(variant=variant.id, case=case.name, seeds=seeds, verdict=verdict, comparisons=comparisons)


class Worker:
    """Answers the requests of a correctness stage; the kernel file is imported at the first one."""

    def __init__(self, path: Path, device: str) -> None:
        self._path, self._device = path, device
        self._bench: Bench | None = None

    def answer(self, request: Answer) -> Answer:
        """`describe` returns the declaration, the cases of each tier and the device; `try` returns a check."""
        self._bench = self._bench or Bench(load(self._path), self._device)
        if request["do"] == "describe":
            return self._describe(self._bench.kernel)
        variant, case = self._bench.kernel.variant(request["variant"]), self._bench.kernel.case(request["case"])
        with watch() as launches:
            check = try_seeds(self._bench, variant, case, request["seeds"])
        # Under the interpreter nothing is compiled, so there is no binary.
        return {"check": msgspec.to_builtins(check), "cubins": launches.digests()}

    def _describe(self, kernel: Kernel) -> Answer:
        tiers = {tier: [c.name for c in kernel.cases if tier in c.tiers] for tier in ("interpreter", "gpu")}
        return {"declaration": msgspec.to_builtins(kernel.declaration()), "tiers": tiers}


if __name__ == "__main__":
    if sys.argv[2] == "cpu":
        mend_interpreter()
    serve(Worker(Path(sys.argv[1]), sys.argv[2]).answer, last_after_error=sys.argv[2] != "cpu")

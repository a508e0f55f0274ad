"""One trial: a variant on a case, between guards, against the oracle. Runs in a child process, on CPU or device.

As a program, `python -m assay.trial KERNEL DEVICE` is that child: it answers `describe` and `try` requests.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import msgspec
import torch
from msgspec import structs

from assay.buffers import (
    BLANK,
    BLANK_BYTES,
    DISTANT,
    FENCE,
    POISON,
    UNCLEARED,
    UNDEFINED,
    Guards,
    bytes_needed,
    contents,
    differing,
    guard_input,
    guard_output,
    refill,
    reset,
    restored,
)
from assay.child import Answer, serve
from assay.comparison import compare_all
from assay.dependence import Left, Look, chance, explained, kept
from assay.interpreting import mend_interpreter
from assay.judgement import judge_all, judge_repeat
from assay.kernel import Case, Kernel, Layout, Output, Tensors, Variant, cast, load, widen
from assay.launches import Launches, watch
from assay.multiplier import Multiplier, measured, pose
from assay.nursery import serve_or_fork
from assay.patterns import impose
from assay.record import Check, Comparison, Repeat, Unavailable, Verdict, as_float
from assay.reordering import Reordered
from assay.schedules import Watch, watching
from assay.uncleared import filled_with, uncleared
from assay.undefined import DECIDED, Lanes, blamed, undefined_lanes
from assay.workspaces import Workspaces, reachable

FITS_ALL: tuple[Layout, ...] = ("contiguous", "sliced")
"""Layouts that any tensor can have; the others take two axes."""

LATER_LAUNCHES = 4
"""After a second launch that gave another result, to see whether it settles."""

BUSY_CYCLES = 10_000_000
"""Of the device's clock, some milliseconds: longer than it takes to launch."""


@dataclass(frozen=True)
class Bench:
    """A kernel on a device ('cpu' under the interpreter), with the inputs and oracle of the case at hand cached."""

    kernel: Kernel
    device: str

    def __hash__(self) -> int:
        """One kernel per process: identity is enough for the cache."""
        return id(self.kernel)


@lru_cache(maxsize=8)
def _values(bench: Bench, name: str, seed: int, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    case, generator = bench.kernel.case(name), torch.Generator().manual_seed(seed)
    values = cast(bench.kernel.inputs(case.size, generator), dtype)
    imposed = {
        of: impose(pattern, values[of], f"case {name}, input {of}")
        for of, pattern in case.values.items()
        if of in values
    }
    return {**values, **imposed}


@lru_cache(maxsize=8)
def _wanted(bench: Bench, case: str, seed: int, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    return bench.kernel.oracle(widen(_values(bench, case, seed, dtype)))


@lru_cache(maxsize=64)
def _multiplier(bench: Bench, variant: str) -> Multiplier | None:
    return measured(bench.kernel, bench.kernel.variant(variant), bench.device)


def _failed(cause: str, reason: str) -> Verdict:
    return Verdict(outcome="failed", cause=cause, reason=reason)  # type: ignore[arg-type]


def _layout(case: Case, name: str) -> Layout:
    return case.layouts.get(name, "contiguous")


def _too_large(bench: Bench, case: Case, values: Tensors, declared: Mapping[str, Output]) -> Verdict | None:
    """Return why the device has too little memory for a case whose tensors are spread out, or None."""
    if bench.device == "cpu" or not DISTANT.keys() & set(case.layouts.values()):
        return None
    free, _ = torch.cuda.mem_get_info()
    need = sum(bytes_needed(tuple(v.shape), v.dtype, _layout(case, name)) for name, v in values.items())
    need += sum(bytes_needed(o.shape, o.dtype, _layout(case, name)) for name, o in declared.items())
    if need <= free:
        return None
    reason = f"the case needs {need} B of device memory, and {free} B are free"
    return Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)


def _guard(bench: Bench, case: Case, values: Tensors, declared: Mapping[str, Output]) -> tuple[Guards, Guards]:
    return (
        {name: guard_input(value, _layout(case, name), bench.device) for name, value in values.items()},
        {name: guard_output(o.shape, o.dtype, _layout(case, name), bench.device) for name, o in declared.items()},
    )


@lru_cache(maxsize=1)
def _guarded_last(bench: Bench, case: str, variant: str) -> list[tuple[Guards, Guards]]:
    """Return the tensors of the seed before, if there was one."""
    return []


def _guard_where_last(
    bench: Bench, variant: Variant, case: Case, values: Tensors, declared: Mapping[str, Output]
) -> tuple[Guards, Guards]:
    """Guard a seed's tensors, on a CPU where those of the seed before lay: what a launch keeps by address, it finds."""
    if bench.device != "cpu":
        return _guard(bench, case, values, declared)
    last = _guarded_last(bench, case.name, variant.id)
    if not last or not _alike(last[0], values, declared):
        last[:] = [_guard(bench, case, values, declared)]
        return last[0]
    inputs, outputs = last[0]
    for name, value in values.items():
        refill(inputs[name], value)
    for held in outputs.values():
        reset(held)
    return inputs, outputs


def _alike(last: tuple[Guards, Guards], values: Tensors, declared: Mapping[str, Output]) -> bool:
    """Return whether tensors have the names, shapes and dtypes of the last ones."""
    inputs, outputs = ({name: (held.placement.shape, held.dtype) for name, held in of.items()} for of in last)
    return inputs == {name: (tuple(value.shape), value.dtype) for name, value in values.items()} and outputs == {
        name: (tuple(output.shape), output.dtype) for name, output in declared.items()
    }


@lru_cache(maxsize=8)
def _workspaces(bench: Bench) -> Workspaces:
    """Return what the launches of a kernel have made: it may keep some of it."""
    return Workspaces()


def _launch(bench: Bench, variant: Variant, inputs: Guards, outputs: Guards) -> Verdict | None:
    """Launch on the guarded views; a launch that swaps a view for a tensor of its own has not written the output."""
    given = {name: held.tensor for name, held in outputs.items()}
    handed = dict(given)
    taken = {name: held.tensor for name, held in inputs.items()}
    guarded = (*taken.values(), *given.values())
    with uncleared(), reachable(_workspaces(bench), bench.device, guarded):
        returned = bench.kernel.launch(taken, handed, variant)
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


def _trespass(before: Mapping[str, list[torch.Tensor]], inputs: Guards, outputs: Guards) -> Verdict | None:
    for name, held in outputs.items():
        if held.outside_changed(FENCE[held.dtype.itemsize]):
            return _failed("out-of-bounds-write", f"memory outside output '{name}' was written")
    for name, held in inputs.items():
        if held.outside_changed(POISON[held.dtype.itemsize]):
            return _failed("out-of-bounds-write", f"memory outside input '{name}' was written")
        if not held.unchanged(before[name]):
            return _failed("input-changed", f"input '{name}' was changed by the launch")
    return None


def _blank(outputs: Guards) -> dict[str, torch.Tensor]:
    """Say of every output which elements still hold what they were blanked with."""
    return {name: held.bits() == BLANK[held.dtype.itemsize] for name, held in outputs.items()}


def _blank_bytes(bench: Bench, variant: Variant, inputs: Guards, outputs: Guards) -> dict[str, torch.Tensor]:
    """As `_blank`, where an element of one byte may have been written with that very value: it is launched again over
    another blank, and what stays blank under both was not written. The outputs end as the first launch left them.
    """
    blank, bytes_ = _blank(outputs), {n: held for n, held in outputs.items() if held.dtype.itemsize == 1}
    if not any(bool(blank[name].any()) for name in bytes_):
        return blank
    with restored(outputs):
        for held in outputs.values():
            reset(held, BLANK_BYTES[1] if held.dtype.itemsize == 1 else None)
        _launch(bench, variant, inputs, outputs)
        for name, held in bytes_.items():
            blank[name] &= held.bits() == BLANK_BYTES[1]
    return blank


def _unwritten(outputs: Guards, blank: Mapping[str, torch.Tensor]) -> Verdict | None:
    for name, held in outputs.items():
        left = int(blank[name].sum())
        if left:
            total = held.bits().numel()
            what = "were never written, or come from what was there before the launch"
            return _failed("not-written", f"{left} of {total} elements of output '{name}' {what}")
    return None


def _strayed(outputs: Guards, comparisons: Sequence[Comparison]) -> Verdict | None:
    """Say that a wrong result holds a NaN which only the harness makes. A GPU gives every NaN the same bits."""
    if all(comparison.past_bound == 0 for comparison in comparisons):
        return None
    for name, held in outputs.items():
        size = held.dtype.itemsize
        if size == 1:
            # Any byte is a value of its own.
            continue
        for cause, pattern, what in (
            ("poison-read", POISON, "hold what lies outside an input: it was read past its edge"),
            ("undefined-read", UNDEFINED, "come from masked lanes of a load without other=, which are undefined"),
            ("undefined-read", UNCLEARED, "come from memory that torch.empty made and nobody wrote"),
        ):
            found = int((held.bits() == pattern[size]).sum())
            if found:
                return _failed(cause, f"{found} of {held.bits().numel()} elements of output '{name}' {what}")
    return None


def _misnamed(kernel: Kernel, case: Case, values: Tensors, outputs: Mapping[str, Output]) -> Verdict | None:
    """Return a name in the case, or in a bound, that no tensor has: misspelt, it would do nothing in silence."""
    limited = {name for bound in kernel.bounds for name in bound.outputs}
    for what, names, known in (
        ("layouts", case.layouts, {*values, *outputs}),
        ("values", case.values, set(values)),
        ("bounds", limited, set(outputs)),
    ):
        for name in names:
            if name not in known:
                there = ", ".join(sorted(known))
                return _failed("declaration", f"case {case.name}: {what} name {name!r}; expected one of {there}")
    return None


def _misplaced(case: Case, values: Tensors, outputs: Mapping[str, Output]) -> Verdict | None:
    """Return a layout that a tensor has too few axes, or rows, for: it would lie as any other, or nowhere."""
    shapes = {name: tuple(value.shape) for name, value in values.items()}
    shapes |= {name: tuple(output.shape) for name, output in outputs.items()}
    for name, layout in case.layouts.items():
        shape = shapes[name]
        fits = layout in FITS_ALL or (len(shape) > 1 and (layout not in DISTANT or shape[DISTANT[layout]] > 1))
        if not fits:
            reason = f"case {case.name}: '{name}' has shape {shape}, which cannot be laid out {layout}"
            return _failed("declaration", reason)
    return None


def _shapes(kernel: Kernel, outputs: Mapping[str, Output], want: Tensors) -> Verdict | None:
    for name in sorted({*outputs, *want}):
        if name not in want or name not in outputs:
            return _failed("declaration", f"output '{name}' is declared by only one of outputs() and oracle()")
        expected, found = tuple(outputs[name].shape), tuple(want[name].shape)
        if expected != found:
            return _failed("wrong-shape", f"output '{name}' is declared as {expected} and the oracle gives {found}")
        if want[name].dtype != torch.float64:
            return _failed("declaration", f"the oracle gives '{name}' as {want[name].dtype}; float64 is needed")
        if not any(bound.covers(name) for bound in kernel.bounds):
            return _failed("declaration", f"no bound covers output '{name}'")
    return None


def _busily(bench: Bench, variant: Variant, inputs: Guards, outputs: Guards) -> list[torch.Tensor]:
    """Launch once more. The device is busy when the outputs are blanked, so that a launch on a stream of its own, which
    does not wait for that, writes first and is blanked.
    """
    torch.cuda._sleep(BUSY_CYCLES)  # type: ignore[no-untyped-call]
    for held in outputs.values():
        reset(held)
    _launch(bench, variant, inputs, outputs)
    return contents(outputs)


def _overtaken(outputs: Guards) -> Verdict | None:
    """Say that outputs which the first launch wrote stayed blank in a later one."""
    floats = {name: held for name, held in outputs.items() if held.dtype.itemsize > 1}
    unwritten = _unwritten(floats, _blank(floats))
    if unwritten is None:
        return None
    reason = f"launched again behind other work, {unwritten.reason}: the launch runs on a stream that does not wait"
    return _failed("unordered", reason)


def _repeat(bench: Bench, variant: Variant, inputs: Guards, outputs: Guards, launches: Launches) -> Repeat | Verdict:
    """Launch again on the same inputs and compare bits; the outputs end as the first launch left them."""
    with restored(outputs) as first:
        second = _busily(bench, variant, inputs, outputs)
        overtaken = _overtaken(outputs)
        if overtaken is not None:
            return overtaken
        changed, settled = differing(first, second), True
        if changed:
            later = [_busily(bench, variant, inputs, outputs) for _ in range(LATER_LAUNCHES)]
            settled = all(differing(second, bits) == 0 for bits in later)
    elements = sum(bits.numel() for bits in first)
    return Repeat(differing=changed, elements=elements, settled=settled, atomics=launches.atomics())


ONCE = Unavailable(reason="launched once: the interpreter runs programs in one order")
NOT_AGAIN = Unavailable(reason="not launched again after a fault")


@dataclass(frozen=True)
class Outcome:
    """What one seed came to; `left` is what the outputs held, where comparisons alone decided that they are wrong."""

    verdict: Verdict
    comparisons: Sequence[Comparison] = ()
    repeat: Repeat | Unavailable = NOT_AGAIN
    left: Left = field(default_factory=dict)


def _compared(bench: Bench, variant: Variant, case: Case, seed: int, left: Left) -> list[Comparison]:
    """Compare what a launch left with what a seed wants."""
    wide, want = widen(_values(bench, case.name, seed, variant.dtype)), _wanted(bench, case.name, seed, variant.dtype)
    problem = pose(bench.kernel, variant, case.size, wide, want, multiplier=_multiplier(bench, variant.id))
    return compare_all(bench.kernel, left, problem)


def try_once(bench: Bench, variant: Variant, case: Case, seed: int, launches: Launches) -> Outcome:
    """Run one seed. Trespass is judged before values: a result next to a broken fence proves nothing."""
    values = _values(bench, case.name, seed, variant.dtype)
    declared = bench.kernel.outputs(values)
    fault = _misnamed(bench.kernel, case, values, declared) or _misplaced(case, values, declared)
    fault = fault or _shapes(bench.kernel, declared, _wanted(bench, case.name, seed, variant.dtype))
    fault = fault or _too_large(bench, case, values, declared)
    if fault is not None:
        return Outcome(fault)
    inputs, outputs = _guard_where_last(bench, variant, case, values, declared)
    before = {name: held.snapshot() for name, held in inputs.items()}
    fault, seen = _watched(lambda: _launch(bench, variant, inputs, outputs), inputs, launches)
    if fault is not None:
        return Outcome(fault)
    fault = _trespass(before, inputs, outputs)
    fault = fault or _unwritten(outputs, _blank_bytes(bench, variant, inputs, outputs))
    # A copy: the next seed's outputs lie where these do.
    left = {name: held.tensor.to("cpu", copy=True) for name, held in outputs.items()}
    comparisons = _compared(bench, variant, case, seed, left)
    if fault is not None:
        return Outcome(fault, comparisons)
    repeat = ONCE if bench.device == "cpu" else _repeat(bench, variant, inputs, outputs, launches)
    if isinstance(repeat, Verdict):
        return Outcome(repeat, comparisons)
    verdict = judge_repeat(repeat) or _strayed(outputs, comparisons) or judge_all(comparisons)
    again = Reordered(
        inputs,
        outputs,
        launch=lambda: _launch(bench, variant, inputs, outputs),
        judge=lambda left: judge_all(_compared(bench, variant, case, seed, left)),
    )
    verdict = _looked_into(bench, case, verdict, again, seen)
    return Outcome(verdict, comparisons, repeat, left if verdict.cause in DECIDED else {})


@dataclass(frozen=True)
class Seen:
    """What a first launch did: what its programs were seen to do under the interpreter, and whether it drew random
    numbers on the host.
    """

    watch: Watch
    draws: bool


def _watched(launch: Callable[[], Verdict | None], inputs: Guards, launches: Launches) -> tuple[Verdict | None, Seen]:
    drawn = chance()
    with watching([held.tensor for held in inputs.values()]) as watch:
        fault = launch()
    launches.surface()
    return fault, Seen(watch, chance() != drawn)


def _looked_into(bench: Bench, case: Case, verdict: Verdict, again: Reordered, seen: Seen) -> Verdict:
    """Return the verdict on a launch, or what is wrong with one that passed, or why one is wrong."""
    if verdict.outcome == "passed" and bench.device == "cpu":
        found = _idle(bench, case, seen.watch.launches) or (_drawn(again) if seen.draws else None)
        return found or again.raced(seen.watch) or again.strays(seen.watch) or verdict
    if verdict.cause in DECIDED and (raced := again.raced(seen.watch)) is not None:
        # In the usual order too, what programs do to each other shows.
        return structs.replace(raced, reason=f"{raced.reason}; in the usual order it is wrong too")
    return verdict


def _idle(bench: Bench, case: Case, started: int) -> Verdict | None:
    """Say that a launch started no kernel: a fault in the first case, while another may have nothing to do. Asked under
    the interpreter, which sees every launch; a device also runs what was compiled before, by its own handle.
    """
    if started:
        return None
    first = next(one.name for one in bench.kernel.cases if "interpreter" in one.tiers)
    if case.name == first:
        return _failed("declaration", "the launch starts no Triton kernel")
    reason = "the launch starts no Triton kernel in this case, which shows nothing of one"
    return Verdict(outcome="inapplicable", cause="declaration", reason=reason)


def _drawn(again: Reordered) -> Verdict | None:
    """Say that a launch, which draws random numbers on the host, leaves something else each time."""
    changed = again.differs("in order")
    if changed is None:
        return None
    reason = f"{changed} in another launch, which draws random numbers on the host: expected a seed among the inputs"
    return _failed("declaration", reason)


def _worst_error(comparisons: Sequence[Comparison]) -> float:
    return max((as_float(c.normalised_error) for c in comparisons), default=0.0)


def _try_seed(bench: Bench, variant: Variant, case: Case, seed: int, launches: Launches, *, lanes: Lanes) -> Outcome:
    """Run one seed with these in undefined lanes: a comparison passes over NaN, and not over plausible values."""
    with undefined_lanes(lanes):
        trial = try_once(bench, variant, case, seed, launches)
    if lanes != "values" or bench.device != "cpu":
        return trial
    verdict = blamed(trial.verdict, lambda: try_once(bench, variant, case, seed, launches).verdict)
    return replace(trial, verdict=verdict)


def _again(bench: Bench, variant: Variant, case: Case, seed: int, look: Look) -> Left | None:
    """Launch once more between guards of its own; None where it fails in another way, or draws random numbers."""
    values = _values(bench, case.name, seed, variant.dtype)
    inputs, outputs = _guard(bench, case, values, bench.kernel.outputs(values))
    for held in outputs.values():
        reset(held, look.blank)
    drawn = chance()
    try:
        with filled_with(look.filling):
            fault = _launch(bench, variant, inputs, outputs)
    except Exception:
        return None
    return None if fault or chance() != drawn else {name: held.tensor for name, held in outputs.items()}


def _earlier(
    bench: Bench, variant: Variant, case: Case, seeds: Sequence[int], left: Left
) -> dict[int, list[Comparison]]:
    """Compare what a launch left with what each of the seeds before it wants, where that has the same shape."""
    shapes = {name: tuple(tensor.shape) for name, tensor in left.items()}
    wanted = {seed: _wanted(bench, case.name, seed, variant.dtype) for seed in seeds}
    alike = [seed for seed, of in wanted.items() if {n: tuple(t.shape) for n, t in of.items()} == shapes]
    return {seed: _compared(bench, variant, case, seed, left) for seed in alike}


def _explained(bench: Bench, variant: Variant, case: Case, seeds: Sequence[int], trial: Outcome) -> Verdict:
    """Return the verdict of the last of some seeds, with what a failed result depends on beside its inputs."""
    if bench.device != "cpu" or trial.verdict.cause not in DECIDED:
        return trial.verdict
    verdict = explained(trial.verdict, trial.left, lambda look: _again(bench, variant, case, seeds[-1], look))
    if verdict is not trial.verdict:
        return verdict
    return kept(verdict, trial.comparisons, _earlier(bench, variant, case, seeds[:-1], trial.left))


def _worst(bench: Bench, variant: Variant, case: Case, seeds: Sequence[int], launches: Launches) -> Outcome:
    """Run every seed; return the first that failed, explained, or the one of the largest error."""
    lanes: list[Lanes] = ["values" if index % 2 else "nan" for index in range(len(seeds))]
    trials = [_try_seed(bench, variant, case, seed, launches, lanes=of) for seed, of in zip(seeds, lanes, strict=True)]
    at = next((at for at, trial in enumerate(trials) if trial.verdict.outcome != "passed"), None)
    if at is None:
        return max(trials, key=lambda trial: _worst_error(trial.comparisons))
    with undefined_lanes(lanes[at]):
        return replace(trials[at], verdict=_explained(bench, variant, case, seeds[: at + 1], trials[at]))


def try_seeds(bench: Bench, variant: Variant, case: Case, seeds: list[int], launches: Launches) -> Check:
    """Run every seed in this process, so that a result kept from the seed before shows; report the worst."""
    trial = _worst(bench, variant, case, seeds, launches)
    return Check(
        variant=variant.id,
        case=case.name,
        seeds=seeds,
        verdict=trial.verdict,
        comparisons=list(trial.comparisons),
        repeat=trial.repeat,
    )


class Worker:
    """Answers the requests of a correctness stage; the kernel file is imported at the first one."""

    def __init__(self, path: Path, device: str) -> None:
        self._path, self._device = path, device
        self._bench: Bench | None = None

    def answer(self, request: Answer) -> Answer:
        """`describe` returns the declaration and the cases of each tier; `try` a check, and what the canary read."""
        self._bench = self._bench or Bench(load(self._path), self._device)
        if request["do"] == "describe":
            return self._describe(self._bench.kernel)
        variant = self._bench.kernel.variant(request["variant"])
        case = self._bench.kernel.case(request["case"])
        # Before the watch, so that the binaries of the canary are not taken for those of the case.
        multiplier = _multiplier(self._bench, variant.id)
        with watch() as launches:
            check = try_seeds(self._bench, variant, case, request["seeds"], launches)
        # Under the interpreter nothing is compiled, so there is no binary.
        readings = {} if multiplier is None else msgspec.to_builtins(multiplier.readings)
        return {"check": msgspec.to_builtins(check), "binaries": launches.digests(), "readings": readings}

    def _describe(self, kernel: Kernel) -> Answer:
        tiers = {tier: [c.name for c in kernel.cases if tier in c.tiers] for tier in ("interpreter", "gpu")}
        return {"declaration": msgspec.to_builtins(kernel.declaration()), "tiers": tiers}


if __name__ == "__main__":
    if sys.argv[2] == "cpu":
        mend_interpreter()
    serve_or_fork(lambda: serve(Worker(Path(sys.argv[1]), sys.argv[2]).answer, last_after_error=sys.argv[2] != "cpu"))

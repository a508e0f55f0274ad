"""A kernel's entrants at one size, on a device: what they are given, what they write, and whether that is right.

Runs in the timing stage's child process.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import torch

from assay import sampling
from assay.buffers import BLANK, Guarded, guard_input, guard_output
from assay.capturing import CaptureError
from assay.closeness import closeness_of_all, worst
from assay.comparison import compare_all
from assay.errors import AssayError
from assay.judgement import judge_all
from assay.kernel import Case, Kernel, Layout, Peer, Tensors, Variant, cast, widen
from assay.launches import watch
from assay.multiplier import Multiplier, measured, pose
from assay.privacy import one_line
from assay.record import Accuracy, Inputs, TimedInput, Unavailable, Verdict, number
from assay.sampling import (
    Checked,
    Heat,
    Identity,
    Lane,
    Launch,
    Limits,
    Prepared,
    Recording,
    Round,
    heats,
    launch_count,
    marked,
    set_count,
    take_round,
    turns,
    value_count,
)

Outputs = Mapping[str, Guarded]
Precast = tuple[torch.dtype | None, int]
"""A dtype that inputs are cast to, and the number of a set."""
Share = tuple[Sequence[int], Sequence[Launch]]
"""Sets, and the launches of one sample of them."""


class OutputError(AssayError):
    """What a peer returns is no set of outputs."""


class TensorDevice(sampling.Device, Protocol):
    """A device that torch can put tensors on."""

    place: str

    @property
    def streams(self) -> Sequence[AbstractContextManager[object]]:
        """Return contexts: what is queued in one goes to a stream of its own. Rounds take them in turn.

        A launch's way to the device is a little longer on one stream than on another, for all launches on it alike, and
        no two processes are given the same streams.
        """

    def identity(self) -> Identity:
        """Return which device this is."""

    def cache_bytes(self) -> int | None:
        """Return the size of the L2 cache, or None where it is not known."""

    def memory_bytes(self) -> int | None:
        """Return the size of the device's memory, or None where it is not known."""

    def record(self, launches: Sequence[Launch]) -> Recording:
        """Record the launches, each after a flush; CaptureError where that cannot be."""

    def limits(self) -> Limits:
        """Return what an empty kernel takes, and samples of the ceilings."""

    def trim(self) -> None:
        """Give memory back that nothing holds any more."""


def make(kernel: Kernel, case: Case, seed: int) -> dict[str, torch.Tensor]:
    """Return a set of inputs in the host's memory."""
    return kernel.inputs(case.size, torch.Generator().manual_seed(seed))


class Contest:
    """The entrants of one size: the same sets of inputs for all, and outputs of its own for each variant.

    `made`: the first set, where it is there already. There may be more sets than values: those in turn.
    """

    def __init__(
        self, kernel: Kernel, case: Case, seed: int, device: TensorDevice, made: dict[str, torch.Tensor] | None = None
    ) -> None:
        self.kernel, self.case, self.seed, self.device = kernel, case, seed, device
        first = self._make(seed) if made is None else made
        declared = kernel.outputs(first)
        written = sum(torch.Size(output.shape).numel() * output.dtype.itemsize for output in declared.values())
        self.set_bytes = sum(value.nbytes for value in first.values()) + written
        values = value_count(self.set_bytes, device.cache_bytes())
        # What peers return lies in memory of each stream, of that on which recordings are made, and of the recordings.
        copies = len(kernel.variants) + len(kernel.peers) * (len(device.streams) + 2)
        held = self.set_bytes + written * max(0, copies - 1)
        self.sets = range(set_count(values, held, device.memory_bytes()))
        # Random numbers of one generator come one after another; those of several need not wait for each other.
        with ThreadPoolExecutor() as beside:
            self.values = [first, *beside.map(self._make, [seed + index for index in range(1, values)])]
        self.given: dict[Precast, dict[str, torch.Tensor]] = {}
        self.wanted: dict[Precast, tuple[Tensors, Tensors]] = {}
        self.outputs: dict[str, list[Outputs]] = {}
        self.returned: dict[str, dict[int, Any]] = {}
        self.lanes: dict[str, Lane] = {}
        self.sampled: dict[str, set[int]] = {}
        self.prepared: dict[str, Prepared] = {}

    def _make(self, seed: int) -> dict[str, torch.Tensor]:
        return make(self.kernel, self.case, seed)

    def _layout(self, name: str) -> Layout:
        return self.case.layouts.get(name, "contiguous")

    def _given(self, dtype: torch.dtype | None, index: int) -> dict[str, torch.Tensor]:
        """Return a set of inputs, cast for a variant, on the device: the same for all that ask for this dtype."""
        if (dtype, index) not in self.given:
            values, place = cast(self.values[index % len(self.values)], dtype), self.device.place
            self.given[dtype, index] = {n: guard_input(v, self._layout(n), place).tensor for n, v in values.items()}
        return self.given[dtype, index]

    def _wanted(self, dtype: torch.dtype | None, index: int) -> tuple[Tensors, Tensors]:
        """Return a set's inputs and the oracle's outputs in float64, computed on the device: the host takes too long
        for a timed size. Sets of the same values share them.
        """
        asked = dtype, index % len(self.values)
        if asked not in self.wanted:
            wide = widen(self._given(*asked))
            self.wanted[asked] = wide, self.kernel.oracle(wide)
        return self.wanted[asked]

    def inputs(self) -> Inputs:
        """Describe what is fed: how many sets, and the values of the first."""
        cache = self.device.cache_bytes()
        return Inputs(
            seed=self.seed,
            sets=len(self.sets),
            set_bytes=self.set_bytes,
            cache_bytes=Unavailable(reason="torch does not know the size of the L2 cache") if cache is None else cache,
            tensors=[_described(name, value) for name, value in self._given(None, 0).items()],
        )

    # Entering

    def _peer(self, name: str) -> Peer | None:
        return next((peer for peer in self.kernel.peers if peer.name == name), None)

    def _dtype_of(self, precision: str) -> torch.dtype | None:
        """Return the dtype of the variants of a precision, which a peer of that precision gets too."""
        return next((v.dtype for v in self.kernel.variants if v.precision == precision), None)

    def _launches(self, name: str) -> list[Launch]:
        """Return an entrant's launch for each set. A variant's outputs are allocated; a peer's are kept as it returns
        them.
        """
        peer = self._peer(name)
        if peer is not None:
            dtype, kept = self._dtype_of(peer.precision), self.returned.setdefault(name, {})
            return [partial(_run, peer, self._given(dtype, index), kept, index) for index in self.sets]
        variant = self.kernel.variant(name)
        given = [self._given(variant.dtype, index) for index in self.sets]
        self.outputs[name] = [self._allocated(inputs) for inputs in given]
        return [
            partial(self.kernel.launch, inputs, {n: h.tensor for n, h in outputs.items()}, variant)
            for inputs, outputs in zip(given, self.outputs[name], strict=True)
        ]

    def _allocated(self, inputs: Tensors) -> Outputs:
        declared, place = self.kernel.outputs(inputs), self.device.place
        return {n: guard_output(o.shape, o.dtype, self._layout(n), place) for n, o in declared.items()}

    def _recorded(self, launches: Sequence[Launch]) -> Recording | Unavailable:
        try:
            return self.device.record(launches)
        except CaptureError as error:
            return Unavailable(reason=str(error))

    def _open(self, name: str, shares: Sequence[Share], digests: Sequence[str]) -> Prepared:
        """Record each share of an entrant's launches: there is a recording of all, or of none."""
        recordings = [self._recorded(launches) for _, launches in shares]
        missing = next((one for one in recordings if isinstance(one, Unavailable)), None)
        kept = [None if missing or isinstance(one, Unavailable) else one for one in recordings]
        self.lanes[name] = Lane([Heat(*share, one) for share, one in zip(shares, kept, strict=True)])
        smallest = min(len(launches) for _, launches in shares)
        self.prepared[name] = Prepared(binary_sha256=list(digests), launches=smallest, no_replay=missing)
        return self.prepared[name]

    def _warm_up(self, first: Sequence[Launch], further: Sequence[Launch]) -> float:
        """Launch on the first stream and on each further one, since a library may set up a workspace for each, and
        torch keeps freed memory by stream; return what the shortest launch took, in ns.
        """
        pairs = []
        for place, stream in enumerate(self.device.streams):
            with stream:
                pairs += [marked(self.device, launch) for launch in (further if place else first)]
            self.device.synchronise()
        return min(self.device.elapsed_ns(*pair) for pair in pairs)

    def enter(self, name: str, warmup: int, repeats: int) -> Prepared:
        """Compile, warm up and record an entrant, then forget what it wrote."""
        if name in self.prepared:
            return self.prepared[name]
        try:
            launches = self._launches(name)
            with watch() as launched:
                # What a peer returned is held for all sets at a time, each in memory of the stream it was made on.
                further = launches[:1] if name in self.outputs else launches
                launch_ns = self._warm_up(turns(launches, warmup), further)
        except torch.OutOfMemoryError as error:
            # It spoils nothing: those that entered before stay.
            self.leave(name)
            return Prepared(binary_sha256=[], refused=_out_of_memory(error))
        most = launch_count(launch_ns)
        parts, fewest = heats(len(launches), most), min(repeats, most)
        shares = [(part, turns(launches[part.start : part.stop], fewest)) for part in parts]
        prepared = self._open(name, shares, launched.digests())
        _blank(self.outputs.get(name, ()))
        # Whoever launches next may do so on another stream.
        self.device.synchronise()
        return prepared

    def enter_again(self, name: str, of: str) -> Prepared:
        """Enter an entrant under a second name: the same launches into the same outputs, in recordings of its own."""
        shares = [(heat.sets, heat.launches) for heat in self.lanes[of].heats]
        return self._open(name, shares, self.prepared[of].binary_sha256)

    def leave(self, name: str) -> None:
        """Let go of what an entrant holds."""
        for held in (self.lanes, self.prepared, self.outputs, self.returned, self.sampled):
            held.pop(name, None)
        self.device.trim()

    def take(self, turn: int, order: Sequence[str]) -> Round:
        """Take the round of this number: a sample of each of these entrants, in this order."""
        taken = {name: self.lanes[name].heat(turn) for name in order}
        for name, heat in taken.items():
            self.sampled.setdefault(name, set()).update(heat.sets)
        return take_round(self.device, taken)

    # Checking

    def check(self, name: str) -> Checked:
        """Judge what the timed launches of an entrant left, and what another launch in each of its modes leaves."""
        try:
            if name in self.outputs:
                return self._check_variant(self.kernel.variant(name))
            return Checked(verdict=None, accuracy=self._returned_accuracy(name))
        except torch.OutOfMemoryError as error:
            reason = f"what it wrote could not be checked after timing: {_out_of_memory(error).reason}"
            verdict = Verdict(outcome="cantTell", cause="does-not-fit", reason=reason) if name in self.outputs else None
            return Checked(verdict=verdict, accuracy=Unavailable(reason=reason))

    def _check_variant(self, variant: Variant) -> Checked:
        outputs, lane = self.outputs[variant.id], self.lanes[variant.id]
        multiplier = measured(self.kernel, variant, self.device.place)
        # A round or two leave sets that no sample was taken of.
        sampled = sorted(self.sampled.get(variant.id, self.sets))
        found, left = self._judge(variant, multiplier, sampled, "after timing"), _bits(outputs)
        modes: dict[str, list[Launch]] = {"launched": [launch for heat in lane.heats for launch in heat.launches]}
        if plays := [heat.recording.play for heat in lane.heats if heat.recording is not None]:
            modes["replayed"] = plays
        for how, mode in modes.items():
            # The rounds leave what the mode that came last wrote; here each writes alone.
            _blank(outputs)
            _launch_all(mode)
            self.device.synchronise()
            if _passed(found) and not _same(outputs, left):
                found = self._judge(variant, multiplier, self.sets, f"{how} once more after timing")
        return found

    def _judge(self, variant: Variant, multiplier: Multiplier | None, sets: Iterable[int], when: str) -> Checked:
        accuracies = list[Accuracy]()
        verdict = Verdict(outcome="passed", reason="what the timed launches wrote is within the bound")
        for index in sets:
            wide, want = self._wanted(variant.dtype, index)
            problem = pose(self.kernel, variant, self.case.size, wide, want, multiplier=multiplier)
            got = {name: held.tensor for name, held in self.outputs[variant.id][index].items()}
            judged = judge_all(compare_all(self.kernel, got, problem))
            if judged.outcome != "passed" and verdict.outcome == "passed":
                verdict = Verdict(outcome="failed", cause=judged.cause, reason=f"{when}, {judged.reason}")
            accuracies.append(closeness_of_all(got, want))
        return Checked(verdict=verdict, accuracy=worst(accuracies))

    def _returned_accuracy(self, name: str) -> Accuracy | Unavailable:
        """Return the errors of what a peer returned in the timed launches, each set's last."""
        peer, returned = self._peer(name), self.returned.get(name, {})
        if peer is None or not returned:
            return Unavailable(reason="it was not launched")
        dtype, found = self._dtype_of(peer.precision), list[Accuracy]()
        try:
            for index, result in returned.items():
                want = self._wanted(dtype, index)[1]
                found.append(closeness_of_all(_named(result, want), want))
        except (OutputError, ValueError, RuntimeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            return Unavailable(reason=one_line(f"what it returned cannot be compared: {error}", 240))
        return worst(found)


def _described(name: str, value: torch.Tensor) -> TimedInput:
    wide = value.to(torch.float64)
    deviation, mean = torch.std_mean(wide, correction=0)
    return TimedInput(
        name=name,
        shape=list(value.shape),
        dtype=str(value.dtype).removeprefix("torch."),
        mean=number(float(mean)),
        deviation=number(float(deviation)),
        zeros=int((value == 0).sum()),
        elements=value.numel(),
    )


def _run(peer: Peer, inputs: Tensors, kept: dict[int, Any], index: int) -> None:
    kept[index] = peer.run(inputs)


def _launch_all(launches: Iterable[Callable[[], object]]) -> None:
    for launch in launches:
        launch()


def _named(result: Any, want: Tensors) -> Tensors:
    """Return what a peer returned by the outputs' names: a tensor where there is one output, else a mapping."""
    if isinstance(result, torch.Tensor) and len(want) == 1:
        return {next(iter(want)): result}
    if isinstance(result, Mapping) and all(isinstance(result.get(name), torch.Tensor) for name in want):
        return result
    expected = "a tensor" if len(want) == 1 else "a mapping"
    raise OutputError(f"expected {expected} for {', '.join(want)}, found {type(result).__name__}")


def _out_of_memory(error: torch.OutOfMemoryError) -> Verdict:
    reason = one_line(f"the device has too little memory: {error}", 240)
    return Verdict(outcome="inapplicable", cause="does-not-fit", reason=reason)


def _blank(sets: Iterable[Outputs]) -> None:
    for outputs in sets:
        for held in outputs.values():
            held.bits().fill_(BLANK[held.dtype.itemsize])


def _bits(sets: Iterable[Outputs]) -> list[torch.Tensor]:
    return [held.bits().clone() for outputs in sets for held in outputs.values()]


def _same(sets: Iterable[Outputs], before: Sequence[torch.Tensor]) -> bool:
    now = (held.bits() for outputs in sets for held in outputs.values())
    return all(torch.equal(one, other) for one, other in zip(now, before, strict=True))


def _passed(checked: Checked) -> bool:
    return checked.verdict is not None and checked.verdict.outcome == "passed"

"""Launches once more under other schedules of the interpreter, and says what the result owes to the usual one."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from msgspec import structs

from assay.buffers import Guards, contents, differing, reset, restored
from assay.dependence import Left
from assay.phases import Log
from assay.record import Verdict
from assay.schedules import Schedule, StuckError, Watch, watching

HOW: Mapping[Schedule, str] = {
    "at once": "programs run at once",
    "late": "what one program stores comes after what another does",
    "reversed": "programs and lanes run in reversed order",
    "first lane first": "a program's lanes run one after another, the first one first",
    "last lane first": "a program's lanes run one after another, the last one first",
}
"""What the schedules that bits are compared under are like."""


@dataclass(frozen=True)
class Reordered:
    """What was launched, on guarded tensors, and how results are judged. Outputs stay as the first launch left them."""

    inputs: Guards
    outputs: Guards
    launch: Callable[[], object]
    judge: Callable[[Left], Verdict]

    @contextlib.contextmanager
    def launched(self, schedule: Schedule, log: Log | None = None) -> Iterator[list[torch.Tensor]]:
        """Launch over outputs that are blank again, for a look inside; give what the first launch left."""
        with restored(self.outputs) as first:
            for held in self.outputs.values():
                reset(held)
            with watching([held.tensor for held in self.inputs.values()], schedule, log):
                self.launch()
            yield first

    def differs(self, schedule: Schedule, log: Log | None = None) -> str | None:
        """Say how what a launch leaves under a schedule differs from what the first one left, or None."""
        try:
            with self.launched(schedule, log) as first:
                changed = differing(first, contents(self.outputs))
        except Exception as error:
            # A program that finds what it did not before may do anything with it; that it waits for ever shows nothing.
            return None if _waits(error) else f"the launch raises {type(error).__name__}"
        return f"{changed} of {sum(bits.numel() for bits in first)} output elements differ" if changed else None

    def raced(self, watch: Watch) -> Verdict | None:
        """Say that the result depends on the order in which programs or lanes run, where there is reason to ask.

        Launched as before it must be the same again: what changes by itself shows nothing about order.
        """
        log: Log = {}
        if not watch.alternatives or self.differs("in order", log) is not None:
            return None
        for schedule, conflict in watch.alternatives.items():
            said = self.differs(schedule, log)
            if said is not None:
                reason = f"{said} where {HOW[schedule]}: {conflict}"
                return Verdict(outcome="failed", cause="race", reason=reason)
        return None

    def strays(self, watch: Watch) -> Verdict | None:
        """Say that the result is past its bounds in an order that rounds otherwise, where a launch gives reason to ask:
        elements are combined in groups, or the last program comes first to an atomic operation.
        """
        if watch.combines and (judged := self._judged("grouped")).outcome != "passed":
            reason = (
                f"where what is reduced, scanned or concatenated comes as the threads of a GPU have it, {judged.reason}"
            )
            return structs.replace(judged, reason=reason)
        if watch.draws is None or self.differs("in order") is not None:
            return None
        judged = self._judged("reversed")
        if judged.outcome == "passed":
            return None
        where = f" ({watch.draws})" if watch.draws else ""
        reason = f"where programs and lanes come to an atomic operation in reversed order{where}, {judged.reason}"
        return Verdict(outcome="failed", cause="race", reason=reason)

    def _judged(self, schedule: Schedule) -> Verdict:
        """Judge what a launch under a schedule leaves; what it does where a program waits for ever says nothing."""
        try:
            with self.launched(schedule):
                return self.judge({name: held.tensor.clone() for name, held in self.outputs.items()})
        except Exception as error:
            if _waits(error):
                return Verdict(outcome="passed", reason="nothing is shown: a program waits for another")
            return Verdict(outcome="failed", cause="race", reason=f"the launch raises {type(error).__name__}")


def _waits(error: BaseException | None) -> bool:
    """Return whether an error comes of a program that waits for another."""
    while error is not None and not isinstance(error, StuckError):
        error = error.__cause__ or error.__context__
    return error is not None

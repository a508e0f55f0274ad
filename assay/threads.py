"""Shows, under the interpreter, whether a result depends on the order in which the lanes of one program run.

The interpreter does each operation for all lanes before the next one; the threads of a GPU go on by themselves until
they wait for each other. What lanes do to memory between two such barriers is watched (`assay.phases`); where two are
in conflict, the launches run again lane by lane. `tl.debug_barrier` is a barrier. So is, by what Triton's compiler puts
there, most of what moves values from lane to lane through shared memory (PTX ISA, bar.sync, holds for all memory): it
is taken to be one always, so that no kernel is blamed for what the compiler sees to.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.addresses import Array, active_lanes
from assay.phases import Lane, Touch
from assay.schedules import Held, Running, current_launch, line_that_runs, replaced, without

ATOMIC = ("create_atomic_cas", "create_atomic_rmw")
MOVING = ("cat", "dot", "dot_scaled", "gather", "histogram", "join", "reshape", "split", "trans")
"""Operations that move values between threads, by their names in the builder."""


def watch_threads(interpreter: Any, held: Held) -> None:
    """Watch what lanes do from now on; `held` looks at memory past every watch. Called once, by `assay.interpreting`,
    behind the watch over programs.
    """
    builder = interpreter.InterpreterBuilder
    for name in ("create_barrier", *(f"create_{operation}" for operation in MOVING)):
        # Not every version of Triton has each.
        if hasattr(builder, name):
            _watch_barrier(builder, name, Running.pass_barrier)
    _watch_barrier(interpreter.ReduceScanOpInterface, "apply", Running.pass_barrier)
    for name in ATOMIC:
        # What releases comes before it waits: `assay.schedules` sees to that.
        _watch_barrier(builder, name, lambda running: running.phases.pass_barrier())
    _watch_loads(builder)
    _watch_stores(builder, held)


def _watch_barrier(owner: Any, name: str, passing: Callable[[Running], None]) -> None:
    operation: Callable[..., Any] = getattr(owner, name)

    def waiting(self: Any, *operands: Any, **named: Any) -> Any:
        running = current_launch()
        if running is not None:
            passing(running)
        return operation(self, *operands, **named)

    setattr(owner, name, waiting)


def _touch(running: Running, pointers: Array, mask: Array, values: Array | None = None) -> Touch | None:
    """Return what an operation does, kept if that is asked; None where nothing can be in conflict with it."""
    addresses, phases = active_lanes(pointers, mask), running.phases
    if not (phases.watched or phases.by_lane) or addresses.size == 0 or running.is_constant(addresses):
        return None
    lanes = np.flatnonzero(np.broadcast_to(mask, pointers.shape))
    stored = None if values is None else active_lanes(np.broadcast_to(values, pointers.shape), mask)
    touch = Touch(addresses, lanes, pointers.size, phases.phase.turn(), line_that_runs(), stored)
    if phases.watched:
        phases.touch(touch)
    return touch


def _watch_loads(builder: Any) -> None:
    load: Callable[..., Any] = builder.create_masked_load

    def loading(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        made, running = load(self, pointers, mask, *rest, **named), current_launch()
        touch = None if running is None else _touch(running, pointers.data, mask.data)
        if running is not None and touch is not None and running.phases.phase.foreseen:
            made.data = _found(running, touch.turn, pointers.data, mask.data, made.data)
        return made

    builder.create_masked_load = loading


def _found(running: Running, turn: int, pointers: Array, mask: Array, loaded: Array) -> Array:
    """Return what a load finds where lanes run one after another."""
    phase, first, many = running.phases.phase, _is_first(running), pointers.size
    return replaced(loaded, pointers, mask, lambda at, lane: phase.found(at, Lane(lane, many), turn, first=first))


def _is_first(running: Running) -> bool:
    return running.watch.schedule == "first lane first"


def _watch_stores(builder: Any, held: Held) -> None:
    store: Callable[..., Any] = builder.create_masked_store

    def storing(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        running = current_launch()
        touch = None if running is None else _touch(running, pointers.data, mask.data, value.data)
        if running is not None and touch is not None and running.phases.phase.foreseen:
            mask = without(mask, _passed(running, touch, pointers.data, held(self, pointers, mask)))
        return store(self, pointers, value, mask, *rest, **named)

    builder.create_masked_store = storing


def _passed(running: Running, touch: Touch, pointers: Array, held: Array) -> Array:
    """Say of each lane whether another of its program, which runs after it, has stored to its address."""
    phase, first, lost = running.phases.phase, _is_first(running), np.zeros(pointers.shape, bool)
    held = np.broadcast_to(held, pointers.shape)
    for at, stored in touch.stored():
        lane = stored.lane.number
        lost.flat[lane] = not phase.store(at, stored, held.flat[lane], first=first)
    return lost

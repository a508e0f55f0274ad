"""Combines, under the interpreter's schedule "grouped", what reductions and scans combine in an order that a GPU has.

The threads of a GPU combine parts that were combined before, and not always one more element: a scan two halves, a
reduction every second element and then the others, since it keeps no order. `tl.cat`, which may reorder, does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.schedules import current_watch


def watch_combining(interpreter: Any) -> None:
    """Watch what launches of Triton's interpreter combine from now on. Called once, by `assay.interpreting`."""
    _watch_joining(interpreter.InterpreterBuilder)
    _watch_combining(interpreter.ReduceOps, "generic_reduce", _reduce_parts)
    _watch_combining(interpreter.ScanOps, "generic_scan", _scan_halves)


def _watch_joining(builder: Any) -> None:
    join: Callable[..., Any] = builder.create_cat

    def joining(self: Any, *parts: Any) -> Any:
        made, watch = join(self, *parts), current_watch()
        if watch is not None:
            watch.combines = True
            if watch.schedule == "grouped":
                made.data = np.concatenate([made.data[0::2], made.data[1::2]])
        return made

    builder.create_cat = joining


Combine = Callable[[Any, Any], list[Any]]
"""A method of the interpreter that combines the elements of several tensors along an axis, with its `self`."""


def _watch_combining(operations: Any, name: str, parts: Callable[[Any, Sequence[Any], Combine], list[Any]]) -> None:
    combine: Combine = getattr(operations, name)

    def combining(self: Any, input: Any) -> list[Any]:
        watch = current_watch()
        if watch is None or self.axis is None or input[0].handle.data.shape[self.axis] < 3:
            return combine(self, input)
        watch.combines = True
        return parts(self, input, combine) if watch.schedule == "grouped" else combine(self, input)

    setattr(operations, name, combining)


def _part(self: Any, tensors: Sequence[Any], of: slice) -> tuple[Any, ...]:
    """Return a part of the tensors along the axis."""
    places = (*(slice(None),) * (self.axis % tensors[0].handle.data.ndim), of)
    return tuple(self.to_tensor(tensor.handle.data[places], tensor.dtype) for tensor in tensors)


def _joined(self: Any, *parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the tensors of several parts, one behind the other along the axis."""
    return tuple(
        self.to_tensor(np.concatenate([one.handle.data for one in each], self.axis), each[0].dtype)
        for each in zip(*parts, strict=True)
    )


def _reduce_parts(self: Any, input: Sequence[Any], combine: Combine) -> list[Any]:
    kept, self.keep_dims = self.keep_dims, True
    parts = [combine(self, _part(self, input, slice(first, None, 2))) for first in (1, 0)]
    self.keep_dims = kept
    return combine(self, _joined(self, *parts))


def _scan_halves(self: Any, input: Sequence[Any], combine: Combine) -> list[Any]:
    middle, length = input[0].handle.data.shape[self.axis] // 2, input[0].handle.data.shape[self.axis]
    first, second = (combine(self, _part(self, input, of)) for of in (slice(middle), slice(middle, None)))
    total, found = _part(self, first, slice(middle - 1, None)), [tuple(first)]
    for at in range(length - middle):
        both = combine(self, _joined(self, total, _part(self, second, slice(at, at + 1))))
        found.append(_part(self, both, slice(1, None)))
    return list(_joined(self, *found))

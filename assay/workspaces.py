"""Finds the memory that a launch makes for itself: workspaces, padded copies, what a table of pointers points at.

No argument tells of a tensor that is reached through a table, so torch is asked for every tensor that it makes.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from assay.addresses import Span, allowing, overlaps, storage_span


class Workspaces:
    """The storages that launches have made, for as long as each lives: one may be kept from launch to launch."""

    def __init__(self) -> None:
        self._made: dict[StorageWeakRef, Span] = {}

    @contextlib.contextmanager
    def allowed(self, guarded: Sequence[torch.Tensor]) -> Iterator[None]:
        """Allow every launch inside these tensors, between their guards, and all that is made inside."""
        storages = [storage_span(tensor) for tensor in guarded]
        with allowing(guarded, self.spans), _Watching(lambda tensor: self._note(tensor, storages)):
            yield

    def spans(self) -> list[Span]:
        """Return the span of each storage that still lives: where another was, anything may lie by now."""
        self._made = {storage: span for storage, span in self._made.items() if not _is_gone(storage)}
        return list(self._made.values())

    def _note(self, tensor: torch.Tensor, guarded: Sequence[Span]) -> None:
        span = storage_span(tensor)
        # A view of what is guarded is no new memory.
        if not overlaps(span, guarded):
            self._made[StorageWeakRef(tensor.untyped_storage())] = span  # type: ignore[no-untyped-call]


def _is_gone(storage: StorageWeakRef) -> bool:
    return bool(storage.expired())  # type: ignore[no-untyped-call]


def reachable(
    workspaces: Workspaces, device: str, tensors: Sequence[torch.Tensor]
) -> contextlib.AbstractContextManager[None]:
    """Say what launches on a device ('cpu' under the interpreter) may reach: these tensors and what is made inside.

    Only the interpreter checks addresses, so that nobody need look what is made on a device.
    """
    return workspaces.allowed(tensors) if device == "cpu" else allowing(tensors)


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells of every tensor on the host that torch gives back."""

    def __init__(self, tell: Callable[[torch.Tensor], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tell = tell

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(given):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" and leaf.layout is torch.strided:
                self._tell(leaf)
        return given

"""Refuses, under the interpreter, every access outside the tensors that a launch was given, before it happens.

A GPU has no such check: it reads whatever lies there, and what it overwrites is someone else's. Guards around a tensor
show that only where the result changes; this shows it where nothing does, and keeps the process alive. What a launch
makes itself (`assay.workspaces`) has no guards, so that all of its storage may be reached: a kernel may be handed the
middle of a padded copy.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from assay.errors import AssayError

Array = npt.NDArray[Any]
Span = tuple[int, int]
"""Addresses in bytes: the first that is allowed, and the first past it that is not."""


@dataclass(frozen=True)
class Allowance:
    """What launches may reach: `spans`, whatever `made` gives when one begins, and the storages of their arguments.

    Of the storages in `guarded` they may reach what is allowed by itself alone: guards lie around it.
    """

    spans: tuple[Span, ...] = ()
    guarded: tuple[Span, ...] = ()
    made: Callable[[], Iterable[Span]] = tuple

    def of(self, tensor: torch.Tensor) -> Span:
        """Return the span that an argument of a launch may be reached in."""
        storage = storage_span(tensor)
        return extent(tensor) if overlaps(storage, self.guarded) else storage


_ARGUMENTS_ALONE = Allowance()
_ALLOWED: ContextVar[Allowance] = ContextVar("allowed", default=_ARGUMENTS_ALONE)


class OutsideRead(AssayError):
    """A load outside every tensor. `assay.diagnosis` knows it by its name, as it does `OutsideWrite`."""


class OutsideWrite(AssayError):
    """A store or an atomic operation outside every tensor."""


def extent(tensor: torch.Tensor) -> Span:
    """Return the span from a tensor's first element to its last: gaps between its rows count, its allocation not."""
    elements = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (elements if tensor.numel() else 0) * tensor.element_size()


def storage_span(tensor: torch.Tensor) -> Span:
    """Return the span of the whole storage that a tensor is a view into."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def overlaps(span: Span, others: Iterable[Span]) -> bool:
    """Return whether a span has an address in common with another."""
    return any(max(span[0], start) < min(span[1], stop) for start, stop in others)


@contextlib.contextmanager
def allowing(tensors: Sequence[torch.Tensor], made: Callable[[], Iterable[Span]] = tuple) -> Iterator[None]:
    """Allow these tensors to every launch inside, so that a kernel may reach them through a table of pointers, and of
    their storages nothing else. `made` gives, whenever a launch begins, what may be reached besides.
    """
    spans, guarded = map(extent, tensors), map(storage_span, tensors)
    before = _ALLOWED.get()
    token = _ALLOWED.set(Allowance((*before.spans, *spans), (*before.guarded, *guarded), made))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def check_addresses(interpreter: Any) -> None:
    """Check every access of Triton's interpreter from now on. Called once, by `assay.interpreting`."""
    _allow_arguments(interpreter)
    # Everything else that reaches memory, block pointers and descriptors too, goes through one of these four.
    _check(interpreter, "create_masked_load", 0, 1, OutsideRead)
    _check(interpreter, "create_masked_store", 0, 2, OutsideWrite)
    _check(interpreter, "create_atomic_cas", 0, None, OutsideWrite)
    _check(interpreter, "create_atomic_rmw", 1, 3, OutsideWrite)


def _allow_arguments(interpreter: Any) -> None:
    """Allow each launch its own arguments, as the interpreter addresses them: a tensor of a device is copied first."""
    executor = interpreter.GridExecutor
    call, copy = executor.__call__, executor._init_args_hst

    def calling(self: Any, *arguments: Any, **named: Any) -> Any:
        token = _ALLOWED.set(_ALLOWED.get())
        try:
            return call(self, *arguments, **named)
        finally:
            _ALLOWED.reset(token)

    def copying(self: Any, arguments: Any, named: Any) -> Any:
        host, allowed = copy(self, arguments, named), _ALLOWED.get()
        own = map(allowed.of, _tensors((*host[0], *host[1].values()), interpreter))
        _ALLOWED.set(replace(allowed, spans=(*allowed.spans, *allowed.made(), *own)))
        return host

    executor.__call__, executor._init_args_hst = calling, copying


def _tensors(arguments: Iterable[Any], interpreter: Any) -> Iterator[torch.Tensor]:
    """Find the tensors among arguments: also in tuples, under descriptors and reinterpreted as another dtype."""
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _tensors(argument, interpreter)
        elif isinstance(argument, interpreter.TensorDescriptor):
            yield from _tensors((argument.base,), interpreter)
        elif hasattr(argument, "data_ptr"):
            yield interpreter._unwrap_tensor(argument)


def _check(interpreter: Any, name: str, pointers_at: int, mask_at: int | None, refusal: type[AssayError]) -> None:
    """Check a method of the builder, of which the places of pointers and mask among its operands are given."""
    builder = interpreter.InterpreterBuilder
    access: Callable[..., Any] = getattr(builder, name)
    verb = "read" if refusal is OutsideRead else "write"

    @functools.wraps(access)
    def checked(self: Any, *operands: Any, **named: Any) -> Any:
        pointers = operands[pointers_at]
        size = np.dtype(interpreter._get_np_dtype(pointers.get_element_ty())).itemsize
        active = active_lanes(pointers.data, None if mask_at is None else operands[mask_at].data)
        outside = count_outside(active, size, _ALLOWED.get().spans)
        if outside:
            lanes, far = f"{outside} of {active.size} lanes", how_far(active, size, _ALLOWED.get().spans)
            raise refusal(f"{lanes} {verb} outside every tensor that the launch was given{far}")
        return access(self, *operands, **named)

    setattr(builder, name, checked)


def active_lanes(addresses: Array, mask: Array | None) -> Array:
    """Return the addresses, or other values, of the lanes that are not masked off, as a flat array."""
    if mask is None:
        return np.ravel(addresses)
    return np.asarray(addresses[np.broadcast_to(mask, addresses.shape).astype(bool)])


def count_outside(addresses: Array, size: int, spans: Iterable[Span]) -> int:
    """Count the addresses (flat, uint64) at which an element of `size` bytes lies within no single span."""
    if addresses.size == 0:
        return 0
    spans = [(start, stop - size) for start, stop in spans if stop - start >= size]
    first, last = int(addresses.min()), int(addresses.max())
    if any(start <= first and last <= stop for start, stop in spans):
        return 0
    inside = np.zeros(addresses.shape, bool)
    for start, stop in spans:
        inside |= (addresses >= np.uint64(start)) & (addresses <= np.uint64(stop))
    return int((~inside).sum())


def how_far(addresses: Array, size: int, spans: Iterable[Span]) -> str:
    """Say how far an element of `size` bytes lies from the nearest span with something in it, at the address (flat,
    uint64, at least one) that is the farthest from any; nothing where there is no such span.
    """
    held = [span for span in spans if span[0] < span[1]]
    if not held:
        return ""
    farthest = int(addresses[np.argmax(np.min([_astray(addresses, size, span) for span in held], axis=0))])
    start, stop = min(held, key=lambda span: max(span[0] - farthest, farthest + size - span[1]))
    before, past = start - farthest, farthest + size - stop
    return f", up to {_bytes(before)} before the nearest" if before > 0 else f", up to {_bytes(past)} past the nearest"


def _astray(addresses: Array, size: int, span: Span) -> Array:
    """Return by how many bytes each element begins before a span, or ends past it; 0 for one that lies within."""
    start, stop = map(np.uint64, span)
    ends = addresses + np.uint64(size)
    within = np.where(ends > stop, ends - stop, np.uint64(0))
    return np.where(addresses < start, start - addresses, within)


def _bytes(count: int) -> str:
    """Return a distance: exactly where it is short. What lies farther off is up to the allocator as well."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"about {round(count / size)} {unit}"
    return f"{count} byte{'s' if count > 1 else ''}"

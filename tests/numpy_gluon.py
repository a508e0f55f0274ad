"""As much of Gluon as a kernel of pointers, masks and shared memory uses, done by NumPy one program after another.

Triton's interpreter runs no Gluon kernel, so that nothing without a GPU would compute what one says. This computes it:
layouts, which say only who holds what, mean nothing here, and shared memory starts as NaN. It shows nothing about
barriers, for there is one thread.
"""

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
import torch
from triton.experimental.gluon._runtime import GluonJITFunction

from assay.schedules import current_watch

Array = np.ndarray[Any, np.dtype[Any]]


class Values(np.ndarray[Any, np.dtype[Any]]):
    """A tensor or a scalar, with the methods of one."""

    def to(self, dtype: type) -> "Values":
        return self.astype(dtype).view(Values)


def values(what: Any, dtype: Any = None) -> Values:
    return np.asarray(what, dtype).view(Values)


class Pointers:
    """Elements of a tensor, by how far its first one is from them."""

    def __init__(self, tensor: torch.Tensor, offsets: Any = 0) -> None:
        self.tensor = tensor
        self.offsets: Array = np.asarray(offsets, np.int64)

    def __add__(self, offsets: Any) -> Self:
        return type(self)(self.tensor, self.offsets + np.asarray(offsets))

    def reach(self, mask: Any) -> tuple[torch.Tensor, Array, Array]:
        """Return the memory behind the tensor, the lanes that work in it, and where."""
        memory = torch.empty(0, dtype=self.tensor.dtype).set_(self.tensor.untyped_storage())
        at: Array = self.offsets + int(self.tensor.storage_offset())
        working = np.broadcast_to(True if mask is None else np.asarray(mask), at.shape)
        return memory, working & (at >= 0) & (at < memory.numel()), at


class Shared:
    """A piece of shared memory."""

    def __init__(self, cells: Array) -> None:
        self.cells = cells

    def index(self, at: Any) -> "Shared":
        return Shared(self.cells[int(at)])

    def permute(self, order: Any) -> "Shared":
        return Shared(self.cells.transpose(order))

    def reinterpret(self, dtype: Any, shape: Any, layout: Any) -> "Shared":
        return Shared(self.cells.reshape(shape))

    _reinterpret = reinterpret

    def load(self, layout: Any) -> Values:
        return values(self.cells.copy())

    def store(self, what: Values) -> None:
        assert what.shape == self.cells.shape
        self.cells[...] = what


def load(pointers: Pointers, mask: Any = None, other: float = math.nan) -> Values:
    """Read; a lane at work outside the allocation gets NaN."""
    memory, inside, at = pointers.reach(mask)
    loaded = np.full(at.shape, math.nan, np.float32)
    if mask is not None:
        loaded[~np.broadcast_to(np.asarray(mask), at.shape)] = other
    loaded[inside] = memory[torch.from_numpy(at[inside])].numpy()
    return values(loaded)


def store(pointers: Pointers, what: Values, mask: Any = None) -> None:
    """Write; what a lane writes outside the allocation is lost."""
    memory, inside, at = pointers.reach(mask)
    memory[torch.from_numpy(at[inside])] = torch.from_numpy(np.array(np.broadcast_to(what, at.shape)[inside]))


class Launcher:
    """A kernel that is started over a grid of one dimension, or a function that one calls."""

    def __init__(self, function: Callable[..., Any], language: SimpleNamespace) -> None:
        self._function = function
        self._language = language

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __getitem__(self, grid: tuple[Any]) -> Callable[..., None]:
        def start(*arguments: Any, num_warps: int, **constants: Any) -> None:
            if (watch := current_watch()) is not None:
                watch.launches += 1
            given = [self._argument(argument) for argument in arguments]
            for program in range(int(grid[0])):
                self._language.program_id = lambda axis, program=program: values(program, np.int32)
                with np.errstate(invalid="ignore", over="ignore"):
                    self._function(*given, **constants)

        return start

    @staticmethod
    def _argument(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return Pointers(argument)
        if isinstance(argument, float):
            return values(argument, np.float32)
        return values(argument, np.int32 if abs(argument) < 2**31 else np.int64)


def language() -> SimpleNamespace:
    """Return what stands in for `triton.experimental.gluon.language`."""
    nothing: Callable[..., None] = lambda *arguments: None  # noqa: E731
    return SimpleNamespace(
        constexpr=object,
        float32=np.float32,
        int64=np.int64,
        SliceLayout=nothing,
        SwizzledSharedLayout=nothing,
        BlockedLayout=nothing,
        DistributedLinearLayout=nothing,
        allocate_shared_memory=lambda dtype, shape, layout: Shared(np.full(shape, math.nan, dtype)),
        arange=lambda start, end, layout: values(np.arange(start, end), np.int32),
        cdiv=lambda a, b: -(-a // b),
        convert_layout=lambda tensor, layout: tensor,
        fma=lambda a, b, c: a * b + c,
        load=load,
        static_range=range,
        store=store,
        minimum=lambda a, b: values(np.minimum(a, b)),
        zeros=lambda shape, dtype, layout: values(np.zeros(shape, dtype)),
    )


def stand_in(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a kernel file's Gluon functions run by NumPy until the test is over."""
    fake = language()
    monkeypatch.setattr(module, "gl", fake)
    monkeypatch.setattr(module, "barrier", lambda: None)
    for name, function in list(vars(module).items()):
        if isinstance(function, GluonJITFunction):
            monkeypatch.setattr(module, name, Launcher(function.fn, fake))

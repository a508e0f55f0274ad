"""Records launches as a CUDA graph, in which the device times them without the host. Call in a child process only."""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from assay.errors import AssayError
from assay.privacy import one_line
from assay.sampling import Launch, Recording

_ABANDONED: list[torch.cuda.CUDAGraph] = []
"""Graphs whose capture did not end well: torch's allocators may still ask them whether a stream is theirs."""


class CaptureError(AssayError):
    """Launches that cannot be recorded."""


def _event() -> torch.cuda.Event:
    """Return an event that a graph records again at each replay."""
    try:
        return torch.cuda.Event(enable_timing=True, external=True)  # type: ignore[no-untyped-call]
    except TypeError:
        raise CaptureError(f"torch {torch.__version__} has no external events, which time within a graph") from None


def _marked(launch: Launch, flush: Launch) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    flush()
    start, end = _event(), _event()
    start.record()
    launch()
    end.record()
    return start, end


def _mend(pool: Any, flush: Launch) -> None:
    """Undo what a capture leaves that did not end well.

    The stream itself is out of capture once its end was asked for, whatever came of it (CUDA Runtime API,
    cudaStreamEndCapture), but torch raises before it takes its allocator and its random generator out of capture: the
    one would refuse to give memory back from then on, the other to draw numbers.
    """
    device = torch.cuda.current_device()
    for undo in (torch._C._cuda_endAllocateToPool, torch._C._cuda_releasePool):
        # They refuse where torch undid it itself.
        with contextlib.suppress(RuntimeError):
            undo(device, pool)
    torch.cuda.synchronize()
    # One that ends well takes the generator along.
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    flush()
    graph.capture_end()


def _captured(launches: Sequence[Launch], flush: Launch) -> Recording:
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    # Not `torch.cuda.graph`, which gives all cached memory back first: that takes longer than the capture.
    graph.capture_begin(pool)
    marks, failure = list[tuple[torch.cuda.Event, torch.cuda.Event]](), None
    try:
        marks += [_marked(launch, flush) for launch in launches]
    except Exception as error:
        failure = error
    try:
        graph.capture_end()
    except Exception as error:
        _ABANDONED.append(graph)
        _mend(pool, flush)
        # What the launch raised is the better reason.
        failure = failure or error
    try:
        if failure is not None:
            raise failure
    finally:
        # It holds this frame, and so all tensors of the launches.
        failure = None
    return Recording(graph.replay, marks)


def capture(launches: Sequence[Launch], flush: Launch, stream: torch.cuda.Stream) -> Recording:
    """Record a flush and a launch between two events for each of the launches, on `stream`, not the current one.

    Each must have run before, so that nothing is left to compile. CaptureError, with the reason in one line, where a
    launch cannot be recorded, such as one that waits for the device; the process and its streams can be used after it.
    """
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            # A library may set up a workspace for each stream, which cannot be done while recording.
            for launch in dict.fromkeys(launches):
                launch()
            stream.synchronize()
            return _captured(launches, flush)
    except CaptureError:
        raise
    except Exception as error:
        # Where the device itself is in error, this raises again, as what it is.
        torch.cuda.synchronize()
        raise CaptureError(one_line(f"not replayed from a CUDA graph: {type(error).__name__}: {error}", 240)) from error

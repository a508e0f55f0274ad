"""Asks many questions of several child processes at once. The answers come in the order of the questions."""

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from assay.child import Child
from assay.progress import Progress

Item = TypeVar("Item")
Answered = TypeVar("Answered")


def worker_count(wanted: int) -> int:
    """Return how many children to start: `wanted`, or one for each usable core where that is 0."""
    return wanted or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let no interrupt through; only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Pool(Generic[Item, Answered]):
    """Hands items to children, in order, and keeps each answer in its place.

    `keep` is told of each item that has its answer, and of none once the run is ended: a child that was killed for that
    says nothing about what it was asked.
    """

    def __init__(
        self,
        items: Sequence[Item],
        ask: Callable[[Child, Item], Answered],
        progress: Progress,
        keep: Callable[[Item], None] = lambda _: None,
    ) -> None:
        self._items, self._ask, self._progress, self._keep = items, ask, progress, keep
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._answers: dict[int, Answered] = {}
        self._broken: list[BaseException] = []
        for index in range(len(items)):
            self._waiting.put(index)

    def _work(self, child: Child) -> None:
        while not self._broken:
            try:
                index = self._waiting.get_nowait()
            except queue.Empty:
                return
            self._progress.running(str(self._items[index]))
            try:
                self._answers[index] = self._ask(child, self._items[index])
                if not self._broken:
                    self._keep(self._items[index])
            except BaseException as error:
                # Raised again in the caller's thread: a thread's own exception would go unseen.
                self._broken.append(error)
            self._progress.step()

    def run(self, children: Sequence[Child]) -> list[Answered]:
        """Ask until every item has its answer. A thread owns one child, and ends it.

        No thread is at work when this returns or raises: what they work with may be gone afterwards.
        """
        # Waited for instead of the threads: an interrupted `join` of Python 3.11 takes its thread for ended.
        owned = [(child, threading.Event()) for child in children[: len(self._items)]]
        for one in owned:
            threading.Thread(target=self._own, args=one).start()
        try:
            for _, ended in owned:
                ended.wait()
        except BaseException as error:
            with _uninterrupted():
                self._broken.append(error)
                for child, _ in owned:
                    child.end()
                for _, ended in owned:
                    ended.wait()
            raise
        for broken in self._broken:
            raise broken
        return [self._answers[index] for index in range(len(self._items))]

    def _own(self, child: Child, ended: threading.Event) -> None:
        try:
            with child:
                self._work(child)
        finally:
            ended.set()

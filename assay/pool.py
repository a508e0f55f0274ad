"""Asks many questions of several child processes at once. The answers come in the order of the questions."""

import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from assay.child import Child
from assay.progress import Progress

Item = TypeVar("Item")
Answered = TypeVar("Answered")


def worker_count(wanted: int) -> int:
    """Return how many children to start: `wanted`, or one for each usable core where that is 0."""
    return wanted or len(os.sched_getaffinity(0))


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

        No thread is left when this returns or raises: what they work with may be gone afterwards.
        """
        threads = [threading.Thread(target=self._own, args=(child,)) for child in children[: len(self._items)]]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as ended:
            self._broken.append(ended)
            for child in children:
                child.end()
            for thread in threads:
                thread.join()
            raise
        for error in self._broken:
            raise error
        return [self._answers[index] for index in range(len(self._items))]

    def _own(self, child: Child) -> None:
        with child:
            self._work(child)

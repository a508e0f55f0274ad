"""What a program of a launch knows of what others did: vector clocks. Pure.

What a program does between two releases is an epoch. Who acquires what was released knows of that epoch and of those
before it, and of all that the program that released it knew by then (C. Fidge, Timestamps in message-passing systems,
1988; F. Mattern, Virtual time and global states of distributed systems, 1989).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Clock = npt.NDArray[np.int32]
"""For each program, by its number, the newest epoch that is known of it, or -1; of those past its end nothing is."""

NOTHING: Clock = np.empty(0, np.int32)


def knows(clock: Clock, program: int, epoch: int) -> bool:
    """Return whether what a program did in an epoch comes before what is done at this clock."""
    return program < clock.size and bool(clock[program] >= epoch)


def joined(one: Clock, other: Clock) -> Clock:
    """Return what either knows."""
    short, long = sorted((one, other), key=len)
    made = long.copy()
    np.maximum(made[: short.size], short, out=made[: short.size])
    return made


class Release(NamedTuple):
    """The end of a program's epoch, and what the program knew by then."""

    program: int
    epoch: int
    clock: Clock

    def known(self) -> Clock:
        """Return what is known to whoever acquires it."""
        own = np.full(self.program + 1, -1, np.int32)
        own[self.program] = self.epoch
        return joined(own, self.clock)

"""The search for the place where something changed in a row of points, some of which cannot be judged. Pure.

The first point is as before, the last as after. As `git bisect` does it the search halves what lies between; a point
that cannot be judged is passed over, and where only such points are left the answer is a range.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Judged = Mapping[int, bool | None]
"""By the number of a point, whether it is as the first one; None where it cannot be judged."""


@dataclass(frozen=True)
class Found:
    """Between `last` and `first` it changed: `last` is as before and `first` is not, and no point between was judged.

    `back`: pairs of judged neighbours between which it changed back, so that there is more than one place.
    """

    last: int
    first: int
    judged: Judged
    back: list[tuple[int, int]]

    @property
    def exact(self) -> bool:
        """Whether one point alone is left."""
        return self.first == self.last + 1


def bracket(judged: Judged) -> tuple[int, int]:
    """Return the last point as before in front of the first that is not, and this one. ValueError without both."""
    other = [at for at, same in judged.items() if same is False]
    before = [at for at, same in judged.items() if same is True and at < min(other, default=0)]
    if not before:
        raise ValueError("no point as before stands in front of one that is not")
    return max(before), min(other)


def candidate(judged: Judged) -> int | None:
    """Return the point to judge next, the one nearest to the middle of what is open; None where nothing is."""
    last, first = bracket(judged)
    untried = [at for at in range(last + 1, first) if at not in judged]
    return min(untried, key=lambda at: (abs(2 * at - last - first), at), default=None)


def conclude(judged: Judged) -> Found:
    """Return what the judged points show."""
    known = sorted(at for at, same in judged.items() if same is not None)
    back = [(a, b) for a, b in pairwise(known) if judged[a] is False and judged[b] is True]
    return Found(*bracket(judged), judged, back)


def search(count: int, judge: Callable[[int], bool | None], *, every: bool = False) -> Found:
    """Judge points of a row of `count` until no other would narrow the place; `every`: judge all of them.

    ValueError where the first point is not as before, or the last one is: then nothing was asked that has an answer.
    """
    judged: dict[int, bool | None] = {0: True, count - 1: False}
    for at in range(1, count - 1) if every else ():
        judged[at] = judge(at)
    while (open_point := candidate(judged)) is not None:
        judged[open_point] = judge(open_point)
    return conclude(judged)

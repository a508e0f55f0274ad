"""Declared work over time, and over the ceilings that the card showed in the same run. Pure."""

from collections.abc import Iterator, Sequence

from assay.record import Ceiling, CeilingName, Inputs, Rate, Share, Unavailable, Verdict
from assay.sampling import Problem
from assay.stopping import possible

COMPUTE_BOUND = 10
"""Declared operations a byte above which a rate is given in GFLOP/s, and in GB/s otherwise."""

MOST_SHARE = 1.02
"""Of a ceiling that nothing exceeds: a rate above it by more than 2%, the noise of the ceiling itself, cannot be."""


def ceiling(name: CeilingName, how: str, work: int, samples_ns: Sequence[float]) -> Ceiling:
    """Return a ceiling: `work` over the fastest sample. Without a possible one `how` says why."""
    kept = list(samples_ns) if possible(samples_ns) else []
    rate: Rate | Unavailable = Unavailable(reason=how)
    if kept:
        rate = Rate(value=work / min(kept), unit="GB/s" if name == "copy" else "GFLOP/s")
    return Ceiling(name=name, how=how, work=work, samples_ns=kept, rate=rate)


def rate(problem: Problem, time_ns: float) -> Rate | Unavailable:
    """Return declared work over time: GFLOP/s above 10 operations a byte, else GB/s (operations, or bytes, per ns).

    Ten is about where memory stops being what limits: float32 arithmetic over bandwidth is 9.6 on an A100 80GB and 14
    on an H200, by their data sheets.
    """
    if problem.flops > COMPUTE_BOUND * problem.bytes:
        return Rate(value=problem.flops / time_ns, unit="GFLOP/s")
    if problem.bytes > 0:
        return Rate(value=problem.bytes / time_ns, unit="GB/s")
    return Unavailable(reason="the kernel declares no work for this size")


def goes_through_memory(inputs: Inputs | Unavailable, flush_mebibytes: int) -> bool:
    """Return whether no cache can help: a set of inputs and outputs exceeds it, and it was flushed by a write.

    What a launch leaves in the cache at its end weighs no more than what the flush left there, which it had to evict.
    """
    if isinstance(inputs, Unavailable) or isinstance(inputs.cache_bytes, Unavailable):
        return False
    return min(inputs.set_bytes, flush_mebibytes * 2**20) > inputs.cache_bytes


def shares(
    problem: Problem, time_ns: float, ceilings: Sequence[Ceiling], runs_into: tuple[CeilingName, int] | None, cold: bool
) -> Iterator[Share]:
    """Yield what fraction of the card's ceilings a time amounts to: the copy's, and that of the arithmetic.

    `runs_into`: the ceiling of the precision's arithmetic, and the products that one takes there. The copy binds where
    the data is `cold`, that is, has to go through memory.
    """
    most = {one.name: one.rate.value for one in ceilings if isinstance(one.rate, Rate)}
    if problem.bytes > 0 and "copy" in most:
        yield Share(ceiling="copy", fraction=problem.bytes / time_ns / most["copy"], binding=cold)
    name, products = ("copy", 0) if runs_into is None else runs_into
    if problem.flops * products > 0 and name != "copy" and name in most:
        yield Share(ceiling=name, fraction=problem.flops * products / time_ns / most[name], binding=True)


def over_ceiling(found: Sequence[Share]) -> Verdict | None:
    """Return the verdict on a rate that cannot be, or None."""
    for share in found:
        if share.binding and not (share.fraction <= MOST_SHARE):
            reason = (
                f"{share.fraction:.4g} of the ceiling '{share.ceiling}' that was measured in this run, where more than "
                f"{MOST_SHARE:g} cannot be: the time, the declared work or the ceiling is wrong"
            )
            return Verdict(outcome="failed", cause="over-ceiling", reason=reason)
    return None

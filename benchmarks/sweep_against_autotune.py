"""A search space of matrix products: Assay's sweep against triton.autotune on the same list, in one run.

What a sweep holds the device for beyond sampling, and how long both take to choose. It needs a device; without one it
says so and exits with 1. With the defaults it takes about two and a half minutes on an H200, most of them autotune's.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.record import Estimate, Row, Sweep, Timing, Unavailable
from benchmarks.project import BenchmarkError, Project, child, project, run, versions

WANTED = 1.3
"""The most that the device may be held for, over the time that it samples."""

SPACE = """
    cases=WHOLE.cases[:1],
    # The benchmark looks at time: one bound and no canary are checked.
    bound=WHOLE.bounds[0],
    dot=None,
    contrasts=(),
    peers=[peer for peer in WHOLE.peers if peer.precision == "tf32"],
    timed=[Case("square", {{"m": {size}, "n": {size}, "k": {size}}})],
    variants=Space(
        ["tf32"],
        {{
            "BLOCK_M": [64, 128],
            "BLOCK_N": [64, 128, 256],
            "BLOCK_K": [32, 64],
            "GROUP_M": [8],
            "num_warps": [4, 8],
            "num_stages": [2, 3, 4, 5],
        }},
        # Float32 tiles of both operands, once a stage, within the 227 KiB of a block on sm_90.
        keep=lambda o: 4 * (o["BLOCK_M"] + o["BLOCK_N"]) * o["BLOCK_K"] * o["num_stages"] <= 227 * 1024,
    )[:{variants}],
"""


def options(argv: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep_against_autotune", description=__doc__)
    parser.add_argument("--variants", type=int, default=64, help="how many variants (default: %(default)s)")
    parser.add_argument("--size", type=int, default=2048, help="rows, columns and terms (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="most seconds to sample for (default: %(default)s)")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which autotune is given up (default: %(default)s)"
    )
    chosen = parser.parse_args(argv)
    if chosen.variants < 2:
        parser.error("--variants: expected 2 or more, since of one there is nothing to choose")
    return chosen


def count(rows: Sequence[Row]) -> str:
    """Say how many variants were timed, and how many were pruned by which rule."""
    variants = [row for row in rows if row.kind == "variant"]
    timed = sum(row.verdict.outcome == "passed" for row in variants)
    screened = sum(row.verdict.cause == "pruned" and bool(row.screen_ns) for row in variants)
    ahead = sum(row.verdict.cause in ("pruned", "does-not-fit") and not row.screen_ns for row in variants)
    others = len(variants) - timed - screened - ahead
    said = f"{len(variants)} variants: {timed} timed, {screened} left out by a short round, {ahead} by their code"
    return f"{said}, {others} for another reason" if others else said


def held(found: Sweep) -> str:
    """Say what the device was held for over what it sampled for."""
    device, sampling = found.cost.device_ns / 1e9, found.cost.sampling_ns / 1e9
    if not sampling > 0:
        raise BenchmarkError("nothing was sampled; look at what `assay timing` says of this kernel")
    ratio = device / sampling
    judged = "as wanted" if ratio <= WANTED else "more than wanted"
    return f"{device:.1f} s, of which {sampling:.1f} s sampling: ratio {ratio:.2f}, {judged} (at most {WANTED})"


def nanoseconds(found: Estimate | Unavailable) -> str:
    """Return a time in microseconds, or why there is none."""
    return found.reason if isinstance(found, Unavailable) else f"{found.median / 1e3:.2f} us"


def compare(made: Project, chosen: argparse.Namespace) -> None:
    """Run both and print their figures."""
    environment, device = made.prepare()
    print(versions(environment, device))
    timing: Timing
    timing, seconds = made.stage("timing", {"seeds": [1], "timing": {"limit_s": chosen.seconds}})
    if timing.availability.outcome != "passed" or not timing.sweeps:
        raise BenchmarkError(f"stage timing: {timing.availability.reason}")
    found, ahead = timing.sweeps[0], timing.precompiled
    print(f"sweep, {count(found.rows)}; {len(found.rounds)} rounds, ended: {found.ended}")
    if ahead is not None:
        took = f"{ahead.launches} launches by {ahead.workers} processes in {ahead.duration_ns / 1e9:.1f} s"
        print(f"sweep, compiled before the device is touched: {took}")
    print(f"sweep, device held for {held(found)}")
    for one in found.best:
        print(f"sweep, chosen: {one.entrant}, {one.median_ns / 1e3:.2f} us")
    print(f"sweep, the whole stage: {seconds:.1f} s")
    tuned = child("autotune", str(made.kernel), "square", cache=made.root / "autotune", limit_s=chosen.limit)
    print(f"triton.autotune, device held, choosing: {tuned['seconds']:.1f} s")
    times = {row.entrant: row.time_ns for row in found.rows}
    own = tuned["medians_ns"][tuned["chosen"]] / 1e3
    print(f"triton.autotune, chosen: {tuned['chosen']}, {own:.2f} us; the sweep: {nanoseconds(times[tuned['chosen']])}")
    print(
        f"sweep over autotune: device held {found.cost.device_ns / 1e9 / tuned['seconds']:.3f}, whole stage "
        f"{seconds / tuned['seconds']:.3f}"
    )


def main(argv: Sequence[str]) -> int:
    """Run the benchmark."""
    chosen = options(argv)

    def benchmark() -> None:
        with project("matmul", SPACE.format(size=chosen.size, variants=chosen.variants)) as made:
            compare(made, chosen)

    return run(Path(__file__).stem, benchmark)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How far medians move from process to process: the timing stage and triton.testing.do_bench on the same kernel.

Each is run several times, each time in a fresh process, in turn. It needs a device; without one it says so and exits
with 1. With the defaults it takes two to three minutes on an H200. `--disturb 3` lets a second process multiply large
matrices while the third run of the stage lasts.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from assay.record import Estimate, Sweep, Timing, Unavailable
from benchmarks.project import BenchmarkError, Project, child, project, run, variables, versions

Medians = Mapping[tuple[str, str], float]
"""The median of each entrant at each size, in nanoseconds."""

CUT = """
    # One case and one bound: the benchmark looks at time.
    cases=WHOLE.cases[:1],
    bound=WHOLE.bounds[0],
    dot=None,
    contrasts=(),
    variants=[variant for variant in WHOLE.variants if {only!r} in variant.id][:{variants}],
"""

SOFTMAX = """
    timed=[
        Case(f"{rows}x{columns}", {"rows": rows, "columns": columns})
        for rows, columns in ((2048, 1024), (8192, 2048), (8192, 8192))
    ],
"""
"""About 8, 40 and 140 us on an H200: what is hard to repeat is short."""


def options(argv: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeatability", description=__doc__)
    add = parser.add_argument
    add("--kernel", default="softmax", help="of kernels/; softmax at sizes of its own (default: %(default)s)")
    add("--only", default="", metavar="TEXT", help="variants whose id holds this (default: all)")
    add("--variants", type=int, default=2, help="the first so many of them (default: %(default)s)")
    add("--runs", type=int, default=5, help="of the timing stage (default: %(default)s)")
    add("--do-bench", type=int, default=5, help="runs of do_bench (default: %(default)s)")
    add("--seconds", type=float, default=1.0, help="least to sample each size for (default: %(default)s)")
    add("--disturb", type=int, metavar="RUN", help="the run, from 1, beside which matrices are multiplied")
    add("--out", type=Path, help="a file for all medians and conclusions, as JSON")
    return parser.parse_args(argv)


def spread(medians: Sequence[float]) -> float:
    """Return how far medians lie apart: largest less smallest, over the middle one."""
    return (max(medians) - min(medians)) / statistics.median(medians)


def medians_of(sweeps: Sequence[Sweep]) -> dict[tuple[str, str], float]:
    """Return the median that counts of every entrant that has one."""
    rows = [(found.size, row) for found in sweeps for row in found.rows]
    return {(size, row.entrant): row.time_ns.median for size, row in rows if isinstance(row.time_ns, Estimate)}


def conclusions_of(sweeps: Sequence[Sweep]) -> dict[str, str]:
    """Return every verdict and conclusion of a run by what it is about, but for its figures."""
    found: dict[str, str] = {}
    for one in sweeps:
        found |= {f"{one.size} {row.entrant}": row.verdict.outcome for row in one.rows}
        found |= {f"{one.size} {versus.entrant} against {versus.against}": versus.conclusion for versus in one.versus}
        found |= {f"{one.size} {up.lesser} against {up.reference}": up.verdict.outcome for up in one.speedups}
    return found


def differing(runs: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return what not every run concludes alike, with what each run says of it."""
    names = dict.fromkeys(name for found in runs for name in found)
    said = {name: [found.get(name, "nothing") for found in runs] for name in names}
    return {name: each for name, each in said.items() if len(set(each)) > 1}


@contextmanager
def disturbance(wanted: bool) -> Iterator[None]:
    """Let a second process keep the device busy meanwhile, if wanted."""
    if not wanted:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.disturb"]
    with subprocess.Popen(command, env=variables(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise BenchmarkError("the disturbing process ended; run it alone: python -m benchmarks.disturb")
            yield
        finally:
            process.kill()


def table(title: str, runs: Sequence[Medians]) -> Iterator[str]:
    """Yield a line for every entrant: its medians, and how far they lie apart."""
    yield f"{title}: medians in us of {len(runs)} runs, and (largest - smallest) / middle"
    for size, entrant in dict.fromkeys(key for found in runs for key in found):
        found = [medians[size, entrant] for medians in runs if (size, entrant) in medians]
        values = " ".join(f"{median / 1e3:9.3f}" for median in found)
        missing = f"  (missing in {len(runs) - len(found)})" if len(found) < len(runs) else ""
        yield f"  {spread(found):7.2%}  {size:<14} {entrant:<28} {values}{missing}"


def null_of(found: Sweep) -> str:
    """Say what an entrant's ratio to itself was."""
    ratio, floor = found.null.ratio, found.null.floor
    if isinstance(ratio, Unavailable) or isinstance(floor, Unavailable):
        return ratio.reason if isinstance(ratio, Unavailable) else "no floor"
    holds = "1 within" if ratio.low <= 1 <= ratio.high else "1 outside"
    return f"{ratio.median:.5f} ({ratio.low:.5f} to {ratio.high:.5f}, {holds}; floor {floor:.5f})"


def rounds_of(found: Sweep) -> str:
    """Say how many rounds there were, in what company, and why there were no more."""
    seen = [one.other_processes for one in found.rounds]
    company = sum(isinstance(one, int) and one > 0 for one in seen)
    unseen = sum(isinstance(one, Unavailable) for one in seen)
    others = f"another process on the device in {company}" + (f" (not known of {unseen})" if unseen else "")
    return f"{len(seen)} rounds, {len(found.outside)} outside the band, {others}, ended: {found.ended}"


def account(number: int, timing: Timing, disturbed: bool) -> Iterator[str]:
    """Yield what a run of the stage says of itself."""
    for found in timing.sweeps:
        mark = ", disturbed" if disturbed else ""
        yield f"run {number}{mark}, {found.size}: A/A {null_of(found)}; {rounds_of(found)}"


def repeat(made: Project, chosen: argparse.Namespace) -> None:
    """Run both in turn and print how far each one's medians lie apart."""
    environment, device = made.prepare()
    print(versions(environment, device))
    settings = {"seeds": [1], "timing": {"minimum_s": chosen.seconds, "limit_s": 10 * chosen.seconds}}
    timings: list[Timing] = []
    plain: list[dict[tuple[str, str], float]] = []
    for number in range(1, max(chosen.runs, chosen.do_bench) + 1):
        if number <= chosen.runs:
            with disturbance(number == chosen.disturb):
                timing, _ = made.stage("timing", settings)
            timings.append(timing)
            print("\n".join(account(number, timing, number == chosen.disturb)), flush=True)
        if number <= chosen.do_bench:
            answer = child("do_bench", str(made.kernel), cache=made.root / "do_bench", limit_s=300)
            plain.append({(size, name): median for size, of in answer.items() for name, median in of.items()})
    stage = [medians_of(timing.sweeps) for timing in timings]
    quiet = [found for number, found in enumerate(stage, 1) if number != chosen.disturb]
    concluded = [conclusions_of(timing.sweeps) for timing in timings]
    print("\n".join(table("timing stage", stage)))
    if chosen.disturb is not None:
        print("\n".join(table("timing stage, without the disturbed run", quiet)))
    print("\n".join(table("triton.testing.do_bench", plain)))
    apart = differing(concluded)
    print(f"verdicts and conclusions: {len(set().union(*concluded)) - len(apart)} alike in every run, {len(apart)} not")
    print("\n".join(f"  {name}: {', '.join(each)}" for name, each in apart.items()))
    if chosen.out is not None:
        raw = {"stage": [_plain(found) for found in stage], "do_bench": [_plain(found) for found in plain]}
        chosen.out.write_text(json.dumps({**raw, "conclusions": concluded}, indent=1) + "\n", "utf-8")


def _plain(found: Medians) -> dict[str, float]:
    return {f"{size} {entrant}": median for (size, entrant), median in found.items()}


def main(argv: Sequence[str]) -> int:
    """Run the benchmark."""
    chosen = options(argv)
    changes = CUT.format(only=chosen.only, variants=chosen.variants) + (SOFTMAX if chosen.kernel == "softmax" else "")

    def benchmark() -> None:
        with project(chosen.kernel, changes) as made:
            repeat(made, chosen)

    return run(Path(__file__).stem, benchmark)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Times a kernel file's entrants by triton.testing.do_bench: `python -m benchmarks.do_bench KERNEL`.

Answers in JSON, on the last line: the median of every entrant at every timed size, in nanoseconds.
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from triton.testing import do_bench

from assay.kernel import Case, Kernel, cast, load


def launches(kernel: Kernel, case: Case) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is timed by name: variants, then peers, all on the same inputs."""
    made = kernel.inputs(case.size, torch.Generator().manual_seed(1))
    given = {name: value.cuda() for name, value in made.items()}
    for variant in kernel.variants:
        inputs = cast(given, variant.dtype)
        outputs = {n: torch.empty(o.shape, dtype=o.dtype, device="cuda") for n, o in kernel.outputs(inputs).items()}
        yield variant.id, partial(kernel.launch, inputs, outputs, variant)
    for peer in kernel.peers:
        yield peer.name, partial(peer.run, given)


def main(path: Path) -> None:
    """Time all, and say what came of it."""
    kernel = load(path)
    medians = {
        case.name: {name: do_bench(launch, return_mode="median") * 1e6 for name, launch in launches(kernel, case)}
        for case in kernel.timed
    }
    print(json.dumps(medians))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

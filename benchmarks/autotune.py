"""Lets triton.autotune choose among a kernel file's variants: `python -m benchmarks.autotune KERNEL SIZE`.

For kernels/matmul.py, whose function it calls as that file's launch does. Answers in JSON, on the last line: how many
seconds choosing took, what was chosen, and the median of every configuration in nanoseconds.
"""

import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import triton

from assay.kernel import Kernel, Variant, load

OPTIONS = ("num_warps", "num_stages")
"""What a configuration holds beside the function's own arguments."""


def configuration(variant: Variant) -> triton.Config:
    """Return a variant as triton.autotune takes it."""
    arguments = {name: value for name, value in variant.options.items() if name not in OPTIONS}
    return triton.Config(arguments, **{name: variant.options[name] for name in OPTIONS})


def tuned(kernel: Kernel, size: str) -> tuple[Any, float]:
    """Return the tuned function after its first call, and how many seconds that call took."""
    function = vars(sys.modules["kernel_matmul"])["matmul_kernel"]
    configurations = [configuration(variant) for variant in kernel.variants]
    found = triton.autotune(configs=configurations, key=["m", "n", "k"])(function)
    values = kernel.inputs(kernel.case(size).size, torch.Generator().manual_seed(1))
    a, b = values["a"].cuda(), values["b"].cuda()
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device="cuda")

    def grid(chosen: Mapping[str, int]) -> tuple[int]:
        return (triton.cdiv(m, chosen["BLOCK_M"]) * triton.cdiv(n, chosen["BLOCK_N"]),)

    strides = (*a.stride(), *b.stride(), *c.stride())
    torch.cuda.synchronize()
    start = time.monotonic()
    found[grid](a, b, c, m, n, k, *strides, PRECISION=kernel.variants[0].precision)
    torch.cuda.synchronize()
    return found, time.monotonic() - start


def main(path: Path, size: str) -> None:
    """Tune, and say what came of it."""
    kernel = load(path)
    found, seconds = tuned(kernel, size)
    names = {str(configuration(variant)): variant.id for variant in kernel.variants}
    medians = {names[str(one)]: timings[0] * 1e6 for one, timings in found.configs_timings.items()}
    answer = {
        "seconds": seconds,
        "chosen": names[str(found.best_config)],
        "medians_ns": {name: median for name, median in medians.items() if math.isfinite(median)},
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""Multiplies matrices of 8192 x 8192 until ended: `python -m benchmarks.disturb`. Prints a line before."""

import torch


def main() -> None:
    """Keep the device busy, some products ahead of the host, so that it never waits."""
    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    torch.mm(a, b)
    torch.cuda.synchronize()
    print("multiplying", flush=True)
    while True:
        for _ in range(8):
            torch.mm(a, b)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()

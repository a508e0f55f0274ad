"""The command line: `python -m assay <command> ...`."""

import importlib
import os
import sys

from assay.commands import COMMANDS, usage
from assay.errors import AssayError


def main(argv: list[str]) -> int:
    """Run one command and return its exit code: 2 for a refusal, with one sentence on standard error."""
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] not in COMMANDS:
        print(f"assay: expected one of {', '.join(COMMANDS)}, found {argv[0]!r}", file=sys.stderr)
        return 2
    # NVML counts cards by bus, CUDA by speed unless told otherwise: an index shall mean one card in every stage.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        # Imported only now: some stages decide how Triton behaves before it is loaded.
        return int(importlib.import_module(f"assay.{argv[0]}").main(argv[1:]))
    except AssayError as error:
        print(f"assay {argv[0]}: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Command `cache`: shows what earlier runs compiled and left for later ones, looks through it, or clears it."""

import argparse
import os
import sys
from collections.abc import Sequence

from assay.errors import UsageError
from assay.privacy import printable
from assay.record import Unavailable
from assay.storage import LARGEST_FOLDER_BYTES, VARIABLE, EntryError, Storage, open_storage


def options() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m assay cache",
        description="Say where functions that were compiled are kept, how many and how large. "
        f"{VARIABLE} names another folder; where it is empty, nothing is kept.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="read every entry, and name those that are damaged: exit 1")
    what.add_argument("--clear", action="store_true", help="remove every entry")
    return parser


def damaged(storage: Storage) -> list[str]:
    """Return one sentence on each entry that would not be used."""
    faults = []
    for path, _ in storage.found():
        try:
            storage.get(path.name)
        except EntryError as error:
            faults.append(printable(str(error)))
    return faults


def main(argv: Sequence[str]) -> int:
    """Run the command: 1 where `--check` finds damage."""
    chosen = options().parse_args(argv)
    storage = open_storage(os.environ)
    if isinstance(storage, Unavailable):
        raise UsageError(
            f"{VARIABLE}: expected a folder where compilations are kept, found none: {storage.reason}; "
            "unset it, or name another"
        )
    sizes = [status.st_size for _, status in storage.found()]
    if chosen.clear:
        print(f"{storage.folder}: {storage.prune(0)} entries removed")
        return 0
    largest = LARGEST_FOLDER_BYTES / 2**20
    print(f"{storage.folder}: {len(sizes)} entries, {sum(sizes) / 2**20:.1f} MiB of at most {largest:.0f}")
    faults = damaged(storage) if chosen.check else []
    for fault in faults:
        print(f"assay cache: {fault}", file=sys.stderr)
    return 1 if faults else 0

"""Command `score`: says of each kernel how many planted faults were caught, in one line."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from assay.artifact import read
from assay.catching import line
from assay.privacy import one_line
from assay.stage import RESULTS_FOLDER


def main(argv: Sequence[str]) -> int:
    """Print the lines and return 0; RecordError where a record cannot be read."""
    options = argparse.ArgumentParser(
        prog="python -m assay score", description="Say how many of the planted faults were caught, kernel by kernel."
    )
    options.add_argument(
        "records", type=Path, nargs="*", metavar="RECORD", help="(default: every results/*/teeth.json)"
    )
    for path in options.parse_args(argv).records or sorted(RESULTS_FOLDER.glob("[!.]*/teeth.json")):
        found = read(path, "teeth")
        print(one_line(line(str(found.kernel), found.result)))
    return 0

"""Command `merge`: the claims of several bundles in one matrix, over machines, versions and dates.

Writes merged.json, merged.html and merged.md. An unsound bundle is refused by name, and the others are merged.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay.artifact import canonical, sha256_file, write_bytes
from assay.config import KERNEL_NAME
from assay.errors import AssayError, UsageError
from assay.merged_page import TEMPLATE_NAMES, render
from assay.merging import merge, sources_of
from assay.opening import Opened, UnreadableError
from assay.page import TEMPLATES
from assay.privacy import one_line
from assay.record import Digest, Merged
from assay.soundness import open_sound


def _say(words: str) -> None:
    print(one_line(f"assay merge: {words}", limit=1000), file=sys.stderr)


def open_all(paths: Iterable[Path]) -> tuple[list[Opened], int]:
    """Return the sound bundles and how many were refused. Each refusal is said, and what is there twice."""
    found: list[Opened] = []
    first: dict[Digest, Path] = {}
    refused = 0
    for path in paths:
        try:
            opened = open_sound(path)
        except AssayError as error:
            refused += 1
            _say(f"refused: {error}")
            continue
        if first.setdefault(opened.bag.manifest_sha256, path) != path:
            _say(f"{path}: the same content as {first[opened.bag.manifest_sha256]}; it counts once")
        found.append(opened)
    return found, refused


def digests_at_hand(kernels: Iterable[str]) -> dict[str, Digest]:
    """Map each kernel that has a file in this checkout to the file's digest."""
    files = {kernel: Path(f"kernels/{kernel}.py") for kernel in kernels if re.fullmatch(KERNEL_NAME, kernel)}
    return {kernel: sha256_file(path) for kernel, path in files.items() if path.is_file()}


def write_all(merged: Merged, folder: Path) -> None:
    """Write the record and both pages; UsageError where the folder cannot be written."""
    html, markdown = render(merged)
    try:
        for name, data in {"merged.json": canonical(merged), "merged.html": html, "merged.md": markdown}.items():
            write_bytes(folder / name, data)
    except OSError as error:
        raise UsageError(
            f"--out: expected a folder to write into, found {folder} ({error.strerror}); choose another"
        ) from None


def main(argv: Sequence[str]) -> int:
    """Return 0, or 1 where a bundle was refused; UnreadableError where none is left."""
    options = argparse.ArgumentParser(prog="python -m assay merge", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE")
    options.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to write the three files")
    chosen = options.parse_args(argv)
    for name in TEMPLATE_NAMES:
        if not (TEMPLATES / name).is_file():
            raise UsageError(f"{TEMPLATES / name}: expected the template, found none; run from the checkout's root")
    bundles, refused = open_all(chosen.bundles)
    if not bundles:
        raise UnreadableError(
            f"expected at least one sound bundle, found none among {len(chosen.bundles)}; "
            "ask `python -m assay verify` what is wrong with each"
        )
    merged = merge(bundles, digests_at_hand({kernel for opened in bundles for kernel in sources_of(opened)}))
    write_all(merged, chosen.out)
    for note in merged.notes:
        _say(note)
    print(one_line(merged.status.sentence, limit=2000))
    return 1 if refused else 0

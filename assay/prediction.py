"""Whether the binaries that were executed are those that were compiled ahead. Pure."""

from collections.abc import Sequence
from typing import Literal

from assay.record import Compile, Digest

Prediction = Literal["identical", "different", "not-compiled-ahead"]
Key = tuple[str, str]
"""Variant and case."""


def predictions(compiled: Compile, target: str) -> dict[Key, list[Digest]]:
    """Map variant and case to the digests that the compile stage made for `target`."""
    return {
        (build.variant, build.case): [binary.binary_sha256 for binary in build.binaries]
        for build in compiled.builds
        if build.target == target and build.binaries
    }


def predicted(executed: Sequence[Digest], expected: Sequence[Digest] | None) -> Prediction:
    """Compare executed digests with those compiled ahead for the same variant and case."""
    if expected is None:
        return "not-compiled-ahead"
    return "identical" if list(executed) == list(expected) else "different"

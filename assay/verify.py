"""Command `verify`: whether a bundle is sound, signed by somebody trusted, and shows what is required of it.

Nothing of a bundle is extracted or run. Exit 0: sound. 1: not intact. 2: unreadable, or a usage error. 3: intact, and
not signed by a key given with --trust. 4: intact, and a requirement (--require, --fresh) is not met. Of several, 2
comes before 1, 1 before 3, and 3 before 4.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import field

from assay.artifact import canonical, hash_materials
from assay.errors import UsageError
from assay.opening import Opened, UnreadableError, UnsoundError, open_bundle
from assay.policy import Requirement, read_requirement, unmet
from assay.privacy import printable
from assay.record import Claims, Count, Digest, Record, Status, Unavailable
from assay.rendering import drawn_otherwise, hindrance, installed, rendering_faults
from assay.signature import check_signatures
from assay.soundness import faults, guarded
from assay.sources import check_folder, workflow_files, workflow_names

SHOWN_FAULTS = 20
"""Faults that are printed; `--json` has them all."""

CHECKED = "form, digests, chain of materials, one machine, gate, every derived figure, claims"
FRESH = "--fresh"


class Required(Record, frozen=True, kw_only=True):
    """A requirement that was asked for, and why it is not met; None where it is."""

    requirement: str
    unmet: str | None


class Verification(Record, frozen=True, kw_only=True):
    """What `--json` prints. Where the bundle cannot be read, or is not intact, nothing it claims is repeated.

    `content_sha256`: of the payload manifest. `report`: whether the pages are what the records render to here.
    `trusted`: ids of the given keys that signed; `others`: ids of signatures by keys that were not given.
    """

    schema: Literal["assay/verification/1"] = "assay/verification/1"
    bundle: str
    exit_code: int
    faults: list[str] = field(default_factory=list)
    status: Status | None = None
    content_sha256: Digest | None = None
    files: Count = 0
    records: Count = 0
    report: Literal["identical"] | Unavailable
    trusted: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    required: list[Required] = field(default_factory=list)


def _refused(bundle: str, exit_code: int, found: Sequence[str]) -> Verification:
    why = "the bundle is not intact" if exit_code == 1 else "the bundle cannot be read"
    return Verification(bundle=bundle, exit_code=exit_code, faults=list(found), report=Unavailable(reason=why))


def staleness(opened: Opened, here: Mapping[str, Digest]) -> str | None:
    """Return which sources of a bundle are not those at hand, given by path with their sha256; None where all are."""
    there = opened.bag.digests
    names = workflow_names({*there, *here})
    changed = [f"{name} is another" for name in names if name in there and name in here and there[name] != here[name]]
    gone = [f"{name} is gone" for name in names if name not in here]
    new = [f"{name} is new" for name in names if name not in there]
    return "; ".join([*changed, *gone, *new]) or None


def hold(opened: Opened, requirements: Mapping[str, Requirement], here: Mapping[str, Digest] | None) -> list[Required]:
    """Hold a sound bundle against requirements by their text, and against the sources `here`, if it shall be fresh."""
    claims: Claims = opened.one("claims").result
    fresh = [] if here is None else [Required(requirement=FRESH, unmet=staleness(opened, here))]
    return fresh + [Required(requirement=text, unmet=unmet(one, claims)) for text, one in requirements.items()]


def _exit_code(trusted: Sequence[str], trust: Sequence[bytes], required: Sequence[Required]) -> int:
    if trust and not trusted:
        return 3
    return 4 if any(one.unmet is not None for one in required) else 0


def verify(
    path: Path, trust: Sequence[bytes], requirements: Mapping[str, Requirement], here: Mapping[str, Digest] | None
) -> Verification:
    """Judge a bundle file. `trust`: public keys in PEM; `here`: the sources at hand, where it shall be fresh."""
    try:
        opened = open_bundle(path)
    except UnreadableError as error:
        return _refused(path.name, 2, [str(error)])
    except UnsoundError as error:
        return _refused(path.name, 1, [str(error)])
    signed = check_signatures(opened.bag, trust)
    found = [*faults(opened), *signed.faults]
    other = None
    if not found:
        around = installed()
        other = hindrance(opened, around)
        found = [] if other else guarded(partial(rendering_faults, here=around), opened)
        other = other or drawn_otherwise(opened, around)
    if found:
        return _refused(opened.name, 1, found)
    required = hold(opened, requirements, here)
    return Verification(
        bundle=opened.name,
        exit_code=_exit_code(signed.valid, trust, required),
        status=opened.one("claims").result.status,
        content_sha256=opened.bag.manifest_sha256,
        files=len(opened.payload),
        records=len(opened.records),
        report=Unavailable(reason=other) if other else "identical",
        trusted=list(signed.valid),
        others=list(signed.unknown),
        required=required,
    )


# The command line


def _signatures(found: Verification, trust: bool) -> str:
    said = [f"signed by the trusted key {keyid}" for keyid in found.trusted]
    said += [f"signed by {keyid}, which was not given with --trust" for keyid in found.others]
    said += ["not signed"] if not said else []
    return "; ".join([*said, *(["expected a signature by a trusted key"] if trust and not found.trusted else [])])


def lines(found: Verification, trust: bool) -> list[str]:
    """Return what is printed, line by line: the faults, or what was found sound and what is required."""
    if found.status is None:
        more = len(found.faults) - SHOWN_FAULTS
        rest = [f"and {more} more faults; --json has them all"] if more > 0 else []
        return [*found.faults[:SHOWN_FAULTS], *rest, *([UnsoundError.remedy] if found.exit_code == 1 else [])]
    other = found.report.reason if isinstance(found.report, Unavailable) else None
    report = "report: the page its records render to" if other is None else f"report: not rendered again, {other}"
    counts = ", ".join(f"{count} {outcome}" for outcome, count in found.status.counts.items())
    required = [
        f"required: {one.requirement}: {'met' if one.unmet is None else f'not met: {one.unmet}'}"
        for one in found.required
    ]
    return [
        f"{found.bundle}: sound",
        found.status.sentence,
        f"claims: {counts}",
        f"checked: {found.files} files, {found.records} records; {CHECKED}",
        report,
        f"signatures: {_signatures(found, trust)}",
        *required,
    ]


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--trust: {path}: cannot be read ({error.strerror}); name the file .pub that keygen wrote"
        ) from None


def _sources_here() -> dict[str, Digest]:
    check_folder()
    return hash_materials(workflow_files())


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = argparse.ArgumentParser(
        prog="python -m assay verify",
        description="Say whether a bundle is sound. Nothing in it is extracted or run.",
    )
    options.add_argument("bundle", type=Path, help="the bundle, a .tar")
    options.add_argument(
        "--trust", type=Path, action="append", default=[], metavar="PUB", help="a public key that may have signed it"
    )
    options.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="EXPR",
        help="what it must show, such as 'matmul/tf32 accurate sm_90' or 'status VERIFIED|\"PARTIALLY VERIFIED\"'",
    )
    options.add_argument(FRESH, action="store_true", help="its sources must be those of the checkout in this folder")
    options.add_argument("--json", action="store_true", help="print the result as one line of canonical JSON")
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Print what was found and return the exit code; UsageError where an option makes no sense."""
    chosen = _options(argv)
    requirements = {text: read_requirement(text) for text in chosen.require}
    trust = [_read_key(path) for path in chosen.trust]
    found = verify(chosen.bundle, trust, requirements, _sources_here() if chosen.fresh else None)
    if chosen.json:
        print(printable(canonical(found).decode()))
    else:
        for line in lines(found, bool(trust)):
            print(printable(" ".join(line.split())), file=sys.stdout if found.exit_code == 0 else sys.stderr)
    return found.exit_code

"""Renders a bundle's report again from its records, where the templates and modules at hand are those it was made by.

A template is code. Those in a bundle are compared with the installed ones, and only the installed ones are ever used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from assay.artifact import sha256_bytes, sha256_file
from assay.chain import PAGES, evidence_of, place
from assay.discrepancy import Faults
from assay.evidence import Evidence
from assay.opening import Opened
from assay.page import Quoted, arranged, build_page, kernel_files, render
from assay.record import Digest, Environment
from assay.snippets import find_snippets

MOST_SHOWN_BYTES = 8 * 2**20
"""Of records that pages are rendered from again, the samples of timing apart: more would take seconds."""

LIBRARIES = ("jinja2", "markupsafe")
"""Distributions that decide how the same templates render."""


@dataclass(frozen=True)
class Installed:
    """What a report would be rendered with here: templates and modules by their path in the project, and versions."""

    root: Path
    sources: Mapping[str, Digest]
    versions: Mapping[str, str]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def installed() -> Installed:
    """Look at the package that runs, and at the templates beside it."""
    root = Path(__file__).resolve().parent.parent
    paths = sorted([*root.glob("assay/*.py"), *root.glob("reports/*")])
    sources = {path.relative_to(root).as_posix(): sha256_file(path) for path in paths if path.is_file()}
    return Installed(root, sources, {name: _version(name) for name in LIBRARIES})


def hindrance(opened: Opened, here: Installed) -> str | None:
    """Return why the pages cannot be expected to come out alike here, or None."""
    report = opened.records[place("report")]
    environment: Environment = opened.records[place("environment")].result
    for name, digest in report.materials.items():
        if name.startswith(("assay/", "reports/")) and here.sources.get(name) != digest:
            return f"made with another {name} than the one here"
    for name, ours in here.versions.items():
        theirs = environment.distributions.get(name, "unknown")
        if theirs != ours:
            return f"made with {name} {theirs}, and {ours} is here"
    size = sum(len(opened.payload[path]) for path, record in opened.records.items() if record.stage != "timing")
    if size > MOST_SHOWN_BYTES:
        return f"it shows {size} bytes of records, and at most {MOST_SHOWN_BYTES} are rendered"
    return None


def _pages(opened: Opened, here: Installed) -> tuple[bytes, bytes]:
    digests = opened.bag.digests
    ordered = [path.as_posix() for path in arranged(map(Path, evidence_of(opened)))] + [place("claims")]
    shown = [Evidence(at, path, digests[path], opened.records[path]) for at, path in enumerate(ordered, start=1)]
    kernels = [path.as_posix() for path in kernel_files(shown)]
    quoted = [Quoted(name, digests[name], find_snippets(opened.payload[name])) for name in kernels]
    return render(build_page(shown[:-1], shown[-1], quoted), here.root / "reports")


def rendering_faults(opened: Opened, here: Installed) -> Faults:
    """Yield each page that is not, byte for byte, what a sound bundle's records render to."""
    for page, data in zip(PAGES, _pages(opened, here), strict=True):
        wanted, found = sha256_bytes(data), sha256_bytes(opened.payload[page])
        if found != wanted:
            yield f"{page}: expected the page that the records render to, with sha256 {wanted}, found {found}"

"""Renders a bundle's report again from its records, where the templates and modules at hand are those it was made by.

A template is code. Those in a bundle are compared with the installed ones, and only the installed ones are ever used.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from assay.artifact import sha256_bytes, sha256_file
from assay.chain import PAGES, evidence_of, place
from assay.discrepancy import Faults
from assay.drawing import LIBRARIES as DRAWING
from assay.evidence import Evidence
from assay.opening import Opened
from assay.page import Quoted, arranged, build_page, kernel_files, render, render_markdown
from assay.record import Digest, Environment
from assay.snippets import find_snippets

MOST_SHOWN_BYTES = 8 * 2**20
"""Of records that pages are rendered from again, the samples of timing apart: more would take seconds."""

MOST_PICTURES = 400
"""That are drawn again, each in about 30 ms."""

LIBRARIES = ("jinja2", "markupsafe")
"""Distributions that decide how the same templates render."""

DRAWN = PAGES[0]
"""The page that has pictures; how they are drawn is decided by `assay.drawing.LIBRARIES` and the processor besides."""


@dataclass(frozen=True)
class Installed:
    """What a report would be rendered with here: templates and modules by their path in the project, and versions.

    `drawing`: the versions that decide how pictures are drawn, and `processor` the architecture: another one rounds
    the last digit of a logarithm otherwise.
    """

    root: Path
    sources: Mapping[str, Digest]
    versions: Mapping[str, str]
    drawing: Mapping[str, str]
    processor: str


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
    versions, drawing = ({name: _version(name) for name in names} for names in (LIBRARIES, DRAWING))
    return Installed(root, sources, versions, drawing, platform.machine())


def _other_version(environment: Environment, ours: Mapping[str, str]) -> str | None:
    """Return which distribution is another here than where the records were made, or None.

    The report may have been made elsewhere, from records that were brought there: none says by which versions.
    """
    for name, version_here in ours.items():
        theirs = environment.distributions.get(name, "unknown")
        if theirs != version_here:
            return f"{name} {version_here} is here, and {theirs} where the records were made"
    return None


def hindrance(opened: Opened, here: Installed) -> str | None:
    """Return why the pages cannot be expected to come out alike here, or None."""
    report = opened.records[place("report")]
    environment: Environment = opened.records[place("environment")].result
    for name, digest in report.materials.items():
        if name.startswith(("assay/", "reports/")) and here.sources.get(name) != digest:
            return f"made with another {name} than the one here"
    other = _other_version(environment, here.versions)
    if other is not None:
        return f"it may have been made with another version than this machine has: {other}"
    size = sum(len(opened.payload[path]) for path, record in opened.records.items() if record.stage != "timing")
    if size > MOST_SHOWN_BYTES:
        return f"it shows {size} bytes of records, and at most {MOST_SHOWN_BYTES} are rendered"
    return None


def _pictures(opened: Opened) -> int:
    """Return how many pictures the records call for, at most."""
    results = [record.result for record in opened.records.values()]
    return sum(1 + 2 * len(getattr(result, "sweeps", ())) for result in results)


def drawn_otherwise(opened: Opened, here: Installed) -> str | None:
    """Return why the page with pictures is not rendered again here, or None.

    It says nothing against a bundle, whose Markdown page tells what each picture shows and is compared all the same.
    """
    environment: Environment = opened.records[place("environment")].result
    other = _other_version(environment, here.drawing)
    if other is None and environment.cpu.architecture != here.processor:
        there = environment.cpu.architecture
        other = f"the processor here is {here.processor}, and {there} where the records were made"
    count = _pictures(opened)
    if count > MOST_PICTURES:
        return (
            f"{DRAWN} has up to {count} pictures, and at most {MOST_PICTURES} are drawn; the Markdown page is identical"
        )
    if other is None:
        return None
    return f"the pictures of {DRAWN} may have been drawn otherwise than here ({other}); the Markdown page is identical"


def _pages(opened: Opened, here: Installed) -> dict[str, bytes]:
    """Return the pages that the records render to here, as far as they can be expected to come out alike."""
    digests = opened.bag.digests
    ordered = [path.as_posix() for path in arranged(map(Path, evidence_of(opened)))] + [place("claims")]
    shown = [Evidence(at, path, digests[path], opened.records[path]) for at, path in enumerate(ordered, start=1)]
    kernels = [path.as_posix() for path in kernel_files(shown)]
    quoted = [Quoted(name, digests[name], find_snippets(opened.payload[name])) for name in kernels]
    page, folder = build_page(shown[:-1], shown[-1], quoted), here.root / "reports"
    if drawn_otherwise(opened, here) is not None:
        return {PAGES[1]: render_markdown(page, folder)}
    return dict(zip(PAGES, render(page, folder), strict=True))


def rendering_faults(opened: Opened, here: Installed) -> Faults:
    """Yield each page that is not, byte for byte, what a sound bundle's records render to."""
    for page, data in _pages(opened, here).items():
        wanted, found = sha256_bytes(data), sha256_bytes(opened.payload[page])
        if found != wanted:
            yield f"{page}: expected the page that the records render to, with sha256 {wanted}, found {found}"

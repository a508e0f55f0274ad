"""Stage `report`: the claims and the figures behind them, as one page of HTML and one of Markdown.

Every record is read again first. One that was edited by hand, is missing, or was made from other sources than those
at hand is refused by name, and nothing is written.
"""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from assay import formats
from assay.accuracy import Accuracy, build_accuracy
from assay.artifact import exclusive, open_session, sha256_bytes, write_bytes
from assay.binaries import Compilation, build_compilation
from assay.charts import bars_as_text, dots_as_text
from assay.errors import UsageError
from assay.evidence import Evidence, Records, check, load, present
from assay.markdown import escape, fenced
from assay.matrix import TARGET_TIERS, Gap, Matrix, build_matrix, find_gaps, mark
from assay.outcomes import MARKS
from assay.privacy import printable
from assay.record import ARTIFACTS, Claims, Digest, Environment, Report, StageName, Unavailable
from assay.snippets import Snippet, find_snippets
from assay.sources import PACKAGE
from assay.stage import Job, job_of, parser, stage_of
from assay.times import Times, build_times

TEMPLATES = Path("reports")
HTML, MARKDOWN = "report.html.j2", "report.md.j2"
MAIN_DISTRIBUTIONS = ("torch", "triton", "numpy", "snakemake", "msgspec", "rfc8785", "jinja2", "nvidia-ml-py", "pyyaml")


@dataclass(frozen=True)
class Quoted:
    """The snippets of one kernel file, and the digest of the whole file."""

    path: str
    sha256: Digest
    snippets: list[Snippet | Unavailable]


@dataclass(frozen=True)
class Page:
    """All that the templates show. `first` and `last` are when the oldest and the newest record were begun."""

    claims: Claims
    claims_record: Evidence
    first: str
    last: str
    matrix: Matrix
    gaps: list[Gap]
    titles: dict[str, str]
    accuracy: list[Accuracy]
    compilation: list[Compilation]
    times: list[Times]
    environment: Evidence | None
    main_distributions: list[tuple[str, str]]
    gate: Evidence | None
    quoted: list[Quoted]
    records: list[Evidence]
    materials: list[tuple[str, Digest]]


def in_order(paths: Sequence[Path], claims: Path) -> tuple[list[Evidence], Evidence]:
    """Read the records, kernel by kernel in the order of the stages, and the claims last."""
    stages = list(ARTIFACTS)
    ordered = sorted(set(paths), key=lambda path: (path.parent, stages.index(stage_of(path))))
    records = [load(path, stage_of(path), number) for number, path in enumerate(ordered, start=1)]
    return records, load(claims, "claims", len(records) + 1)


def by_kernel(records: Sequence[Evidence]) -> dict[str, Records]:
    """Map each kernel to its records by stage."""
    kernels: dict[str, dict[StageName, Evidence]] = {}
    for record in records:
        if record.artifact.kernel is not None:
            kernels.setdefault(record.artifact.kernel, {})[record.artifact.stage] = record
    return dict(kernels)


def kernel_files(records: Sequence[Evidence]) -> list[Path]:
    """Return the kernel files that the records were made from: materials with a kernel's name, outside the package."""
    named = {
        (f"{r.artifact.kernel}.py", Path(path)) for r in records if r.artifact.kernel for path in r.artifact.materials
    }
    return sorted({path for name, path in named if path.name == name and path.parent != PACKAGE})


def title_of(records: Records) -> str:
    """Return the title that the kernel declares, or nothing where it could not be loaded."""
    results = [record.artifact.result for record in records.values()]
    declared = [result.declaration for result in results if getattr(result, "declaration", None) is not None]
    return declared[0].title if declared else ""


def main_distributions(environment: Evidence | None) -> list[tuple[str, str]]:
    """Return the distributions that decide results, with their versions, as far as they are installed."""
    if environment is None:
        return []
    result: Environment = environment.artifact.result
    installed = {name.lower(): version for name, version in result.distributions.items()}
    return [(name, installed[name]) for name in MAIN_DISTRIBUTIONS if name in installed]


def build_page(records: Sequence[Evidence], claims: Evidence, quoted: list[Quoted]) -> Page:
    """Arrange all records for the templates."""
    kernels = by_kernel(records)
    shared = {record.artifact.stage: record for record in records if record.artifact.kernel is None}
    started = sorted(record.artifact.run.started for record in (*records, claims))
    result: Claims = claims.artifact.result
    everything = [*records, claims]
    return Page(
        claims=result,
        claims_record=claims,
        first=started[0],
        last=started[-1],
        matrix=build_matrix(result.claims),
        gaps=find_gaps(result.claims),
        titles={name: title_of(of) for name, of in kernels.items()},
        accuracy=[build_accuracy(name, of) for name, of in kernels.items()],
        compilation=[build_compilation(name, of) for name, of in kernels.items() if "compile" in of],
        times=[build_times(name, of["timing"]) for name, of in kernels.items() if "timing" in of],
        environment=shared.get("environment"),
        main_distributions=main_distributions(shared.get("environment")),
        gate=shared.get("gate"),
        quoted=quoted,
        records=everything,
        materials=sorted({pair for record in everything for pair in record.artifact.materials.items()}),
    )


def _for_html(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _for_markdown(value: Any) -> Markup:
    # Marked as safe, so that Jinja does not escape for HTML what is already escaped for Markdown.
    return value if isinstance(value, Markup) else Markup(escape(str(value)))  # noqa: S704


def _environment(finalize: Any) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    words = (formats.short, formats.numeral, formats.shown, formats.gibibytes, formats.watts, formats.megahertz)
    environment.filters |= {word.__name__: word for word in words}
    environment.filters |= {"command": shlex.join, "bars": bars_as_text, "dots": dots_as_text, "mark": mark}
    environment.filters["fenced"] = lambda text, language="": Markup(fenced(text, language))  # noqa: S704
    environment.filters["listed"] = lambda texts, between=", ": between.join(texts)
    environment.tests["unavailable"] = lambda value: isinstance(value, Unavailable)
    environment.globals |= {"MARKS": MARKS, "TARGET_TIERS": TARGET_TIERS}
    return environment


def render(page: Page) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown. The same records give the same bytes."""
    html = _environment(_for_html).get_template(HTML).render(page=page)
    markdown = _environment(_for_markdown).get_template(MARKDOWN).render(page=page)
    return html.encode(), markdown.encode()


def template_files() -> list[Path]:
    """Return the templates; UsageError where they are not beside us."""
    files = sorted(path for path in TEMPLATES.glob("*") if path.is_file())
    for name in (HTML, MARKDOWN):
        if TEMPLATES / name not in files:
            raise UsageError(
                f"{TEMPLATES / name}: expected the report's template, found none; run from the checkout's root"
            )
    return files


def read_options(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the stage's options."""
    options = parser("report", ("claims",), per_kernel=False, all_evidence=True)
    options.add_argument("--html", type=Path, default=Path("results/report.html"), help="(default: %(default)s)")
    options.add_argument("--markdown", type=Path, default=Path("results/report.md"), help="(default: %(default)s)")
    return options.parse_args(argv)


def write_report(job: Job, html: Path, markdown: Path) -> None:
    """Read and check all evidence, render it and write both pages, then the record that vouches for them."""
    records, claims = in_order(job.evidence, job.records["claims"])
    kernels = kernel_files(records)
    command = [*job.command, "--html", html.as_posix(), "--markdown", markdown.as_posix()]
    session = open_session("report", None, [*job.materials(), *template_files(), *kernels], command)
    check(records, claims, present([*records, claims]))
    quoted = [Quoted(path.as_posix(), session.materials[path], find_snippets(path.read_bytes())) for path in kernels]
    pages = dict(zip((html, markdown), render(build_page(records, claims, quoted)), strict=True))
    session.confirm()
    for path, data in pages.items():
        write_bytes(path, data)
    outputs = {path.as_posix(): sha256_bytes(data) for path, data in pages.items()}
    session.write(job.out, Report(status=claims.artifact.result.status, outputs=outputs))


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    chosen = read_options(argv)
    job = job_of("report", ("claims",), chosen)
    with exclusive(job.out):
        write_report(job, chosen.html, chosen.markdown)
    return 0

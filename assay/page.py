"""The report as a page: what its templates show, arranged from records, and the pages rendered from it."""

import hashlib
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from assay import formats
from assay.accuracy import Accuracy, build_accuracy
from assay.binaries import Compilation, build_compilation
from assay.charts import bars_as_text, dots_as_text
from assay.drawing import draw
from assay.evidence import Evidence, Records
from assay.exhibits import Exhibits, build_exhibits
from assay.lineage import HEIGHT, WIDTH, Lineage, Source, build_lineage
from assay.markdown import escape, fenced
from assay.matrix import TARGET_TIERS, Gap, Matrix, build_matrix, find_gaps, mark
from assay.outcomes import MARKS
from assay.picture import DIGITS, csv_link, csv_name
from assay.planted import Planted, build_planted, comparison, total
from assay.privacy import printable
from assay.record import ARTIFACTS, Claims, Digest, Environment, StageName, Unavailable
from assay.remedies import TEETH
from assay.scatter import spots_as_text
from assay.snippets import Snippet
from assay.sources import PACKAGE
from assay.stage import stage_of
from assay.times import Times, build_times

TEMPLATES = Path("reports")
HTML, MARKDOWN = "report.html.j2", "report.md.j2"
MAIN_DISTRIBUTIONS = (
    "torch",
    "triton",
    "numpy",
    "snakemake",
    "msgspec",
    "rfc8785",
    "jinja2",
    "matplotlib",
    "nvidia-ml-py",
    "pyyaml",
)


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
    exhibits: Exhibits
    titles: dict[str, str]
    accuracy: list[Accuracy]
    planted: list[Planted]
    unplanted: list[str]
    comparison: str
    compilation: list[Compilation]
    times: list[Times]
    environment: Evidence | None
    main_distributions: list[tuple[str, str]]
    gate: Evidence | None
    quoted: list[Quoted]
    lineage: Lineage
    made_from: dict[str, list[Evidence]]
    records: list[Evidence]
    materials: list[tuple[str, Digest]]


def arranged(paths: Iterable[Path]) -> list[Path]:
    """Return the paths of records kernel by kernel, in the order of the stages."""
    stages = list(ARTIFACTS)
    return sorted(set(paths), key=lambda path: (path.parent, stages.index(stage_of(path))))


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


def _sources(claims: Claims, quoted: Iterable[Quoted]) -> list[Source]:
    """Return what no stage made: the workflow's own files as a whole, and each kernel file."""
    files = [Source(file.path, "kernel file", file.sha256, Path(file.path).stem) for file in quoted]
    return [Source("workflow", "workflow", claims.source.digest, None), *files]


def _made_from(records: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Map the path of each record to those of the others that it was made from."""
    return {
        record.path: [other for other in records if other is not record and other.path in record.artifact.materials]
        for record in records
    }


def build_page(records: Sequence[Evidence], claims: Evidence, quoted: list[Quoted]) -> Page:
    """Arrange all records for the templates."""
    kernels = by_kernel(records)
    planted = [build_planted(name, of) for name, of in kernels.items() if "teeth" in of]
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
        exhibits=build_exhibits(result.claims, records),
        titles={name: title_of(of) for name, of in kernels.items()},
        accuracy=[build_accuracy(name, of) for name, of in kernels.items()],
        planted=planted,
        unplanted=[name for name, of in kernels.items() if "teeth" not in of],
        comparison=comparison(total(planted)),
        compilation=[build_compilation(name, of) for name, of in kernels.items() if "compile" in of],
        times=[build_times(name, of["timing"]) for name, of in kernels.items() if "timing" in of],
        environment=shared.get("environment"),
        main_distributions=main_distributions(shared.get("environment")),
        gate=shared.get("gate"),
        quoted=quoted,
        lineage=build_lineage(everything, _sources(result, quoted)),
        made_from=_made_from(everything),
        records=everything,
        materials=sorted({pair for record in everything for pair in record.artifact.materials.items()}),
    )


def _for_html(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _for_markdown(value: Any) -> Markup:
    # Marked as safe, so that Jinja does not escape for HTML what is already escaped for Markdown.
    return value if isinstance(value, Markup) else Markup(escape(str(value)))  # noqa: S704


def source_hash(text: str) -> str:
    """Return what a content security policy calls a script or style of exactly this text."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_ENDS = re.compile(r"</(?:td|th|dt|dd)>(?=</?(?:td|th|tr|dt|dd|div)\b)|</tr>(?=\s*</?(?:tr|thead|tbody)\b)")


def without_ends(html: str) -> str:
    """Return a page without the end tags of cells, rows and terms that HTML implies: 5 % of a page of many tables.

    What looks like one of them is one, as every text is escaped.
    """
    return _ENDS.sub("", html)


def _environment(folder: Path, finalize: Any) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    words = (formats.short, formats.numeral, formats.shown, formats.gibibytes, formats.watts, formats.megahertz)
    environment.filters |= {word.__name__: word for word in words}
    environment.filters |= {"bars": bars_as_text, "dots": dots_as_text, "spots": spots_as_text}
    environment.filters |= {"drawn": draw, "csv_link": csv_link, "csv_name": csv_name}
    environment.filters |= {"command": shlex.join, "mark": mark}
    environment.filters["source_hash"] = source_hash
    environment.filters["fenced"] = lambda text, language="": Markup(fenced(text, language))  # noqa: S704
    environment.filters["listed"] = lambda texts, between=", ": between.join(texts)
    environment.tests["unavailable"] = lambda value: isinstance(value, Unavailable)
    environment.globals |= {
        "MARKS": MARKS,
        "TARGET_TIERS": TARGET_TIERS,
        "TEETH_COMMAND": TEETH,
        "BOX": (WIDTH, HEIGHT),
        "DIGITS": DIGITS,
    }
    return environment


def render_by(templates: tuple[str, str], page: Any, folder: Path = TEMPLATES) -> tuple[bytes, bytes]:
    """Return a page as HTML and as Markdown, by two templates in `folder`, which know it as `page`."""
    html = without_ends(_environment(folder, _for_html).get_template(templates[0]).render(page=page))
    return html.encode(), render_markdown(page, folder, templates[1])


def render_markdown(page: Any, folder: Path = TEMPLATES, template: str = MARKDOWN) -> bytes:
    """Return a page as Markdown alone, which has no pictures: no library that draws decides what it says."""
    return _environment(folder, _for_markdown).get_template(template).render(page=page).encode()


def render(page: Page, folder: Path = TEMPLATES) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown, by the templates in `folder`. The same records give the same bytes."""
    return render_by((HTML, MARKDOWN), page, folder)

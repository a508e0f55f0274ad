"""Stage `report`: the claims and the figures behind them, as one page of HTML and one of Markdown.

Every record is read again first. One that was edited by hand, is missing, or was made from other sources than those
at hand is refused by name, and nothing is written.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.artifact import exclusive, open_session, sha256_bytes, write_bytes
from assay.errors import UsageError
from assay.evidence import Evidence, check, load, present
from assay.page import HTML, MARKDOWN, TEMPLATES, Quoted, arranged, build_page, kernel_files, render
from assay.privacy import one_line
from assay.record import Report
from assay.snippets import find_snippets
from assay.stage import Job, job_of, parser, stage_of


def in_order(paths: Sequence[Path], claims: Path) -> tuple[list[Evidence], Evidence]:
    """Read the records, kernel by kernel in the order of the stages, and the claims last."""
    records = [load(path, stage_of(path), number) for number, path in enumerate(arranged(paths), start=1)]
    return records, load(claims, "claims", len(records) + 1)


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
    options = parser("report", per_kernel=False, all_evidence=True)
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
    status = claims.artifact.result.status
    session.write(job.out, Report(status=status, outputs=outputs))
    print(f"{html}: {one_line(status.sentence, limit=2000)}", file=sys.stderr)


def main(argv: Sequence[str]) -> int:
    """Run the stage."""
    chosen = read_options(argv)
    job = job_of("report", chosen)
    with exclusive(job.out):
        write_report(job, chosen.html, chosen.markdown)
    return 0

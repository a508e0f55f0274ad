"""The known changes of Triton's compiler, seen between the real releases. Run by `make versions-test` alone.

It downloads some GB of torch and Triton, which stay in uv's cache. A release that cannot be installed here skips what
needs it, with the reason.
"""

import shutil
import sys
from collections.abc import Iterator

import pytest
from project import ROOT, Project, new_project

from assay.artifact import decode
from assay.changes import Change, Row, Versions
from assay.installation import locked_versions
from assay.known_changes import KNOWN
from assay.record import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.versions]

SMALL = ROOT / "tests/version_kernels"
CONFIG = "targets: [sm_80, sm_90, sm_100]\nseeds: [1]\n"
SEEN = {
    "triton #10176": ("dot_of_widened", ["sm_100"]),
    "triton #9609": ("sum_of_broadcast", ["sm_80", "sm_90", "sm_100"]),
    "sm_80 stack": ("dot_of_many_registers", ["sm_80"]),
}
"""By known change: the kernel that shows it, and the targets."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project of the small kernels in which `versions` has run. Its environments, which are large, are removed."""
    made = new_project(tmp_path_factory.mktemp("versions") / "project")
    shutil.rmtree(made.root / "kernels")
    shutil.copytree(SMALL, made.root / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (made.root / "config.yaml").write_text(CONFIG, "utf-8")
    done = made.run(sys.executable, "-m", "snakemake", "--cores", "2", "versions", limit_s=1800)
    assert done.returncode == 0, done.stdout
    yield made
    shutil.rmtree(made.root / ".venvs")


@pytest.fixture(scope="module")
def found(project: Project) -> Versions:
    path = project.root / "results/versions.json"
    return decode(path.read_bytes(), Versions, str(path))


def need(found: Versions, *versions: str) -> None:
    """Skip where one of these releases could not be installed."""
    for column in found.columns:
        if column.version in versions and isinstance(column.software, Unavailable):
            pytest.skip(f"Triton {column.version}: {column.software.reason}")


def rows(found: Versions, name: str) -> list[tuple[Row, Change]]:
    return [(row, change) for row in found.rows for change in row.changes if name in change.known]


def test_every_locked_release_has_a_column(found: Versions) -> None:
    assert [column.version for column in found.columns] == locked_versions()
    need(found, *locked_versions())


def test_every_known_change_has_a_kernel() -> None:
    assert set(SEEN) == {known.name for known in KNOWN}
    assert {f"{kernel}.py" for kernel, _ in SEEN.values()} == {path.name for path in SMALL.glob("*.py")}


@pytest.mark.parametrize("name", SEEN)
def test_a_known_change_is_seen_from_3_7_to_3_8_where_it_should_be_and_nowhere_else(found: Versions, name: str) -> None:
    need(found, "3.7.1", "3.8.0")
    kernel, targets = SEEN[name]
    seen = rows(found, name)
    assert {row.kernel for row, _ in seen} == {kernel}
    assert [row.target for row, _ in seen] == targets
    assert {(change.older, change.newer) for _, change in seen} == {("3.7.1", "3.8.0")}


@pytest.mark.parametrize("name", SEEN)
def test_the_page_names_it(project: Project, found: Versions, name: str) -> None:
    need(found, "3.7.1", "3.8.0")
    page = (project.root / "results/versions.md").read_text("utf-8")
    section = page.partition(f"### {name}\n")[2].partition("\n#")[0]
    assert SEEN[name][0] in section
    assert "Not seen here" not in section


def test_the_interpreter_agrees_in_every_release(found: Versions) -> None:
    interpreted = [row for row in found.rows if row.target is None]
    assert len(interpreted) == len(SEEN)
    assert {cell.outcome for row in interpreted for cell in row.cells.values()} == {"passed"}


def test_the_stack_stays_in_3_9(found: Versions) -> None:
    need(found, "3.8.0", "3.9.0")
    (cells,) = [row.cells for row in found.rows if (row.kernel, row.target) == ("dot_of_many_registers", "sm_80")]
    assert int(cells["3.9.0"].figures["stack"]) > 0

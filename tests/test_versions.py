"""`snakemake versions` in a tiny project, with environments of wheels made here: built, blocked and repeated."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from project import Project, new_project
from wheels import index_variables, lock_of

from assay.artifact import decode
from assay.changes import Software, Versions
from assay.errors import UsageError
from assay.record import Unavailable
from assay.versions import place_of

INSTALLED, BLOCKED = ("3.6.0", "3.8.0"), "3.9.0"


@dataclass(frozen=True)
class Compared:
    """A project in which `versions` has run."""

    project: Project
    index: Path
    printed: str

    def variables(self) -> Mapping[str, str]:
        # Where the index is must be the same in every copy: it is no part of the project.
        return index_variables(self.index, self.index.parent / "cache")

    def snakemake(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "snakemake", "--cores", "1", "versions", *arguments]
        done = self.project.run(*command, variables=self.variables(), limit_s=900)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def planned(self, *arguments: str) -> dict[str, int]:
        """Return how many jobs of each rule `snakemake versions` would run now."""
        found = re.findall(r"^([a-z_]+) +(\d+)$", self.snakemake("--dry-run", *arguments), re.MULTILINE)
        return {rule: int(count) for rule, count in found if rule != "total"}

    def read(self) -> Versions:
        path = self.project.root / "results/versions.json"
        return decode(path.read_bytes(), Versions, str(path))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Releases of which the newest cannot be installed, since the index lacks a file."""
    folder = tmp_path_factory.mktemp("versions")
    project, index = new_project(folder / "project"), folder / "index"
    for lock in project.root.glob("envs/triton/*.txt"):
        lock.unlink()
    for version in (*INSTALLED, BLOCKED):
        (project.root / f"envs/triton/{version}.txt").write_text(lock_of(index, version), "utf-8")
    next(index.glob(f"triton-{BLOCKED}-*")).rename(folder / "kept.whl")
    made = Compared(project, index, "")
    return Compared(project, index, made.snakemake())


@pytest.fixture
def compared(first: Compared, tmp_path: Path) -> Compared:
    """A copy, to change and run again."""
    return Compared(first.project.copy(tmp_path / "project"), first.index, first.printed)


@pytest.mark.slow
class TestRun:
    """One run, and what a change makes again."""

    def test_each_release_is_a_column_also_the_one_that_could_not_be_installed(self, first: Compared) -> None:
        columns = {column.version: column.software for column in first.read().columns}
        assert list(columns) == [*INSTALLED, BLOCKED]
        assert all(isinstance(columns[version], Software) for version in INSTALLED)
        reason = columns[BLOCKED]
        assert isinstance(reason, Unavailable)
        assert "triton" in reason.reason
        for page in ("versions.html", "versions.md"):
            assert "blocked" in (first.project.root / "results" / page).read_text("utf-8")

    def test_each_kernel_has_a_row_for_the_interpreter_and_for_each_target(self, first: Compared) -> None:
        rows = [(row.kernel, row.target, list(row.cells)) for row in first.read().rows]
        assert rows == [(name, target, [*INSTALLED]) for name in ("one", "two") for target in (None, "sm_80")]

    def test_everything_is_interpreted_and_compiled(self, first: Compared) -> None:
        assert {cell.outcome for row in first.read().rows for cell in row.cells.values()} == {"passed"}

    def test_one_compiler_under_two_names_makes_the_same(self, first: Compared) -> None:
        assert [change for row in first.read().rows for change in row.changes] == []

    def test_the_last_line_says_what_was_found(self, first: Compared) -> None:
        said = "Triton 3.6.0, 3.8.0 (3.9.0 blocked); kernels: 2, rows: 4; differences between neighbours: 0"
        assert said in first.printed

    def test_nothing_outside_what_git_ignores_is_written(self, first: Compared) -> None:
        assert {path.name for path in (first.project.root / ".venvs").iterdir()} == {*INSTALLED, BLOCKED, ".locks"}

    def test_the_same_command_again_tries_what_was_blocked_and_nothing_else(self, first: Compared) -> None:
        assert first.planned() == {"install": 1, "versions": 1}

    def test_editing_a_kernel_makes_its_cells_again(self, compared: Compared) -> None:
        compared.project.edit("kernels/one.py", "1.0", "1.5")
        assert compared.planned() == {"install": 1, "stage_in_version": 4, "versions": 1}

    def test_a_key_that_one_stage_reads_makes_the_cells_of_that_stage_again(self, compared: Compared) -> None:
        compared.project.edit("config.yaml", "seeds: [1]", "seeds: [2]")
        assert compared.planned() == {"install": 1, "stage_in_version": 4, "versions": 1}

    def test_it_can_be_limited_to_some_kernels(self, compared: Compared) -> None:
        compared.snakemake("--config", 'kernels=["one"]')
        assert {row.kernel for row in compared.read().rows} == {"one"}

    def test_a_release_that_can_be_installed_later_joins_the_others(self, compared: Compared, tmp_path: Path) -> None:
        complete = tmp_path / "index"
        complete.mkdir()
        for wheel in compared.index.iterdir():
            (complete / wheel.name).write_bytes(wheel.read_bytes())
        (complete / f"triton-{BLOCKED}-py3-none-any.whl").write_bytes((compared.index.parent / "kept.whl").read_bytes())
        later = Compared(compared.project, complete, "")
        before = {path: path.read_bytes() for path in compared.project.root.glob("results/versions/*/*/*.json")}
        later.snakemake("--config", 'kernels=["one"]')
        assert list(later.read().rows[0].cells) == [*INSTALLED, BLOCKED]
        assert all(path.read_bytes() == data for path, data in before.items())
        assert later.planned("--config", 'kernels=["one"]') == {}

    def test_a_record_of_another_environment_is_refused(self, compared: Compared) -> None:
        root = compared.project.root
        (root / "results/versions/3.6.0/one/compile.json").write_bytes(
            (root / "results/versions/3.8.0/one/compile.json").read_bytes()
        )
        assert "expected a record made with results/versions/3.6.0/environment.json as it is" in self.refusal(compared)

    def test_a_record_that_was_edited_is_refused(self, compared: Compared) -> None:
        path = compared.project.root / "results/versions/3.6.0/one/compile.json"
        path.write_bytes(path.read_bytes().replace(b'"registers":', b'"registers":1', 1))
        assert "content_sha256" in self.refusal(compared)

    def test_an_environment_of_another_triton_is_refused(self, compared: Compared) -> None:
        root = compared.project.root
        for name in ("environment", "one/interpreter", "one/compile"):
            path = root / f"results/versions/3.6.0/{name}.json"
            path.write_bytes((root / f"results/versions/3.8.0/{name}.json").read_bytes())
        assert "expected Triton 3.6.0, found 3.8.0" in self.refusal(compared)

    def refusal(self, compared: Compared) -> str:
        """Return what the command says of the records as they are now."""
        records = sorted(
            str(path.relative_to(compared.project.root))
            for pattern in ("*.json", "[!.]*/*.json")
            for path in (compared.project.root / "results/versions/3.6.0").glob(pattern)
        )
        done = compared.project.assay(
            "versions", "--installation", ".venvs/3.6.0/installation.json", "--record", *records
        )
        assert done.returncode == 2, done.stdout
        assert "Traceback" not in done.stdout
        return done.stdout


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("results/versions/3.8.0/environment.json", ("3.8.0", None, "environment")),
        ("results/versions/3.8.0/softmax/compile.json", ("3.8.0", "softmax", "compile")),
        ("results/versions/3.8.0/softmax/interpreter.json", ("3.8.0", "softmax", "interpreter")),
    ],
)
def test_a_record_is_of_what_its_place_says(path: str, place: tuple[str, str | None, str]) -> None:
    assert place_of(Path(path)) == place


@pytest.mark.parametrize(
    "path",
    [
        "results/softmax/compile.json",
        "results/versions/3.8.0/softmax/environment.json",
        "results/versions/3.8.0/gpu.json",
        "results/versions/3.8.0/softmax/gpu.json",
        "results/versions/3.8.0/a/b/compile.json",
        "results/versions/3.8.0/softmax/other.json",
        "elsewhere/compile.json",
    ],
)
def test_a_record_that_lies_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="--record: expected a file"):
        place_of(Path(path))

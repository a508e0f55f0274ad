"""A stage is made of what it imports and starts; the source is git's commit and one digest over the workflow."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay import sources
from assay.errors import UsageError
from assay.record import Unavailable

ROOT = Path(__file__).parents[1]
Project = Callable[[dict[str, str]], None]
MODULES = {"assay/__init__.py": "", "assay/__main__.py": "from assay import timing\n"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Write files into a folder of its own, which is the working folder meanwhile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, "utf-8")
        sources.modules.cache_clear()

    yield write
    sources.modules.cache_clear()


def commit() -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "--no-verify", "-m", "State"]):
        subprocess.run(["git", *words], check=True)


@pytest.mark.parametrize(
    "line",
    [
        "from assay.errors import AssayError",
        "from assay import errors",
        "import assay.errors",
        "def late():\n    from assay.errors import AssayError",
        'COMMAND = ["-m", "assay.errors"]',
    ],
)
def test_every_way_to_use_a_module_counts(project: Project, line: str) -> None:
    project({**MODULES, "assay/gate.py": line, "assay/errors.py": "", "assay/other.py": ""})
    names = [path.name for path in sources.modules("gate")]
    assert names == ["__init__.py", "__main__.py", "errors.py", "gate.py"]


def test_imports_are_followed_in_circles_and_to_the_end(project: Project) -> None:
    project(
        {
            **MODULES,
            "assay/gate.py": "from assay.errors import A",
            "assay/errors.py": "from assay import record, gate",
            "assay/record.py": "import json",
        }
    )
    assert Path("assay/record.py") in sources.modules("gate")


def test_the_command_line_does_not_make_a_stage_depend_on_all(project: Project) -> None:
    project({**MODULES, "assay/gate.py": "", "assay/timing.py": ""})
    assert Path("assay/timing.py") not in sources.modules("gate")


def test_outside_the_project_a_stage_is_refused(project: Project) -> None:
    project({})
    with pytest.raises(UsageError, match="run in the folder of the Snakefile"):
        sources.modules("gate")


def test_the_real_gate_is_made_of_what_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sources.modules.cache_clear()
    names = {path.stem for path in sources.modules("gate")}
    assert {"gate", "situation", "record", "stage", "sources", "__main__"} <= names
    assert not {"environment", "timing", "kernel"} & names


def test_the_source_of_a_commit_is_clean_until_a_file_changes(project: Project) -> None:
    project({**MODULES, "config.yaml": "kernels: all\n"})
    commit()
    clean = sources.read_source()
    assert isinstance(clean.commit, str)
    assert (len(clean.commit), clean.dirty) == (40, False)
    project({"config.yaml": "kernels: [softmax]\n"})
    edited = sources.read_source()
    assert (edited.commit, edited.dirty) == (clean.commit, True)
    assert edited.digest != clean.digest


@pytest.mark.parametrize("name", ["Snakefile", "rules/new.smk", "kernels/new.py", "assay/new.py", "envs/new.txt"])
def test_a_new_file_of_the_workflow_changes_the_digest(project: Project, name: str) -> None:
    project(MODULES)
    before = sources.read_source().digest
    project({name: ""})
    assert sources.read_source().digest != before


def test_what_is_no_source_leaves_the_digest_alone(project: Project) -> None:
    project(MODULES)
    before = sources.read_source().digest
    project({"results/gate.json": "{}", "notes.txt": "", "assay/__pycache__/gate.pyc": ""})
    assert sources.read_source().digest == before


def test_without_git_the_commit_has_a_reason_and_the_digest_stands(project: Project) -> None:
    project(MODULES)
    source = sources.read_source()
    assert isinstance(source.commit, Unavailable)
    assert "not a git repository" in source.commit.reason
    assert source.dirty == source.commit
    assert len(source.digest) == 64


def test_a_foreign_checkout_around_the_files_lends_no_commit(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project({"foreign.txt": ""})
    commit()
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    project(MODULES)
    assert sources.read_source().commit == Unavailable(reason="the git checkout here tracks none of these files")


def test_a_machine_without_git_is_a_reason(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project(MODULES)
    monkeypatch.setenv("PATH", "")
    assert sources.read_source().commit == Unavailable(reason="git cannot be run (No such file or directory)")


def test_a_checkout_cannot_run_a_program_through_its_file_monitor(project: Project, tmp_path: Path) -> None:
    project(MODULES)
    commit()
    monitor = tmp_path / "monitor.sh"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", "utf-8")
    monitor.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(monitor)], check=True)
    assert sources.read_source().dirty is True
    assert not (tmp_path / "ran").exists()

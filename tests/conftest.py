"""What all tests share: the folder they run in, the finished run of a tiny project, and where GPU tests are skipped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from project import ROOT, Project, new_project

# No deadline for an example: how long one takes says how busy the machine is.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")


def pytest_configure() -> None:
    """Hear Ctrl-C, which some tests send: what a script starts in the background ignores it, and so do its children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _in_the_project() -> Iterator[None]:
    """Run in the project's folder, wherever pytest was started: stages name their files from there."""
    before = Path.cwd()
    os.chdir(ROOT)
    yield
    os.chdir(before)


@pytest.fixture(scope="session", autouse=True)
def _nothing_kept() -> None:
    """Compile afresh: no test may read or fill what this user's own runs have compiled."""
    os.environ["ASSAY_CACHE"] = ""


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Undo what a test did to the environment: a variable left behind would make every later run capture it anew."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@cache
def _gate() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "assay", "gate"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"no usable device: {(done.stdout + done.stderr).strip()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a device where the gate finds none, with the gate's own reason."""
    if item.get_closest_marker("gpu") and (reason := _gate()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A tiny project in which the whole workflow has run once. All tests share it: one that changes it takes a copy."""
    made = new_project(tmp_path_factory.mktemp("finished") / "project")
    done = made.snakemake("report")
    (made.root / "printed.txt").write_text(done.stdout, "utf-8")
    assert done.returncode == 0, done.stdout
    before = made.records()
    yield made
    assert made.records() == before, "a test changed the project that all tests share"


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A copy of the finished project, to change and run again."""
    return finished.copy(tmp_path / "project")

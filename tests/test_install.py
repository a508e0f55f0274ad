"""Environments are built from their locks by the real uv, from wheels made here: whole, or blocked with the reason."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from project import PYTHON_PATH
from wheels import index_variables, lock_of, make_wheel, pin

from assay.install import Plan, install
from assay.installation import Contents, Installation, read_installation
from assay.record import Unavailable


@dataclass(frozen=True)
class Place:
    """A folder with a lock of one release, an index beside it, and a cache of its own."""

    root: Path

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def home(self) -> Path:
        return self.root / ".venvs/3.8.0"

    @property
    def part(self) -> Path:
        return self.root / ".venvs/3.8.0.part"

    def variables(self) -> dict[str, str]:
        return {**os.environ, **index_variables(self.index, self.root / "cache"), "PYTHONPATH": PYTHON_PATH}

    def write(self, lock: str) -> None:
        (self.root / "envs/triton").mkdir(parents=True, exist_ok=True)
        (self.root / "envs/triton/3.8.0.txt").write_text(lock, "utf-8")

    def start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "assay", "install", "3.8.0"]
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def install(self) -> Installation:
        """Run the command, which never fails, and return what it wrote."""
        child = self.start()
        printed, _ = child.communicate(timeout=120)
        assert child.returncode == 0, printed
        assert "Traceback" not in printed
        return read_installation(self.home / "installation.json")

    def reason(self) -> str:
        found = self.install().contents
        assert isinstance(found, Unavailable)
        assert not self.part.exists()
        assert not (self.home / "bin").exists()
        return found.reason


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write(lock_of(made.index, "3.8.0"))
    return made


def test_an_environment_holds_what_its_lock_says(place: Place) -> None:
    found = place.install()
    assert found.contents == Contents(distributions={"torch": "2.11.0", "triton": "3.8.0"})
    ask = [str(place.home / "bin/python"), "-c", "from importlib.metadata import version; print(version('triton'))"]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "3.8.0\n"
    assert not place.part.exists()


def test_one_that_stands_is_left_alone(place: Place) -> None:
    first = place.install()
    mark = place.home / "mark"
    mark.touch()
    shutil.rmtree(place.index)
    assert place.install() == first
    assert mark.exists()


@pytest.mark.parametrize("loss", ["bin/python", "installation.json"])
def test_one_of_which_something_is_gone_is_built_again(place: Place, loss: str) -> None:
    first = place.install()
    (place.home / loss).unlink()
    assert place.install().contents == first.contents
    assert (place.home / "bin/python").exists()


def test_another_lock_builds_another_environment(place: Place) -> None:
    first = place.install()
    place.write(lock_of(place.index, "3.8.0") + pin(make_wheel(place.index, "extra", "1.0", {"extra.py": ""})))
    again = place.install()
    assert again.lock_sha256 != first.lock_sha256
    assert isinstance(again.contents, Contents)
    assert again.contents.distributions["extra"] == "1.0"


def test_what_an_earlier_attempt_left_behind_is_not_taken_over(place: Place) -> None:
    (place.part / "lib").mkdir(parents=True)
    (place.part / "lib/left").touch()
    place.install()
    assert not (place.home / "lib/left").exists()
    assert not place.part.exists()


def test_what_was_downloaded_is_not_downloaded_again(place: Place) -> None:
    place.install()
    shutil.rmtree(place.home)
    linked = [path for path in (place.root / "cache").rglob("here.pth") if path.is_file()]
    assert linked
    place.install()
    (pth,) = place.home.rglob("here.pth")
    # One file on the disk, whatever number of environments has it.
    assert pth.stat().st_ino in {path.stat().st_ino for path in linked}


@pytest.mark.slow
def test_a_build_that_was_killed_is_made_by_the_next(place: Place) -> None:
    # As slow as a large torch: importing it is the last step of a build.
    place.write(lock_of(place.index, "3.8.0", {"torch.py": "import time; time.sleep(60)", "triton.py": ""}))
    child = place.start()
    deadline = time.monotonic() + 60
    while not list(place.part.rglob("torch.py")):
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    assert not (place.home / "installation.json").exists()
    place.write(lock_of(place.index, "3.8.0"))
    assert isinstance(place.install().contents, Contents)


# Why there is none


def test_a_file_that_is_not_the_locked_one_is_refused(place: Place) -> None:
    make_wheel(place.index, "triton", "3.8.0", {"here.pth": "\n", "planted.py": ""})
    assert "Hash mismatch for `triton==3.8.0`" in place.reason()


def test_a_file_that_the_index_has_not(place: Place) -> None:
    next(place.index.glob("triton-*")).unlink()
    assert "triton" in place.reason()


def test_a_lock_without_digests_is_refused(place: Place) -> None:
    place.write("torch==2.11.0\ntriton==3.8.0\n")
    assert "--hash" in place.reason() or "--require-hashes" in place.reason()


def test_a_lock_of_another_triton(place: Place) -> None:
    place.write(lock_of(place.index, "3.9.0"))
    assert place.reason() == "envs/triton/3.8.0.txt installs triton 3.9.0"


def test_a_torch_that_cannot_be_imported(place: Place) -> None:
    broken = "raise ImportError('libcudart.so.13: cannot open shared object file')"
    place.write(lock_of(place.index, "3.8.0", {"torch.py": broken, "triton.py": ""}))
    assert "libcudart.so.13: cannot open shared object file" in place.reason()


def test_a_machine_without_uv_is_told_how_to_get_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.root)
    monkeypatch.setenv("PATH", str(place.root))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (place.root / ".venvs").mkdir()
    found = install(Plan("3.8.0", Path("envs/triton/3.8.0.txt")))
    missing = "uv is not installed; run: python -m pip install -r envs/run.txt"
    assert found.contents == Unavailable(reason=missing)


def test_a_reason_takes_the_place_of_an_older_environment(place: Place) -> None:
    place.install()
    place.write(lock_of(place.index, "3.9.0"))
    assert place.reason()


def test_one_that_was_blocked_is_tried_again(place: Place) -> None:
    wheel = next(place.index.glob("triton-*"))
    wheel.rename(place.root / wheel.name)
    assert place.reason()
    (place.root / wheel.name).rename(wheel)
    assert isinstance(place.install().contents, Contents)


@pytest.mark.parametrize(("version", "said"), [("3.7.1", "found no file"), ("../../x", "such as 3.8.0, found ../../x")])
def test_a_release_without_a_lock(place: Place, version: str, said: str) -> None:
    command = [sys.executable, "-m", "assay", "install", version]
    done = subprocess.run(
        command, cwd=place.root, env=place.variables(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert not (place.root / ".venvs").exists()

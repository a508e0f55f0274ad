"""What is known of the environments: which releases there are, what is to be made in each, and what is tried again."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import ROOT

from assay.errors import RecordError
from assay.installation import (
    Contents,
    Installation,
    installation_path,
    locked_versions,
    next_attempt,
    read_installation,
    release_order,
    version_records,
    write_installation,
)
from assay.record import Unavailable

CONTENTS = Contents(distributions={"triton": "3.8.0"})


def known(contents: Contents | Unavailable) -> Installation:
    return Installation(attempt=3, version="3.8.0", lock_sha256="0" * 64, python="3.11.7", contents=contents)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(contents: Contents | Unavailable, python: bool = True) -> None:
    write_installation(installation_path("3.8.0"), known(contents))
    if python:
        path = Path(".venvs/3.8.0/bin/python")
        path.parent.mkdir(exist_ok=True)
        path.touch()


def test_releases_are_those_with_a_lock_oldest_first(tmp_path: Path) -> None:
    for name in (
        "3.10.0.txt",
        "3.9.0.txt",
        "3.9.0.in",
        ".txt",
        "new.txt",
    ):
        (tmp_path / name).touch()
    assert locked_versions(tmp_path) == ["3.9.0", "3.10.0"]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_releases_are_ordered_as_numbers(one: list[int], other: list[int]) -> None:
    texts = [".".join(map(str, parts)) for parts in (one, other)]
    assert (release_order(texts[0]) < release_order(texts[1])) == (one < other)


@pytest.mark.parametrize("release", ["3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_the_project_has_a_lock_of_each_release_that_is_served(release: str) -> None:
    """With the sha256 of everything in it, and the versions that a run has besides torch and Triton."""
    lock = (ROOT / f"envs/triton/{release}.txt").read_text("utf-8")
    wanted = (ROOT / f"envs/triton/{release}.in").read_text("utf-8")
    pins = [line.split(" ")[0] for line in lock.splitlines() if line[:1].isalpha()]
    assert f"triton=={release}" in pins
    assert {line for line in wanted.splitlines() if "==" in line} <= set(pins)
    hashed = re.findall(r"^\S+==.* \\\n +--hash=sha256:[0-9a-f]{64}\b", lock, re.MULTILINE)
    assert len(hashed) == len(pins)


def test_the_stages_run_with_what_a_run_has() -> None:
    run = (ROOT / "envs/run.txt").read_text("utf-8").splitlines()
    pinned = [line for line in (ROOT / "envs/triton/stages.in").read_text("utf-8").splitlines() if "==" in line]
    assert pinned
    assert set(pinned) <= set(run)


def test_records_are_made_of_each_kernel_where_the_release_is_there(folder: Path) -> None:
    write(CONTENTS)
    assert version_records("3.8.0", installation_path("3.8.0"), ["a"]) == [
        "results/versions/3.8.0/environment.json",
        "results/versions/3.8.0/a/interpreter.json",
        "results/versions/3.8.0/a/compile.json",
    ]


def test_no_record_is_made_where_it_is_not(folder: Path) -> None:
    write(Unavailable(reason="no network"), python=False)
    assert version_records("3.8.0", installation_path("3.8.0"), ["a"]) == []


def test_only_what_failed_is_tried_again(folder: Path) -> None:
    assert next_attempt("3.8.0") == 1
    write(CONTENTS)
    assert next_attempt("3.8.0") == 3
    write(Unavailable(reason="no network"))
    assert next_attempt("3.8.0") == 4


def test_an_environment_of_which_something_is_gone_is_tried_again(folder: Path) -> None:
    write(CONTENTS, python=False)
    assert next_attempt("3.8.0") == 4


def test_a_file_that_says_nothing_is_tried_again(folder: Path) -> None:
    write(CONTENTS)
    installation_path("3.8.0").write_text("{}", "utf-8")
    assert next_attempt("3.8.0") == 0


def test_what_cannot_be_read_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(RecordError, match=r"\.venvs/3\.8\.0/installation\.json: cannot be read .*versions"):
        read_installation(installation_path("3.8.0"))

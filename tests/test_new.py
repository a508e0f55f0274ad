"""The starting file: it is right on its own cases, which bite, and nothing is ever overwritten."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import Project
from trials import ROOT, Bench, bench, planted, verdict_of, written

from assay.__main__ import main
from assay.config import KERNEL_NAME
from assay.kernel import Kernel, load
from assay.new import kernel_file
from assay.record import Cause, Check


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("new") / "child.log")
    with made.child:
        yield made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("starting"), "own", kernel_file("own"))


@pytest.fixture(scope="module")
def kernel(path: Path) -> Kernel:
    return load(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder laid out like the project, to run in."""
    (tmp_path / "assay").symlink_to(ROOT / "assay")
    (tmp_path / "kernels").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_case_passes_in_every_variant(tried: Bench, path: Path, kernel: Kernel) -> None:
    for variant in kernel.variants:
        for case in kernel.cases:
            check = tried.check(path, variant.id, case.name, [20260901, 7])
            assert isinstance(check, Check)
            assert check.verdict.outcome == "passed", f"{case.name}: {check.verdict.reason}"


PLANTED: list[tuple[str, tuple[str, str], str, Cause]] = [
    (
        "no mask",
        ("mask=column < columns, other=0.0", "mask=column < column + 1, other=0.0"),
        "ragged-7x781",
        "poison-read",
    ),
    ("no other", ("mask=column < columns, other=0.0", "mask=column < columns"), "one-short-3x255", "undefined-read"),
    ("rows taken as dense", ("row * x_row", "row * columns"), "padded-7x300", "poison-read"),
    ("columns taken as dense", ("column * x_col", "column"), "transposed-7x300", "wrong-value"),
    (
        "the last block left out",
        ("range(0, columns, BLOCK)", "range(0, columns - BLOCK, BLOCK)"),
        "one-past-3x1025",
        "wrong-value",
    ),
    ("a row too few", ("[(rows,)]", "[(rows - 1,)]"), "ragged-7x781", "not-written"),
    ("the next row written", ("y_ptr + row,", "y_ptr + row + 1,"), "single-1x1", "out-of-bounds-write"),
    (
        "NaN counted as 0",
        ("tl.store(y_ptr", "total = tl.where(total == total, total, 0.0)\n    tl.store(y_ptr"),
        "nan-7x300",
        "wrong-value",
    ),
]


@pytest.mark.parametrize(("name", "change", "case", "cause"), PLANTED, ids=[row[0] for row in PLANTED])
def test_its_cases_catch_a_planted_fault(
    tried: Bench, path: Path, tmp_path: Path, name: str, change: tuple[str, str], case: str, cause: Cause
) -> None:
    check = tried.check(planted(path, tmp_path, change), "f32/block256", case)
    verdict = verdict_of(check, "f32")
    assert verdict.cause == cause, verdict.reason


@given(st.from_regex(KERNEL_NAME, fullmatch=True))
def test_any_kernel_name_makes_a_module_that_declares_it(name: str) -> None:
    text = kernel_file(name)
    compile(text, "own.py", "exec")
    assert f'    name="{name}",' in text
    assert "$" not in text


def test_it_is_written_as_the_projects_own_files_are(path: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--config",
                ROOT / "pyproject.toml",
                "--stdin-filename",
                ROOT / "kernels/own.py",
                "-",
            ],
            input=path.read_text("utf-8"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_says_what_to_run_next(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "mine"]) == 0
    assert (folder / "kernels/mine.py").read_text("utf-8") == kernel_file("mine")
    assert capsys.readouterr().out.splitlines()[-1] == (
        "python -m assay environment && python -m assay interpreter --kernel kernels/mine.py"
    )


@pytest.mark.slow
def test_what_it_says_can_be_run(project: Project) -> None:
    command = project.assay("new", "mine").stdout.splitlines()[-1]
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = project.run("bash", "-c", command, variables={"PATH": search})
    assert done.returncode == 0, done.stdout
    assert (project.root / "results/mine/interpreter.json").is_file()


@pytest.mark.parametrize(
    "name", ["", "Mine", "2nd", "my-kernel", "_mine", "mine.py", "../mine", "a/b", "mine\n", "käse"]
)
def test_a_name_that_no_kernel_can_have_is_refused(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", name]) == 2
    assert capsys.readouterr().err == (
        f"assay new: NAME: expected lower-case letters, digits and _, a letter first, found {name!r}; "
        "choose such a name\n"
    )
    assert not list((folder / "kernels").iterdir())


def test_a_kernel_that_is_there_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "kernels/mine.py").write_text("precious", "utf-8")
    assert main(["new", "mine"]) == 2
    assert capsys.readouterr().err == (
        "assay new: NAME: expected no file kernels/mine.py, found one; choose another name\n"
    )
    assert (folder / "kernels/mine.py").read_text("utf-8") == "precious"


def test_a_symbolic_link_is_not_followed(folder: Path) -> None:
    (folder / "kernels/mine.py").symlink_to(folder / "elsewhere")
    assert main(["new", "mine"]) == 2
    assert not (folder / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "kernels").rmdir()
    assert main(["new", "mine"]) == 2
    assert capsys.readouterr().err == (
        "assay new: NAME: kernels/mine.py cannot be written (No such file or directory); make kernels/ writable\n"
    )


def test_in_another_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine"]) == 2
    assert "run in the folder of the Snakefile" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())

"""What one process compiled and another takes from the storage, for real: when that is so, and when it may not be."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import PYTHON_PATH
from trials import DOUBLE, changed, written

from assay.artifact import convert, sha256_bytes
from assay.building import Built
from assay.child import ONE_THREAD, Child, compiling_environment
from assay.forking import Session, opening
from assay.record import Compilations
from assay.reusing import code_of
from assay.storage import Storage, pack

LIMIT_S = 120.0


@dataclass(frozen=True)
class Bench:
    """A child that forks one process for each build, as if each were of another run."""

    child: Child
    triton: Path
    storage: Storage

    def build(self, kernel: Path, *, target: str = "sm_80") -> Built:
        """Compile with nothing left of the run before but what the storage keeps."""
        shutil.rmtree(self.triton, ignore_errors=True)
        with Session(self.child, kernel) as session:
            request = {"do": "build", "variant": "f32/block64", "target": target, "case": "ragged"}
            answer = session.ask(request, LIMIT_S)
        return convert(answer, Built, "the child's answer")

    def entries(self) -> list[Path]:
        return [path for path, _ in self.storage.found()]


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Child, Path, Path]]:
    folder = tmp_path_factory.mktemp("reusing")
    cache, triton = folder / "cache", folder / "triton"
    environ = {**compiling_environment(str(triton)), **ONE_THREAD, "PYTHONPATH": PYTHON_PATH, "ASSAY_CACHE": str(cache)}
    command = [sys.executable, "-m", "assay.faulty", "none"]
    with Child(command, environ, folder / "log", opening(LIMIT_S)) as made:
        yield made, triton, cache


@pytest.fixture
def bench(child: tuple[Child, Path, Path]) -> Bench:
    made, triton, cache = child
    shutil.rmtree(cache, ignore_errors=True)
    return Bench(made, triton, Storage(cache))


MADE, REUSED = Compilations(made=1, reused=0), Compilations(made=0, reused=1)


def test_a_second_checkout_and_a_renamed_file_compile_nothing_and_find_the_same(bench: Bench, tmp_path: Path) -> None:
    first = bench.build(written(tmp_path / "one", "double", DOUBLE))
    again = bench.build(written(tmp_path / "other checkout", "double", DOUBLE))
    renamed = bench.build(written(tmp_path / "one", "twice", changed(DOUBLE, ('name="double"', 'name="twice"'))))
    assert (first.compilations, again.compilations, renamed.compilations) == (MADE, REUSED, REUSED)
    assert first.binaries == again.binaries == renamed.binaries
    assert first.binaries[0].instructions.machine
    assert (first.notes, again.notes, renamed.notes) == ([], [], [])


def test_another_target_is_compiled_be_it_of_another_vendor(bench: Bench, tmp_path: Path) -> None:
    kernel = written(tmp_path, "double", DOUBLE)
    assert bench.build(kernel).compilations == MADE
    made, again = (bench.build(kernel, target="gfx942") for _ in range(2))
    assert (made.compilations, again.compilations) == (MADE, REUSED)
    assert made.binaries == again.binaries


def test_entries_that_are_damaged_cut_or_swapped_are_named_and_compiled_anew(bench: Bench, tmp_path: Path) -> None:
    kernel = written(tmp_path, "double", DOUBLE)
    sound = bench.build(kernel)
    entries = bench.entries()
    assert len(entries) == 2  # the compilation, and what its binary was taken apart into

    def spoilt(data: bytes) -> bytes:
        return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]

    other = pack(sha256_bytes(b"another"), {"double_kernel.json": b"{}"})
    for spoil in (spoilt, lambda data: data[: len(data) // 2], lambda _: b"", lambda _: other):
        for path in entries:
            path.write_bytes(spoil(path.read_bytes()))
        found = bench.build(kernel)
        assert found.compilations == MADE
        assert found.binaries == sound.binaries
        assert sorted(note.split(": ")[0] for note in found.notes) == sorted(map(str, entries))
        assert all(note.endswith("it is not used, and what it was of is made anew") for note in found.notes)
        healed = bench.build(kernel)
        assert (healed.compilations, healed.binaries, healed.notes) == (REUSED, sound.binaries, [])


def test_without_a_place_to_write_everything_is_compiled_and_said_once_each(bench: Bench, tmp_path: Path) -> None:
    bench.storage.folder.write_text("no folder")
    found = bench.build(written(tmp_path, "double", DOUBLE))
    assert found.compilations == MADE
    assert len(found.binaries) == 1
    assert any("nothing can be kept" in note for note in found.notes)
    bench.storage.folder.unlink()


BY_MODULE = changed(
    DOUBLE,
    ("import os\n", "import os\nimport sys\n\nsys.path.insert(0, os.path.dirname(__file__))\n\nimport factors\n"),
    ("2.0 * x", "factors.FACTOR * x"),
)


def test_a_constant_in_another_file_is_part_of_the_source(bench: Bench, tmp_path: Path) -> None:
    kernel = written(tmp_path, "double", BY_MODULE)
    found = []
    for factor in ("2.0", "2.0", "3.0"):
        (kernel.parent / "factors.py").write_text(f"FACTOR = {factor}\n")
        # A process that was forked within the same second would find what Python compiled for the one before.
        shutil.rmtree(kernel.parent / "__pycache__", ignore_errors=True)
        found.append(bench.build(kernel))
    assert [one.compilations for one in found] == [MADE, REUSED, MADE]
    assert found[0].binaries == found[1].binaries != found[2].binaries


def test_comments_and_names_outside_the_functions_compile_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.build(written(tmp_path, "double", DOUBLE))
    edited = changed(DOUBLE, ('"""Doubles a vector."""', '"""Doubles a vector."""  # noted'))
    assert bench.build(written(tmp_path, "double", edited)).compilations == REUSED


BY_LAUNCH = changed(
    DOUBLE,
    ('    x, y = inputs["x"]', '    import factors\n\n    x, y = inputs["x"]'),
    ("2.0 * x", "2.0 * x + 0.0"),
)


def test_what_a_launch_imports_is_part_of_the_source_too(bench: Bench, tmp_path: Path) -> None:
    path = '"""\n\nimport os\n', '"""\n\nimport os\nimport sys\n\nsys.path.insert(0, os.path.dirname(__file__))\n'
    kernel = written(tmp_path, "double", changed(BY_LAUNCH, path))
    found = []
    for factor in ("2.0", "2.0", "3.0"):
        (kernel.parent / "factors.py").write_text(f"FACTOR = {factor}\n")
        found.append(bench.build(kernel).compilations)
    assert found == [MADE, REUSED, MADE]


@given(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.from_regex(r"[a-z_]{1,12}", fullmatch=True))
def test_the_code_of_a_file_is_the_same_under_any_name_and_only_the_declared_one_is_left_out(
    one: str, other: str
) -> None:
    text = 'KERNEL = Kernel(name={name!r}, title="T")\nPRECISION = "ieee"\n'
    declared = [code_of(text.format(name=name), name) for name in (one, other)]
    assert declared[0] == declared[1]
    assert code_of(text.format(name=one), "another name") != declared[0]
    assert code_of(text.format(name="ieee"), "ieee") != code_of(
        text.format(name="ieee").replace("ieee", "tf32"), "tf32"
    )


def test_the_process_environment_names_no_storage_unless_a_stage_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", "/kept")
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "elsewhere:Manager")
    found = compiling_environment("/cache")
    assert not {"ASSAY_CACHE", "TRITON_CACHE_MANAGER"} & set(found)
    assert os.environ["ASSAY_CACHE"] == "/kept"

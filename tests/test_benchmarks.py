"""The benchmarks, as far as they go without a device: what they refuse, what they run on, and how they count."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import ROOT, replaced

from assay.child import Child, Fault, ask, compiling_environment
from assay.correctness import DESCRIBE, Described
from assay.kernel import Variant
from assay.precompiling import precompile
from assay.record import Declaration, Verdict
from assay.speeds import stretches
from benchmarks import repeatability, sweep_against_autotune
from benchmarks.autotune import configuration
from benchmarks.project import Project, project, variables
from benchmarks.repeatability import conclusions_of, differing, rounds_of, spread

NAMES = ("sweep_against_autotune", "repeatability")
TARGET = {"bench-sweep": NAMES[0], "bench-repeat": NAMES[1], "bench-growth": "growth"}


def declared(made: Project, folder: Path) -> Declaration:
    environment = {**compiling_environment(str(folder)), **variables()}
    command = [sys.executable, "-m", "assay.codegen", str(made.kernel)]
    with Child(command, environment, folder / "log") as child:
        answer = ask(child, DESCRIBE, Described, 120)
    assert not isinstance(answer, Fault), answer
    return answer.declaration


@pytest.mark.parametrize("name", NAMES)
def test_without_a_device_a_benchmark_says_so_in_one_sentence_and_exits_with_1(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}"],
        cwd=tmp_path,
        env=variables(CUDA_VISIBLE_DEVICES=""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{name}: it needs a device: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", TARGET)
def test_make_has_a_target_for_each(target: str) -> None:
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    at = lines.index(f"{target}: .venv/run.done")
    assert lines[at + 1] == f"\t$(BIN)/python -m benchmarks.{TARGET[target]} $(ARGUMENTS)"


def test_the_search_space_is_a_list_that_autotune_takes_too(tmp_path: Path) -> None:
    with project("matmul", sweep_against_autotune.SPACE.format(size=2048, variants=64)) as made:
        declaration = declared(made, tmp_path)
        first = declaration.variants[0].id
        done = precompile(
            made.kernel,
            tmp_path / "gpu.log",
            str(tmp_path / "cache"),
            {first: ["square"]},
            "sm_90",
            label="compiling",
            workers=1,
            limit_s=120,
            loading_limit_s=120,
        )
    assert len(declaration.variants) == 64
    assert all(variant.searched and variant.precision == "tf32" for variant in declaration.variants)
    assert (declaration.timed, len(declaration.cases), declaration.dot) == (["square"], 1, False)
    # The case is no product that a canary is sent through, so there is one launch.
    assert done.launches == 1
    assert not made.root.exists()


def test_a_variant_becomes_a_configuration_of_its_own() -> None:
    options: dict[str, int | str] = {"BLOCK_M": 64, "num_warps": 4, "num_stages": 3}
    found = configuration(Variant("tf32", "a", options))
    assert (found.kwargs, found.num_warps, found.num_stages) == ({"BLOCK_M": 64}, 4, 3)
    assert str(found) != str(configuration(Variant("tf32", "a", {**options, "num_warps": 8})))


def test_the_kernel_that_is_repeated_is_cut_to_a_few_variants_and_sizes(tmp_path: Path) -> None:
    changes = repeatability.CUT.format(only="", variants=2) + repeatability.SOFTMAX
    with project("softmax", changes) as made:
        declaration = declared(made, tmp_path)
    assert 1 <= len(declaration.variants) <= 2
    assert declaration.timed == ["2048x1024", "8192x2048", "8192x8192"]
    assert len(declaration.cases) == 1


@given(st.lists(st.floats(1, 1e6), min_size=1), st.sampled_from([0.5, 2.0, 4.0]))
def test_spread_is_relative(medians: list[float], scale: float) -> None:
    assert spread([medians[0]] * 3) == 0
    assert spread([scale * median for median in medians]) == spread(medians)
    assert spread(medians) >= 0
    assert spread([99.0, 100.0, 103.0]) == 0.04


def test_what_not_every_run_concludes_alike_is_named() -> None:
    runs = [{"a": "faster", "b": "same"}, {"a": "faster", "b": "inconclusive"}, {"a": "faster"}]
    assert differing(runs) == {"b": ["same", "inconclusive", "nothing"]}
    assert differing(runs[:1]) == {}


def test_a_verdict_that_changed_is_a_conclusion_that_changed() -> None:
    sweep = records.timing(records.MATMUL, records.device()).sweeps[0]
    throttled = Verdict(outcome="cantTell", cause="throttled", reason="too few good rounds")
    first = sweep.rows[0]
    other = replaced(sweep, rows=[replaced(first, verdict=throttled), *sweep.rows[1:]])
    assert differing([conclusions_of([sweep]), conclusions_of([other])]) == {
        f"{sweep.size} {first.entrant}": ["passed", "cantTell"]
    }


def test_processes_of_a_benchmark_find_the_project_wherever_they_start() -> None:
    assert str(ROOT) in variables()["PYTHONPATH"].split(os.pathsep)


def test_a_run_says_what_company_it_had() -> None:
    alone, none = replaced(records.conditions(), other_processes=0), records.UNREAD
    shared, unknown = replaced(alone, other_processes=1), replaced(alone, other_processes=none)
    sweep = replaced(records.timing(records.MATMUL, records.device()).sweeps[0], ended="time", outside=[0])
    said = rounds_of(replaced(sweep, stretches=stretches([alone, shared, shared, unknown])))
    company = "another process on the device in 2 (not known of 1)"
    assert said == f"4 rounds, 1 outside the band, {company}, ended: time"

"""Reproducing: a record is like itself, every change is noticed, and nothing of a bundle runs unless asked to."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import records
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packed import archive_of, payload_of
from project import ROOT, Project
from records import MATMUL, Tree, device, environment, replaced

from assay.__main__ import main
from assay.artifact import canonical, decode, decode_artifact, seal
from assay.bag import make_bag
from assay.config import Settings
from assay.machines import blame, differences, missing
from assay.opening import Opened, UnsoundError, open_bytes
from assay.progress import Progress
from assay.record import Compile, Gpu, Interpreter, StageName, Timing, Verdict
from assay.reproduce import Reproduction, edited, rerun, told, told_plan, unmet
from assay.reproduction import About, Reproduced, compare
from assay.steps import SETUP_S, Step, bar, plan
from assay.ustar import pack
from assay.workshop import Workshop, workshop

HERE = environment(device())
RESULTS: dict[StageName, type[Any]] = {"interpreter": Interpreter, "compile": Compile, "gpu": Gpu, "timing": Timing}
FAILED = Verdict(outcome="failed", cause="wrong-value", reason="3 elements are past the bound")
OLDER = "Triton 3.7.1 here, 3.6.0 there"


def likenesses(rows: list[Reproduced]) -> set[str]:
    return {row.likeness for row in rows}


def compared(stage: StageName, there: Any, here: Any, *blamed: str) -> list[Reproduced]:
    return compare(About(stage, "matmul", blamed), there, here, (HERE, HERE))


# Comparing


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(sorted(RESULTS)))
def test_a_record_is_like_itself(data: st.DataObject, stage: StageName) -> None:
    result = data.draw(strategies.of(RESULTS[stage]))
    assert likenesses(compared(stage, result, result)) <= {"identical", "within the bound"}
    assert likenesses(compared(stage, result, result)) == {"identical"} or stage == "timing"


@given(st.integers(0, 10**9), st.booleans())
def test_a_binary_that_differs_is_named(place: int, blamed: bool) -> None:
    there = records.compilation(MATMUL, records.TARGETS)
    at = place % len(there.builds)
    build = there.builds[at]
    other = replaced(build, binaries=[replaced(build.binaries[0], binary_sha256="0" * 64)])
    here = replaced(there, builds=[*there.builds[:at], other, *there.builds[at + 1 :]])
    rows = compared("compile", there, here, *([OLDER] if blamed else []))
    assert [row.target for row in rows] == list(records.TARGETS)
    for row in rows:
        expected = "not reproducible here" if blamed else "different"
        assert row.likeness == (expected if row.target == build.target else "identical")
    (row,) = [row for row in rows if row.target == build.target]
    (words,) = row.differing
    assert words.startswith(f"{build.variant}: binary {build.binaries[0].binary_sha256[:12]} there, 000000000000 here")
    assert (OLDER in row.what) == blamed


@given(st.sampled_from(["interpreter", "gpu"]), st.integers(0, 10**9))
def test_a_check_that_ends_otherwise_is_different_whatever_may_explain_it(stage: StageName, place: int) -> None:
    there: Any = records.interpreter(MATMUL) if stage == "interpreter" else records.gpu(MATMUL, device())
    at = place % len(there.checks)
    checks = [replaced(c, verdict=FAILED) if i == at else c for i, c in enumerate(there.checks)]
    (row,) = compared(stage, there, replaced(there, checks=checks), OLDER)
    assert row.likeness == "different"
    assert row.differing == [
        f"{checks[at].variant} {checks[at].case}: passed there, failed (wrong-value) here: {FAILED.reason}"
    ]
    assert f"it may be because of {OLDER}" in row.what


def test_other_errors_within_the_bound_are_within_the_bound() -> None:
    there = records.interpreter(MATMUL)
    checks = [
        replaced(c, comparisons=[records.comparison(3e-6, one.bound, one.rule) for one in c.comparisons])
        for c in there.checks
    ]
    (row,) = compared("interpreter", there, replaced(there, checks=checks))
    assert row.likeness == "within the bound"
    assert "largest normalised error 3e-6 here, 5.5e-8 there" in row.what


def test_another_bound_is_not_the_same_bound() -> None:
    there = records.interpreter(MATMUL)
    checks = [replaced(c, comparisons=[records.comparison(5e-8, "|got - want| <= 1e9")]) for c in there.checks]
    (row,) = compared("interpreter", there, replaced(there, checks=checks), OLDER)
    assert row.likeness == "different"
    assert "other outputs, shapes or bounds" in row.differing[0]


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        ("interpreter", "checks"),
        ("interpreter", "contrasts"),
        ("compile", "builds"),
        ("compile", "findings"),
        ("gpu", "checks"),
        ("gpu", "executions"),
    ],
)
@pytest.mark.parametrize("lacking", ["there", "here"])
def test_what_only_one_of_them_has_is_different(stage: StageName, field: str, lacking: str) -> None:
    whole: Any = {
        "interpreter": records.interpreter(MATMUL),
        "compile": records.compilation(MATMUL, ("sm_90",)),
        "gpu": records.gpu(MATMUL, device()),
    }[stage]
    part = replaced(whole, **{field: getattr(whole, field)[1:]})
    (row,) = compared(stage, *((part, whole) if lacking == "there" else (whole, part)), OLDER)
    assert row.likeness == "different"
    assert row.differing[0].endswith(f": only {'here' if lacking == 'there' else 'there'}")


def test_a_build_that_hides_behind_another_is_seen() -> None:
    here = records.compilation(MATMUL, ("sm_90",))
    build = here.builds[0]
    forged = replaced(build, binaries=[replaced(build.binaries[0], binary_sha256="0" * 64)])
    for builds in ([forged, *here.builds], [*here.builds, forged]):
        (row,) = compared("compile", replaced(here, builds=builds), here, OLDER)
        assert row.likeness == "different"


def test_an_executed_binary_that_differs_is_named() -> None:
    there = records.gpu(MATMUL, device())
    executions = [replaced(there.executions[0], binary_sha256=["0" * 64]), *there.executions[1:]]
    (row,) = compared("gpu", there, replaced(there, executions=executions))
    assert row.likeness == "different"
    assert "000000000000 here" in row.differing[0]


def test_the_devices_own_description_is_not_compared() -> None:
    there = records.gpu(MATMUL, device())
    here = replaced(there, device=device("NVIDIA H100"), availability=replaced(there.availability, reason="on H100"))
    assert likenesses(compared("gpu", there, here)) == {"identical"}


def slowed(timing: Any, factor: float) -> Any:
    """Return a timing in which every entrant takes longer by a factor, in both modes."""

    def slow(time: Any) -> Any:
        return replaced(time, low=time.low * factor, median=time.median * factor, high=time.high * factor)

    rows = [replaced(row, events=slow(row.events), replay=slow(row.replay)) for row in timing.sweeps[0].rows]
    return replaced(timing, sweeps=[replaced(timing.sweeps[0], rows=rows)])


def test_medians_are_compared_in_the_mode_that_counts_for_both() -> None:
    there = records.timing(MATMUL, device())
    rows = [replaced(row, launch_bound=True, events=replaced(row.events, median=1e9)) for row in there.sweeps[0].rows]
    (row,) = compared("timing", there, replaced(there, sweeps=[replaced(there.sweeps[0], rows=rows)]))
    assert "medians 1 to 1 times those there" in row.what


def test_another_conclusion_against_a_library_is_said() -> None:
    there = records.timing(MATMUL, device())
    versus = [replaced(one, conclusion="inconclusive") for one in there.sweeps[0].versus[:1]]
    changed = [*versus, *there.sweeps[0].versus[1:]]
    (row,) = compared("timing", there, replaced(there, sweeps=[replaced(there.sweeps[0], versus=changed)]))
    assert row.likeness == "within the bound"
    assert "3 of 4 comparisons with a library concluded alike" in row.what


@pytest.mark.parametrize("lacking", ["there", "here"])
def test_what_a_search_left_out_in_one_of_the_two_is_no_difference(lacking: str) -> None:
    whole = records.timing(MATMUL, device())
    left_out = replaced(FAILED, outcome="inapplicable", cause="pruned", reason="it was slow in a short round")
    rows = [replaced(whole.sweeps[0].rows[0], verdict=left_out), *whole.sweeps[0].rows[1:]]
    part = replaced(whole, sweeps=[replaced(whole.sweeps[0], rows=rows)])
    (row,) = compared("timing", *((part, whole) if lacking == "there" else (whole, part)))
    assert row.likeness == "within the bound"
    assert "but for 1 that only one of the two left out of a search space" in row.what


def test_times_are_within_the_bound_while_every_entrant_ends_as_it_did() -> None:
    there = records.timing(MATMUL, device())
    here = slowed(there, 1.5)
    (row,) = compared("timing", there, here)
    assert row.likeness == "within the bound"
    assert "medians 1.5 to 1.5 times those there, 4 of 4 comparisons with a library concluded alike" in row.what
    slow = replaced(there.sweeps[0].speedups[0], verdict=replaced(FAILED, cause="speed"))
    (row,) = compared("timing", there, replaced(there, sweeps=[replaced(there.sweeps[0], speedups=[slow])]), OLDER)
    assert row.likeness == "different"
    assert row.differing[0].startswith("speed-up of tf32 over ieee 2048x2048x2048: passed there, failed (speed) here")


def test_a_gate_on_another_device_is_not_reproducible_here() -> None:
    pair = records.gate(device()), records.gate(None)
    (row,) = compare(About("gate", None), *pair, (environment(device()), environment(None)))
    assert row.likeness == "not reproducible here"
    assert row.what == ("no driver here, NVIDIA H200 (9.0) there; exit 0 there, exit 1 here, as this machine calls for")


def test_a_gate_that_answers_otherwise_on_the_same_device_is_different() -> None:
    pair = records.gate(device()), records.gate(None)
    (row,) = compare(About("gate", None), *pair, (HERE, HERE))
    assert row.likeness == "different"
    wrong = replaced(records.gate(None), verdict=replaced(FAILED, cause="gate-disagrees"))
    (row,) = compare(About("gate", None), pair[0], wrong, (HERE, environment(None)))
    assert row.likeness == "different"


# What can explain a difference


def with_versions(**versions: str) -> Any:
    return replaced(HERE, distributions={**HERE.distributions, "numpy": "2.4.0", **versions})


@pytest.mark.parametrize(
    ("name", "words", "stages"),
    [
        ("triton", "Triton 3.7.1 here, 3.6.0 there", {"interpreter", "compile", "gpu", "timing"}),
        ("torch", "torch 3.7.1 here, 2.11.0 there", {"interpreter", "gpu", "timing"}),
        ("numpy", "NumPy 3.7.1 here, 2.4.0 there", {"interpreter"}),
    ],
)
def test_a_version_explains_what_it_decides_and_nothing_else(name: str, words: str, stages: set[str]) -> None:
    found = differences(with_versions(), with_versions(**{name: "3.7.1"}))
    assert found == {name: [words]}
    everything: tuple[StageName, ...] = ("environment", "gate", "interpreter", "compile", "gpu", "timing")
    assert {stage for stage in everything if words in blame(stage, found)} == stages


def test_machines_that_are_alike_explain_nothing() -> None:
    elsewhere = replaced(HERE, variables={"TRITON_CACHE_DIR": "/somewhere", "CUDA_VISIBLE_DEVICES": "1"})
    assert differences(HERE, elsewhere) == {}
    changed = replaced(HERE, variables={"TRITON_F32_DEFAULT": "ieee"})
    assert differences(HERE, changed) == {"variable": ["TRITON_F32_DEFAULT ieee here, unset there"]}


def test_a_distribution_that_is_not_here_is_named() -> None:
    bare = replaced(HERE, distributions={"torch": "2.11.0"})
    assert missing("compile", bare, HERE) == "triton is not installed here (3.6.0 there)"
    assert missing("gate", bare, HERE) is None
    assert missing("compile", HERE, HERE) is None


# Bundles whose package is a stand-in that needs no torch

STAND_IN = """
import os, pathlib, sys, time
out = sys.argv[sys.argv.index("--out") + 1]
path = pathlib.Path(out)
path.parent.mkdir(parents=True, exist_ok=True)
{before}
path.write_bytes(pathlib.Path("envs", out.replace("/", "-")).read_bytes())
"""


def payload(folder: Path, found: Any) -> dict[str, bytes]:
    folder.mkdir()
    return payload_of(Tree(folder, (MATMUL,), found).lay_out().folder)


def stand_in(folder: Path, before: str = "", there: Any = None, here: Any = None, **edits: Any) -> Opened:
    """Return a bundle whose package copies records made ready; `before` is code that it runs first.

    `there` and `here`: the device of the machine in the bundle, and of that which the copied records tell of. `edits`
    change the fields of the bundle's record of the interpreter.
    """
    made, other = payload(folder / "there", there), payload(folder / "here", here)
    ready = {f"envs/{path.replace('/', '-')}": data for path, data in other.items() if path.startswith("results/")}
    package = {"assay/__init__.py": b"", "assay/__main__.py": STAND_IN.format(before=before).encode()}
    if edits:
        path = "results/matmul/interpreter.json"
        made[path] = canonical(seal(replaced(decode_artifact(made[path], "interpreter", path), **edits)))
    name, data = archive_of({**made, **ready, **package})
    return open_bytes(data, name)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only place where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def run(opened: Opened) -> dict[StageName, Reproduced]:
    """Run a bundle with one target again and return what came out of each stage."""
    steps = plan(opened)
    return {row.stage: row for row in rerun(opened, steps, Progress("reproduce", len(steps)))[1]}


def test_what_comes_out_again_is_identical(tmp_path: Path, temporary: Path) -> None:
    rows = run(stand_in(tmp_path))
    assert {stage: row.likeness for stage, row in rows.items()} == dict.fromkeys(
        ("gate", "interpreter", "compile"), "identical"
    )
    assert not list(temporary.iterdir())


def test_device_tiers_run_where_there_is_the_same_device(tmp_path: Path, temporary: Path) -> None:
    rows = run(stand_in(tmp_path, there=device(), here=device()))
    assert {stage: row.likeness for stage, row in rows.items()} == {
        **dict.fromkeys(("gate", "interpreter", "compile", "gpu"), "identical"),
        "timing": "within the bound",
    }


def test_without_the_device_its_tiers_are_not_reproducible_and_the_others_are(tmp_path: Path, temporary: Path) -> None:
    before = "assert sys.argv[1] not in ('gpu', 'timing')"
    rows = run(stand_in(tmp_path, before, there=device()))
    assert {stage: (row.likeness, row.what.partition(";")[0]) for stage, row in rows.items()} == {
        "gate": ("not reproducible here", "no driver here, NVIDIA H200 (9.0) there"),
        "interpreter": ("identical", rows["interpreter"].what),
        "compile": ("identical", rows["compile"].what),
        "gpu": ("not reproducible here", "no driver here, NVIDIA H200 (9.0) there"),
        "timing": ("not reproducible here", "no driver here, NVIDIA H200 (9.0) there"),
    }


@pytest.mark.parametrize(
    ("other", "barred"),
    [
        (device(), set()),
        (device("NVIDIA H100"), {"timing"}),
        (replaced(device(), compute_capability="8.0", target="sm_80"), {"gpu", "timing"}),
    ],
)
def test_the_same_capability_serves_for_results_and_only_the_same_model_for_times(
    tmp_path: Path, other: Any, barred: set[str]
) -> None:
    steps = plan(stand_in(tmp_path, there=device()))
    assert {step.stage for step in steps if bar(step, HERE, environment(other))} == barred


def test_a_bundle_without_a_device_has_nothing_on_a_device_to_reproduce(tmp_path: Path) -> None:
    assert [str(step) for step in plan(stand_in(tmp_path))] == [
        "environment",
        "gate",
        "interpreter matmul",
        "compile matmul",
    ]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("sys.exit('\\x1b[2Jno such\\ntorch')", "it ended with exit code 1; it last printed: torch"),
        ("os.abort()", "it ended with exit code -6"),
        ("sys.exit(0)", "it left no file results/matmul/interpreter.json"),
        ("os.mkfifo(path); sys.exit(0)", "it left no file results/matmul/interpreter.json"),
        ("path.symlink_to('/dev/zero'); sys.exit(0)", "it left no file results/matmul/interpreter.json"),
        ("path.write_text('{}'); sys.exit(0)", "results/matmul/interpreter.json: "),
        ("path.open('wb').truncate(2**30); sys.exit(0)", "its record is larger than 67108864 bytes"),
    ],
)
def test_a_stage_that_leaves_no_record_costs_itself_alone(
    tmp_path: Path, temporary: Path, before: str, words: str
) -> None:
    rows = run(stand_in(tmp_path, f"if sys.argv[1] == 'interpreter': {before}"))
    assert rows["interpreter"].likeness == "different"
    assert rows["interpreter"].what.startswith(f"no record was made here: {words}")
    assert "\x1b" not in rows["interpreter"].what
    assert rows["compile"].likeness == "identical"
    assert not list(temporary.iterdir())


def test_what_builds_on_a_record_that_was_not_made_is_not_reproducible(tmp_path: Path, temporary: Path) -> None:
    rows = run(stand_in(tmp_path, "if sys.argv[1] == 'compile': os.abort()", there=device(), here=device()))
    assert rows["compile"].likeness == "different"
    builds_on: dict[StageName, str] = {"gpu": "compile", "timing": "compile"}
    for stage, need in builds_on.items():
        assert rows[stage].likeness == "not reproducible here"
        assert rows[stage].what == f"stage '{need}', which it builds on, left no record here"


def test_behind_a_gate_that_refuses_here_nothing_runs_on_the_device() -> None:
    gate = records.evidence("gate", records.gate(None)).artifact
    step = Step(records.evidence("gpu", records.gpu(MATMUL, device()), "matmul").artifact, Settings())
    ready = {Path(f"results/{name}.json"): gate for name in ("environment", "gate", "matmul/compile")}
    assert unmet(step, ready) == records.NO_DRIVER.reason


def test_without_a_description_of_this_machine_nothing_is_compared(tmp_path: Path, temporary: Path) -> None:
    with pytest.raises(
        UnsoundError, match=r"results/environment\.json: expected a record of this machine, found none: .*code 1"
    ):
        run(stand_in(tmp_path, "sys.exit('no')"))
    assert not list(temporary.iterdir())


def test_a_stage_that_hangs_is_ended_at_its_limit(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.steps.SETUP_S", 2.0)
    rows = run(stand_in(tmp_path, "if sys.argv[1] == 'gate': time.sleep(600)"))
    assert rows["gate"].what == "no record was made here: it was ended at its limit of 2 s"
    assert rows["interpreter"].likeness == "identical"


def test_a_record_of_other_sources_is_different(tmp_path: Path, temporary: Path) -> None:
    rows = run(stand_in(tmp_path, materials={"kernels/matmul.py": "0" * 64, "results/gate.json": "0" * 64}))
    assert rows["interpreter"].likeness == "different"
    assert rows["interpreter"].differing == ["assay/__init__.py", "kernels/matmul.py"]


def test_what_a_stage_keeps_for_itself_goes_with_the_folder(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "kept by earlier runs"))
    before = """
assert os.environ["ASSAY_CACHE"] == "", "what an earlier run compiled would not be compiled again"
here = str(pathlib.Path.cwd().parent)
for name in ("TMPDIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
    assert os.environ[name].startswith(here), name
pathlib.Path("locked").mkdir(exist_ok=True)
pathlib.Path("locked/file").touch()
pathlib.Path("locked").chmod(0)
"""
    assert run(stand_in(tmp_path, before))["compile"].likeness == "identical"
    assert not list(temporary.iterdir())


# Kills

DRIVER = """
import sys
from pathlib import Path
from assay.opening import open_bundle
from assay.progress import Progress
from assay.reproduce import rerun
from assay.steps import plan

opened = open_bundle(Path(sys.argv[1]))
rerun(opened, plan(opened), Progress("reproduce", 1))
"""
HANGING = "pathlib.Path(os.environ['MARK']).write_text(str(os.getpid())); time.sleep(600)"


def alive(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_kill_ends_the_stage_too(tmp_path: Path, temporary: Path, number: signal.Signals) -> None:
    opened, mark, archive = stand_in(tmp_path, HANGING), tmp_path / "mark", tmp_path / "bundle.tar"
    archive.write_bytes(pack({f"{opened.name}/{name}": data for name, data in make_bag(opened.payload, {}).items()}))
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(archive)],
        cwd=ROOT,
        env={**os.environ, "MARK": str(mark)},
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: mark.exists() and mark.read_text() != "")
    stage = int(mark.read_text())
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_for(lambda: not alive(stage))
    assert bool(list(temporary.iterdir())) == (number == signal.SIGKILL)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# What may run at all


def test_a_recorded_command_is_never_run(tmp_path: Path) -> None:
    for words in (["sh", "-c", "touch pwned"], ["--settings"], ["--settings", "{}", "--settings", "{}"]):
        with pytest.raises(UnsoundError, match=r"interpreter\.json: /command: expected --settings once"):
            plan(stand_in(fresh(tmp_path), command=words))


def fresh(folder: Path) -> Path:
    made = folder / str(len(list(folder.iterdir())))
    made.mkdir()
    return made


@pytest.mark.parametrize("text", ["$(touch pwned)", "[]", '{"seeds":[1],"seeds":[2]}', '{"seeds":[1],"shell":"x"}'])
def test_settings_are_decoded_strictly(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnsoundError, match=r"results/matmul/interpreter\.json: --settings: "):
        plan(stand_in(tmp_path, command=["--settings", text]))


def test_options_come_from_stage_kernel_and_settings_alone(tmp_path: Path) -> None:
    text = '{"interpreter":{"limit_s":9,"workers":200},"seeds":[3]}'
    words = ["rm", "-rf", "--kernel", "/etc/passwd", "--out", "/etc/passwd", "--settings", text]
    (step,) = [step for step in plan(stand_in(tmp_path, command=words)) if step.stage == "interpreter"]
    assert list(step.task().options) == [
        "--kernel",
        "kernels/matmul.py",
        "--environment",
        "results/environment.json",
        "--settings",
        '{"interpreter":{"limit_s":9,"workers":0},"loading":{"limit_s":300},"seeds":[3]}',
        "--out",
        "results/matmul/interpreter.json",
    ]
    assert step.task().limit_s == SETUP_S + 300 + 9 * len(step.there.result.checks)


@pytest.mark.parametrize("kernel", ["../matmul", "softmax", None, "-rf"])
def test_a_record_of_another_kernel_than_its_path_names_is_refused(tmp_path: Path, kernel: str | None) -> None:
    with pytest.raises(
        UnsoundError, match=r"results/matmul/interpreter\.json: expected the record that its path names"
    ):
        plan(stand_in(tmp_path, kernel=kernel))


def without(opened: Opened, name: str) -> Opened:
    kept = {path: data for path, data in opened.payload.items() if path != name}
    root, data = archive_of(kept)
    return open_bytes(data, root)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("assay/__main__.py", "expected the package that made the records"),
        ("kernels/matmul.py", "expected the source of its kernel"),
        ("results/environment.json", "expected one record of stage 'environment', found 0"),
    ],
)
def test_a_bundle_that_lacks_what_runs_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UnsoundError, match=words):
        plan(without(stand_in(tmp_path), name))


def test_no_source_is_written_outside_the_folder(temporary: Path) -> None:
    (temporary / "link").mkdir()
    room = Workshop(temporary)
    (temporary / "project").mkdir()
    (temporary / "project/kernels").symlink_to(temporary / "link")
    with pytest.raises(UnsoundError, match="expected a file inside the bundle, found a path that leads out of it"):
        room.write({"kernels/a.py": b"x"})
    assert not list((temporary / "link").iterdir())


@pytest.mark.parametrize("name", ["../kernels/a.py", "/kernels/a.py", "kernels/../../a.py", "torch.py", "torch/a.py"])
def test_only_files_of_a_workflow_are_written(temporary: Path, name: str) -> None:
    """A result, and what could pass for an installed module, are left out."""
    with workshop({"results/gate.json": b"{}", "kernels/b.py": b"text", name: b"x"}) as room:
        assert [path.name for path in room.folder.rglob("*") if path.is_file()] == ["b.py"]
    assert not list(temporary.iterdir())


def test_a_package_that_is_not_the_one_at_hand_is_said(tmp_path: Path) -> None:
    ours = {f"assay/{path.name}": path.read_bytes() for path in (ROOT / "assay").glob("*.py")}
    assert edited(ours, ROOT / "assay") == []
    changed = {**ours, "assay/compile.py": b"print('as you wish')", "assay/extra.py": b""}
    del changed["assay/gate.py"]
    assert edited(changed, ROOT / "assay") == ["assay/compile.py", "assay/extra.py", "assay/gate.py"]


# The command


def test_hostile_words_reach_no_terminal() -> None:
    text = "\x1b[2J\u202eevil\nline"
    rows = [Reproduced(stage="gate", kernel=text, target=text, likeness="different", what=text, differing=[text] * 9)]
    found = Reproduction(bundle=text, manifest_sha256="", steps=[text], edited=[text], differences=[text], rows=rows)
    for words in (told(found), told_plan(found, 1)):
        assert not {"\x1b", "\u202e"} & {*words}
        assert "\nline" not in words
    assert "and 3 more (--json names them)" in told(found)


def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", str(tmp_path / "none.tar"), "--run"]) == 2
    (tmp_path / "text.tar").write_text("text")
    assert main(["reproduce", str(tmp_path / "text.tar"), "--run"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


@pytest.fixture(scope="session")
def bundled(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the tiny project's run."""
    project = finished.copy(tmp_path_factory.mktemp("bundled") / "project")
    done = project.assay("bundle", "--folder", "made")
    assert done.returncode == 0, done.stdout
    (made,) = (project.root / "made").glob("*.tar")
    return made


@pytest.mark.slow
def test_the_plan_runs_nothing_and_says_so(bundled: Path, temporary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", str(bundled)]) == 0
    said = capsys.readouterr().out
    assert "nothing was run. Its sources are untrusted code" in said
    assert "  interpreter one\n  compile one\n" in said
    assert "Its package assay/ is the one that compares here" in said
    assert main(["reproduce", str(bundled), "--json"]) == 0
    found = decode(capsys.readouterr().out.strip().encode(), Reproduction, "printed")
    assert (found.rows, found.steps[:2]) == ([], ["environment", "gate"])
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_a_real_bundle_comes_out_again(bundled: Path, temporary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", str(bundled), "--run", "--json"]) == 0
    printed = capsys.readouterr()
    found = decode(printed.out.strip().encode(), Reproduction, "printed")
    kernels = [(stage, kernel) for stage in ("interpreter", "compile") for kernel in ("one", "two")]
    assert {(row.stage, row.kernel): row.likeness for row in found.rows} == dict.fromkeys(
        [("gate", None), *kernels], "identical"
    )
    assert "reproduce: 6 stages" in printed.err
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_a_binary_that_the_sources_do_not_give_is_different(
    bundled: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forged record is refused before anything runs; were it not, running the sources again would find it."""
    opened = open_bytes(bundled.read_bytes(), "bundled")
    path = "results/one/compile.json"
    true = opened.records[path]
    build = true.result.builds[0]
    forged = replaced(build, binaries=[replaced(build.binaries[0], binary_sha256="0" * 64)])
    data = canonical(seal(replaced(true, result=replaced(true.result, builds=[forged]))))
    only_one = {name: data for name, data in opened.payload.items() if "/two" not in name}
    name, archive = archive_of({**only_one, path: data})
    (temporary.parent / "forged.tar").write_bytes(archive)
    assert main(["reproduce", str(temporary.parent / "forged.tar"), "--run"]) == 1
    assert capsys.readouterr().err.startswith(f"assay reproduce: {temporary.parent}/forged.tar: results/")
    rows = run(open_bytes(archive, name))
    assert rows["compile"].likeness == "different"
    assert rows["compile"].differing == [
        f"{build.variant}: binary 000000000000 there, {build.binaries[0].binary_sha256[:12]} here"
    ]
    assert rows["interpreter"].likeness == "identical"

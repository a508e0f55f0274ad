"""The stage `timing`: what keeps a variant, or a kernel, from being timed, and the record that comes of it."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from host_device import InProcess, write_toy
from records import ONCE, build, replaced

from assay import cards, timing
from assay.admission import bar, refusal
from assay.artifact import open_session, read
from assay.cards import Card
from assay.child import Answer, Fault
from assay.config import Settings, TimingSettings
from assay.record import (
    Check,
    Compile,
    Cpu,
    Declaration,
    DeclaredVariant,
    Device,
    Driver,
    Environment,
    Estimate,
    Gate,
    Gpu,
    Outcome,
    Precompiled,
    Python,
    Rate,
    Record,
    Source,
    StageName,
    System,
    Unavailable,
    Verdict,
)
from assay.stage import Job
from assay.timing import Before

ABSENT = Unavailable(reason="not asked")
PASSED = Verdict(outcome="passed", reason="as it should be")
NO_DRIVER = Verdict(outcome="inapplicable", cause="no-driver", reason="no NVIDIA driver here")
COMPILED = Compile(loading=PASSED, declaration=None, builds=[], findings=[])
TIMING = TimingSettings(rounds=7, fewest_rounds=6, minimum_s=0.0, repeats=1, warmup=1, flush_mebibytes=0)
SETTINGS = Settings(timing=TIMING)
PROJECT = Path(timing.__file__).parents[1]


def device(uuid_hash: str | Unavailable = ABSENT, name: str = "Card") -> Device:
    return Device(
        name=name,
        target="sm_80",
        compute_capability="8.0",
        uuid_hash=uuid_hash,
        visible=True,
        memory_bytes=ABSENT,
        vbios=ABSENT,
        ecc=ABSENT,
        mig=ABSENT,
        persistence=ABSENT,
        power_limit_milliwatts=ABSENT,
        maximum_sm_clock_mhz=ABSENT,
        maximum_memory_clock_mhz=ABSENT,
    )


def environment_of(*devices: Device) -> Environment:
    return Environment(
        driver=Driver(version=ABSENT, cuda=ABSENT, nvml=ABSENT),
        devices=list(devices) or ABSENT,
        cpu=Cpu(model=ABSENT, architecture="x86_64", logical_cores=1, memory_bytes=ABSENT),
        system=System(kernel="Linux", release="6", distribution=ABSENT, libc=ABSENT, host_hash=ABSENT),
        python=Python(implementation="CPython", version="3.11.0"),
        distributions={},
        variables={},
        assemblers={},
        torch_cuda=ABSENT,
        torch_rocm=ABSENT,
        source=Source(commit=ABSENT, dirty=ABSENT, digest="0" * 64),
    )


def gate(protects: Verdict = PASSED) -> Gate:
    return Gate(
        argv=["python", "-m", "assay", "gate"],
        exit_code=0,
        message="",
        expected_exit_code=0,
        expectation="",
        verdict=PASSED,
        protects=protects,
    )


def check(variant: str, outcome: Outcome = "passed", case: str = "small", reason: str = "why") -> Check:
    cause = {"failed": "wrong-value", "inapplicable": "does-not-fit", "cantTell": "noise"}.get(outcome)
    verdict = Verdict(outcome=outcome, cause=cause, reason=reason)  # type: ignore[arg-type]
    return Check(variant=variant, case=case, seeds=[7], verdict=verdict, comparisons=[], repeat=ONCE)


def gpu(*checks: Check, availability: Verdict = PASSED, declaration: Declaration | None = None) -> Gpu:
    return Gpu(
        availability=availability,
        device=device(name="as stage gpu has it"),
        declaration=declaration,
        checks=list(checks),
        canaries=[],
        contrasts=[],
        executions=[],
    )


def before(*checks: Check, settings: Settings = SETTINGS, environment: Environment | None = None) -> Before:
    return Before(environment or environment_of(), COMPILED, gpu(*checks), settings)


# what is not timed


def test_a_shut_gate_is_the_answer() -> None:
    assert refusal(gate(NO_DRIVER), gpu()) == NO_DRIVER


def test_a_gpu_stage_that_failed_leaves_nothing_to_build_on() -> None:
    broken = Verdict(outcome="failed", cause="import-error", reason="SyntaxError in line 3")
    found = refusal(gate(), gpu(availability=broken))
    assert found == Verdict(outcome="untested", cause="upstream", reason="stage 'gpu' failed: SyntaxError in line 3")


def test_a_gpu_stage_that_does_not_apply_here_says_why() -> None:
    assert refusal(gate(), gpu(availability=NO_DRIVER)) == NO_DRIVER


def test_an_open_gate_and_a_device_that_ran_leave_something_to_time() -> None:
    assert refusal(gate(), gpu()) is None


@pytest.mark.parametrize("outcome", ["failed", "cantTell"])
def test_a_variant_that_any_case_did_not_pass_is_not_timed(outcome: Outcome) -> None:
    checks = [check("ieee/a"), check("ieee/a", outcome, "ragged", "3 of 9 elements are wrong"), check("ieee/a")]
    found = bar(checks)
    assert found is not None
    assert (found.outcome, found.cause) == ("untested", "upstream")
    assert found.reason == "not timed: stage 'gpu' did not pass it on case 'ragged': 3 of 9 elements are wrong"


def test_an_unchecked_variant_is_not_timed() -> None:
    found = bar([])
    assert found == Verdict(outcome="untested", cause="upstream", reason="not timed: stage 'gpu' did not check it")


def test_a_variant_that_cannot_run_here_keeps_its_reason() -> None:
    checks = [check("ieee/a", "inapplicable"), check("ieee/a", "inapplicable")]
    assert bar(checks) == checks[0].verdict


def test_a_variant_that_passed_wherever_it_ran_is_timed() -> None:
    assert bar([check("ieee/a", "inapplicable"), check("ieee/a")]) is None


def declared(*names: str, searched: bool = False) -> Declaration:
    variants = [
        DeclaredVariant(
            id=name,
            precision=name.split("/")[0],
            configuration=name.split("/")[1],
            minimum_capability=None,
            searched=searched,
        )
        for name in names
    ]
    return Declaration(title="T", variants=variants, cases=["small"], timed=["n64", "n128"], contrasts=[])


def test_each_variant_is_judged_by_its_own_checks() -> None:
    found = before(check("ieee/a"), check("tf32/a", "failed")).barred(declared("ieee/a", "tf32/a"))
    assert list(found) == ["tf32/a"]
    assert found["tf32/a"].cause == "upstream"


def test_what_spills_in_a_search_space_is_not_timed() -> None:
    space = declared("ieee/a", "ieee/b", searched=True)
    # Their binaries spill.
    spilling, other = (build(variant, "sm_80", "small") for variant in space.variants)
    clean = replaced(other, binaries=[replaced(other.binaries[0], local_store_instructions=0)])
    compiled = replaced(COMPILED, builds=[spilling, clean])
    stage = Before(environment_of(), compiled, gpu(check("ieee/a"), check("ieee/b")), SETTINGS)
    assert stage.barred(declared("ieee/a", "ieee/b")) == {}
    assert {name: verdict.cause for name, verdict in stage.barred(space).items()} == {"ieee/a": "pruned"}


def test_a_torch_without_a_device_is_not_the_kernels_fault() -> None:
    assert timing.unloaded(Fault("exception", "no device", "NoDeviceError")).cause == "no-device"
    assert timing.unloaded(Fault("exception", "no module", "ImportError")).cause == "import-error"


# which device


def card(uuid: str = "GPU-host") -> Card:
    return Card(device(name="held"), uuid, uuid)


class Process(InProcess):
    """Stands for a child process, to the point that it can be given another environment and be ended."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(path)
        self.given: dict[str, str] = {}
        self.stopped = False
        # What the request changes is this process's own environment.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to stop."""

    def change_environment(self, variables: dict[str, str]) -> None:
        self.given |= variables

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("held", "stopped"), [("GPU-host", False), ("GPU-another", True)])
def test_a_child_that_is_not_on_the_card_that_is_held_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str, stopped: bool
) -> None:
    child = Process(write_toy(tmp_path, ("ieee", "right")), monkeypatch)
    timing.use(child, card(held), 5.0)  # type: ignore[arg-type]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == held
    assert child.given == {"CUDA_VISIBLE_DEVICES": held}
    assert child.stopped is stopped


def test_the_record_names_the_card_that_is_held(tmp_path: Path) -> None:
    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    found = timing.time_kernel(child, replace(before(check("ieee/right")), card=card()), "toy")
    assert found.device == card().device


def test_a_kernel_file_that_gets_at_another_card_is_not_timed(tmp_path: Path) -> None:
    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    found = timing.time_kernel(child, replace(before(check("ieee/right")), card=card("GPU-another")), "toy")
    assert found.availability == timing.ELSEWHERE
    assert [request["do"] for request in child.requests] == ["describe"]


# the whole stage


def test_a_kernel_is_timed_and_what_is_wrong_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child = InProcess(write_toy(tmp_path, ("ieee", "right"), ("tf32", "right"), sizes=(64, 128)))
    found = timing.time_kernel(child, before(check("ieee/right"), check("tf32/right", "failed")), "toy")
    assert found.availability.outcome == "passed"
    assert [(sweep.size, sweep.dimensions) for sweep in found.sweeps] == [("n64", {"n": 64}), ("n128", {"n": 128})]
    for sweep in found.sweeps:
        assert [row.verdict.outcome for row in sweep.rows] == ["passed", "untested", "passed", "passed"]
        assert [one.entrant for one in sweep.best] == ["ieee/right"]
    assert "timing toy: fastest: ieee/right" in capsys.readouterr().err


def test_limits_of_the_card_stand_beside_the_times(tmp_path: Path) -> None:
    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    found = timing.time_kernel(child, before(check("ieee/right")), "toy")
    assert (found.launches_ns, found.launch) == ([3.0, 2.0, 4.0], Estimate(low=2.0, median=3.0, high=4.0))
    copy, tf32 = found.ceilings
    assert copy.rate == Rate(value=1000.0, unit="GB/s")
    assert tf32.rate == Unavailable(reason="no way")
    # They are asked for before anything is prepared, when the card has nothing else to do.
    assert [request["do"] for request in child.requests[:3]] == ["describe", "ceilings", "inputs"]


def test_limits_that_fault_are_unavailable_and_the_kernel_is_timed(tmp_path: Path) -> None:
    class Faulty(InProcess):
        def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
            crashed = Fault("crash", "the process was killed by SIGSEGV")
            return crashed if request["do"] == "ceilings" else super().ask(request, limit_s)

    found = timing.time_kernel(Faulty(write_toy(tmp_path, ("ieee", "right"))), before(check("ieee/right")), "toy")
    assert isinstance(found.launch, Unavailable)
    assert [one.name for one in found.ceilings] == ["copy", "fp32", "tf32", "bf16"]
    assert {one.rate for one in found.ceilings} == {Unavailable(reason="the process was killed by SIGSEGV")}
    assert found.sweeps[0].rows[0].verdict.outcome == "passed"


def test_a_kernel_without_a_size_to_time_has_nothing_to_show(tmp_path: Path) -> None:
    child = InProcess(write_toy(tmp_path, ("ieee", "right"), sizes=()))
    found = timing.time_kernel(child, before(check("ieee/right")), "toy")
    assert (found.availability.outcome, found.availability.cause) == ("inapplicable", "not-measured")
    assert (found.sweeps, [request["do"] for request in child.requests]) == ([], ["describe"])


def test_a_variant_that_needs_a_newer_device_is_not_launched(tmp_path: Path) -> None:
    child = InProcess(write_toy(tmp_path, ("ieee", "right")))
    found = timing.time_kernel(child, before(check("ieee/right", "inapplicable")), "toy")
    row = next(row for row in found.sweeps[0].rows if row.entrant == "ieee/right")
    assert row.verdict.outcome == "inapplicable"
    assert not row.samples_ns
    prepared = [request["entrant"] for request in child.requests if request["do"] == "prepare"]
    assert "ieee/right" not in prepared


def test_a_kernel_file_that_does_not_import_is_a_result(tmp_path: Path) -> None:
    path = tmp_path / "toy.py"
    path.write_text("import a_module_that_is_not_there\n", "utf-8")
    found = timing.time_kernel(InProcess(path), before(), "toy")
    assert (found.availability.outcome, found.availability.cause) == ("failed", "import-error")
    assert "a_module_that_is_not_there" in found.availability.reason


def test_work_that_cannot_be_recorded_is_the_declarations_fault(tmp_path: Path) -> None:
    path = write_toy(tmp_path, ("ieee", "right"))
    path.write_text(path.read_text("utf-8").replace('flops=size["n"]', "flops=-1"), "utf-8")
    found = timing.time_kernel(InProcess(path), before(), "toy")
    assert (found.availability.outcome, found.availability.cause) == ("failed", "declaration")
    assert "problems[0].flops" in found.availability.reason


# compiling before the device is used


def job(folder: Path, settings: Settings = SETTINGS) -> Job:
    return Job("timing", Path("kernels/toy.py"), settings, {}, folder / "timing.json", [])


def test_only_what_is_timed_is_compiled_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def fake(kernel: Path, log: Path, cache: str, wanted: Any, target: str, **more: Any) -> Precompiled:
        asked.update(more, wanted=wanted, target=target, cache=cache)
        return Precompiled(launches=2, workers=3, duration_ns=4)

    beside: list[str] = []
    monkeypatch.setattr(timing, "precompile", fake)
    monkeypatch.setattr(timing, "compile_ceilings", lambda job, target, cache: beside.append(f"{target} {cache}"))
    checks = [check("ieee/a"), check("tf32/a", "failed")]
    stage = Before(environment_of(), COMPILED, gpu(*checks, declaration=declared("ieee/a", "tf32/a")), SETTINGS)
    chosen = Settings(timing=TimingSettings(workers=3, prepare_limit_s=11.0))
    found = timing.compile_ahead(job(tmp_path, chosen), stage, "cache")
    assert found == Precompiled(launches=2, workers=3, duration_ns=4)
    assert asked["wanted"] == {"ieee/a": ["n64", "n128"]}
    assert beside == ["sm_80 cache"]
    assert (asked["target"], asked["cache"], asked["workers"], asked["limit_s"]) == ("sm_80", "cache", 3, 11.0)


def test_inputs_are_made_meanwhile_and_a_fault_there_is_met_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, threads = Precompiled(launches=2, workers=3, duration_ns=4), list[Any]()
    monkeypatch.setattr(timing, "compile_ahead", lambda job, before, cache: compiled)

    class Broken(InProcess):
        def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
            threads.append((threading.current_thread(), request, limit_s))
            return Fault("crash", "the process was killed by SIGSEGV")

    broken = Broken(write_toy(tmp_path, ("ieee", "right")))
    assert timing.make_ready(job(tmp_path), before(), "cache", broken) == compiled
    # A child process ends with the thread that started it.
    asked = {"do": "make", "seed": SETTINGS.seeds[0]}
    assert threads == [(threading.main_thread(), asked, SETTINGS.timing.prepare_limit_s)]


def test_the_ceilings_kernels_are_compiled_ahead_and_not_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    class Recorder:
        def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
            seen.extend((command[1:], environment["TRITON_CACHE_DIR"], environment["CUDA_VISIBLE_DEVICES"]))

        def __enter__(self) -> "Recorder":
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing to stop."""

        def ask(self, request: Answer, limit_s: float) -> Answer | Fault:
            seen.extend((request, limit_s))
            return Fault("crash", "the process was killed by SIGSEGV")

    monkeypatch.setattr(timing, "Child", Recorder)
    timing.compile_ceilings(job(tmp_path), "sm_90", "cache")
    asked = {"do": "compile", "target": "sm_90"}, SETTINGS.timing.prepare_limit_s
    assert seen == [["-m", "assay.ceiling_kernels"], "cache", "", *asked]


def test_without_a_size_nothing_is_compiled_ahead(tmp_path: Path) -> None:
    nothing = replaced(declared("ieee/a"), timed=[])
    stage = Before(environment_of(), COMPILED, gpu(check("ieee/a"), declaration=nothing), SETTINGS)
    assert timing.compile_ahead(job(tmp_path), stage, "cache") is None


# the record


def written(folder: Path, results: dict[StageName, Record]) -> list[str]:
    """Write records of earlier stages and return the options that name them."""
    options = []
    for stage, result in results.items():
        open_session(stage, None, [], ["python"]).write(folder / f"{stage}.json", result)
        options += [f"--{stage}", str(folder / f"{stage}.json")]
    return options


def test_a_shut_gate_gives_a_record_at_once_and_without_torch(tmp_path: Path) -> None:
    records: dict[StageName, Record] = {
        "environment": environment_of(),
        "gate": gate(NO_DRIVER),
        "compile": COMPILED,
        "gpu": gpu(),
    }
    kernel, out = write_toy(tmp_path, ("ieee", "right")), tmp_path / "out" / "timing.json"
    options = ["--kernel", str(kernel), *written(tmp_path, records), "--settings", "{}", "--out", str(out)]
    program = "import sys; from assay.timing import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program, *options], cwd=PROJECT, check=True, timeout=60)
    artifact = read(out, "timing")
    assert artifact.result.availability == NO_DRIVER
    assert (artifact.result.device, artifact.result.sweeps) == (None, [])
    assert {"assay/timing.py", "assay/stopwatch.py", "assay/sweep.py", "assay/kernel.py"} <= set(artifact.materials)
    assert not (out.parent / "logs").exists()


def test_the_record_of_a_whole_run_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, out = write_toy(tmp_path, ("ieee", "right"), ("tf32", "right")), tmp_path / "out" / "timing.json"
    records: dict[StageName, Record] = {
        "environment": environment_of(),
        "gate": gate(),
        "compile": COMPILED,
        "gpu": gpu(check("ieee/right"), check("tf32/right")),
    }
    monkeypatch.chdir(PROJECT)
    child = Process(kernel, monkeypatch)
    monkeypatch.setattr(timing, "worker", lambda job, cache, files: child)
    monkeypatch.setattr(timing, "cards_here", lambda environment: ([card()], NO_DRIVER))
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    settings = json.dumps({"timing": {"rounds": 7, "fewest_rounds": 6, "minimum_s": 0, "repeats": 2}})
    options = ["--kernel", str(kernel), *written(tmp_path, records), "--settings", settings, "--out", str(out)]
    assert timing.main(options) == 0
    found = read(out, "timing").result
    assert found.device == card().device
    # The card is taken once everything is ready.
    assert [request["do"] for request in child.requests[:3]] == ["make", "use", "describe"]
    sweep = found.sweeps[0]
    assert {len(row.samples_ns) for row in sweep.rows} == {len(sweep.rounds)} <= {6, 7}
    assert [row.kind for row in sweep.rows] == ["variant", "variant", "peer", "twin"]
    assert sweep.speedups[0].verdict.outcome in ("passed", "failed", "cantTell")


def test_a_job_that_is_shown_no_captured_card_times_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: dict[StageName, Record] = {
        "environment": environment_of(device()),
        "gate": gate(),
        "compile": COMPILED,
        "gpu": gpu(check("ieee/right")),
    }
    kernel, out = write_toy(tmp_path, ("ieee", "right")), tmp_path / "out" / "timing.json"
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    options = ["--kernel", str(kernel), *written(tmp_path, records), "--settings", "{}", "--out", str(out)]
    assert timing.main(options) == 0
    found = read(out, "timing").result
    assert (found.availability.outcome, found.availability.cause, found.device) == ("untested", "no-device", None)


def test_settings_reach_the_child(tmp_path: Path) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.inner = InProcess(write_toy(tmp_path, ("ieee", "right")))
            self.limits: dict[str, set[float]] = {}

        def ask(self, request: Answer, limit_s: float) -> Any:
            self.limits.setdefault(request["do"], set()).add(limit_s)
            return self.inner.ask(request, limit_s)

    child = Recorder()
    chosen = TimingSettings(rounds=6, repeats=2, warmup=3, prepare_limit_s=11.0, limit_s=22.0)
    timing.time_kernel(child, before(check("ieee/right"), settings=Settings(seeds=[5, 6], timing=chosen)), "toy")
    limits = {what: {11.0} for what in ("describe", "ceilings", "inputs", "prepare", "check")}
    assert child.limits == {**limits, "round": {22.0}}
    about = [request for request in child.inner.requests if request["do"] not in ("describe", "ceilings")]
    assert {request["seed"] for request in about} == {5}
    assert {request["warmup"] for request in about if "warmup" in request} == {3}
    assert {request["repeats"] for request in about if "repeats" in request} == {2}

"""What a machine can show: nothing that the gate refuses is promised, and whatever lacks is named with a remedy."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import device, environment, replaced

from assay.admission import Answer
from assay.outcomes import BLOCKED, FAILED, INCONCLUSIVE, VERIFIED
from assay.outlook import DEVICE_TIERS, Facts, Finding, Folder, findings, reaches
from assay.record import Device, Environment, Unavailable

OPEN = Answer(0, "NVIDIA H200 is 9.0; 8.0 or newer is needed: usable\n", "")
SHUT = Answer(1, "", "no NVIDIA driver: libcuda.so.1 cannot be loaded; TRITON_INTERPRET=1 checks on the CPU\n")
TOO_OLD = Answer(1, "", "Tesla T4 is 7.5; 8.0 or newer is needed; TRITON_INTERPRET=1 checks on the CPU\n")
CRASHED = Answer(-11, "", "")
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_120")
ROOMY = [Folder("results", "results", 100 * 2**30)]
NONE = Unavailable(reason="absent")
H200 = device()


def machine(found: Device | None) -> Environment:
    whole: Environment = replaced(
        environment(found), variables={}, assemblers={"ptxas": "12.8.93", "ptxas-blackwell": "13.1.80"}
    )
    return whole


def facts(found: Device | None = H200, answer: Answer = OPEN, **changes: Any) -> Facts:
    settled = {"libcuda": 1, "compiler": "/usr/bin/gcc", "folders": ROOMY, "packages": {"torch": "2.13.0"}}
    return Facts(
        **{
            "environment": machine(found),
            "answer": answer,
            "targets": TARGETS,
            "broken": {},
            **settled,
            **changes,
        }
    )


def lacking(given: Facts) -> list[Finding]:
    return [one for one in findings(given) if one.mark != VERIFIED]


def on_device(given: Facts) -> list[tuple[str, str]]:
    return [(one.mark.word, one.said) for one in reaches(given) if one.tiers == DEVICE_TIERS]


def altered(**changes: Any) -> Any:
    return replaced(machine(H200), **changes)


def test_a_machine_with_all_lacks_nothing_and_runs_on_its_own_target() -> None:
    assert lacking(facts()) == []
    assert on_device(facts()) == [
        ("verified", "on sm_90"),
        ("blocked", "untested on sm_75, sm_80, sm_120: no such device here"),
    ]


def test_without_a_driver_the_gate_says_why_and_the_cpu_tiers_stay() -> None:
    given = facts(None, SHUT, libcuda=Unavailable(reason="libcuda.so.1 cannot be loaded"))
    assert on_device(given) == [
        ("blocked", "untested on sm_75, sm_80, sm_90, sm_120: no NVIDIA driver: libcuda.so.1 cannot be loaded")
    ]
    assert [(one.mark, one.tiers) for one in reaches(given)[:3]] == [
        (VERIFIED, "interpreted"),
        (VERIFIED, "compiled, fits"),
        (VERIFIED, "gated"),
    ]


CASES: dict[str, tuple[Facts, str, str]] = {
    "T4": (
        facts(environment=altered(devices=[replaced(H200, name="Tesla T4", target="sm_75")]), answer=TOO_OLD),
        "Tesla T4, sm_75, 140 GiB: Tesla T4 is 7.5; 8.0 or newer is needed",
        "take one that will do",
    ),
    "MIG": (facts(environment=altered(devices=[replaced(H200, mig=True)])), "MIG is on", "time on a whole card"),
    "hidden": (
        facts(environment=altered(devices=[replaced(H200, visible=False)])),
        "hidden",
        "name it in CUDA_VISIBLE_DEVICES",
    ),
    "unidentified": (facts(environment=altered(unidentified=[NONE])), "absent", "restart the driver"),
    "WSL": (
        facts(environment=altered(system=replaced(environment(H200).system, release="5.15-microsoft-standard-WSL2"))),
        "WSL, 5.15-microsoft-standard-WSL2",
        "time on Linux itself",
    ),
    "interpreting": (
        facts(environment=altered(variables={"TRITON_INTERPRET": "1"})),
        "TRITON_INTERPRET=1 is set",
        "unset it",
    ),
    "torch for the CPU": (
        facts(environment=altered(torch_cuda=Unavailable(reason="torch 2.13.0+cpu is built without CUDA"))),
        "torch 2.13.0+cpu is built without CUDA",
        "install a build of torch for CUDA",
    ),
    "another ptxas": (
        facts(environment=altered(assemblers={"ptxas": "12.8.93", "TRITON_PTXAS_PATH": "12.4.1"})),
        "12.4.1 stands in the place of",
        "unset it, or binaries differ",
    ),
    "no compiler": (facts(compiler=Unavailable(reason="neither gcc nor clang is on the PATH")), "gcc", "install gcc"),
    "a full disk": (facts(folders=[Folder("results", "results", 2**29)]), "0.5 GiB free, where 2", "free space there"),
    "a read-only folder": (facts(folders=[Folder("cache", "~/c", NONE)]), "~/c: absent", "make it writable"),
    "a package": (
        facts(broken={"rich": "expected rich>=13, found none; python -m pip install 'rich>=13'"}),
        "expected rich>=13, found none",
        "python -m pip install 'rich>=13'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_lacking_is_named_with_what_to_do(name: str) -> None:
    given, said, remedy = CASES[name]
    (found,) = lacking(given)
    assert said in found.said
    assert found.remedy.startswith(remedy)


def test_without_a_c_compiler_no_kernel_runs_on_a_device() -> None:
    given = facts(compiler=Unavailable(reason="nocc is not on the PATH"))
    assert on_device(given) == [
        ("blocked", "untested on sm_75, sm_80, sm_90, sm_120: no C compiler: nocc is not on the PATH")
    ]


def test_a_gate_that_crashed_is_a_failure_of_the_gate() -> None:
    found = {one.tiers: one.mark for one in reaches(facts(answer=CRASHED))}
    assert found["gated"] == FAILED
    assert found[DEVICE_TIERS] == BLOCKED


def test_where_the_project_is_broken_nothing_is_promised() -> None:
    assert [one.mark for one in reaches(facts(broken={"torch": "expected it; install it"}))] == [BLOCKED]


@pytest.mark.parametrize(
    ("assemblers", "lacks"),
    [
        ({"ptxas": "12.8", "ptxas-blackwell": "13.1"}, []),
        ({"ptxas": "12.8"}, []),
        ({"ptxas": NONE}, list(TARGETS)),
        ({"ptxas": NONE, "ptxas-blackwell": "13.1"}, ["sm_75", "sm_80", "sm_90"]),
        ({"ptxas": "12.8", "ptxas-blackwell": NONE}, ["sm_120"]),
        ({"ptxas": NONE, "TRITON_PTXAS_PATH": "12.8"}, []),
        ({"ptxas": "12.8", "TRITON_PTXAS_PATH": NONE}, []),
        ({"ptxas": "12.8", "ptxas-blackwell": NONE, "TRITON_PTXAS_BLACKWELL_PATH": "13.1"}, []),
        ({}, list(TARGETS)),
    ],
)
def test_each_target_needs_the_assembler_that_triton_takes_for_it(
    assemblers: dict[str, str | Unavailable], lacks: list[str]
) -> None:
    found = [one.said for one in reaches(facts(environment=altered(assemblers=assemblers))) if "compiled" in one.tiers]
    blocked = [said for said in found if said.startswith("untested on ")]
    assert [target for said in blocked for target in said[12:].partition(":")[0].split(", ")] == lacks


answers = st.sampled_from([OPEN, SHUT, CRASHED, Answer(0, "", ""), Answer(1, "", "Traceback (most recent call last)")])
devices = st.lists(
    st.builds(
        lambda target, visible, mig: replaced(
            H200, target=target, compute_capability=f"{target[3:-1]}.{target[-1]}", visible=visible, mig=mig
        ),
        st.sampled_from(TARGETS),
        st.booleans(),
        st.sampled_from([True, False, NONE]),
    ),
    max_size=3,
)


@given(devices, answers, st.sampled_from(["/usr/bin/gcc", NONE]), st.lists(st.sampled_from(TARGETS), unique=True))
def test_every_target_stands_once_and_only_an_open_gate_promises_a_device(
    found: list[Device], answer: Answer, compiler: str | Unavailable, targets: Sequence[str]
) -> None:
    given = facts(answer=answer, environment=altered(devices=found), compiler=compiler, targets=targets)
    said = on_device(given)
    if answer is not OPEN or isinstance(compiler, Unavailable) or not any(one.visible for one in found):
        assert all(word == "blocked" for word, _ in said)
    named = [
        target for _, text in said for target in targets if target in text.partition(":")[0].replace(",", "").split()
    ]
    assert len(named) == len(set(named))
    assert set(named) == set(targets)
    assert all(one.remedy for one in lacking(given) if one.mark in (FAILED, INCONCLUSIVE))

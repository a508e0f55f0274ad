"""The files of a bundle are all there, and every record rests on bundled sources and earlier records of one machine.

Every digest of what is forged here is right, down to the name of the folder: only the content gives it away.
"""

import re
from collections.abc import Callable

import pytest
from forge import H200, T4, Forge, forge
from records import MATMUL, Subject

from assay.soundness import faults

ENVIRONMENT, GATE, CLAIMS, REPORT = (f"results/{name}.json" for name in ("environment", "gate", "claims", "report"))
INTERPRETER, COMPILE, GPU, TIMING = (f"results/matmul/{n}.json" for n in ("interpreter", "compile", "gpu", "timing"))

Spoil = Callable[[Forge], object]
Files = dict[str, bytes]


def at_last(change: Callable[[Files], object]) -> Spoil:
    return lambda forged: forged.at_last(change)


def added(path: str, data: bytes = b"x") -> Spoil:
    return at_last(lambda files: files.update({path: data}))


def removed(path: str) -> Spoil:
    return at_last(lambda files: files.pop(path))


def materials(path: str, change: Callable[[dict[str, str]], dict[str, str]]) -> Spoil:
    return lambda forged: forged.put(f"{path}/materials", change)


def without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda found: {other: digest for other, digest in found.items() if other != name}


def command(path: str, change: Callable[[list[str]], list[str]]) -> Spoil:
    return lambda forged: forged.put(f"{path}/command", change)


def stale(files: Files) -> None:
    """Change the kernel after all its records were made."""
    files["kernels/matmul.py"] += b"# faster\n"


def another_machine(files: Files) -> None:
    """Put the environment of another machine in the place of the one that the records were made on."""
    other = forge(T4).payload()[ENVIRONMENT]
    assert other != files[ENVIRONMENT]
    files[ENVIRONMENT] = other


FILES: dict[str, tuple[Spoil, str]] = {
    "no kernel": (
        at_last(lambda files: [files.pop(n) for n in list(files) if n.startswith("results/") and n.count("/") > 1]),
        r"results/: expected the records of at least one kernel, found none",
    ),
    "no environment": (removed(ENVIRONMENT), r"results/environment\.json: expected in a bundle of the kernels matmul"),
    "no gate": (removed(GATE), r"results/gate\.json: expected in a bundle of the kernels matmul, found missing"),
    "no claims": (removed(CLAIMS), r"results/claims\.json: expected in a bundle of the kernels matmul, found missing"),
    "no report": (removed(REPORT), r"results/report\.json: expected in a bundle of the kernels matmul, found missing"),
    "no page": (removed("results/report.html"), r"results/report\.html: expected in a bundle of .*, found missing"),
    "no timing": (removed(TIMING), r"results/matmul/timing\.json: expected in a bundle of .*, found missing"),
    "no interpreter": (removed(INTERPRETER), r"results/matmul/interpreter\.json: expected in a bundle of .*, found"),
    "unknown file": (
        added("results/notes.txt"),
        r"results/notes\.txt: expected only records, pages and the kernels' logs",
    ),
    "unknown record": (added("results/matmul/notes.json"), r"results/matmul/notes\.json: expected only records"),
    "record of the machine in a kernel's folder": (
        at_last(lambda files: files.update({"results/matmul/gate.json": files[GATE]})),
        r"results/matmul/gate\.json: expected only records, pages and the kernels' logs here, found a file",
    ),
    "half a kernel": (
        at_last(lambda files: files.update({"results/other/gpu.json": files[GPU]})),
        r"results/other/compile\.json: expected in a bundle of the kernels matmul, other, found missing",
    ),
    "log of no kernel": (added("results/other/logs/gpu.log"), r"results/other/logs/gpu\.log: expected only records"),
    "log that is none": (added("results/matmul/logs/gpu.sh"), r"results/matmul/logs/gpu\.sh: expected only records"),
    "hidden": (added("results/.hidden"), r"results/\.hidden: expected only records"),
}

CHAIN: dict[str, tuple[Spoil, str]] = {
    "stale stage": (
        at_last(stale),
        r"results/matmul/interpreter\.json: /materials: expected kernels/matmul\.py with sha256 [0-9a-f]+, as bundled,"
        r" found [0-9a-f]+: it is stale, made from other source",
    ),
    "stale module": (
        at_last(lambda files: files.update({"assay/judgement.py": b"def judge(comparison): ..."})),
        r"results/matmul/interpreter\.json: /materials: expected assay/judgement\.py with sha256 .*: it is stale",
    ),
    "source left out": (
        removed("kernels/matmul.py"),
        r"results/matmul/interpreter\.json: /materials: expected kernels/matmul\.py in the bundle, found no such file",
    ),
    "another machine": (
        at_last(another_machine),
        r"results/gate\.json: /materials: expected results/environment\.json with sha256 .*, as bundled, found .*: "
        r"it was made on another machine, or before this one was captured anew",
    ),
    "another run's record": (
        at_last(lambda files: files.update({GATE: forge(H200).put(f"{GATE}/run/duration_ns", 7).payload()[GATE]})),
        r"results/matmul/gpu\.json: /materials: expected results/gate\.json with .*: it was made from another record",
    ),
    "not from the environment": (
        materials(GATE, without(ENVIRONMENT)),
        r"results/gate\.json: /materials: expected results/environment\.json, which stage 'gate' reads, found",
    ),
    "not from the gate": (
        materials(GPU, without(GATE)),
        r"results/matmul/gpu\.json: /materials: expected results/gate\.json, which stage 'gpu' reads, found",
    ),
    "not from the gpu": (
        materials(TIMING, without(GPU)),
        r"results/matmul/timing\.json: /materials: expected results/matmul/gpu\.json, which stage 'timing' reads",
    ),
    "claims leave a record out": (
        materials(CLAIMS, without(COMPILE)),
        r"results/claims\.json: /materials: expected results/matmul/compile\.json, which stage 'claims' reads, found",
    ),
    "report leaves the claims out": (
        materials(REPORT, without(CLAIMS)),
        r"results/report\.json: /materials: expected results/claims\.json, which stage 'report' reads, found",
    ),
    "without its kernel": (
        materials(GPU, without("kernels/matmul.py")),
        r"results/matmul/gpu\.json: /materials: expected its own source kernels/matmul\.py, found it left out",
    ),
    "without its module": (
        materials(GATE, without("assay/gate.py")),
        r"results/gate\.json: /materials: expected its own source assay/gate\.py, found it left out",
    ),
    "cycle": (
        materials(ENVIRONMENT, lambda found: {**found, GATE: "0" * 64}),
        r"results/environment\.json: /materials: expected earlier records alone, found results/gate\.json, which rests "
        r"on this one: a cycle",
    ),
    "long cycle": (
        materials(COMPILE, lambda found: {**found, TIMING: "0" * 64}),
        r"results/matmul/compile\.json: /materials: expected earlier records alone, found results/matmul/timing\.json, "
        r"which rests on this one: a cycle",
    ),
    "its own material": (
        materials(GATE, lambda found: {**found, GATE: "0" * 64}),
        r"results/gate\.json: /materials: expected earlier records alone, found results/gate\.json, .*: a cycle",
    ),
    "record that it does not read": (
        materials(INTERPRETER, lambda found: {**found, GATE: "0" * 64}),
        r"results/matmul/interpreter\.json: /materials: expected only what stage 'interpreter' reads, found results",
    ),
    "material from elsewhere": (
        materials(GATE, lambda found: {**found, "../../etc/passwd": "0" * 64}),
        r"results/gate\.json: /materials: expected \.\./\.\./etc/passwd in the bundle, found no such file",
    ),
    "another kernel's record": (
        lambda forged: forged.put(f"{GPU}/kernel", "softmax"),
        r"results/matmul/gpu\.json: /kernel: expected matmul, as its folder says, found softmax",
    ),
    "the machine's record of a kernel": (
        lambda forged: forged.put(f"{GATE}/kernel", "matmul"),
        r"results/gate\.json: /kernel: expected None, as its folder says, found matmul",
    ),
    "failed run": (
        lambda forged: forged.put(f"{GPU}/run/exit_code", 1),
        r"results/matmul/gpu\.json: /run/exit_code: expected 0, since no other run writes a record, found 1",
    ),
    "another command": (
        command(GPU, lambda words: ["python", "-m", "assay", "interpreter", *words[4:]]),
        r"results/matmul/gpu\.json: /command: expected it to begin with python -m assay gpu, found python",
    ),
    "no command": (command(GPU, lambda words: []), r"results/matmul/gpu\.json: /command: expected it to begin with"),
    "no settings": (
        command(COMPILE, lambda words: words[:4]),
        r"results/matmul/compile\.json: /command: expected --settings once, found it 0 times",
    ),
    "settings twice": (
        command(CLAIMS, lambda words: [*words, "--settings", "{}"]),
        r"results/claims\.json: /command: expected --settings once, found it 2 times",
    ),
    "settings that are none": (
        command(
            CLAIMS, lambda words: ["--settings" if w == "--settings" else "[" if w[:1] == "{" else w for w in words]
        ),
        r"results/claims\.json: --settings: \$: expected JSON in UTF-8, found something else",
    ),
    "settings that are a bomb": (
        command(GATE, lambda words: [w if w[:1] != "{" else "[" * 70_000 for w in words]),
        r"results/gate\.json: /command: expected settings of at most 65536 characters, found 70000",
    ),
    "unknown setting": (
        command(GATE, lambda words: [w if w[:1] != "{" else '{"gate":{"minimum":"1.0"}}' for w in words]),
        r"results/gate\.json: --settings: \$\.gate: unknown key 'minimum'",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_all_files_are_there_and_no_other(case: str) -> None:
    spoil, told = FILES[case]
    forged = forge(H200, [MATMUL])
    spoil(forged)
    found = faults(forged.opened())
    assert any(re.match(told, fault) for fault in found), found
    assert all(len(fault.splitlines()) == 1 for fault in found)


@pytest.mark.parametrize("case", CHAIN)
def test_every_record_rests_on_what_is_bundled(case: str) -> None:
    spoil, told = CHAIN[case]
    forged = forge(H200, [MATMUL])
    spoil(forged)
    found = faults(forged.opened())
    assert any(re.match(told, fault) for fault in found), found
    assert all(len(fault.splitlines()) == 1 for fault in found)


def test_a_kernels_folder_has_a_kernels_name() -> None:
    found = faults(forge(None, [Subject("Matmul", "Matrix product")]).opened())
    assert "results/Matmul/gpu.json: expected a folder named after a kernel, in lower-case letters" in "\n".join(found)


def test_a_stale_stage_is_named_with_all_that_rest_on_it() -> None:
    found = faults(forge(H200, [MATMUL]).at_last(stale).opened())
    assert {fault.partition(":")[0] for fault in found} == {INTERPRETER, COMPILE, GPU, TIMING, REPORT}
    assert all("it is stale" in fault for fault in found)


def test_logs_of_a_kernel_may_be_there() -> None:
    forged = forge(None, [MATMUL]).at_last(lambda files: files.update({"results/matmul/logs/compile-0.log": b"words"}))
    assert faults(forged.opened()) == []

"""The captured environment: the same twice, complete, free of its owner, with a reason for whatever is absent."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import environment
from assay.artifact import canonical, read
from assay.record import Environment, Unavailable

ROOT = Path(__file__).parents[1]
VERSION_FILE = """from typing import Optional
__all__ = ['__version__', 'cuda']
__version__ = '2.13.0'
debug = False
cuda: Optional[str] = {cuda}
hip: Optional[str] = {hip}
"""


def python(code: str, **changes: str) -> str:
    """Run code in a process of its own, in the project, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **changes},
        check=True,
        timeout=120,
    )
    return done.stdout


def capture(out: Path, **changes: str) -> Environment:
    """Run the real stage and return what it wrote."""
    command = [sys.executable, "-m", "assay", "environment", "--settings", "{}", "--out", str(out)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **changes}, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    result: Environment = read(out, "environment").result
    return result


def install(folder: Path, *folders: str, metadata: str | None = None) -> str:
    """Put metadata folders into `folder`, as an installer does, and return its path."""
    for name in folders:
        project, _, version = name.removesuffix(".dist-info").partition("-")
        (folder / name).mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n" if metadata is None else metadata
        (folder / name / "METADATA").write_text(text, "utf-8")
    return str(folder)


# the whole stage


def test_two_captures_give_the_same_result(tmp_path: Path) -> None:
    first, second = (capture(tmp_path / f"{name}.json") for name in ("one", "two"))
    assert canonical(first) == canonical(second)


def test_this_machine_is_described(tmp_path: Path) -> None:
    found = capture(tmp_path / "environment.json")
    assert found.python.version == ".".join(map(str, sys.version_info[:3]))
    assert found.cpu.logical_cores == os.cpu_count()
    assert isinstance(found.cpu.memory_bytes, int)
    assert {"torch", "triton", "msgspec", "nvidia-ml-py"} <= set(found.distributions)
    assert list(found.distributions) == sorted(found.distributions)
    assert {"ptxas", "ptxas-blackwell"} <= set(found.assemblers)
    assert all(isinstance(version, str) for version in found.assemblers.values())
    assert (isinstance(found.driver, Unavailable)) == (isinstance(found.devices, Unavailable))


def test_without_a_driver_both_fields_say_so(tmp_path: Path) -> None:
    found = capture(tmp_path / "environment.json")
    if not isinstance(found.driver, Unavailable):
        pytest.skip("there is an NVIDIA driver here")
    assert found.driver.reason.startswith("no NVIDIA driver: ")
    assert found.devices == found.driver


def test_nothing_names_the_owner(tmp_path: Path) -> None:
    home = tmp_path / "home" / "someone"
    home.mkdir(parents=True)
    out = home / "environment.json"
    capture(
        out,
        HOME=str(home),
        USER="someone",
        LOGNAME="someone",
        TRITON_CACHE_DIR=f"{home}/cache:/data/someone/x",
        CUDA_VISIBLE_DEVICES="GPU-4c1d2f6e-90ab-4cde-8f01-23456789abcd",
        TORCH_PROXY="https://someone:hush@host.example",
        CUDA_API_KEY="hush",
    )
    text = out.read_text("utf-8")
    host = socket.gethostname()
    assert str(home) not in text
    assert not re.search(r"someone|hush|4c1d2f6e", text)
    assert host == "localhost" or not re.search(rf"(?<![\w-]){re.escape(host)}(?![\w-])", text)
    assert json.loads(text)["result"]["variables"]["TRITON_CACHE_DIR"] == "~/cache:/data/<user>/x"


def test_neither_torch_nor_triton_is_imported() -> None:
    code = (
        "import sys, assay.environment as stage; stage.read_environment();"
        "print(sorted({'torch', 'triton'} & set(sys.modules)))"
    )
    assert python(code) == "[]\n"


# the fingerprint


def fingerprint(**changes: str) -> str:
    return python("from assay.environment import fingerprint; print(fingerprint())", **changes)


def test_the_fingerprint_is_steady_and_needs_no_torch_and_no_process() -> None:
    code = (
        "import subprocess, sys\n"
        "from assay.environment import fingerprint\n"
        "subprocess.Popen = None\n"
        "print(fingerprint() == fingerprint(), 'torch' in sys.modules)"
    )
    assert python(code) == "True False\n"
    assert fingerprint() == fingerprint()


@pytest.mark.parametrize(
    "name", ["TRITON_F32_DEFAULT", "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "PTXAS_OPTIONS"]
)
def test_a_variable_that_matters_changes_the_fingerprint(name: str) -> None:
    assert fingerprint(**{name: "7"}) != fingerprint(**{name: "8"})


def test_other_variables_do_not_change_the_fingerprint() -> None:
    assert fingerprint(EDITOR="a", CUDA_API_KEY="a") == fingerprint(EDITOR="b", CUDA_API_KEY="b")


def test_an_installed_package_and_its_version_change_the_fingerprint(tmp_path: Path) -> None:
    search = [install(tmp_path / "one", "new-1.0.dist-info"), install(tmp_path / "two", "new-1.1.dist-info")]
    assert len({fingerprint(PYTHONPATH=folder) for folder in (*search, str(tmp_path))}) == 3


# distributions


def test_the_first_on_the_search_path_wins(tmp_path: Path) -> None:
    near = install(tmp_path / "near", "Some_Thing-1.0.dist-info")
    far = install(tmp_path / "far", "some.thing-2.0.dist-info", "Other-3.dist-info")
    assert environment.distributions([near, far]) == {"other": "3", "some-thing": "1.0"}
    assert environment.distributions([far, near])["some-thing"] == "2.0"


def test_remains_without_name_or_version_are_no_distribution(tmp_path: Path) -> None:
    folder = install(tmp_path, "a-1.dist-info", metadata="Metadata-Version: 2.1\n")
    install(tmp_path, "b-1.dist-info", metadata="Metadata-Version: 2.1\nName: b\n")
    install(tmp_path, "c-1.dist-info", metadata="")
    assert environment.distributions([folder, str(tmp_path / "absent")]) == {}


def test_the_installed_names_carry_the_versions(tmp_path: Path) -> None:
    folder = install(tmp_path, "b-2.dist-info", "a-1.dist-info")
    assert environment.installed([folder, str(tmp_path / "absent")]) == ["a-1.dist-info", "b-2.dist-info"]


@given(st.text("abcXYZ019-_.", min_size=1, max_size=20))
def test_normalising_twice_is_normalising_once(name: str) -> None:
    once = environment.normalised(name)
    assert environment.normalised(once) == once
    assert environment.normalised(name.upper().replace("-", "_")) == once


# variables


@given(st.dictionaries(st.text("ABCKEYTOKEN_", min_size=1, max_size=12).map(lambda end: f"CUDA_{end}"), st.text()))
def test_no_secret_and_no_unfit_value_is_recorded(given_variables: dict[str, str]) -> None:
    chosen = environment.variables(given_variables)
    assert not [name for name in chosen if "TOKEN" in name or "KEY" in name]
    assert list(chosen) == sorted(chosen)
    canonical(chosen)


@pytest.mark.parametrize(
    "name",
    [
        "TRITON_F32_DEFAULT",
        "CUDA_VISIBLE_DEVICES",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "PYTORCH_CUDA_ALLOC_CONF",
        "CUBLAS_WORKSPACE_CONFIG",
        "NVIDIA_TF32_OVERRIDE",
        "DISABLE_PTXAS_OPT",
    ],
)
def test_what_changes_code_or_arithmetic_is_recorded(name: str) -> None:
    assert environment.variables({name: "1", "HOME": "/root", f"MY_{name}": "1"}) == {name: "1"}


@pytest.mark.parametrize("name", ["CUDA_TOKEN", "TORCH_API_KEY", "TRITON_PASSWORD", "CUDA_client_secret"])
def test_a_name_that_says_secret_is_left_out(name: str) -> None:
    assert environment.variables({name: "hush"}) == {}


# what files and programs say


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nmodel name\t: AMD EPYC 9654\nmodel name\t: other\n", "AMD EPYC 9654"),
        ("processor : 0\nCPU part : 0xd4f\n", Unavailable(reason="/proc/cpuinfo names no model")),
        ("model name\t:\n", Unavailable(reason="/proc/cpuinfo names no model")),
        ("", Unavailable(reason="/proc/cpuinfo names no model")),
    ],
)
def test_the_cpu_model(text: str, expected: Any) -> None:
    assert environment.cpu_model(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (VERSION_FILE.format(cuda="'13.0'", hip="None"), "13.0"),
        (VERSION_FILE.format(cuda="None", hip="None"), Unavailable(reason="torch 2.13.0 is built without CUDA")),
        (
            VERSION_FILE.format(cuda="None", hip="'7.0'"),
            Unavailable(reason="torch 2.13.0 is built for ROCm 7.0, without CUDA"),
        ),
        ("cuda = '12.8'\n", "12.8"),
        ("", Unavailable(reason="torch is built without CUDA")),
        ("cuda = (", Unavailable(reason="torch/version.py is not Python")),
        ("cuda = '\0'", Unavailable(reason="torch/version.py is not Python")),
        ("cuda = open('/etc/passwd').read()", Unavailable(reason="torch is built without CUDA")),
    ],
)
def test_the_cuda_of_torch(text: str, expected: Any) -> None:
    assert environment.torch_build(text, "cuda") == expected


def program(folder: Path, name: str, text: str) -> Path:
    """Write a shell script into the place where Triton keeps its assemblers."""
    path = folder / "backends" / "nvidia" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return path


PTXAS = "echo 'Cuda compilation tools, release 12.8, V12.8.93'"


def test_every_assembler_that_triton_carries_is_asked(tmp_path: Path) -> None:
    program(tmp_path, "ptxas", PTXAS)
    program(tmp_path, "ptxas-future", PTXAS.replace("12.8", "14.0"))
    program(tmp_path, "nvdisasm", "exit 1")
    assert environment.assemblers(tmp_path, {}) == {"ptxas": "12.8.93", "ptxas-future": "14.0.93"}


def test_an_assembler_named_by_a_variable_is_asked_too(tmp_path: Path) -> None:
    other = program(tmp_path / "other", "ptxas", PTXAS.replace("12.8", "13.1"))
    program(tmp_path, "ptxas", PTXAS)
    found = environment.assemblers(tmp_path, {"TRITON_PTXAS_PATH": str(other), "TRITON_CACHE_DIR": "/x"})
    assert found == {"TRITON_PTXAS_PATH": "13.1.93", "ptxas": "12.8.93"}


def test_assemblers_that_do_not_answer_are_reasons(tmp_path: Path) -> None:
    program(tmp_path, "ptxas-denied", PTXAS).chmod(0o644)
    program(tmp_path, "ptxas-silent", "exit 3")
    program(tmp_path, "ptxas-strange", "printf '\\033[31mno\\377\\n'")
    found = environment.assemblers(tmp_path, {"TRITON_PTXAS_PATH": str(tmp_path / "absent")})
    assert found == {
        "TRITON_PTXAS_PATH": Unavailable(reason="cannot be run (No such file or directory)"),
        "ptxas-denied": Unavailable(reason="cannot be run (Permission denied)"),
        "ptxas-silent": Unavailable(reason="--version names no release: ''"),
        "ptxas-strange": Unavailable(reason="--version names no release: 'no\ufffd'"),
    }


def test_a_triton_without_assemblers_and_no_triton_are_reasons(tmp_path: Path) -> None:
    absent = Unavailable(reason="triton is not installed")
    assert environment.assemblers(tmp_path, {}) == {"ptxas": Unavailable(reason="triton carries no ptxas")}
    assert environment.assemblers(absent, {}) == {"ptxas": absent}


def test_without_nvidia_ml_py_there_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('no pynvml')\n", "utf-8")
    code = "from assay.environment import gpus; print(gpus({})[0].reason)"
    assert python(code, PYTHONPATH=str(tmp_path)) == "NVML cannot be asked: no pynvml; install nvidia-ml-py\n"

"""The command line: a refusal is one sentence on standard error, exit 2, and never a traceback."""

import argparse
import importlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from project import NONE, PYTHON_PATH
from records import ROOT

from assay.__main__ import main
from assay.commands import COMMANDS, usage


def assay(*arguments: str, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_without_a_command_it_lists_them_all() -> None:
    done = assay()
    assert done.returncode == 2
    assert done.stdout == f"{usage()}\n"
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_help_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == f"{usage()}\n"


@pytest.mark.parametrize("command", ["tming", "", "..", "record", "os", "-x"])
def test_a_command_that_does_not_exist_is_refused_with_those_that_do(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command]) == 2
    said = f"assay: expected one of {', '.join(COMMANDS)}, found {command!r}; --help says what each does\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_ends_with_its_exit_codes_and_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert not end.value.code
    said = capsys.readouterr().out
    assert said.startswith(f"usage: python -m assay {command} ")
    assert "\nexit codes:\n  0: " in said
    assert said.endswith(f"\nexample: python -m assay {COMMANDS[command].example}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_command_is_one_that_it_understands(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Understood(Exception):
        pass

    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser: argparse.ArgumentParser, *arguments: list[str]) -> None:
        parse(parser, *arguments)
        raise Understood

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    name, *arguments = shlex.split(COMMANDS[command].example)
    assert name == command
    with pytest.raises(Understood):
        importlib.import_module(f"assay.{name}").main(arguments)


def test_a_wrong_option_is_refused_without_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["check", "--no-such-option"])
    assert end.value.code == 2
    assert "example" not in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_a_module_with_a_main(command: str) -> None:
    assert callable(importlib.import_module(f"assay.{command}").main)


REFUSED = [
    (
        ["interpreter", "--kernel", "kernels/absent.py"],
        "assay interpreter: --kernel: expected a kernel file such as kernels/matmul.py, found no file kernels/absent",
    ),
    (
        [
            "gpu",
            "--kernel",
            "kernels/softmax.py",
            "--gate",
            "absent.json",
            "--compile",
            "x",
            "--environment",
            "config.yaml",
        ],
        "assay gpu: absent.json: cannot be read (No such file or directory)",
    ),
    (
        ["compile", "--kernel", "kernels/softmax.py", "--settings", '{"targets":["sm_91"]}'],
        "assay compile: --settings: $.targets[0]: found 'sm_91'; allowed: ",
    ),
    (["claims", "--record", "README.md"], "assay claims: --record: expected a file named after its stage"),
    (["check", "--claims", "config.yaml"], "assay check: config.yaml: $: expected JSON in UTF-8, found something else"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[arguments[0] for arguments, _ in REFUSED])
def test_a_refusal_is_one_sentence(arguments: list[str], said: str) -> None:
    done = assay(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


def test_in_another_folder_it_says_where_to_run(tmp_path: Path) -> None:
    done = assay("environment", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "assay environment: assay: expected Assay's package in this folder; run in the folder of the Snakefile\n"
    )


# Where nobody reads


def unread(
    *command: str, stdout: bool = False, stderr: bool = False, variables: Mapping[str, str] = NONE
) -> "subprocess.CompletedProcess[str]":
    """Run Python with a pipe that nobody reads in place of some streams; what the others got is returned."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": PYTHON_PATH, **variables},
            stdout=write if stdout else subprocess.PIPE,
            stderr=write if stderr else subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
    finally:
        os.close(write)


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["--help"], 0),
        (["check", "--help"], 0),
        (["completion", "bash"], 0),
        (["doctor"], 0),
    ],
    ids=["usage", "--help", "check --help", "completion bash", "doctor"],
)
def test_a_reader_that_goes_early_is_met_with_silence_and_the_same_exit_code(
    arguments: list[str], code: int, variables: Mapping[str, str]
) -> None:
    heard = unread("-m", "assay", *arguments, variables=variables)
    assert heard.stdout
    done = unread("-m", "assay", *arguments, stdout=True, variables=variables)
    assert (done.returncode, done.stderr) == (heard.returncode, heard.stderr) == (code, "")


def test_a_refusal_that_nobody_reads_is_one_all_the_same() -> None:
    for arguments in (["tming"], ["check", "--no-such-option"], ["check", "--claims", "config.yaml"]):
        done = unread("-m", "assay", *arguments, stderr=True)
        assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_command_may_be_started_without_its_streams(closed: str) -> None:
    for command, code in (("doctor", 0), ("tming", 2)):
        shell = ["sh", "-c", f'"$0" -m assay {command} {closed}', sys.executable]
        done = subprocess.run(shell, env={**os.environ, "PYTHONPATH": PYTHON_PATH}, capture_output=True, check=False)
        assert done.returncode == code
        assert b"Traceback" not in done.stdout + done.stderr


# Started as the command line is, with another `check` in it.
PLANTED = """
import os, runpy, sys, types

def main(arguments):
    {body}

sys.modules["assay.check"] = types.SimpleNamespace(main=main)
sys.argv[1:] = ["check"]
runpy.run_module("assay", run_name="__main__", alter_sys=True)
"""
PRINTS = """
    for number in range(10000):
        print("heard", number)
        print("said", number, file=sys.stderr, flush=True)
    print("whole", file=open({path!r}, "w"))
    sys.stdout.flush()
    os.write(1, b"to the file itself")
    return 3
"""
BREAKS = """
    read, write = os.pipe()
    os.close(read)
    print("heard")
    os.write(write, b"x")
"""


def test_what_is_made_while_nobody_reads_is_made_whole(tmp_path: Path) -> None:
    path = tmp_path / "made"
    done = unread("-c", PLANTED.format(body=PRINTS.format(path=str(path))), stdout=True, stderr=True)
    assert done.returncode == 3
    assert path.read_text() == "whole\n"


def test_one_stream_that_nobody_reads_leaves_the_other(tmp_path: Path) -> None:
    program = PLANTED.format(body=PRINTS.format(path=str(tmp_path / "made")))
    said = unread("-c", program, stdout=True)
    assert (said.returncode, said.stderr.splitlines()) == (3, [f"said {number}" for number in range(10000)])
    heard = unread("-c", program, stderr=True)
    assert heard.stdout.splitlines() == [*(f"heard {number}" for number in range(10000)), "to the file itself"]


def test_a_pipe_that_breaks_within_a_command_is_no_reader_that_went() -> None:
    done = unread("-c", PLANTED.format(body=BREAKS))
    assert (done.returncode, done.stdout) == (1, "heard\n")
    assert done.stderr.endswith("BrokenPipeError: [Errno 32] Broken pipe\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("argument", "who"), [("--help", "assay"), ("doctor", "assay doctor")])
def test_an_output_on_a_full_disk_is_refused_in_a_sentence(argument: str, who: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "assay", argument], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"{who}: standard output: cannot be read or written (No space left on device); free ")
    assert len(done.stderr.splitlines()) == 1


def test_cards_are_numbered_as_nvml_does_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    assert main(["check", "--claims", "config.yaml"]) == 2
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert main(["check", "--claims", "config.yaml"]) == 2
    assert os.environ["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"

"""The command `completion`: scripts that complete every command and its options, tried in a real shell."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.__main__ import main
from assay.commands import COMMANDS
from assay.completion import SHELLS, parser_of


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Path:
    """The script for the shell that the test names."""
    assert main(["completion", request.param]) == 0
    path = tmp_path / f"assay.{request.param}"
    path.write_text(capsys.readouterr().out, "utf-8")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_parser_is_the_commands_own(command: str) -> None:
    parser = parser_of(command)
    assert parser.prog == f"python -m assay {command}"
    assert argparse.ArgumentParser.parse_args.__name__ == "parse_args"


@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    ("words", "completed"),
    [(["sh"], "show"), (["verify", "--tr"], "--trust"), (["compl"], "completion"), (["completion", "f"], "fish")],
)
def test_bash_completes_commands_and_their_options(script: Path, words: list[str], completed: str) -> None:
    before = words[-2] if len(words) > 1 else "assay"
    typed = f"""
        . {script}
        COMP_WORDS=(assay {" ".join(words)}); COMP_CWORD={len(words)}
        $(complete -p assay | sed 's/.*-F //; s/ assay$//') assay '{words[-1]}' '{before}'
        echo "${{COMPREPLY[*]}}"
    """
    # `$(...)` runs the function in this shell: only its name is found out in another.
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]


@pytest.mark.parametrize("script", SHELLS, indirect=True)
def test_every_script_is_one_that_its_shell_reads_and_starts_no_python(script: Path) -> None:
    text = script.read_text("utf-8")
    assert all(re.search(rf"\b{name}\b", text) for name in COMMANDS)
    assert not re.search(r"^\s*python|[;|&(`]\s*python", text, re.MULTILINE)
    shell = script.suffix.removeprefix(".")
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n", str(script)], check=True, timeout=60)


def test_another_shell_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["completion", "csh"])
    assert end.value.code == 2
    assert "invalid choice: 'csh'" in capsys.readouterr().err
